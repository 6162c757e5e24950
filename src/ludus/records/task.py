"""A task: what is to be played or attempted, by whom, with which seed; and the result of a game, for the league."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ludus.records.ids import EpisodeId, PolicyRef, TaskId, derive_seed

Purpose = Literal["train", "evaluate"]


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """Who sits in a seat, and whether what it does there is collected for training."""

    policy: PolicyRef
    learns: bool = False
    greedy: bool = False
    """Take the likeliest action instead of sampling."""
    nodes: int = 1
    """Positions that a network's search evaluates before each move; with 1 its policy alone decides."""

    @property
    def label(self) -> str:
        """Who plays how, for people: `main@3 (greedy, 32 nodes)`."""
        ways = [*(["greedy"] if self.greedy else []), *([f"{self.nodes:,} nodes"] if self.nodes > 1 else [])]
        return f"{self.policy} ({', '.join(ways)})" if ways else str(self.policy)


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of work for an explorer. `(id, attempt)` is unique within a run."""

    id: TaskId
    attempt: int = 0
    purpose: Purpose = "train"
    game: str
    """Key of the game, such as `open_spiel:connect_four`."""
    seed: int
    seats: tuple[Seat, ...]
    group: str = ""
    """Tasks whose results are compared with each other share a group."""
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    """Whatever else a workflow needs: a prompt, an answer. JSON values only."""

    @property
    def is_attempt(self) -> bool:
        """Whether it is a row of a taskset, and not a game."""
        return "row" in self.inputs

    @property
    def game_seed(self) -> int:
        """What decides all chance in the game. Tasks of one group share it by the input `group_seed`."""
        return derive_seed(int(self.inputs.get("group_seed", self.seed)), "game")


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one game between policies: who sat where and what each seat got."""

    id: EpisodeId
    game: str
    seats: tuple[PolicyRef, ...]
    returns: tuple[float, ...]
