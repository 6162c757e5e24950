"""What `ludus run` says at the end about experience that was refused, and about plugins."""

from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from ludus import plugins
from ludus.cli.summary import find_standing, plugin_options, print_refused
from ludus.storage.catalog import Catalog


def test_refused_sequences_are_named_with_their_reasons(tmp_path: Path) -> None:
    path, said = tmp_path / "catalog.sqlite", StringIO()
    loop: Any = SimpleNamespace(run=SimpleNamespace(catalog=path))
    status: Any = SimpleNamespace(run_dir="runs/five")
    console = Console(file=said, width=200)
    with Catalog(path) as catalog:
        print_refused(console, loop, status)
        assert said.getvalue() == ""
        with catalog.transaction():
            catalog.execute(
                "INSERT INTO refused VALUES(?, ?, ?)", ("out_of_range", 1211, "episode a: 3\nepisode b: 4 (my.py:9)")
            )
    print_refused(console, loop, status)
    assert "refused sequences: out_of_range: 1,211" in said.getvalue()
    assert "inspect runs/five" in said.getvalue()
    assert "\n  out_of_range: episode b: 4 (my.py:9)\n" in said.getvalue()


def test_a_hint_about_a_run_names_the_plugins_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_FILES", {})
    assert plugin_options() == ""
    monkeypatch.setattr(plugins, "_FILES", {"/work/five.py": None})
    assert plugin_options() == " --plugin /work/five.py"


def test_there_is_no_ladder_where_nobody_is_rated(tmp_path: Path) -> None:
    """As after a run whose evaluation games are all held out."""
    path = tmp_path / "catalog.sqlite"
    loop: Any = SimpleNamespace(run=SimpleNamespace(catalog=path), config=SimpleNamespace(games=("chess:standard",)))
    with Catalog(path):
        assert find_standing(loop) is None
