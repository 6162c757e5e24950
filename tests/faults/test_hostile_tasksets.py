"""F19 for tasksets: whatever the file holds, nothing runs, and it is refused within a second and 256 MB."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ludus.tasks

MB = 1_000_000
GOOD = b'{"prompt": "a"}\n'

# Loads every file it is given; the peak of memory is that of the worst of them.
PROBE = """
import json, logging, re, sys, time
from ludus.config.sections.tasks import TasksetConfig
from ludus.errors import ConfigError
from ludus.tasks import load_taskset
import pyarrow.parquet
logging.disable()
found = {}
for name in sys.argv[1:]:
    started = time.process_time()
    try:
        rows, said = len(load_taskset(TasksetConfig.model_validate({"path": name, "name": "x"}))), []
    except ConfigError as error:
        rows, said = 0, list(error.problems)
    found[name] = {"rows": rows, "said": said, "cpu_s": time.process_time() - started}
# Not ru_maxrss: a child inherits that of the process that started it.
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
print(json.dumps({"found": found, "peak_bytes": peak}))
"""


class Bomb:
    """A pickle that touches a file when it is read."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return (Path.touch, (self.marker,))


LINES: dict[str, tuple[bytes, str]] = {
    "20 MB without a newline": (b"x" * (20 * MB), "x.jsonl:1: longer than 4,194,304 bytes"),
    "20 MB of NUL": (b"\0" * (20 * MB), "x.jsonl:1: longer than"),
    "20 MB of newlines": (b"\n" * (20 * MB), "x.jsonl:10001: more than 10,000 blank lines"),
    "four million open brackets": (b"[" * 4_000_000, "x.jsonl:1: nested too deep"),
    "four million open braces": (b'{"a":' * 800_000, "x.jsonl:1: nested too deep"),
    "17 levels": (b'{"prompt": "a", "x": ' + b"[" * 17 + b"]" * 17 + b"}", "nested more than 16 levels"),
    "a million bad lines": (b"x\n" * MB, "10,000 were refused"),
    "a number of four million digits": (b'{"prompt": ' + b"9" * 4_000_000 + b"}", "too many digits"),
    "a number of 64 bits and one": (b'{"prompt": "a", "n": 9223372036854775808}', "field n: a number of more than 64 bits"),
    "a number beyond all numbers": (b'{"prompt": "a", "n": 1e999}', "field n: inf is not a number"),
    "NaN": (b'{"prompt": "a", "n": NaN}', "x.jsonl:1: NaN is not a number"),
    "NUL in an escape": (b'{"prompt": "a\\u0000"}', "field prompt: holds a NUL character"),
    "half a character": (b'{"prompt": "\\ud800"}', "field prompt: holds half of a character"),
    "not UTF-8": (b'{"prompt": "\xff"}', "not UTF-8 text (byte 0xff at 13)"),
    "UTF-16": ('{"prompt": "a"}\n'.encode("utf-16"), "x.jsonl:1: not UTF-8 text"),
    "a key twice": (b'{"prompt": "a", "prompt": "b"}', 'x.jsonl:1: key "prompt" stands twice'),
    "500,000 values": (b'{"prompt": "a", "n": [' + b"1," * 500_000 + b"1]}", ""),
    "a million values": (b'{"prompt": "a", "n": [' + b"1," * MB + b"1]}", "larger than 4,194,304 bytes"),
    "terminal escapes": (b'{"\\u001b[2J": 1, "\\u001b[2J": 2}', 'key "\\x1b[2J" stands twice'),
    "binary": (bytes(range(256)) * 100, "none of its rows can be used"),
}  # fmt: skip


def dictionary_bomb(path: Path) -> None:
    """A text of 3 MB, stored once and used by 100,000 rows."""
    index = pa.array([0] * 100_000, pa.int32())
    pq.write_table(pa.table({"prompt": pa.DictionaryArray.from_arrays(index, ["x" * 3 * MB])}), path)


def long_text(path: Path) -> None:
    pq.write_table(pa.table({"prompt": ["y" * 20 * MB]}), path, compression="zstd", use_dictionary=False)


def hidden_long_text(path: Path) -> None:
    texts = [*["a"] * 5000, "y" * 80 * MB]
    pq.write_table(pa.table({"prompt": texts}), path, compression="zstd", use_dictionary=False)


def lying_header(path: Path) -> None:
    pq.write_table(pa.table({"prompt": ["a"]}), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-8] + (2**31 - 1).to_bytes(4, "little") + whole[-4:])


def noise(path: Path) -> None:
    path.write_bytes(b"PAR1" + os.urandom(100_000) + b"PAR1")


PARQUET: dict[str, tuple[Callable[[Path], None], str]] = {
    "a dictionary bomb": (dictionary_bomb, "read a part of it with limit"),
    "a text of 20 MB": (long_text, "rows of more than 4,194,304 bytes"),
    "a text of 80 MB behind many rows": (hidden_long_text, "column prompt unpacks to more than 100 times its size"),
    "a lying header": (lying_header, "cannot be read as Parquet"),
    "noise": (noise, "cannot be read as Parquet"),
}


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process found in all the files."""
    root = tmp_path_factory.mktemp("hostile")
    names: dict[str, str] = {}
    for number, (title, (content, _)) in enumerate(LINES.items()):
        names[title] = str(root / f"lines{number}" / "x.jsonl")
        Path(names[title]).parent.mkdir()
        Path(names[title]).write_bytes(content)
    for number, (title, (make, _)) in enumerate(PARQUET.items()):
        names[title] = str(root / f"table{number}.parquet")
        make(Path(names[title]))
    names["a pickle"] = str(root / "pickle.jsonl")
    Path(names["a pickle"]).write_bytes(pickle.dumps(Bomb(root / "marker")))
    source = str(Path(ludus.tasks.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *names.values()],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout)
    return {
        "found": {title: report["found"][name] for title, name in names.items()},
        "peak_bytes": report["peak_bytes"],
        "ran": (root / "marker").exists(),
    }


@pytest.mark.parametrize("title", [*LINES, *PARQUET])
def test_hostile_files_are_refused_with_place_and_reason(title: str, probed: dict[str, Any]) -> None:
    expected = (LINES | PARQUET)[title][1]
    found = probed["found"][title]
    assert expected in "\n".join(found["said"])
    assert (found["rows"] == 0) == bool(expected)
    assert all(line.isprintable() for line in found["said"])
    assert found["cpu_s"] < 5.0  # bounded, on a busy machine too


def test_nothing_runs_and_memory_is_bounded(probed: dict[str, Any]) -> None:
    assert not probed["ran"]
    assert probed["found"]["a pickle"]["rows"] == 0
    assert probed["peak_bytes"] < 256 * MB
