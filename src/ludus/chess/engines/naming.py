"""Engines by name: `uci:stockfish?nodes=100&multipv=4`, `uci:/opt/lc0/lc0?movetime=500&option.Threads=2`.

Invariant: reading a name starts nothing. It finds the program and checks the settings; options of the engine's own are
checked when it starts. A config that names an engine names a program to run: read a stranger's config first.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from ludus.chess.engines.engine import HANDSHAKE_S, SEARCH_S, Engine, Limit
from ludus.errors import ConfigError

PREFIX = "uci:"
FURTHER_FOLDERS = ("/usr/games", "/usr/local/games", "/usr/local/bin", "/opt/homebrew/bin")
"""Where systems put games that are not on every PATH."""
OPTION = "option."
NUMBERS: dict[str, tuple[float, float]] = {
    "nodes": (1, 10**12),
    "depth": (1, 200),
    "movetime": (1, 86_400_000),
    "multipv": (1, 256),
    "threads": (1, 1024),
    "hash": (1, 1 << 25),
    "skill": (0, 100),
    "elo": (0, 5000),
    "temperature": (0, 100_000),
    "timeout": (0.1, 86_400),
}
"""Settings, and their least and largest values. `movetime` is in ms, `hash` in MB, `temperature` in centipawns,
`timeout` in s."""
FRACTIONS = ("temperature", "timeout")
OPTION_OF = {"multipv": "MultiPV", "threads": "Threads", "hash": "Hash", "skill": "Skill Level", "elo": "UCI_Elo"}
DEFAULT_NODES = 1000
DEFAULT_HASH_MB = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """An engine and how it is used."""

    text: str
    """As somebody wrote it."""
    program: Path
    limit: Limit
    options: dict[str, str | int | bool] = field(default_factory=dict)
    temperature: float = 0.0
    """In centipawns: moves of `multipv` are drawn in proportion to exp(score / temperature); 0 takes the best."""
    timeout_s: float | None = None

    def start(self, **extra: str | int | bool) -> Engine:
        """Start the engine; `extra` are options that it is given where it has them."""
        handshake_s, search_s = self.timeout_s or HANDSHAKE_S, self.timeout_s or SEARCH_S
        engine = Engine([str(self.program)], label=self.text, handshake_s=handshake_s, search_s=search_s)
        wanted = {name: value for name, value in extra.items() if name in engine.options}
        if "Hash" in engine.options:
            wanted["Hash"] = DEFAULT_HASH_MB
        engine.configure({**wanted, **self.options})
        return engine


def parse_engine(text: str) -> EngineSpec:
    """The engine that a name means, with or without `uci:` before it.

    Raises:
        ConfigError: the program is not here, or a setting is wrong.
    """
    name, _, query = text.removeprefix(PREFIX).partition("?")
    if not name:
        raise ConfigError(f"{text!r}: expected an engine, such as uci:stockfish?nodes=100")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=64) if query else []
    except ValueError:
        raise ConfigError(f"{text!r}: expected settings such as nodes=100&multipv=4 after the ?") from None
    numbers = {key: _number(text, key, value) for key, value in pairs if not key.startswith(OPTION)}
    own = {key.removeprefix(OPTION): value for key, value in pairs if key.startswith(OPTION)}
    limit = Limit(
        nodes=_whole(numbers.get("nodes")),
        depth=_whole(numbers.get("depth")),
        movetime_ms=_whole(numbers.get("movetime")),
    )
    if limit == Limit():
        limit = Limit(nodes=DEFAULT_NODES)
    options: dict[str, str | int | bool] = {OPTION_OF[key]: int(numbers[key]) for key in OPTION_OF if key in numbers}
    if "elo" in numbers:
        options["UCI_LimitStrength"] = True
    temperature = numbers.get("temperature", 0.0)
    if temperature and numbers.get("multipv", 1) < 2:
        raise ConfigError(f"{text!r}: temperature draws from several moves; write multipv=4, too")
    return EngineSpec(
        text=text,
        program=find_program(unquote(name), text),
        limit=limit,
        options={**options, **own},
        temperature=temperature,
        timeout_s=numbers.get("timeout"),
    )


def find_program(name: str, asked: str = "") -> Path:
    """The program of that name: on PATH, where systems put games, or at a path that has a slash in it.

    Raises:
        ConfigError: it is not here.
    """
    asked = asked or name
    if "/" in name:
        path = Path(name).expanduser().absolute()
        if not path.is_file():
            raise ConfigError(f"{asked!r}: no file {path}")
        if not os.access(path, os.X_OK):
            raise ConfigError(f"{asked!r}: {path} is no program; make it one with: chmod +x {path}")
        return path
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]
    found = shutil.which(name, path=os.pathsep.join([*folders, *FURTHER_FOLDERS]))
    if found is None:
        remedy = "apt-get install stockfish" if name == "stockfish" else "install it"
        raise ConfigError(
            f"{asked!r}: no program {name!r} on PATH or in {FURTHER_FOLDERS[0]}; {remedy}, or write its path: "
            f"uci:/path/to/{name}"
        )
    return Path(found)


def _number(text: str, key: str, value: str) -> float:
    if key not in NUMBERS:
        raise ConfigError(
            f"{text!r}: no setting {key!r}; there are {', '.join(NUMBERS)} and {OPTION}<name of the engine's>"
        )
    low, high = NUMBERS[key]
    try:
        number = float(value) if key in FRACTIONS else int(value if len(value) < 20 else "-")
    except ValueError:
        number = float("nan")
    if not low <= number <= high:
        raise ConfigError(f"{text!r}: expected {key} from {low:g} to {high:g}, got {value!r}")
    return number


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)
