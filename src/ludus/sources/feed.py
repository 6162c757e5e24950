"""One run that feeds this one: its rows as this run takes them in.

Invariant: the other run is only read. Its rows get numbers of their own here (`FIRST_TASK`), so that rows of two runs
are never taken for one another; which run has which number is in `feeds.json` before its first row is taken. A run that
is made anew in the place of another has another id, hence another number. `own_version` says which version of this
run's policy a row is of, by its weights and not by its number: an explorer that began with another run's policy calls
it version 0.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.config import RunConfig, load_config
from ludus.config.sections.buffer import RunFeedConfig
from ludus.errors import ConfigError
from ludus.experience import MOST_TASKS
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.model_folder import find_model_folder
from ludus.lm.model_text import tokenizer_fingerprint
from ludus.orchestrator.context import RunContext
from ludus.policies.store import CARD
from ludus.records import Experiences
from ludus.storage.catalog import Catalog
from ludus.storage.run_directory import RunDirectory, StagedDirectory
from ludus.storage.segment_follower import SETTLE_S, SegmentFollower

log = logging.getLogger(__name__)

FIRST_TASK = 2**48
"""Tasks from this number on are other runs', `MOST_TASKS` for each."""
NOT_OURS = -1


class Feed:
    """One entry of `buffer.feeds`. Nothing need be there yet."""

    def __init__(
        self,
        key: str,
        config: RunFeedConfig,
        context: RunContext,
        catalog: Catalog,
        number_of: Callable[[str, Path], int],
        *,
        settle_s: float = SETTLE_S,
    ) -> None:
        """`number_of` gives the run with an id its number, and remembers it."""
        self.run = RunDirectory(Path(config.run))
        self.name = ""
        """Its id; empty before it is there."""
        self.follower: SegmentFollower | None = None
        self._key = key
        self._context = context
        self._catalog = catalog
        self._number_of = number_of
        self._settle_s = settle_s
        self._number = 0
        self._stamp: tuple[int, int] | None = None
        self._known_as: dict[tuple[str, int], int] = {}
        if self.run.path.resolve() == context.run.path.resolve():
            raise ConfigError(f"{key}: {config.run} is this run itself; name another")

    def follow(self, cursors: Mapping[str, int]) -> SegmentFollower | None:
        """The follower of its log, a new one when the run has come into being since, or is another one now.

        Raises:
            ConfigError: what it plays cannot be trained on here.
        """
        stamp = _stamp(self.run.format) if self.run.is_run() else None
        if stamp == self._stamp or stamp is None:
            if stamp is None and StagedDirectory(self.run.path).is_staged():
                raise ConfigError(f"{self._key}: {self.run.path} is a run in stages; name the folder of one of them")
            return self.follower
        name = self.run.identity() or str(self.run.path.resolve())  # of a run that an earlier version made, its place
        is_same, self._stamp = name == self.name, stamp
        if is_same:
            return self.follower
        if self.name:
            log.warning("%s is another run than before; its sequences count as new", self.run.path)
        check_fit(self._key, self.run, self._context)
        self.name, self._number, self._known_as = name, self._number_of(name, self.run.path), {}
        self._context.telemetry.event("feed_found", run=str(self.run.path), number=self._number)
        self.follower = SegmentFollower(self.run.experiences, cursors.get(name, 0), settle_s=self._settle_s)
        return self.follower

    def adopt(self, rows: Experiences) -> Experiences:
        """Rows of that run, named as they are called here."""
        task = np.asarray(rows.sequences["task"], np.int64) + FIRST_TASK + self._number * MOST_TASKS
        names = {name: _prefixed(rows.sequences[name], self._number) for name in ("episode", "group")}
        return rows.replace(sequences={"task": task, **names, "own_version": self._own_versions(rows)})

    def _own_versions(self, rows: Experiences) -> NDArray[np.int64]:
        """Of each row, the version of this run's policy that chose its oldest element, or `NOT_OURS`, `[n]`."""
        chosen = np.asarray(rows.steps["mask"], np.bool_)
        row_of, version = rows.sequence_of_step()[chosen], rows.steps["version"][chosen]
        policies, own = rows.sequences["policy"].tolist(), np.full(len(rows), np.iinfo(np.int64).max)
        for row, number in np.unique(np.stack([row_of, version], axis=1), axis=0).tolist():
            own[row] = min(own[row], self._own_version(policies[row], number))
        return np.where(own == np.iinfo(np.int64).max, NOT_OURS, own)

    def _own_version(self, policy: str, version: int) -> int:
        known = self._known_as.get((policy, version))
        if known is None:
            digest = _weights_hash(self.run.policy(policy, version) / CARD)
            mine = self._catalog.policies(self._context.config.policy.name) if digest else []
            known = max((int(ref.version) for ref, other in mine if other == digest), default=NOT_OURS)
            self._known_as[policy, version] = known
        return known


def _prefixed(column: NDArray[Any], number: int) -> NDArray[Any]:
    return np.array([f"{number}-{name}" if name else "" for name in column.tolist()], object)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _weights_hash(card: Path) -> str:
    """What a published version's weights are; empty when it is not there any more."""
    try:
        return str(json.loads(card.read_text())["weights_hash"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def check_fit(key: str, run: RunDirectory, context: RunContext) -> None:
    """See to it that another run plays games of this one, and that its rows are what this policy learns from.

    Args:
        key: where the run is named in the config, for the message.

    Raises:
        ConfigError: they do not fit together, or the other run's config cannot be read.
    """
    where = f"{key}: {run.path}"
    try:
        theirs = load_config(run.config)
    except ConfigError as error:
        raise ConfigError(f"{where} cannot be read: {error}") from error
    if theirs.buffer.feeds:
        raise ConfigError(f"{where} is fed by other runs itself; name those here instead")
    games = [*(game.key for game in theirs.games), *(each.game for each in theirs.tasks)]
    if foreign := [game for game in games if game not in context.specs]:
        mine = ", ".join(context.specs)
        raise ConfigError(f"{where} plays {foreign[0]}, which is no game of this run ({mine}); name another run")
    _check_policy(where, theirs, run, context)


def _check_policy(where: str, theirs: RunConfig, run: RunDirectory, context: RunContext) -> None:
    mine, model = context.shape, theirs.policy.model
    if isinstance(mine, LanguageModelShape) != (model is not None):
        what = "is a network's" if model is None else "is a language model's"
        raise ConfigError(f"{where} {what}, and the policy of this run is not; name another run")
    if isinstance(mine, LanguageModelShape) and model is not None:
        folder = run.base if run.base.is_dir() else find_model_folder(model.path)
        if tokenizer_fingerprint(folder) != tokenizer_fingerprint(find_model_folder(mine.model.path)):
            raise ConfigError(f"{where} has another tokenizer than {mine.model.path}; name a run of the same model")
    elif context.config.policy.critic == "central" and theirs.policy.critic != "central":
        raise ConfigError(f"{where} does not record what a central critic sees; write policy.critic: central there")
