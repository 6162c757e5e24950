"""Experiences and episodes as Arrow tables, and tables as bytes.

Invariant: `experiences_from_table(experiences_to_table(x))` equals `x`, bit for bit, and so for episodes. Numbers are
shared with the input, not copied: treat both as read-only.

An experience table has one row per sequence: the sequence columns, and a list column per step column. Strings may go
in as numpy object or `<U` arrays; they come out as object arrays of `str`. An episode table has one row per episode,
with columns that a person can query and with everything that is needed to rebuild the `Task`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ludus.errors import CorruptRecord
from ludus.records import Episode, EpisodeId, Experiences, PolicyName, PolicyRef, PolicyVersion, Seat, Task, TaskId
from ludus.storage.columns import (
    decode_flat,
    decode_ragged,
    encode_flat,
    encode_ragged,
    flat_field,
    is_ragged,
    ragged_field,
)

_EPISODE_SCHEMA = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in {
            "id": pa.string(),
            "task": pa.int64(),
            "attempt": pa.int64(),
            "purpose": pa.string(),
            "game": pa.string(),
            "seed": pa.int64(),
            "group": pa.string(),
            "inputs": pa.string(),
            "policies": pa.list_(pa.string()),
            "versions": pa.list_(pa.int64()),
            "learns": pa.list_(pa.bool_()),
            "greedy": pa.list_(pa.bool_()),
            "returns": pa.list_(pa.float64()),
            "length": pa.int64(),
            "truncated": pa.bool_(),
            "error": pa.string(),
            "duration_s": pa.float64(),
            "move_plies": pa.large_list(pa.int32()),
            "move_seats": pa.large_list(pa.int16()),
            "move_actions": pa.large_list(pa.int32()),
            "move_texts": pa.list_(pa.string()),
            "replies": pa.list_(pa.string()),
            "rewards": pa.string(),
            "sampled": pa.int64(),
            "nodes": pa.list_(pa.int64()),
        }.items()
    ]
)
_LATER = ("rewards", "sampled", "nodes")
"""Columns that tables of earlier versions lack."""
_MOVE_TYPES: dict[str, type[np.generic]] = {"move_plies": np.int32, "move_seats": np.int16, "move_actions": np.int32}


@dataclass(frozen=True, slots=True)
class ArrowColumns:
    """The arrays that experiences were decoded from, each beside the numpy column that it is."""

    offsets: NDArray[np.int64] | None
    """Where steps are cut; None when only sequence columns are left."""
    columns: Mapping[str, tuple[NDArray[Any], pa.Array]]

    def take(self, rows: NDArray[np.int64], columns: Mapping[str, NDArray[Any]]) -> ArrowColumns:
        """Strings alone: numbers are shared with numpy anyway."""
        chosen = pa.array(rows)
        strings = {
            name: (columns[name], array.take(chosen))
            for name, (_, array) in self.columns.items()
            if name in columns and pa.types.is_string(array.type)
        }
        return ArrowColumns(None, strings)

    def find(self, name: str, column: NDArray[Any], kind: pa.DataType) -> pa.Array | None:
        """The array of a column, if nobody has put another one in its place."""
        if name not in self.columns:
            return None
        known, array = self.columns[name]
        return array if known is column and array.type == kind else None


def experiences_to_table(experiences: Experiences) -> pa.Table:
    """One row per sequence. Without sequences and columns: an empty table.

    A column that was decoded from Arrow and is still the same array goes back as it came, not encoded again.
    """
    offsets = np.ascontiguousarray(experiences.offsets, np.int64)
    start, stop = int(offsets[0]), int(offsets[-1])
    if start:
        offsets = offsets - start
    offsets_buffer = pa.py_buffer(offsets)
    sequences = [(name, np.asarray(column)) for name, column in experiences.sequences.items()]
    steps = [(name, np.asarray(column)[start:stop]) for name, column in experiences.steps.items()]
    schema, types = _experience_schema(
        tuple((name, column.dtype) for name, column in sequences),
        tuple((name, column.dtype, column.shape[1:]) for name, column in steps),
    )
    known = experiences.encoded if isinstance(experiences.encoded, ArrowColumns) else ArrowColumns(None, {})
    is_uncut = known.offsets is experiences.offsets and not start
    arrays = [
        known.find(name, column, kind) or encode_flat(column, kind)
        for (name, column), kind in zip(sequences, types, strict=False)
    ]
    arrays += [
        (known.find(name, experiences.steps[name], kind) if is_uncut else None)
        or encode_ragged(column, kind, len(offsets) - 1, offsets_buffer)
        for (name, column), kind in zip(steps, types[len(arrays) :], strict=True)
    ]
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(arrays, schema=schema)])


def experiences_from_table(table: pa.Table) -> Experiences:
    """The inverse. Zero-copy for a table of one chunk, such as a slice of one segment."""
    batches = table.to_batches()
    if not table.num_columns:
        return Experiences.empty()
    if not batches:
        nothing = [pa.array([], field.type) for field in table.schema]
        batches = [pa.RecordBatch.from_arrays(nothing, schema=table.schema)]
    return Experiences.concatenate([experiences_from_batch(batch) for batch in batches])


def experiences_from_batch(batch: pa.RecordBatch) -> Experiences:
    """As `experiences_from_table`, for one record batch: zero-copy."""
    sequences: dict[str, NDArray[Any]] = {}
    steps: dict[str, NDArray[Any]] = {}
    offsets: NDArray[np.int64] | None = None
    encoded: dict[str, tuple[NDArray[Any], pa.Array]] = {}
    for field, array in zip(batch.schema, batch.columns, strict=True):
        if not is_ragged(field.type):
            sequences[field.name] = decode_flat(array)
            encoded[field.name] = sequences[field.name], array
            continue
        own_offsets, steps[field.name] = decode_ragged(array, field)
        if offsets is not None and offsets.tobytes() != own_offsets.tobytes():
            raise CorruptRecord(f"step column {field.name!r} is cut differently from the others")
        encoded[field.name] = steps[field.name], array
        offsets = own_offsets
    if offsets is None:
        offsets = np.zeros(batch.num_rows + 1, np.int64)
    if "source" in sequences and (old := sequences["source"] == "usual").any():
        sequences["source"] = np.where(old, "on_policy", sequences["source"])  # as runs before 2026-11-17 call it
    return Experiences(sequences=sequences, offsets=offsets, steps=steps, encoded=ArrowColumns(offsets, encoded))


def episodes_to_table(episodes: Sequence[Episode]) -> pa.Table:
    """One row per episode."""
    columns: dict[str, Any] = {
        "id": [episode.id for episode in episodes],
        "task": [episode.task.id for episode in episodes],
        "attempt": [episode.task.attempt for episode in episodes],
        "purpose": [episode.task.purpose for episode in episodes],
        "game": [episode.task.game for episode in episodes],
        "seed": [episode.task.seed for episode in episodes],
        "group": [episode.task.group for episode in episodes],
        "inputs": [json.dumps(episode.task.inputs) for episode in episodes],
        "policies": [[seat.policy.name for seat in episode.task.seats] for episode in episodes],
        "versions": [[seat.policy.version for seat in episode.task.seats] for episode in episodes],
        "learns": [[seat.learns for seat in episode.task.seats] for episode in episodes],
        "greedy": [[seat.greedy for seat in episode.task.seats] for episode in episodes],
        "returns": [episode.returns for episode in episodes],
        "length": [episode.length for episode in episodes],
        "truncated": [episode.truncated for episode in episodes],
        "error": [episode.error for episode in episodes],
        "duration_s": [episode.duration_s for episode in episodes],
        "move_texts": [episode.move_texts for episode in episodes],
        "replies": [episode.replies for episode in episodes],
        "rewards": [json.dumps(dict(episode.rewards)) if episode.rewards else "{}" for episode in episodes],
        "sampled": [episode.sampled for episode in episodes],
        "nodes": [[seat.nodes for seat in episode.task.seats] for episode in episodes],
    }
    arrays = {name: pa.array(values, _EPISODE_SCHEMA.field(name).type) for name, values in columns.items()}
    for name, dtype in _MOVE_TYPES.items():
        arrays[name] = _ragged([np.asarray(getattr(episode, name), dtype) for episode in episodes], dtype)
    return pa.Table.from_arrays([arrays[name] for name in _EPISODE_SCHEMA.names], schema=_EPISODE_SCHEMA)


def episodes_from_table(table: pa.Table, tasks: Mapping[EpisodeId, Task] | None = None) -> list[Episode]:
    """The inverse. Tasks that the caller has, by episode, are taken from there, which is half the work."""
    missing = [name for name in _EPISODE_SCHEMA.names if name not in (*table.column_names, *_LATER)]
    if missing:
        raise CorruptRecord(f"not a table of episodes: no {', '.join(missing)}")
    ids = _strings(table.column("id"))
    known = tasks if tasks is not None and all(id in tasks for id in ids) else _tasks(table, ids)
    truncated_and_lasted = [table.column(name).to_numpy().tolist() for name in ("truncated", "duration_s")]
    errors, lists = _strings(table.column("error")), ("returns", "move_texts", "replies")
    results = [*truncated_and_lasted, errors, *(_tuples(table.column(name)) for name in lists)]
    rewards = _strings(table.column("rewards")) if "rewards" in table.column_names else ["{}"] * len(ids)
    sampled = table.column("sampled").to_numpy().tolist() if "sampled" in table.column_names else [0] * len(ids)
    moves = [_cut(table.column(name)) for name in _MOVE_TYPES]
    return [
        Episode(
            id=id,
            task=known[id],
            returns=returns,
            truncated=truncated,
            error=error,
            duration_s=duration_s,
            move_texts=texts,
            replies=replies,
            rewards=json.loads(parts) if parts != "{}" else {},
            move_plies=plies,
            move_seats=seats,
            move_actions=actions,
            sampled=tokens,
        )
        for id, truncated, duration_s, error, returns, texts, replies, parts, tokens, plies, seats, actions in zip(
            ids, *results, rewards, sampled, *moves, strict=True
        )
    ]


def to_bytes(table: pa.Table) -> memoryview:
    """A table as an Arrow IPC stream, to be sent to another process."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())


