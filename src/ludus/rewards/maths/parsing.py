"""Reads an expression such as `2\\sqrt{3}+\\frac{1}{2}x^2` into a tree.

    sum      = product (("+" | "-") product)*
    product  = signed (("*" | "/") signed | power)*        2x, 3\\pi: a factor may follow without a sign
    signed   = ("+" | "-") signed | power
    power    = atom ("!")* ("^" signed)?
    atom     = number | letter | "(" sum ")" | "|" sum "|" | \\frac{}{} | \\sqrt[]{} | function atom

Invariant: reading takes time in proportion to the text, which is bounded, and so is the depth. Nothing is evaluated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from ludus.rewards.numeric import read_number

MOST_CHARS = 600
MOST_DEPTH = 40
MOST_TOKENS = 250
FUNCTIONS = ("sqrt", "sin", "cos", "tan", "ln", "log", "exp")
CONSTANTS = ("pi",)

_TOKEN = re.compile(r"\s*(?:(?P<number>\d+(?:\.\d*)?|\.\d+)|\\(?P<command>[a-zA-Z]+)|(?P<letter>[a-zA-Z])|(?P<sign>.))")


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
    """The tree of an expression.

    Raises:
        Unreadable: it is none.
    """
    if len(text) > MOST_CHARS:
        raise Unreadable("too long")
    tokens = _tokens(text)
    if len(tokens) > MOST_TOKENS:
        raise Unreadable("too long")
    reader = _Reader(tokens)
    tree = reader.read_sum(0)
    if reader.next is not None:
        raise Unreadable(f"{reader.next} is left over")
    return tree


Token = tuple[str, str]


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text.rstrip()):
        kind = str(match.lastgroup)
        tokens.append((kind, match[kind]))
    return tokens


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
