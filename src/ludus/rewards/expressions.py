"""Reads an expression such as `2\\sqrt{3}+\\frac{1}{2}x^2` into a tree, and evaluates it. Nothing runs as code.

    sum      = product (("+" | "-") product)*
    product  = signed (("*" | "/") signed | power)*        2x, 3\\pi: a factor may follow without a sign
    signed   = ("+" | "-") signed | power
    power    = atom ("!")* ("^" signed)?
    atom     = number | letter | "(" sum ")" | "|" sum "|" | \\frac{}{} | \\sqrt[]{} | function atom

A value is exact while it is a fraction, else a complex float.

Invariant: reading takes time in proportion to the text, which is bounded, and so is the depth. Every operation is
bounded: numbers that would need more than `MOST_BITS` become floats or nothing at all, so 9^9^9^9 is refused at once.
"""

from __future__ import annotations

import cmath
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

Number = Fraction | complex

MOST_BITS = 4096
MOST_FACTORIAL = 300
MOST_CHARS = 600
MOST_DEPTH = 40
MOST_TOKENS = 250
MOST_DIGITS = 400
FUNCTIONS = {
    "sqrt": cmath.sqrt,
    "sin": cmath.sin,
    "cos": cmath.cos,
    "tan": cmath.tan,
    "ln": cmath.log,
    "log": cmath.log10,
    "exp": cmath.exp,
}
CONSTANTS = ("pi",)

_TOKEN = re.compile(r"\s*(?:(?P<number>\d+(?:\.\d*)?|\.\d+)|\\(?P<command>[a-zA-Z]+)|(?P<letter>[a-zA-Z])|(?P<sign>.))")
_DECIMAL = re.compile(r"([-+]?)(\d*)(?:\.(\d*))?(?:[eE]([-+]?\d{1,4}))?")


class Unreadable(ValueError):
    """The text is no expression that this parser knows."""


@dataclass(frozen=True, slots=True)
class Node:
    """A number, a letter, or an operation on other nodes."""

    kind: str
    """`number`, `letter`, one of `+ - * / ^ ! neg abs root`, or the name of a function or constant."""
    parts: tuple[Node, ...] = ()
    value: Fraction = Fraction(0)
    name: str = ""


def parse(text: str) -> Node:
    """The tree of an expression. Raises Unreadable if it is none."""
    if len(text) > MOST_CHARS or len(tokens := _tokens(text)) > MOST_TOKENS:
        raise Unreadable("too long")
    reader = _Reader(tokens)
    tree = reader.read_sum(0)
    if reader.next is not None:
        raise Unreadable(f"{reader.next} is left over")
    return tree


def read_number(text: str) -> Fraction | None:
    """A number such as `-1,234.5e6`; None when it is none, or too long to be one that was meant."""
    plain = text.strip().replace(",", "")
    match = _DECIMAL.fullmatch(plain) if len(plain) <= MOST_DIGITS else None
    if match is None or not (match[2] or match[3]):
        return None
    exponent = int(match[4] or 0)
    if abs(exponent) > MOST_DIGITS:
        return None
    digits = int((match[2] or "") + (match[3] or ""))
    value = Fraction(digits) * Fraction(10) ** (exponent - len(match[3] or ""))
    return -value if match[1] == "-" else value


Token = tuple[str, str]


def _tokens(text: str) -> list[Token]:
    return [(str(match.lastgroup), match[str(match.lastgroup)]) for match in _TOKEN.finditer(text.rstrip())]


