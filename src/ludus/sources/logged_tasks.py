"""What the logs of a run say has been played, so that it is not played again after a resume."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow.compute as pc

from ludus.sources.done_tasks import DoneTasks
from ludus.sources.feed import FIRST_TASK
from ludus.storage.arrow import episodes_from_table
from ludus.storage.segments import SegmentLog
from ludus.tasks import TaskStream


def note_logged_episodes(episodes: SegmentLog, tasks: TaskStream, done: DoneTasks) -> None:
    """Episodes that were acknowledged before the last stop need not be played again."""
    for _, table in episodes.scan():
        if tasks.learns:
            tasks.absorb(episodes_from_table(table))
        columns = zip(table.column("task").to_pylist(), table.column("purpose").to_pylist(), strict=True)
        done.add(task for task, purpose in columns if purpose == "train")


def note_logged_rows(
    experiences: SegmentLog,
    tasks: TaskStream,
    done: DoneTasks,
    refused_tasks: Iterable[list[int]],
) -> None:
    """Asynchronous: nor those of which only rows are there. Played again with a newer version it would be another game
    than the one whose experience is here."""
    for _, table in experiences.scan():
        table = table.filter(pc.field("task") < FIRST_TASK)  # other runs' tasks are theirs to play
        numbers = table.column("task").to_pylist()
        done.add(numbers)
        if tasks.learns:
            tasks.absorb_rewards(dict(zip(numbers, table.column("final_reward").to_pylist(), strict=True)))
    for numbers in refused_tasks:
        done.add(numbers)