def from_bytes(stream: bytes | bytearray | memoryview) -> pa.Table:
    """The inverse; the table shares the memory of `stream`.

    Raises:
        CorruptRecord: `stream` is not one whole Arrow IPC stream.
    """
    try:
        table = pa.ipc.open_stream(pa.py_buffer(stream)).read_all()
        table.validate()
    except (pa.ArrowException, OSError) as error:
        raise CorruptRecord(f"not an Arrow stream: {error}") from error
    return table


def experiences_to_bytes(experiences: Experiences) -> bytes:
    """Experiences as they travel between processes."""
    return bytes(to_bytes(experiences_to_table(experiences)))


def experiences_from_bytes(stream: bytes | bytearray | memoryview) -> Experiences:
    """The inverse; the columns share the memory of `stream`."""
    return experiences_from_table(from_bytes(stream))


def episodes_to_bytes(episodes: Sequence[Episode]) -> bytes:
    """Episodes as they travel between processes."""
    return bytes(to_bytes(episodes_to_table(episodes)))


def episodes_from_bytes(stream: bytes | bytearray | memoryview) -> list[Episode]:
    """The inverse."""
    return episodes_from_table(from_bytes(stream))


@lru_cache(maxsize=64)
def _experience_schema(
    sequences: tuple[tuple[str, np.dtype[Any]], ...], steps: tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]
) -> tuple[pa.Schema, list[pa.DataType]]:
    fields = [flat_field(*column) for column in sequences] + [ragged_field(*column) for column in steps]
    return pa.schema(fields), [field.type for field in fields]


