"""A helper of a `ParallelLearner`, run by it as `python -m ludus.train.parallel_helper`.

Its setup is one line of JSON on standard input; when that closes, trainer 0 is gone and the helper ends.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from ludus.config.run import RunConfig


def main() -> None:
    """Entry point of the process."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    setup = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, name="life", daemon=True).start()
    _serve(setup)


def _serve(setup: dict[str, Any]) -> None:
    import torch

    from ludus.train.parallel import GlooReducer, follow, make_shared_learner, sign_of

    torch.set_num_threads(setup["threads"])
    config = RunConfig.model_validate_json(setup["config"])
    meeting_place = Path(setup["meeting_place"])
    sign_of(meeting_place, setup["rank"]).touch()
    reducer = GlooReducer(
        rank=setup["rank"],
        size=config.train.trainers,
        meeting_place=meeting_place,
        timeout_s=config.runtime.stall_s,
    )
    try:
        follow(make_shared_learner(config, setup["shape"], setup["teacher"], reducer), reducer)
    except RuntimeError:
        logging.getLogger(__name__).info("trainer 0 is gone; ending", exc_info=True)
        os._exit(1)
    reducer.close()


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
