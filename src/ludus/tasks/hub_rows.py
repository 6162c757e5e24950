"""Rows of a Hugging Face dataset: a folder on this machine, or an id on the hub, through the package `datasets`.

Invariant: no code of a dataset ever runs. Only the plain readers of `datasets` are used (`READERS`); a dataset that
needs another one, such as a script, is refused before any of it is read. Only the columns asked for are decoded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ludus.config import shorten
from ludus.errors import ConfigError
from ludus.tasks.rows import Row, pick_columns

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
    try:
        import datasets
    except ImportError:
        raise ConfigError(f"{path}: Hugging Face datasets need a package; pip install datasets") from None
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
