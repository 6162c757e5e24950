"""The tasks of `bench lm`, as games of words for one seat; a plugin of the runs that it measures.

`bench_letters`: eleven letters are shown, and a reply earns the share of its signs that are the letter e. With the
marks of the tiny model's chat template its prompt has 16 tokens, as that of the peer.
`bench_dialogue`: eight turns; the same reward after each, and a fresh line of 24 letters to go on from.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random

from ludus.games import GameSpec, InvalidMove, register_text_game

LETTERS = "abcdefgh "
PROMPT_LETTERS = 11


def share_of_e(text: str) -> float:
    """The reward of a reply."""
    return text.count("e") / max(len(text), 1)


class Lines:
    """Lines of random letters, answered with anything at all."""

    blocks = False

    def __init__(self, key: str, *, turns: int, letters: int) -> None:
        self._letters = letters
        self._turns = turns
        self.spec = GameSpec(
            key=key,
            players=1,
            actions=0,
            observation_shape=(),
            max_length=turns,
            is_zero_sum=False,
            has_chance=True,
            rewards_every_move=turns > 1,
            min_return=0.0,
            max_return=float(turns),
        )

    def start(self, seed: int) -> LinesPosition:
        """Draw the lines."""
        random = Random(seed)
        return LinesPosition(["".join(random.choices(LETTERS, k=self._letters)) for _ in range(self._turns)])


class LinesPosition:
    """A game in progress."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._turn = 0
        self._reward = 0.0

    def acting(self) -> int | None:
        """The only seat, until all lines are answered."""
        return 0 if self._turn < len(self._lines) else None

    def news(self, seat: int) -> str:
        """The next line."""
        return self._lines[self._turn]

    def moves(self, seat: int) -> Sequence[str] | None:
        """Anything goes."""
        return None

    def act(self, seat: int, move: str) -> None:
        """Take a reply."""
        if self.acting() != seat:
            raise InvalidMove("the game is over")
        self._reward += share_of_e(move)
        self._turn += 1

    def returns(self) -> Sequence[float]:
        """The sum of the shares."""
        return [self._reward]

    def text(self) -> str:
        """The lines so far."""
        return "\n".join(self._lines[: self._turn + 1])


register_text_game("bench_letters", partial(Lines, "bench_letters", turns=1, letters=PROMPT_LETTERS))
register_text_game("bench_dialogue", partial(Lines, "bench_dialogue", turns=8, letters=24))
