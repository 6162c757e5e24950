"""Whatever stands in a config or on the command line: a RunConfig or a ConfigError, nothing else."""

from __future__ import annotations

import json
import re
from contextlib import suppress

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ludus.config import Path, RunConfig, dump_config, parse_config, resolve
from ludus.config.loading.slots import all_paths
from ludus.config.loading.yaml_text import TooManyDigits, resolve_scalar
from ludus.errors import ConfigError

BASE = "name: x\ngames: [pgx:connect_four]\n"
KEYS = sorted({str(path[-1]) for path in all_paths(RunConfig)})
WORDS = ["mlp", "resnet", "fused", "split", "async", "ppo", "mirror", "fixed", "pgx:chess", "random", "no", "1e-3", ""]
PIECES = [
    "a",
    ":",
    " ",
    "\n",
    "\t",
    "- ",
    "? ",
    "[",
    "]",
    "{",
    "}",
    ",",
    "&a",
    "*a",
    "!!x",
    "#",
    "'",
    '"',
    "|",
    ">",
    "%",
    "@",
    "\\",
]

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(), st.text(max_size=8), st.sampled_from(WORDS)
)
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=6)), inner, max_size=5),
    ),
    max_leaves=20,
)


def check(text: str | bytes, overrides: list[str]) -> None:
    """The whole way in must end in a config that survives a round trip, or in clear lines."""
    config, lines = load(text, overrides)
    if config is None:
        assert lines
        assert all(line.isprintable() and len(line) < 700 for line in lines)
    else:
        assert parse_config(dump_config(config), "config.yaml") == config


def load(text: str | bytes, overrides: list[str]) -> tuple[RunConfig | None, tuple[str, ...]]:
    try:
        return resolve(parse_config(text, "run.yaml", overrides)), ()
    except ConfigError as error:
        return None, error.problems


@given(st.binary(max_size=200))
def test_random_bytes(content: bytes) -> None:
    check(content, [])
    check(BASE.encode() + content, [])


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.sampled_from(KEYS)), max_size=40).map("".join))
def test_random_pieces_of_yaml(text: str) -> None:
    check(text, [])
    check(BASE + text, [])


@given(st.dictionaries(st.sampled_from(KEYS), trees, max_size=4))
def test_random_values_under_real_keys(values: dict[str, object]) -> None:
    check(yaml.safe_dump({"name": "x", "games": ["pgx:chess"], **values}, allow_unicode=True), [])


@given(st.sampled_from(all_paths(RunConfig)), trees)
def test_a_random_value_at_every_key(path: Path, value: object) -> None:
    with suppress(ValueError):
        check(BASE, [".".join(map(str, path)) + "=" + json.dumps(value)])


@given(st.lists(st.one_of(st.text(max_size=30), st.from_regex(r"[a-z]+(\.[a-z0-9]+){0,3}=.{0,10}")), max_size=3))
def test_random_overrides(overrides: list[str]) -> None:
    check(BASE, overrides)


@given(st.from_regex(re.compile(r"[-+.0-9_eExobaf:naI]{1,12}", re.ASCII), fullmatch=True))
@settings(max_examples=300)
def test_scalars_read_as_numbers_only_what_python_reads_as_the_same_number(text: str) -> None:
    with suppress(TooManyDigits):
        value = resolve_scalar(text)
        if isinstance(value, float) and value == value and "inf" not in text.lower():
            assert value == float(text)
        elif isinstance(value, int) and not isinstance(value, bool):
            decimal = float(text) if not text.startswith(("0x", "0o")) else float(int(text, 0))
            assert float(value) == decimal


@given(
    st.lists(st.dictionaries(st.sampled_from(KEYS), trees, max_size=3), min_size=1, max_size=3),
    st.sampled_from(all_paths(RunConfig)),
    trees,
)
def test_random_stages(stages: list[dict[str, object]], path: Path, value: object) -> None:
    named = [{**stage, "name": f"stage{index}"} for index, stage in enumerate(stages)]
    text = yaml.safe_dump({"name": "x", "games": ["pgx:connect_four"], "stages": named}, allow_unicode=True)
    check(text, [])
    with suppress(ValueError):
        check(text, [".".join(map(str, path)) + "=" + json.dumps(value)])
