"""`/api/runs/{run}/commands/{command}`: commands over the run's control socket, for a session that may control."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from ludus.daemon import messages
from ludus.web.answers import Refused, json_response
from ludus.web.routes import Route
from ludus.web.security.bodies import read_json_body
from ludus.web.site import Site

CONNECT_S, LOOK_S, REPLY_S = 5.0, 0.1, 120.0
COMMANDS: dict[str, type[messages.Payload]] = {
    "pause": messages.Pause,
    "resume": messages.Resume,
    "checkpoint": messages.MakeCheckpoint,
    "export": messages.Export,
    "train_now": messages.StartTrainingImmediately,
    "stop": messages.Stop,
    "set": messages.Set,
}


class Given(msgspec.Struct, forbid_unknown_fields=True):
    """What a command is given. A browser names no folder: exports go below the run."""

    policy: str | None = None
    values: dict[str, Any] | None = None


async def command(site: Site, request: Request) -> Response:
    """Give a command and wait for its reply."""
    run, name = request.path_params["run"], request.path_params["command"]
    if name not in COMMANDS:
        raise Refused(f"no command is called {name[:50]!r}; there are: {', '.join(COMMANDS)}", status=404)
    payload = _payload(name, await read_json_body(request, Given))
    site.folder.open(run)
    watched = site.newsroom.watch(site.folder.find(run))
    for _ in range(int(CONNECT_S / LOOK_S)):
        if watched.is_known:
            break
        await asyncio.sleep(LOOK_S)
    try:
        reply = await asyncio.wait_for(asyncio.wrap_future(watched.send(payload)), REPLY_S)
    except TimeoutError:
        raise Refused(f"the run has not answered within {REPLY_S:g} s; it may still do it", status=504) from None
    if isinstance(reply, messages.Failure):
        return json_response({"command": name, "is_done": False, "message": reply.message, "result": {}})
    return json_response({"command": name, "is_done": True, "message": "", "result": reply.result})


def _payload(name: str, given: Given) -> messages.Payload:
    taken = {"export": {"policy": given.policy}, "set": {"values": given.values or {}}}.get(name, {})
    try:
        return COMMANDS[name].model_validate(taken)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise Refused(f"{name}: {where}: {first['msg']}") from None


ROUTES = (Route(pattern="/api/runs/{run}/commands/{command}", handler=command, method="POST", changes_run=True),)
