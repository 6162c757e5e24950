"""What a plain (unquoted) YAML scalar means: the core schema of YAML 1.2.

So `no` and `on` are text, `1e-3` is a number, `010` is ten and `1:30` is text. Two additions, both of which other YAML
readers agree with: digits may be grouped (`10_000_000`), and a whole number may be written with an exponent (`1e7`).
"""

from __future__ import annotations

import math
import re

Scalar = str | int | float | bool | None

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+(_[0-9]+)*")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_WHOLE_WITH_EXPONENT = re.compile(r"([-+]?[0-9]{1,20})[eE]\+?([0-9]{1,2})")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(_[0-9]+)*(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(inf|Inf|INF)")
_NAN = frozenset({".nan", ".NaN", ".NAN"})

MAX_DIGITS = 300


class TooManyDigits(ValueError):
    """A number is longer than any that a config can need."""


def resolve_scalar(text: str) -> Scalar:
    """Give a plain scalar its value.

    Raises:
        TooManyDigits: the text is a number of more than `MAX_DIGITS` characters.
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text[0] not in "+-.0123456789":
        return text
    return _resolve_number(text)


def _resolve_number(text: str) -> Scalar:
    if _FLOAT.fullmatch(text) or _HEX.fullmatch(text) or _OCTAL.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise TooManyDigits
        return _read_number(text)
    if infinite := _INFINITE.fullmatch(text):
        return -math.inf if infinite[1] == "-" else math.inf
    return math.nan if text in _NAN else text


def _read_number(text: str) -> int | float:
    if _INT.fullmatch(text):
        return int(text)
    if text.startswith(("0o", "0x")):
        return int(text, 0)
    if whole := _WHOLE_WITH_EXPONENT.fullmatch(text):
        return int(whole[1] + "0" * int(whole[2]))
    return float(text)
