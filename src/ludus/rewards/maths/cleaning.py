"""LaTeX as it stands in answers, made plainer: what does not change the value goes, what remains is for the parser.

Every step is a replacement in linear time.
"""

from __future__ import annotations

import re

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
