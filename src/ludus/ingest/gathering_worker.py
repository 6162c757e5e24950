"""The process that gathers expert rows and preference pairs, once, into the run's folders.

Started by the supervisor: what it reads, and the players that it lets play, cannot stop the loop.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ludus.buffer import GatheredWriter
from ludus.config import ExpertConfig, PairsConfig, RunConfig
from ludus.config.sections.buffer import BotGamesConfig, RowFileConfig
from ludus.errors import ConfigError
from ludus.ingest.bot_games import BotGames
from ludus.ingest.gathering import Gather, GatherBroken, GatherDone, GatherProgress, GatherRefused, ToGathering
from ludus.ingest.row_files import Asking, RowFile
from ludus.ingest.run_rows import RunRows
from ludus.lm.model_text import load_model_text
from ludus.plugins import load_plugins
from ludus.records import Experiences
from ludus.runtime import Channel, NodeFiles, Pulse, run_one_shot_worker
from ludus.storage.atomic import sha256_file, temporary_name
from ludus.storage.run_directory import RunDirectory

log = logging.getLogger(__name__)

REPORT_S = 1.0
MOST_REFUSALS = 20


def work(order: Gather, channel: Channel[object], pulse: Pulse, files: NodeFiles) -> GatherDone | GatherRefused:
    """Gather what was ordered."""
    try:
        gathering = Gathering(order, pulse, files, lambda metrics: channel.send(GatherProgress(metrics=metrics)))
        gathering.run()
    except ConfigError as error:
        return GatherRefused(problems=list(error.problems))
    return GatherDone(metrics=gathering.metrics, refused=gathering.refusals[:MOST_REFUSALS])


class Gathering:
    """Fetch, encode, write."""

    def __init__(
        self, order: Gather, pulse: Pulse, files: NodeFiles, report: Callable[[dict[str, float]], None]
    ) -> None:
        load_plugins([str(files.outside(path)) for path in order.plugins])
        self._order = order
        self._pulse = pulse
        self._report = report
        self._reported = time.monotonic()
        self._run = RunDirectory(files.run)
        self._config = RunConfig.model_validate_json(order.config)
        model = self._config.policy.model
        if model is not None:
            model = model.model_copy(update={"path": order.model or model.path})
        self._text = None if model is None else load_model_text(model, self._config.explore.sampling)
        self._asking = Asking.of_run(self._config)
        self.metrics: dict[str, float] = {}
        self.refusals: list[str] = []

    def run(self) -> None:
        """Gather what was ordered.

        Raises:
            ConfigError: a source cannot be read, or gives nothing.
        """
        if self._order.expert:
            self._fill("expert", self._run.expert, ExpertConfig.model_validate_json(self._order.expert).sources)
        if self._order.pairs:
            self._fill("pairs", self._run.pairs, PairsConfig.model_validate_json(self._order.pairs).sources)

    def _fill(self, store: str, folder: Path, sources: tuple[Any, ...]) -> None:
        writer = GatheredWriter(temporary_name(self._run.path), folder)
        facts: dict[str, Any] = {"files": {}, "sources": [], "refused": 0, "refusals": []}
        count = 0
        for number, source in enumerate(sources):
            before, where = count, f"buffer.{store}.sources.{number}"
            try:
                for rows in self._rows(store, source, f"{store}.{number}", count, facts):
                    writer.add(rows)
                    count += len(rows)
                    self._say({f"gathering/{store}_rows": float(count)})
            except ConfigError as error:
                raise ConfigError(*(f"{where}: {problem}" for problem in error.problems)) from error
            if count == before:
                said = "; ".join(facts["refusals"][:3])
                raise ConfigError(f"{where}: gives no rows" + (f" ({said})" if said else ""))
            facts["sources"].append({"kind": source.kind, "rows": count - before})
        writer.finish(facts)
        self.metrics |= {f"gathering/{store}_rows": float(count), f"gathering/{store}_refused": float(facts["refused"])}
        self.refusals += facts["refusals"]

    def _rows(self, store: str, source: Any, origin: str, first: int, facts: dict[str, Any]) -> Iterator[Experiences]:
        if isinstance(source, RowFileConfig):
            yield from self._rows_of_file(store, source, origin, first, facts)
        elif isinstance(source, BotGamesConfig):
            bots = BotGames(source, self._config, self._text, self._pulse)
            yield from bots.rows(origin, first)
            _note(facts, {"of games that failed": bots.failed, "longer than the context": bots.too_long}, origin)
        else:
            other = RunRows(source, self._text, self._order.model, self._asking)
            yield from other.rows(origin, first)
            _note(facts, other.unusable, source.run)

    def _rows_of_file(
        self, store: str, source: RowFileConfig, origin: str, first: int, facts: dict[str, Any]
    ) -> Iterator[Experiences]:
        if self._text is None:
            raise ConfigError("rows of text are for language models; give policy.model, or another source")
        if Path(source.path).is_file():
            facts["files"][str(Path(source.path).resolve())] = sha256_file(Path(source.path))
        file = RowFile(source, self._text, self._asking, store=store, tick=self._pulse.tick)
        yield from file.rows(origin, first)
        facts["refused"] += file.refused
        facts["refusals"] = [*facts["refusals"], *file.refusals][:MOST_REFUSALS]

    def _say(self, metrics: dict[str, float]) -> None:
        self._pulse.tick()
        if time.monotonic() - self._reported >= REPORT_S:
            self._reported = time.monotonic()
            self._report(metrics)


def _note(facts: dict[str, Any], unusable: dict[str, int], origin: str) -> None:
    facts["refused"] += sum(unusable.values())
    lines = [f"{origin}: {count} rows: {reason}" for reason, count in unusable.items() if count]
    facts["refusals"] = [*facts["refusals"], *lines][:MOST_REFUSALS]


def main() -> None:
    """Entry point of the process."""
    run_one_shot_worker(ToGathering, Gather, work, lambda error: GatherBroken(error=error))


if __name__ == "__main__":
    main()
