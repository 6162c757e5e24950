"""A run's directory says which plugins it was started with; nothing of that is ever loaded, only named."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ludus import plugins
from ludus.errors import ConfigError
from ludus.games import make_game
from ludus.plugins import expect_plugins, plugin_hint
from ludus.runs.plugin_record import recall_plugins, record_plugins
from ludus.storage.run_directory import RunDirectory


@pytest.fixture(autouse=True)
def nothing_expected(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(plugins, "_FILES", {})
    yield
    expect_plugins({})


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text("raise AssertionError('loaded')\n")
    return file


def test_an_unknown_name_is_answered_with_the_plugin_that_the_run_was_started_with(
    tmp_path: Path, plugin: Path
) -> None:
    run = RunDirectory(tmp_path)
    record_plugins(run, [str(plugin)])
    recall_plugins(run)
    with pytest.raises(ConfigError, match=f"game mine: no such game.*started with a plugin; add --plugin {plugin}$"):
        make_game("mine")


def test_a_plugin_that_has_changed_or_is_gone_is_said_to_be_so(
    tmp_path: Path, plugin: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = RunDirectory(tmp_path)
    record_plugins(run, [str(plugin)])
    plugin.write_text("x = 1\n")
    recall_plugins(run)
    assert plugin_hint().endswith(f"add --plugin {plugin} ({plugin} has changed since)")
    with caplog.at_level(logging.WARNING):
        record_plugins(run, [str(plugin)])
    assert f"{plugin} has changed since the run's last start" in caplog.text
    plugin.unlink()
    recall_plugins(run)
    assert plugin_hint().endswith(f"({plugin} is gone)")


def test_a_plugin_that_is_given_is_not_asked_for(tmp_path: Path, plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDirectory(tmp_path)
    record_plugins(run, [str(plugin)])
    monkeypatch.setattr(plugins, "_FILES", {str(plugin): None})
    recall_plugins(run)
    assert plugin_hint() == "one of your own needs --plugin FILE"


@pytest.mark.parametrize("text", ["", "[]", '{"plugins": 3}', '{"plugins": [3]}', "{"])
def test_a_record_that_says_nothing_sound_is_passed_over(tmp_path: Path, text: str) -> None:
    run = RunDirectory(tmp_path)
    run.plugins.write_text(text)
    recall_plugins(run)
    assert plugin_hint() == "one of your own needs --plugin FILE"


def test_a_start_without_plugins_forgets_those_of_the_last(tmp_path: Path, plugin: Path) -> None:
    run = RunDirectory(tmp_path)
    record_plugins(run, [])
    assert not run.plugins.exists()
    record_plugins(run, [str(plugin)])
    record_plugins(run, [])
    assert json.loads(run.plugins.read_text()) == {"plugins": []}
