"""How a game speaks to a language model: what happened and which moves there are become the user's message.

Invariant: a template only adds text to what the game says and keeps nothing, so the same news gives the same message.
Add a template from a plugin with `register_prompt`, or from an installed package with an entry point in the group
`ludus.prompts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ludus.games.move_text import listed
from ludus.plugins import Registry

Message = dict[str, str]
"""`role` and `content`, as chat templates take them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTemplate:
    """One way to ask for a move."""

    system: str = ""
    """The system message; none when empty."""
    most_moves: int = 64
    """Legal moves named in each message, where the game can list them; 0 names none."""
    moves: str = "Moves: {moves}"
    """The line that names them."""
    ask: str = ""
    """Last line of each message; none when empty."""
    refusal: str = "Not a legal move. Try again."
    """First line after an invalid move."""

    def opening(self, news: str, moves: Sequence[str] | None) -> list[Message]:
        """The messages that open a seat's conversation."""
        user = {"role": "user", "content": self.message(news, moves)}
        return [{"role": "system", "content": self.system}, user] if self.system else [user]

    def message(self, news: str, moves: Sequence[str] | None) -> str:
        """The user's message before a move."""
        lines = [news]
        if moves and self.most_moves:
            lines.append(self.moves.format(moves=listed(moves, most=self.most_moves)))
        return "\n".join(line for line in (*lines, self.ask) if line)

    def retry(self, moves: Sequence[str] | None) -> str:
        """The user's message after an invalid move that may be tried again."""
        return self.message(self.refusal, moves)


BUILT_IN = {
    "plain": PromptTemplate(),
    "bare": PromptTemplate(most_moves=0, refusal="Illegal."),
    "boxed": PromptTemplate(
        system="You play a game to win. Think briefly, then give your move as \\boxed{move}.",
        ask="Give your move as \\boxed{move}.",
    ),
    "think": PromptTemplate(
        system=(
            "You play a game to win. First reason inside <think> and </think>, then give your move alone on the last "
            "line."
        ),
        ask="Reason inside <think> and </think>, then give your move alone on the last line.",
    ),
}
"""`plain` names the news and the legal moves, `bare` the news alone, `boxed` asks for \\boxed{...} (for the action
`boxed`), `think` for reasoning first (for the action `last_line`)."""

PROMPTS: Registry[PromptTemplate] = Registry("prompt template", "ludus.prompts", built_in=BUILT_IN)


def register_prompt(name: str, template: PromptTemplate) -> None:
    """Make a template known under a new name."""
    PROMPTS.add(name, template)


def find_prompt(name: str) -> PromptTemplate:
    """The template of that name."""
    return PROMPTS.find(name)
