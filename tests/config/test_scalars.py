"""Plain scalars mean what YAML 1.2's core schema says."""

from __future__ import annotations

import math

import pytest

from ludus.config.loading.yaml_text import Scalar, TooManyDigits, resolve_scalar


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("FALSE", False),
        ("no", "no"),
        ("on", "on"),
        ("Off", "Off"),
        ("y", "y"),
        ("12", 12),
        ("-7", -7),
        ("+3", 3),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("10_000_000", 10_000_000),
        ("1e7", 10_000_000),
        ("2E+3", 2000),
        ("1e-3", 0.001),
        ("1.5e3", 1500.0),
        (".5", 0.5),
        ("3.", 3.0),
        ("1:30", "1:30"),
        ("1:30:00", "1:30:00"),
        ("2026-11-15", "2026-11-15"),
        ("1_", "1_"),
        ("_1", "_1"),
        ("1__0", "1__0"),
        ("0,01", "0,01"),
        ("0b11", "0b11"),
        ("1e", "1e"),
        ("-", "-"),
        (".", "."),
        ("<<", "<<"),
        ("١٢", "١٢"),
    ],
)
def test_a_plain_scalar_has_the_value_of_the_core_schema(text: str, value: Scalar) -> None:
    found = resolve_scalar(text)
    assert (found, type(found)) == (value, type(value))


def test_infinite_and_nan_are_numbers_that_the_schema_can_refuse() -> None:
    assert resolve_scalar(".inf") == math.inf
    assert resolve_scalar("-.INF") == -math.inf
    nan = resolve_scalar(".nan")
    assert isinstance(nan, float)
    assert math.isnan(nan)


@pytest.mark.parametrize("text", ["9" * 5000, "0x" + "f" * 5000, "1." + "0" * 5000, "1e" + "9" * 5000])
def test_a_number_of_absurd_length_is_refused_before_it_is_read(text: str) -> None:
    with pytest.raises(TooManyDigits):
        resolve_scalar(text)


def test_a_huge_exponent_stays_a_float() -> None:
    assert resolve_scalar("1e999") == math.inf
