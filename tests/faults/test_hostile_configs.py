"""F19 for configs: whatever the file holds, nothing runs, and it is refused within a second and 256 MB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import ludus.config

MB = 1_000_000

# Loads every file it is given; the peak of memory is that of the worst of them.
PROBE = """
import json, re, sys, time
from pathlib import Path
from ludus.config import load_or_demo
from ludus.errors import ConfigError
found = {}
for name in sys.argv[1:]:
    started, problems = time.process_time(), []
    try:
        load_or_demo(Path(name, "run.yaml"))
    except ConfigError as error:
        problems = list(error.problems)
    found[name] = {"problems": problems, "cpu_s": time.process_time() - started}
# Not ru_maxrss: a child inherits that of the process that started it.
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
print(json.dumps({"found": found, "peak_bytes": peak}))
"""

GOOD = b"name: x\ngames: [pgx:connect_four]\n"

LAUGHS = b"a: &a [x, x, x, x, x, x, x, x, x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (c, c, b", ".join([b"*%c" % (c - 1)] * 9)) for c in range(ord("b"), ord("j"))
)

HOSTILE: dict[str, tuple[bytes, str]] = {
    "50 MB of comment": (b"#" * (50 * MB), "too large: a config has at most 1,000,000 bytes"),
    "50 MB of one key": (b"a" * (50 * MB), "too large"),
    "alias bomb": (LAUGHS, "anchor &a is not allowed"),
    "alias that holds itself": (GOOD + b"a: &a [*a]\n", "anchor &a is not allowed"),
    "merge keys": (GOOD + b"a: &a {b: 1}\nc: {<<: *a}\n", "alias *a is not allowed"),
    "python object": (
        GOOD + b"a: !!python/object/apply:os.system ['touch {marker}']\n",
        "!!python/object/apply:os.system is",
    ),
    "python name": (GOOD + b"a: !!python/name:os.system\n", "!!python/name:os.system is not allowed"),
    "python module": (GOOD + b"a: !!python/module:antigravity\n", "!!python/module:antigravity is not allowed"),
    "own tag": (GOOD + b"%TAG ! tag:evil,2000:\n---\na: !x 1\n", "run.yaml:3"),
    "a megabyte of open brackets": (b"[" * MB, "nested more than 32 levels"),
    "a megabyte of open braces": (b"{a: " * (MB // 4), "nested more than 32 levels"),
    "a megabyte of dashes": (b"- " * (MB // 2), "nested more than 32 levels"),
    "a megabyte of question marks": (b"? " * (MB // 2), "a key must be plain text"),
    "a million values": (b"a: [" + b"1," * (MB // 2 - 10) + b"]", "more than 20,000 values"),
    "9,000 unknown keys": (GOOD + b"".join(b"key_number_%d: 1\n" % i for i in range(9000)), "more problems"),
    "9,000 keys given twice": (GOOD + b"".join(b"k%d: 1\n" % (i // 2) for i in range(9000)), "more problems"),
    "9,000 wrong entries": (GOOD + b"evaluate: {against: [" + b"A," * 9000 + b"]}\n", "more problems"),
    "a number of 900,000 digits": (GOOD + b"seed: " + b"9" * 900_000 + b"\n", "too many digits"),
    "a key of 900,000 letters": (GOOD + b"k" * 900_000 + b": 1\n", "not YAML"),
    "a key of 1,000 letters": (GOOD + b"k" * 1000 + b": 1\n", "unknown key"),
    "text of 900,000 letters": (GOOD + b"seed: " + b"k" * 900_000 + b"\n", "seed: expected a whole number"),
    "one long escape": (GOOD + b'seed: "' + b"\\x41" * 200_000 + b'"\n', "seed: expected a whole number"),
    "duplicate keys": (GOOD + b"seed: 1\nseed: 2\n", "run.yaml:4  seed: given twice (first on line 3)"),
    "tabs": (GOOD + b"train:\n\tsteps: 5\n", "run.yaml:4  a tab is used for indentation"),
    "NUL": (GOOD + b"seed: \x00\n", "run.yaml:3  character \\x00 is not allowed"),
    "NUL in an escape": (GOOD + b'topology: "\\0"\n', "run.yaml:3  topology: "),
    "not UTF-8": (GOOD + b"seed: \xff\xfe\n", "run.yaml:3  not UTF-8 text (byte 0xff)"),
    "UTF-16": ("name: x\n".encode("utf-16"), "run.yaml:1  not UTF-8 text"),
    "half a character": (GOOD + "é".encode()[:1], "run.yaml:3  not UTF-8 text"),
    "terminal escapes": (GOOD + b'"\\e[2Jx": 1\n', "run.yaml:3"),
    "binary": (bytes(range(256)) * 100, "not UTF-8 text"),
    "a pickle": (b"\x80\x04\x95\x1d\x00\x00\x00", "run.yaml:1"),
}


@dataclass(frozen=True)
class Probed:
    """What became of all hostile files, read one after another by one process."""

    found: dict[str, dict[str, Any]]
    peak_bytes: int
    stderr: str
    marker: Path


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Probed:
    folder = tmp_path_factory.mktemp("hostile")
    marker = folder / "executed"
    for name, (content, _) in HOSTILE.items():
        (folder / name).mkdir()
        (folder / name / "run.yaml").write_bytes(content.replace(b"{marker}", str(marker).encode()))
    environment = {**os.environ, "PYTHONPATH": str(Path(ludus.config.__file__).parents[2])}
    probe = [sys.executable, "-c", PROBE, *HOSTILE]
    ran = subprocess.run(probe, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return Probed(**json.loads(ran.stdout), stderr=ran.stderr, marker=marker)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_config_is_refused_within_a_second_with_its_place(name: str, probed: Probed) -> None:
    problems, words = probed.found[name]["problems"], HOSTILE[name][1]
    assert any(words in line for line in problems), problems
    assert all(len(line) < 500 and line.isprintable() for line in problems)
    assert all(f"{name}/run.yaml" in line or "more problems" in line for line in problems)
    assert probed.found[name]["cpu_s"] < 1.0


def test_no_hostile_config_takes_much_memory_or_runs_anything(probed: Probed) -> None:
    assert probed.peak_bytes < 256 * MB
    assert not probed.marker.exists()
    assert probed.stderr == ""
