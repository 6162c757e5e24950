"""How one seat of a game of words talks: who writes its replies, in which form, and how its moves are found in them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ludus.explore.prompts import PromptTemplate
from ludus.inference.conversation import ChatTemplate
from ludus.inference.protocol import Completion, Request, Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """Whoever speaks for a policy. The same for all seats that the policy holds."""

    sample: Callable[[Request], Awaitable[Completion]]
    """Writes a reply."""
    chat: ChatTemplate
    """What makes its conversations into the tokens that `sample` takes."""
    template: PromptTemplate
    action: str
    """How the move is found in a reply; see `extraction`."""
    sampling: Sampling
    greedy: Sampling
    """The same for seats that are to say the likeliest."""
    is_endpoint: bool = False
    """Whether it is given up when the episode's time is nearly over, so that the error names it."""
