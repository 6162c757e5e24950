"""How one seat of a game of words talks: who writes its replies, in which form, and how its moves are found in them."""

from __future__ import annotations

from dataclasses import dataclass

from ludus.explore.prompts import PromptTemplate
from ludus.inference.conversation import Chat
from ludus.inference.protocol import Engine, Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """Whoever speaks for a policy. The same for all seats that the policy holds."""

    engine: Engine
    chat: Chat
    """What makes its conversations into the tokens that its engine takes."""
    template: PromptTemplate
    action: str
    """How the move is found in a reply; see `extraction`."""
    sampling: Sampling
    greedy: Sampling
    """The same for seats that are to say the likeliest."""
