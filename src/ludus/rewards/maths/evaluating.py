"""The number that an expression stands for: exact while it is a fraction, else a complex float.

Invariant: every operation is bounded: numbers that would need more than `MOST_BITS` become floats or nothing at all, so
9^9^9^9 is refused at once.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping
from fractions import Fraction

from ludus.rewards.maths.parsing import Node, Unreadable

Number = Fraction | complex

MOST_BITS = 4096
MOST_FACTORIAL = 300
_FUNCTIONS = {
    "sqrt": cmath.sqrt,
    "sin": cmath.sin,
    "cos": cmath.cos,
    "tan": cmath.tan,
    "ln": cmath.log,
    "log": cmath.log10,
    "exp": cmath.exp,
}


def evaluate(tree: Node, letters: Mapping[str, Number]) -> Number:
    """The value of a tree where letters have these values.

    Raises:
        Unreadable: it has none, or it is out of bounds.
    """
    try:
        return _value(tree, letters)
    except (ArithmeticError, ValueError) as error:
        raise Unreadable(str(error) or type(error).__name__) from None


def _value(tree: Node, letters: Mapping[str, Number]) -> Number:
    if tree.kind == "number":
        return tree.value
    if tree.kind == "letter":
        return letters[tree.name]
    if tree.kind == "pi":
        return complex(math.pi)
    values = [_value(part, letters) for part in tree.parts]
    match tree.kind, values:
        case "+", [a, b]:
            return _bounded(a + b)
        case "-", [a, b]:
            return _bounded(a - b)
        case "*", [a, b]:
            return _bounded(a * b)
        case (("/" | "frac"), [a, b]):
            return _bounded(a / b)
        case "^", [a, b]:
            return _power(a, b)
        case "neg", [a]:
            return -a
        case "abs", [a]:
            return abs(a) if isinstance(a, Fraction) else complex(abs(a))
        case "!", [a]:
            return _factorial(a)
        case "root", [a, b]:
            return _power(a, Fraction(1) / b if isinstance(b, Fraction) else 1 / b)
        case "sqrt", [Fraction() as a] if (root := _exact_root(a)) is not None:
            return root
        case name, [a]:
            return _FUNCTIONS[name](complex(a))
    raise Unreadable(f"{tree.kind} is not known")


def _bounded(value: Number) -> Number:
    if isinstance(value, Fraction):
        is_small = max(value.numerator.bit_length(), value.denominator.bit_length()) <= MOST_BITS
        return value if is_small else complex(float(value))
    return value


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if bits * abs(exponent.numerator) <= MOST_BITS:
            return base**exponent.numerator
        raise Unreadable("a power is too large")
    if isinstance(base, Fraction) and exponent == Fraction(1, 2) and (root := _exact_root(base)) is not None:
        return root
    real = complex(base)
    is_odd_root = isinstance(exponent, Fraction) and exponent.denominator % 2 == 1
    if is_odd_root and real.imag == 0 and real.real < 0:
        sign = -1.0 if isinstance(exponent, Fraction) and exponent.numerator % 2 else 1.0
        return complex(sign * (-real.real) ** float(complex(exponent).real))
    return real ** complex(exponent)


def _exact_root(value: Fraction) -> Fraction | None:
    """The square root, where it is a fraction."""
    if value < 0:
        return None
    above, below = math.isqrt(value.numerator), math.isqrt(value.denominator)
    root = Fraction(above, below) if below else None
    return root if root is not None and root * root == value else None


def _factorial(value: Number) -> Number:
    if not isinstance(value, Fraction) or value.denominator != 1 or not 0 <= value <= MOST_FACTORIAL:
        raise Unreadable("a factorial is not that of a small whole number")
    return _bounded(Fraction(math.factorial(value.numerator)))