def _ragged(parts: Sequence[NDArray[Any]], dtype: type[np.generic]) -> pa.Array:
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    kind = pa.large_list(pa.from_numpy_dtype(dtype))
    return encode_ragged(np.concatenate([np.zeros(0, dtype), *parts]), kind, len(parts), pa.py_buffer(offsets))


def _strings(column: pa.ChunkedArray) -> list[Any]:
    strings: list[Any] = column.to_numpy().tolist()
    return strings


def _tuples(column: pa.ChunkedArray) -> list[tuple[Any, ...]]:
    """A column of lists, each as a tuple: a tenth of what `to_pylist` takes where lists are short."""
    found: list[tuple[Any, ...]] = []
    for chunk in column.chunks:
        values, lengths = chunk.flatten().to_numpy(zero_copy_only=False).tolist(), pc.list_value_length(chunk)
        bounds = np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))]).tolist()
        found += [tuple(values[start:stop]) for start, stop in pairwise(bounds)] if values else [()] * len(chunk)
    return found


def _cut(column: pa.ChunkedArray) -> list[NDArray[Any]]:
    parts: list[NDArray[Any]] = []
    for chunk in column.chunks:
        offsets, values = decode_ragged(chunk, pa.field("moves", chunk.type))
        bounds = offsets.tolist()
        parts += [values[start:stop] for start, stop in pairwise(bounds)]
    return parts


def _tasks(table: pa.Table, ids: Sequence[str]) -> dict[EpisodeId, Task]:
    names = ("task", "attempt", "purpose", "game", "seed", "group", "inputs")
    line_up = ("policies", "versions", "learns", "greedy")
    columns = [table.column(name).to_pylist() for name in (*names, *line_up)]
    nodes = table.column("nodes").to_pylist() if "nodes" in table.column_names else [[1] * len(p) for p in columns[7]]
    rows = zip(*columns, nodes, strict=True)
    return {
        EpisodeId(id): Task(
            id=TaskId(task),
            attempt=attempt,
            purpose=purpose,
            game=game,
            seed=seed,
            seats=_seats(*map(tuple, seats)),
            group=group,
            inputs=json.loads(inputs) if inputs != "{}" else {},
        )
        for id, (task, attempt, purpose, game, seed, group, inputs, *seats) in zip(ids, rows, strict=True)
    }


@lru_cache(maxsize=4096)
def _seats(
    names: tuple[str, ...],
    versions: tuple[int, ...],
    learns: tuple[bool, ...],
    greedy: tuple[bool, ...],
    nodes: tuple[int, ...],
) -> tuple[Seat, ...]:
    """Many episodes have the same line-up; records are frozen, so they can share it."""
    return tuple(
        Seat(
            policy=PolicyRef(name=PolicyName(name), version=PolicyVersion(version)),
            learns=learning,
            greedy=sure,
            nodes=visits,
        )
        for name, version, learning, sure, visits in zip(names, versions, learns, greedy, nodes, strict=True)
    )