class _Reader:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._place = 0

    @property
    def next(self) -> Token | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def read_sum(self, depth: int) -> Node:
        if depth > MOST_DEPTH:
            raise Unreadable("nested too deeply")
        tree = self._product(depth)
        while (sign := self._take("+", "-")) is not None:
            tree = Node(sign, (tree, self._product(depth)))
        return tree

    def _product(self, depth: int) -> Node:
        tree = self._signed(depth)
        while True:
            sign = self._take("*", "/")
            if sign is not None:
                tree = Node(sign, (tree, self._signed(depth)))
            elif self._begins_factor():
                factor = self._power(depth)
                # 1\frac{1}{2} is one and a half.
                is_mixed = tree.kind == "number" and factor.kind == "frac"
                tree = Node("+" if is_mixed else "*", (tree, factor))
            else:
                return tree

    def _signed(self, depth: int) -> Node:
        if depth > MOST_DEPTH:
            raise Unreadable("nested too deeply")
        sign = self._take("+", "-")
        if sign is None:
            return self._power(depth)
        inner = self._signed(depth + 1)
        return Node("neg", (inner,)) if sign == "-" else inner

    def _power(self, depth: int) -> Node:
        tree = self._atom(depth)
        while self._take("!") is not None:
            tree = Node("!", (tree,))
        if self._take("^") is None:
            return tree
        exponent = self._group(depth) if self.next == ("sign", "{") else self._signed(depth + 1)
        return Node("^", (tree, exponent))

    def _atom(self, depth: int) -> Node:
        token = self.next
        if token is None:
            raise Unreadable("it ends too early")
        self._place += 1
        match token:
            case ("number", digits):
                value = read_number(digits)
                if value is None:
                    raise Unreadable("a number is too long")
                return Node("number", value=value)
            case ("letter", name):
                return Node("letter", name=name)
            case ("sign", "(" | "[" | "{" | "|" as opened):
                inner = self.read_sum(depth + 1)
                self._expect({"(": ")", "[": "]", "{": "}", "|": "|"}[opened])
                return Node("abs", (inner,)) if opened == "|" else inner
            case ("command", name):
                return self._command(name, depth)
        raise Unreadable(f"{token[1]} is not known")

    def _command(self, name: str, depth: int) -> Node:
        if name == "frac":
            return Node("frac", (self._argument(depth), self._argument(depth)))
        if name == "sqrt" and self._take("["):
            degree = self.read_sum(depth + 1)
            self._expect("]")
            return Node("root", (self._argument(depth), degree))
        if name in FUNCTIONS:
            return Node(name, (self._argument(depth),))
        if name in CONSTANTS:
            return Node(name)
        if len(name) > 1 and name in ("alpha", "beta", "gamma", "delta", "theta", "lambda", "mu", "omega", "phi"):
            return Node("letter", name=name)
        raise Unreadable(f"\\{name} is not known")

    def _argument(self, depth: int) -> Node:
        """What a command applies to: a group in braces, or the one thing that follows; of \\frac12, one digit each."""
        token = self.next
        if token == ("sign", "{"):
            return self._group(depth)
        if token is not None and token[0] == "number" and len(token[1]) > 1 and token[1].isdigit():
            self._tokens[self._place : self._place + 1] = [("number", token[1][0]), ("number", token[1][1:])]
        return self._power(depth + 1) if token is not None and token[0] != "number" else self._atom(depth + 1)

    def _group(self, depth: int) -> Node:
        self._expect("{")
        inner = self.read_sum(depth + 1)
        self._expect("}")
        return inner

    def _begins_factor(self) -> bool:
        match self.next:
            case ("letter", _) | ("sign", "(" | "{"):
                return True
            case ("command", name):
                return name == "frac" or name in FUNCTIONS or name in CONSTANTS
        return False

    def _take(self, *signs: str) -> str | None:
        token = self.next
        if token is None or token[0] != "sign" or token[1] not in signs:
            return None
        self._place += 1
        return token[1]

    def _expect(self, sign: str) -> None:
        if self._take(sign) is None:
            raise Unreadable(f"{sign} is missing")


def evaluate(tree: Node, letters: Mapping[str, Number]) -> Number:
    """The value of a tree where letters have these values. Raises Unreadable if it has none, or it is out of bounds."""
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
            return FUNCTIONS[name](complex(a))
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
