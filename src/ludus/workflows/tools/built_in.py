"""Tools that ludus brings. `calculator`: arithmetic, by the parser that rewards use for answers. Nothing is executed;
time and size of a result are bounded: 9^9^9^9 is refused at once. `python`: a program of the model's, in a sandbox."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from fractions import Fraction

from ludus.rewards.expressions import CONSTANTS, FUNCTIONS, Number, Unreadable, evaluate, parse
from ludus.sandbox.sandbox import Sandbox
from ludus.workflows.tools.tool import ToolError

_WORDS = re.compile(r"(?<![\\A-Za-z])(" + "|".join((*FUNCTIONS, *CONSTANTS)) + r")(?![A-Za-z])")
_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "\n": " "})
_TINY = 1e-12
MOST_COMPLAINT = 400


def calculator(expression: str) -> str:
    """Works out an arithmetic expression: + - * / ^ ( ) ! sqrt sin cos tan ln log exp pi."""
    text = _WORDS.sub(r"\\\1", expression.translate(_SIGNS).replace("**", "^"))
    try:
        return write_number(evaluate(parse(text), {}))
    except KeyError as letter:
        raise ToolError(f"{letter.args[0]} has no value; write numbers only") from None
    except Unreadable as problem:
        raise ToolError(f"{expression[:60]!r} cannot be worked out: {problem}") from None


def write_number(value: Number) -> str:
    """A number as a person writes it: whole ones in full, others with twelve digits."""
    if isinstance(value, Fraction):
        return str(value.numerator) if value.denominator == 1 else f"{float(value):.12g}"
    if abs(value.imag) <= _TINY * max(abs(value.real), 1.0):
        return f"{value.real:.12g}"
    return f"{value.real:.12g}{value.imag:+.12g}i"


def make_python(sandbox: Sandbox) -> Callable[..., Awaitable[str]]:
    """The function behind the tool; the sandbox is whose it was."""

    async def python(code: str, seed: int) -> str:
        """Runs a Python program and returns what it prints."""
        ran = await sandbox.run(code, seed=seed)
        printed = ran.stdout.rstrip("\n")
        if ran.ended.is_clean:
            return printed or "(it printed nothing)"
        complaint = ran.stderr.strip()[-MOST_COMPLAINT:]
        return "\n".join(part for part in (printed, f"(the program {ran.ended})", complaint) if part)

    return python
