"""A helper of a `ParallelLearner` or `ParallelJaxLearner`, run by it as `python -m ludus.train.parallel_helper`.

Its setup is one line of JSON on standard input; when that closes, trainer 0 is gone and the helper ends.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from ludus.config import RunConfig
from ludus.plugins import load_plugins


def main() -> None:
    """Entry point of the process."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    setup = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, name="life", daemon=True).start()
    load_plugins(setup["plugins"])
    config = RunConfig.model_validate_json(setup["config"])
    if config.policy.model is None:
        _share_network(config, setup)
    else:
        _share_language_model(config, setup)


def _share_network(config: RunConfig, setup: dict[str, Any]) -> None:
    from ludus.errors import ProtocolError
    from ludus.train.jax_share import follow

    try:
        follow(config, setup["shape"], rank=setup["rank"], sock=socket.socket(fileno=setup["socket"]))
    except (EOFError, OSError, ProtocolError):
        logging.getLogger(__name__).info("trainer 0 is gone; ending", exc_info=True)
        os._exit(1)


def _share_language_model(config: RunConfig, setup: dict[str, Any]) -> None:
    import torch

    from ludus.train.parallel import GlooReducer, file_store, follow_trainer, sign_of
    from ludus.train.state_folders import LocalStates

    torch.set_num_threads(setup["threads"])
    meeting_place = Path(setup["meeting_place"])
    sign_of(meeting_place, setup["rank"]).touch()
    reducer = GlooReducer(
        rank=setup["rank"],
        size=config.train.trainers,
        store=file_store(meeting_place, config.train.trainers),
        timeout_s=config.runtime.stall_s,
    )
    try:
        states = LocalStates(Path(setup["states"] or "."))
        follow_trainer(config, setup["shape"], setup["teacher"], reducer, states)
    except RuntimeError:
        logging.getLogger(__name__).info("trainer 0 is gone; ending", exc_info=True)
        os._exit(1)
    reducer.close()


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
