"""Whether two answers are the same as mathematics.

LaTeX is first made plainer, by replacements in linear time: what does not change the value goes. Numbers are compared
as numbers, expressions with letters at three points, tuples and intervals part by part, sets and lists of solutions in
any order, and what cannot be read as text without spaces and case.

Covered: fractions, decimals, powers, roots, pi, elementary functions, polynomials and the like, equations `x = ...`,
tuples, intervals and their unions, sets. Not covered, so compared as text: matrices, inequalities, words.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from hashlib import blake2b

from ludus.rewards.expressions import MOST_CHARS, Node, Number, Unreadable, evaluate, parse

_NOTHING = (
    *("\\left", "\\right", "\\bigl", "\\bigr", "\\Bigl", "\\Bigr", "\\big", "\\Big", "\\displaystyle", "\\!", "\\,"),
    *("\\;", "\\:", "\\ ", "\\$", "$", "\\%", "%", "^\\circ", "^{\\circ}", "\\circ", "°", "\\(", "\\)", "\\[", "\\]"),
)
"""What is left out. Of 50% the number counts, as in the common sets of problems."""
_SAME = {
    "\\dfrac": "\\frac",
    "\\tfrac": "\\frac",
    "\\cfrac": "\\frac",
    "\\cdot": "*",
    "\\times": "*",
    "\\div": "/",
    "\\ast": "*",
    "\\lbrace": "\\lset ",
    "\\rbrace": "\\rset ",
    "\\{": "\\lset ",
    "\\}": "\\rset ",
    "\\cup": "\\union ",
    "\\neq": "\\ne",
    "\\leq": "\\le",
    "\\geq": "\\ge",
    "\\varnothing": "\\emptyset",
    "**": "^",
    "×": "*",
    "·": "*",
    "÷": "/",
    "−": "-",
    "–": "-",
    "π": "\\pi ",
    "∞": "\\infty ",
    "√": "\\sqrt ",
    "≤": "\\le ",
    "≥": "\\ge ",
    "\u222a": "\\union ",
    "²": "^2",
    "³": "^3",
    "½": "(1/2)",
}
_UNIT = re.compile(r"\\(?:text|mathrm|mbox|textrm|operatorname)\s?\{[a-zA-Z./ ]{1,60}(?:\^?\d)?\}\s{0,4}$")
"""Words at the end of an answer, such as \\text{ cm}."""
_WRAPPED = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mathit|mbox|textrm|operatorname)\s?\{([^{}]*)\}")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_MIXED = re.compile(r"(?<![\d.])(\d{1,9})\s{1,4}(\d{1,9}/\d{1,9})(?![\d.])")
_SPACE = re.compile(r"(?<=[a-zA-Z0-9])\s+(?=[a-zA-Z0-9])")


def clean(answer: str) -> str:
    """An answer in plainer writing."""
    text = answer.strip().rstrip(".").strip()
    for written, plain in _SAME.items():
        text = text.replace(written, plain)
    text = _without_unit(text)
    text = _WRAPPED.sub(lambda found: found[1], text)
    for mark in _NOTHING:
        text = text.replace(mark, "")
    text = _MIXED.sub(r"(\1+\2)", text.strip())
    return text.replace(",", "") if _THOUSANDS.fullmatch(text) else text


def _without_unit(text: str) -> str:
    """The answer without the words at its end, unless they are all there is."""
    shorter = _UNIT.sub("", text).strip()
    return shorter if any(sign.isdigit() for sign in shorter) else text


def plain_words(cleaned: str) -> str:
    """A cleaned answer as text, for answers that are no numbers: small letters, spaces only between words."""
    return "".join(_SPACE.sub("\0", cleaned.casefold()).split()).replace("\0", " ")


POINTS = 3
MOST_PARTS = 32
_OPENING, _CLOSING = "([{", ")]}"


def are_equal(found: str, wanted: str, *, tolerance: float = 1e-6) -> bool:
    """Whether an answer is the one that was wanted; `tolerance` is for numbers that are not exact, as a share."""
    if not found.strip() or len(found) > MOST_CHARS or len(wanted) > MOST_CHARS:
        return False
    return _same_part(_right_side(clean(found)), _right_side(clean(wanted)), tolerance)


def _right_side(answer: str) -> str:
    """Of `x = 5` or `f(x) = 5`, the 5; other answers as they are."""
    left, sign, right = answer.partition("=")
    is_name = len(left.strip()) <= 6 and left.strip()[:1].isalpha()
    return right.strip() if sign and is_name and "=" not in right else answer


def _same(found: str, wanted: str, tolerance: float) -> bool:
    for split, is_ordered in ((_union, False), (_set, False), (_tuple, True), (_list, False)):
        parts = [split(found), split(wanted)]
        if parts[1] is None:
            continue
        return parts[0] is not None and _same_parts(parts[0], parts[1], tolerance, is_ordered=is_ordered)
    return _same_number(found, wanted, tolerance)


def _same_parts(found: list[str], wanted: list[str], tolerance: float, *, is_ordered: bool) -> bool:
    if len(found) != len(wanted) or len(wanted) > MOST_PARTS:
        return False
    if is_ordered:
        return all(_same_part(one, other, tolerance) for one, other in zip(found, wanted, strict=True))
    left = list(found)
    for part in wanted:
        match = next((one for one in left if _same_part(one, part, tolerance)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _same_part(found: str, wanted: str, tolerance: float) -> bool:
    return plain_words(found) == plain_words(wanted) or _same(found.strip(), wanted.strip(), tolerance)


def _union(answer: str) -> list[str] | None:
    parts = answer.split("\\union")
    return parts if len(parts) > 1 else None


def _set(answer: str) -> list[str] | None:
    if answer.startswith("\\lset") and answer.endswith("\\rset"):
        return _split(answer[len("\\lset") : -len("\\rset")])
    parts = _split(answer[1:-1]) if answer.startswith("{") and answer.endswith("}") else []
    return parts if len(parts) > 1 else None


def _tuple(answer: str) -> list[str] | None:
    """The parts of a tuple or an interval, with its two brackets as the first: (0, 1] is not [0, 1)."""
    if len(answer) < 2 or answer[0] not in "([" or answer[-1] not in ")]":
        return None
    parts = _split(answer[1:-1])
    return [answer[0] + answer[-1], *parts] if len(parts) > 1 else None


def _list(answer: str) -> list[str] | None:
    parts = _split(answer.replace(" or ", ",").replace(" and ", ","))
    return parts if len(parts) > 1 else None


def _split(answer: str) -> list[str]:
    """Cut at the commas that are in no bracket."""
    parts, depth, start = [], 0, 0
    for place, sign in enumerate(answer):
        depth += (sign in _OPENING) - (sign in _CLOSING)
        if sign in ",;" and depth == 0:
            parts.append(answer[start:place])
            start = place + 1
    return [part.strip() for part in (*parts, answer[start:]) if part.strip()]


def _same_number(found: str, wanted: str, tolerance: float) -> bool:
    try:
        trees = parse(found), parse(wanted)
        letters = [_letters(tree) for tree in trees]
        if letters[0] != letters[1]:
            return False
        for point in range(POINTS if letters[0] else 1):
            at = {name: _coordinate(name, point) for name in letters[0]}
            if not _close(evaluate(trees[0], at), evaluate(trees[1], at), tolerance):
                return False
    except (Unreadable, RecursionError):
        return False
    return True


def _letters(tree: Node) -> set[str]:
    own = {tree.name} if tree.kind == "letter" else set()
    return own.union(*map(_letters, tree.parts))


def _coordinate(name: str, point: int) -> Number:
    """Where a letter stands at a point: the same each time, and nothing that an expression would be special at."""
    digest = blake2b(f"{name}/{point}".encode(), digest_size=2).digest()
    return Fraction(int.from_bytes(digest, "little") + 40_009, 65_537)


def _close(one: Number, other: Number, tolerance: float) -> bool:
    if isinstance(one, Fraction) and isinstance(other, Fraction):
        return one == other
    a, b = complex(one), complex(other)
    if not all(map(math.isfinite, (a.real, a.imag, b.real, b.imag))):
        return False
    return abs(a - b) <= tolerance * max(abs(a), abs(b), 1e-9)


__all__ = ["are_equal"]
