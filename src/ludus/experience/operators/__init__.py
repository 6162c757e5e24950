"""Operators: from raw rows to verified ones, group by group."""

from ludus.experience.operators.protocol import Operator, Verdict
from ludus.experience.operators.registry import OPERATORS, make_operator, register_operator

__all__ = ["OPERATORS", "Operator", "Verdict", "make_operator", "register_operator"]
