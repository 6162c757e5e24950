"""A UCI engine from the outside: handshake, options, searches with limits.

Invariant: every exchange ends in time with an answer or an `EngineError` that names the engine and what it did: hung,
died, flooded, or spoke nonsense. After an error the engine is closed; whoever needs it starts another.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from ludus.chess.engines.info import Line, Option, parse_best, parse_info, parse_option
from ludus.chess.engines.process import Gone, Late, LineProcess
from ludus.errors import PolicyError

HANDSHAKE_S = 60.0
"""Until `uciok` and `readyok`. Engines that load a network take seconds, more on a busy machine."""
SEARCH_S = 120.0
"""On top of a limit's own time."""
MOST_LINES = 200_000
"""Between two answers; a search of minutes prints a few thousand."""
MOST_OPTIONS = 1000
MOST_RANK = 256
START = "startpos"


class EngineError(PolicyError):
    """An engine gave no usable answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How long a search goes on: the first of these that is reached."""

    nodes: int | None = None
    depth: int | None = None
    movetime_ms: int | None = None

    @property
    def words(self) -> str:
        """As `go` wants it."""
        parts = (("nodes", self.nodes), ("depth", self.depth), ("movetime", self.movetime_ms))
        return "".join(f" {name} {value}" for name, value in parts if value is not None) or " nodes 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What a search found."""

    best: str | None
    """UCI; None when the engine says that there is no move."""
    lines: tuple[Line, ...] = field(default=())
    """The last of each rank, the best first. Empty when the engine told nothing."""


class Engine:
    """One engine process. Belongs to one thread."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        options: Mapping[str, str | int | bool] | None = None,
        label: str = "",
        handshake_s: float = HANDSHAKE_S,
        search_s: float = SEARCH_S,
    ) -> None:
        """Start it and wait until it is ready.

        Args:
            command: program and arguments; the program with its path.
            options: for `setoption`. One that the engine does not have is an error.

        Raises:
            EngineError: it cannot be used.
        """
        self.label = label or str(command[0])
        self.name = ""
        self.options: dict[str, Option] = {}
        self._handshake_s, self._search_s = handshake_s, search_s
        try:
            self._process = LineProcess(command)
        except OSError as error:
            raise EngineError(f"engine {self.label} cannot be started: {error}") from None
        self._ask("uci", until="uciok", doing="its handshake", took=self._introduce)
        self.configure(options or {})

    def configure(self, options: Mapping[str, str | int | bool]) -> None:
        """Set options, and wait until they hold.

        Raises:
            EngineError: it has no such option, or the value is out of its range.
        """
        lines = [self._setoption(name, value) for name, value in options.items()]
        self._ask(*lines, "isready", until="readyok", doing="setting its options")

    def new_game(self) -> None:
        """Have it forget what it searched so far."""
        self._ask("ucinewgame", "isready", until="readyok", doing="ucinewgame")

    def analyse(self, moves: Sequence[str], limit: Limit, *, fen: str = START) -> Analysis:
        """Search the position after `moves` from `fen`.

        Raises:
            EngineError: it gave no answer, or one that is no move at all. Whether the move is legal is the caller's to
                check.
        """
        place = START if fen == START else f"fen {fen}"
        played = f" moves {' '.join(moves)}" if moves else ""
        found: dict[int, Line] = {}

        def take(text: str) -> None:
            head, _, rest = text.partition(" ")
            line = parse_info(rest) if head == "info" else None
            # A bound on a move says less than the score that an earlier depth gave it.
            if line is not None and 1 <= line.rank <= MOST_RANK and not (line.is_bound and line.rank in found):
                found[line.rank] = line

        go = f"go{limit.words}"
        search_s = self._search_s + (limit.movetime_ms or 0) / 1000
        answer = self._ask(
            f"position {place}{played}", go, until="bestmove", doing=f"`{go}`", took=take, limit_s=search_s
        )
        best, said = parse_best(answer), answer.split(" ", 1)[0]
        if best is None and said not in ("(none)", "0000", "NULL"):
            self._give_up(f"answered `bestmove {answer[:40]}`, which is no move")
        return Analysis(best=best, lines=tuple(found[rank] for rank in sorted(found)))

    def close(self) -> None:
        """End it. Can be called again."""
        self._process.close("quit")

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process.is_alive

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- talking ----------------------------------------------------------------------------------------------------

    def _ask(self, *lines: str, until: str, doing: str, took: object = None, limit_s: float | None = None) -> str:
        """Send lines and read until a line begins with the word `until`; returns what stands after it there."""
        wait_s = self._handshake_s if limit_s is None else limit_s
        deadline = time.monotonic() + wait_s
        try:
            self._process.send(*lines)
            for _ in range(MOST_LINES):
                text = self._process.read_line(deadline).strip()
                head, _, rest = text.partition(" ")
                if head == until:
                    return rest.strip()
                if callable(took):
                    took(text)
                if time.monotonic() > deadline:
                    raise Late
        except Late:
            self._give_up(f"gave no {until} within {wait_s:g} s of {doing}")
        except Gone as error:
            self._give_up(f"{error} during {doing}")
        self._give_up(f"wrote {MOST_LINES:,} lines during {doing}, and no {until}")

    def _give_up(self, what: str) -> NoReturn:
        words = self._process.last_words()
        self._process.close()
        raise EngineError(f"engine {self.label} {what}" + (f"; it wrote: {words}" if words else ""))

    def _introduce(self, text: str) -> None:
        head, _, rest = text.partition(" ")
        if head == "id" and rest.startswith("name "):
            self.name = rest.removeprefix("name ").strip()[:100]
        elif head == "option" and len(self.options) < MOST_OPTIONS and (option := parse_option(rest)):
            self.options[option.name] = option

    def _setoption(self, name: str, value: str | int | bool) -> str:
        known = {option.casefold(): option for option in self.options}
        option = self.options.get(known.get(name.casefold(), ""))
        if option is None:
            has = ", ".join(sorted(self.options)) or "none"
            self._give_up(f"has no option {name!r}; it has {has}")
        if option.kind == "button":
            return f"setoption name {option.name}"
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if problem := _problem(option, text):
            self._give_up(f"cannot have {option.name} = {text!r}: expected {problem}")
        return f"setoption name {option.name} value {text}"


def _problem(option: Option, text: str) -> str:
    """What an option expects instead of a value; empty when the value is fine."""
    if not text.isprintable():
        return "one line"
    if option.kind == "check" and text not in ("true", "false"):
        return "true or false"
    if option.kind == "combo" and option.choices and text not in option.choices:
        return " or ".join(option.choices)
    if option.kind == "spin":
        low, high = option.low, option.high
        is_number = text.lstrip("-").isascii() and text.lstrip("-").isdigit() and len(text) <= 18
        if not is_number or (low is not None and int(text) < low) or (high is not None and int(text) > high):
            return f"{'-' if low is None else low} to {'-' if high is None else high}"
    return ""
