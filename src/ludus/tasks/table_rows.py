"""Rows of tables: Parquet files, and Hugging Face datasets (a folder, or an id on the hub).

Invariants:
- Only the columns that are asked for are decoded.
- Of Parquet, a few rows at a time; text that is stored once and used often stays stored once until a row of its own is
  made of it: a small file cannot fill the memory with copies of a long text. Values that Python cannot have (text that
  is not UTF-8, dates out of range) make their own row a bad one.
- No code of a dataset ever runs. Only the plain readers of the package `datasets` are used (`READERS`); a dataset that
  needs another one, such as a script, is refused before any of it is read.

Not covered: a nested list that repeats a long text is unpacked by pyarrow before it can be refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ludus.config import shorten
from ludus.errors import ConfigError
from ludus.extras import need_packages
from ludus.tasks.rows import MOST_RATIO, MOST_ROW_BYTES, BadRow, Row, most_unpacked, pick_columns

_BATCH_ROWS = 256
_BATCH_BYTES = 64 * 2**20
_MOST_HEADER_BYTES = 64 * 2**20
_MOST_HEADER_ENTRIES = 2**20
_UNPYTHONIC = (ValueError, OverflowError, ImportError)
"""What pyarrow raises for values that it cannot turn into Python's."""


def read_parquet(path: Path, paths: Sequence[str] = ()) -> Iterator[Row | BadRow]:
    """Every row, in order, with the columns that these paths lead into (none: all columns)."""
    import pyarrow as pa

    try:
        with _open(path) as file:
            wanted = pick_columns(str(path), file.schema_arrow.names, paths)
            _check_sizes(path, file.metadata, set(wanted))
            number = 0
            for batch in file.iter_batches(_BATCH_ROWS, columns=wanted, use_threads=False):
                yield from _rows(batch, number)
                number += len(batch)
    except (pa.ArrowException, OSError) as error:
        reason = shorten(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__, 200)
        raise ConfigError(f"{path}: cannot be read as Parquet: {reason}") from error


def _open(path: Path) -> Any:
    import pyarrow.parquet as parquet

    limits: dict[str, Any] = {
        "thrift_string_size_limit": _MOST_HEADER_BYTES,
        "thrift_container_size_limit": _MOST_HEADER_ENTRIES,
        "pre_buffer": False,
    }
    with parquet.ParquetFile(path, **limits) as file:
        schema = file.schema_arrow
    # Kept as dictionaries: what is stored once is not copied into every row of a batch.
    flat = [field.name for field in schema if str(field.type) in ("string", "large_string", "binary", "large_binary")]
    return parquet.ParquetFile(path, read_dictionary=flat, **limits)


def _check_sizes(path: Path, metadata: Any, wanted: set[str]) -> None:
    """Refuse what says of itself that it is too large, before any of it is unpacked."""
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        chunks = [rows.column(index) for index in range(rows.num_columns)]
        chunks = [chunk for chunk in chunks if chunk.path_in_schema.partition(".")[0] in wanted]
        if sum(chunk.total_uncompressed_size for chunk in chunks) > MOST_ROW_BYTES * max(rows.num_rows, 1):
            raise ConfigError(f"{path}: rows of more than {MOST_ROW_BYTES:,} bytes (row group {group})")
        for chunk in chunks:
            if chunk.total_uncompressed_size > most_unpacked(chunk.total_compressed_size):
                column = chunk.path_in_schema
                raise ConfigError(f"{path}: column {column} unpacks to more than {MOST_RATIO:,} times its size")


def _rows(batch: Any, before: int) -> Iterator[Row | BadRow]:
    """The rows of a batch that follows `before` others; all at once where that is small and goes well."""
    if _unpacked_bytes(batch) <= _BATCH_BYTES:
        try:
            made = batch.to_pylist()
        except _UNPYTHONIC:
            made = None
        if made is not None:
            yield from (Row(line=number, fields=fields) for number, fields in enumerate(made, start=before + 1))
            return
    for index in range(len(batch)):
        yield _row(batch.slice(index, 1), before + index + 1)


def _row(batch: Any, number: int) -> Row | BadRow:
    try:
        return Row(line=number, fields=batch.to_pylist()[0])
    except _UNPYTHONIC as error:
        return BadRow(line=number, reason=shorten(f"{type(error).__name__}: {error}", 200))


def _unpacked_bytes(batch: Any) -> int:
    """At most how many bytes the rows of a batch take as Python objects."""
    import pyarrow as pa
    import pyarrow.compute as compute

    total = 0
    for column in batch.columns:
        if isinstance(column, pa.DictionaryArray):
            longest = compute.max(compute.binary_length(column.dictionary)).as_py() or 0
            total += longest * len(batch)
        else:
            total += column.nbytes
    return total


READERS = ("arrow", "csv", "json", "parquet", "text")
_SAVED = ("dataset_dict.json", "state.json")
"""One of these is in a folder that `save_to_disk` wrote."""


def read_hub(
    path: str, *, split: str | None = None, subset: str | None = None, paths: Sequence[str] = ()
) -> Iterator[Row]:
    """Every row of one split, in order, with the columns that these paths lead into (none: all columns)."""
    with _quietly(path):
        dataset = _one_split(path, _load(path, subset), split)
        if dataset.column_names:
            dataset = dataset.select_columns(pick_columns(path, dataset.column_names, paths))
        rows = iter(dataset)
    number = 0
    while True:
        with _quietly(path):
            fields = next(rows, None)
        if fields is None:
            return
        number += 1
        yield Row(line=number, fields=dict(fields))


def _load(path: str, subset: str | None) -> Any:
    import datasets

    folder = Path(path)
    if any((folder / name).is_file() for name in _SAVED):
        if subset is not None:
            raise ConfigError(f"{path}: subset {subset!r} was asked for, but a saved dataset has none")
        return datasets.load_from_disk(path)
    builder = datasets.load_dataset_builder(path, subset)
    reader = type(builder).__module__.rpartition(".")[2]
    if not type(builder).__module__.startswith("datasets.packaged_modules.") or reader not in READERS:
        raise ConfigError(f"{path}: it takes the reader {reader!r}; ludus reads datasets of {', '.join(READERS)}")
    # A folder is read where it is; what comes from the hub is kept in the cache, so that a resume needs no network.
    return datasets.load_dataset(path, subset, streaming=folder.is_dir())


def _one_split(path: str, loaded: Any, split: str | None) -> Any:
    if not isinstance(loaded, dict):
        if split is not None:
            raise ConfigError(f"{path}: split {split!r} was asked for, but it has none")
        return loaded
    names = list(loaded)
    chosen = split or ("train" if "train" in names else names[0] if len(names) == 1 else None)
    if chosen not in names:
        asked = f"no split {split!r}" if split else "say which split"
        raise ConfigError(f"{path}: {asked}; it has {', '.join(map(str, names))}")
    return loaded[chosen]


@contextlib.contextmanager
def _quietly(path: str) -> Iterator[None]:
    """Keep progress bars from the terminal, and say in one sentence what went wrong."""
    need_packages(f"{path}, a Hugging Face dataset,", "datasets")
    import datasets

    had_bars = datasets.utils.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:  # the package raises whatever its many backends raise
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise ConfigError(f"{path}: cannot be read as a dataset: {shorten(said[0], 300)}") from error
    finally:
        if not had_bars:
            datasets.enable_progress_bars()
