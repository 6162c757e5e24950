"""One run: what it is, its config, what is wrong with its files, what it takes of the machine, its events and logs."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from starlette.requests import Request

from ludus.config import load_config
from ludus.errors import LudusError
from ludus.monitor.machine import read_machine
from ludus.monitor.run_index import read_row
from ludus.storage.atomic import read_json
from ludus.storage.catalog import GLANCE_S, Catalog
from ludus.storage.jsonl import read_jsonl
from ludus.storage.lock import RunLock
from ludus.storage.run_directory import FORMAT, RunDirectory, StagedDirectory
from ludus.web.answers import Refused
from ludus.web.query import text, whole
from ludus.web.routes import Route, reading
from ludus.web.site import Site

MOST_EVENTS, MOST_LINES = 1000, 2000
TAIL_BYTES = 1 << 20
"""Of a log, its end is read."""


def tell_run(site: Site, request: Request) -> dict[str, Any]:
    """What there is to say of a run, and of what cannot be read of it."""
    id = request.path_params["run"]
    path, run = site.folder.find(id), site.folder.open(id)
    problems, config = problems_of(run), None
    try:
        config = load_config(run.config).model_dump(mode="json")
    except (LudusError, OSError) as error:
        problems.append(f"config.yaml: {error}")
    staged = StagedDirectory(path)
    holder = RunLock.holder(path)
    return {
        **read_row(path, id).to_json(),
        "config": config,
        "problems": problems,
        "stages": [stage.folder for stage in staged.read()] if staged.is_staged() else [],
        "files": run.path.relative_to(site.folder.path).as_posix(),
        "disk_bytes": run.disk_bytes(),
        "machine": asdict(read_machine(run.path, None if holder is None else int(holder["pid"]))),
    }


def problems_of(run: RunDirectory) -> list[str]:
    """What of a run's files cannot be read, in words; the rest of it is shown."""
    found = []
    try:
        note = read_json(run.format, most_bytes=65_536)
        version = note.get("format") if isinstance(note, dict) else None
        if not isinstance(version, int) or version > FORMAT:
            found.append(f"format.json: the run has format {version}, this ludus reads up to {FORMAT}; upgrade ludus")
        with Catalog.open_readonly(run.catalog, patience_s=GLANCE_S) as catalog:
            for source, reason in catalog.query("SELECT source, reason FROM quarantined LIMIT 20"):
                found.append(f"{source} is in quarantine: {reason}")
    except (LudusError, OSError) as error:
        found.append(str(error))
    return found


def tell_machine(site: Site, request: Request) -> dict[str, Any]:
    """What the run takes of the machine now."""
    path = site.folder.find(request.path_params["run"])
    holder = RunLock.holder(path)
    return asdict(read_machine(path, None if holder is None else int(holder["pid"])))


def tell_events(site: Site, request: Request) -> dict[str, Any]:
    """Events, newest first. `filter`: words that an event must have."""
    run = site.folder.open(request.path_params["run"])
    words = text(request, "filter").lower().split()
    newest = deque(
        (event for event in read_jsonl(run.events) if all(word in str(event).lower() for word in words)),
        maxlen=10 * MOST_EVENTS,
    )
    offset, limit = whole(request, "offset", 0), whole(request, "limit", 100, most=MOST_EVENTS)
    return {"rows": list(islice(reversed(newest), offset, offset + limit)), "offset": offset, "total": len(newest)}


def tell_logs(site: Site, request: Request) -> dict[str, Any]:
    """The ends of what the run's workers wrote, of one start and one worker. `filter`: words that a line must have."""
    run = site.folder.open(request.path_params["run"])
    attempts = sorted(int(path.name[8:]) for path in run.logs.glob("attempt_*") if path.name[8:].isdigit())
    if not attempts:
        return {"attempts": [], "attempt": 0, "workers": [], "worker": "", "lines": [], "is_cut": False}
    attempt = whole(request, "attempt", attempts[-1])
    folder = run.logs / f"attempt_{attempt}"
    files = {path.stem: path for path in sorted(folder.glob("*.log")) if site.folder.contains(path)}
    worker = text(request, "worker") or next(iter(files), "")
    if attempt not in attempts or (files and worker not in files):
        raise Refused(f"there is no log of {worker[:100]!r} in start {attempt}", status=404)
    lines, is_cut = _tail(files[worker], text(request, "filter").lower().split()) if files else ([], False)
    told = {"attempts": attempts, "attempt": attempt, "workers": list(files), "worker": worker}
    return {**told, "lines": lines, "is_cut": is_cut}


def _tail(path: Path, words: list[str]) -> tuple[list[str], bool]:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - TAIL_BYTES, 0))
        lines = file.read(TAIL_BYTES).decode("utf-8", "replace").splitlines()
    found = [line[:4000] for line in lines if all(word in line.lower() for word in words)]
    return found[-MOST_LINES:], size > TAIL_BYTES or len(found) > MOST_LINES


ROUTES = (
    Route(pattern="/api/runs/{run}", handler=reading(tell_run)),
    Route(pattern="/api/runs/{run}/machine", handler=reading(tell_machine)),
    Route(pattern="/api/runs/{run}/events", handler=reading(tell_events)),
    Route(pattern="/api/runs/{run}/log", handler=reading(tell_logs)),
)
