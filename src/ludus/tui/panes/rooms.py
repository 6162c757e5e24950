"""The rooms of the loop in flow order: how busy, how fast, how much, and how full their queues are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from ludus.daemon.messages import NodeStatus, QueueFill, RoomStatus, WorkerStatus
from ludus.monitor.run_view import RunView
from ludus.reports.number_text import percent, share_of, short
from ludus.tui.drawing import PaneSpec, bar, fit

ACTIVE = ("WAITING FOR DATA", "TRAINING", "EVALUATING", "EXPORTING")
"""Stages in which a rate of zero is worth a look."""
OVER = ("DONE", "STOPPED", "ERROR")
PERCENT, RATE, TOTAL, DROPPED = 5, 8, 7, 8
MOST_NAME, MOST_UNIT = 14, 11


def draw(view: RunView, width: int) -> list[Text]:
    """A line for each room, and one under it for each of its queues."""
    is_over = view.status.stage in OVER
    rooms = _on_average(view) if is_over else view.status.rooms
    if not rooms:
        return [Text("no room has reported yet", "dim")]
    columns = _Columns.of(rooms, width)
    lines = [_head(columns, is_over=is_over)]
    for room in rooms:
        lines.append(_room(room, columns, is_active=view.status.stage in ACTIVE))
        lines.extend(_queue(queue, columns) for queue in room.queues)
    return lines + _nodes(view, width) + _sinks(view, width)


@dataclass(frozen=True, slots=True)
class _Columns:
    """How wide the columns are that depend on what is in them."""

    name: int
    bar: int
    unit: int

    @classmethod
    def of(cls, rooms: Sequence[RoomStatus], width: int) -> _Columns:
        names = [len(room.name) for room in rooms] + [len(queue.name) + 2 for room in rooms for queue in room.queues]
        name, unit = min(max(4, *names), MOST_NAME), min(max(len(room.unit) for room in rooms), MOST_UNIT)
        rest = width - (2 + name + 1 + PERCENT + RATE + 1 + TOTAL + DROPPED)
        if rest - unit < 4:
            unit = 0
        return cls(name, min(max(rest - unit, 4), 30), unit)


def _on_average(view: RunView) -> list[RoomStatus]:
    """The rooms of a run that is over: what each did a second, as long as it went on."""
    uptime_s = view.status.uptime_s
    return [
        room.model_copy(update={"rate": share_of(room.total, uptime_s), "load": room.load_total})
        for room in view.status.rooms
    ]


def _head(columns: _Columns, *, is_over: bool) -> Text:
    load, rate = ("mean load", "mean") if is_over else ("load", "rate")
    words = (
        f"  {'room':<{columns.name}} {load:<{columns.bar + PERCENT}}",
        f"{rate:>{RATE}} {'':<{columns.unit}}{'total':>{TOTAL}}{'dropped':>{DROPPED}}",
    )
    return Text("".join(words), "dim")


def _room(room: RoomStatus, columns: _Columns, *, is_active: bool) -> Text:
    stands = room.rate <= 0
    style = "bold red" if stands and is_active else "dim" if stands else ""
    return Text.assemble(
        ("○ " if stands else "● ", style or "green"),
        (fit(room.name, columns.name), "bold"),
        " ",
        *_load(room, columns.bar),
        (f"{short(room.rate) + '/s':>{RATE}}", style),
        f" {fit(room.unit, columns.unit)}",
        f"{short(room.total):>{TOTAL}}",
        (f"{short(room.dropped):>{DROPPED}}", "bold yellow" if room.dropped else "dim"),
    )


def _load(room: RoomStatus, bar_width: int) -> list[Text]:
    if room.load is None:
        return [Text(f"{'not known':<{bar_width + PERCENT}}"[: bar_width + PERCENT], "dim")]
    return [bar(room.load, bar_width, "green"), Text(f"{percent(room.load):>{PERCENT}}")]


def _queue(queue: QueueFill, columns: _Columns) -> Text:
    label = f"  {fit('└ ' + queue.name, columns.name)} "
    if queue.capacity is None or queue.capacity <= 0:
        return Text(f"{label}{'':{columns.bar + PERCENT}} {short(queue.length)} waiting, no bound", "dim")
    share = share_of(queue.length, queue.capacity)
    sign = " full" if share >= 0.995 else ""
    return Text.assemble(
        (label, "dim"),
        bar(share, columns.bar, "yellow" if sign else "blue"),
        f"{percent(share):>{PERCENT}}",
        (f" {short(queue.length)} of {short(queue.capacity)}{sign}", "bold yellow" if sign else "dim"),
    )


def _nodes(view: RunView, width: int) -> list[Text]:
    """On a cluster: each node with our workers under it, then the workers that have no node."""
    status = view.status
    if not status.nodes:
        return []
    lines = []
    for node in status.nodes:
        lines.append(_node(node, width))
        lines.extend(_worker(worker, width) for worker in status.workers if worker.node == node.name)
    named = {node.name for node in status.nodes}
    return [*lines, *(_worker(worker, width) for worker in status.workers if worker.node not in named)]


def _node(node: NodeStatus, width: int) -> Text:
    taken = [f"{short(node.cpus - node.free_cpus)} of {short(node.cpus)} CPU taken"]
    if node.gpus:
        taken.append(f"{short(node.gpus - node.free_gpus)} of {short(node.gpus)} GPU")
    load = "load not known" if node.load is None else f"load {percent(node.load)}"
    words = fit(f"▪ {node.name}: {load}, {', '.join(taken)}", width)
    return Text(words, "" if node.workers else "dim")


def _worker(worker: WorkerStatus, width: int) -> Text:
    load = "load not known" if worker.load is None else f"load {percent(worker.load)}"
    where = "" if worker.node else ", on no node"
    again = f", started again {short(worker.restarts)}×" if worker.restarts else ""
    silent = ", no sign of life" if worker.is_silent else ""
    style = "bold red" if worker.is_silent else "yellow" if worker.restarts else "dim"
    return Text(fit(f"  └ {worker.name}: {load}{again}{silent}{where}", width), style)


def _sinks(view: RunView, width: int) -> list[Text]:
    """Where metrics go; a sink that was switched off says why."""
    lines = []
    for sink in view.status.sinks:
        lost = f", {short(sink.dropped)} dropped" if sink.dropped else ""
        state = f"off: {sink.error}" if sink.error else f"{sink.queued} waiting{lost}"
        style = "bold red" if sink.error else "yellow" if sink.dropped else "dim"
        lines.append(Text(fit(f"{'✗' if sink.error else '→'} {sink.name}: {state}", width), style))
    return lines


ROOMS = PaneSpec(
    title="Rooms",
    topics=frozenset({"status"}),
    draw=draw,
    help=(
        "The loop's rooms in the order in which data flows. ● moves, ○ (red) did nothing in the last second. "
        "load: share of the last second in which the room was busy. rate: units in the last second; total and dropped "
        "are since the start. When the run is over, load and rate are means. Under a room are its queues with how full "
        "they are. On a Ray cluster, nodes follow, each with its load for each core and the workers on it."
    ),
)
