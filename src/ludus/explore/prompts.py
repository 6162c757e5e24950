"""How a game and a language model speak to each other: what happened and which moves there are become the user's
message, and a fixed player's move a reply (the inverse of `lm.extraction`).

Invariant: a template only adds text to what the game says and keeps nothing, so the same news gives the same message.
Add a template from a plugin with `register_prompt`, or from an installed package with an entry point in the group
`ludus.prompts`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ludus.errors import ConfigError
from ludus.games.move_text import listed
from ludus.inference.conversation import ChatTemplate
from ludus.inference.protocol import Completion, Request, Sampling
from ludus.plugins import Registry

Message = dict[str, str]
"""`role` and `content`, as chat templates take them."""


PHRASES = {
    "whole": "{move}",
    "boxed": "\\boxed{{{move}}}",
    "bracket": "[{move}]",
    "last_line": "{move}",
    "choice": "{move}",
}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """How a policy talks in games of words: its engine, its form, and how its moves are found in its replies."""

    sample: Callable[[Request], Awaitable[Completion]]
    """Writes a reply."""
    chat: ChatTemplate
    """What makes its conversations into the tokens that `sample` takes."""
    template: PromptTemplate
    action: str
    """How the move is found in a reply; see `lm.extraction`."""
    sampling: Sampling
    is_endpoint: bool = False
    """Whether it is a fixed player; then it is given up when the episode's time is nearly over, so that the error names
    it."""


def phrase(how: str, move: str) -> str:
    """What to say so that `extract(how, ...)` finds the move."""
    if how not in PHRASES:
        raise ConfigError(f"action {how!r}: a fixed player cannot phrase its moves so; use one of {', '.join(PHRASES)}")
    if how == "bracket" and move.startswith("[") and move.endswith("]"):
        return move
    return PHRASES[how].format(move=move)
