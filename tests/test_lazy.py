"""Packages whose names are imported when they are first used."""

from __future__ import annotations

import importlib

import pytest

from ludus.lazy import _homes

LIGHT = ["ludus", *(f"ludus.{room}" for room in ("daemon", "http", "ingest", "lm", "monitor", "storage", "train"))]


@pytest.mark.parametrize("package", LIGHT)
def test_what_is_imported_later_is_what_the_package_offers(package: str) -> None:
    offered = importlib.import_module(package).__all__
    assert _homes(package).keys() <= set(offered)


@pytest.mark.parametrize("package", LIGHT)
def test_unknown_name_is_an_attribute_error_that_names_the_package(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = importlib.import_module(package).nothing
