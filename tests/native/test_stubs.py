"""The stubs name exactly what the native module has."""

import ast
from pathlib import Path

import pytest

ludus_chess = pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from ludus_chess import _native  # noqa: E402


def stub() -> ast.Module:
    return ast.parse((Path(ludus_chess.__file__).parent / "_native.pyi").read_text())


def names_of(body: list[ast.stmt]) -> set[str]:
    named = {node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    values = {node.target.id for node in body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    return named | values


def public(names: object) -> set[str]:
    return {name for name in vars(names) if not name.startswith("_")}


def test_the_stubs_name_what_the_module_has() -> None:
    assert {n for n in names_of(stub().body) if not n.startswith("_")} == public(_native)


def test_the_stubs_name_what_each_class_has() -> None:
    for node in stub().body:
        if isinstance(node, ast.ClassDef):
            inside = {name for name in names_of(node.body) if not name.startswith("_")}
            assert inside == public(getattr(_native, node.name)), node.name


def test_what_the_package_exports_is_there() -> None:
    assert [name for name in ludus_chess.__all__ if not hasattr(ludus_chess, name)] == []
