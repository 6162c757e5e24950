"""One request on its way through the local engine: waiting, reading its prompt (or following one that reads the same),
writing, done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ludus.inference.local.block_pool import Key
from ludus.inference.protocol import Completion, Request
from ludus.lm.kv_cache import BLOCK

State = Literal["waiting", "reading", "following", "writing", "done"]


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """A request, where it stands, and whom to tell."""

    request: Request
    prompt: NDArray[np.int32]
    done: Callable[[Completion | Exception], None]
    """Called once, with the completion or with what went wrong; not if the job is cancelled."""
    state: State = "waiting"
    slot: int = -1
    blocks: list[int] = field(default_factory=list)
    """Its own and shared ones, in order."""
    computed: int = 0
    """Tokens of the prompt whose keys and values are in the cache."""
    known: int = 0
    """Full blocks of it that can be found."""
    name: int = 0
    """What the block after those refers to."""
    goes_on: bool = False
    """Whether it goes on from what its session kept."""
    followers: list[Job] = field(default_factory=list)
    """Jobs with the same prompt that wait for this one to compute it."""
    leader: Job | None = None
    """The job that this one follows."""

    @property
    def need(self) -> int:
        """Blocks that hold all it may write. The last token drawn is never stored."""
        return -(-(len(self.prompt) + self.request.sampling.max_tokens - 1) // BLOCK)

    def next_key(self) -> Key | None:
        """The next full block of the prompt that can be found once it is computed."""
        if self.goes_on:
            return None
        start = self.known * BLOCK
        tokens = self.prompt[start : start + BLOCK]
        return (self.name, tokens.tobytes()) if len(tokens) == BLOCK else None
