"""An error of a plugin names the plugin's own file, line and function, and its traceback is logged once."""

from __future__ import annotations

import importlib.metadata
import logging
import sys
from pathlib import Path

import pytest

from ludus import plugin_frames, plugins
from ludus.errors import ConfigError, EnvError, boundary, describe
from ludus.plugin_frames import in_words, plugin_place, plugin_trace
from ludus.plugins import Registry, load_plugins

TEXT = """
import json

from ludus.errors import EnvError


def act(text):
    return look_up(json.loads(text))


def look_up(found):
    return found["move"]
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> dict[str, object]:
    """The names of a plugin whose `act` fails on most texts."""
    monkeypatch.setattr(plugin_frames, "_folders", set())
    monkeypatch.setattr(plugin_frames, "_logged", set())
    monkeypatch.chdir(tmp_path)
    file = tmp_path / f"{request.node.name}.py"
    file.write_text(TEXT)
    load_plugins([file])
    return vars(sys.modules[f"ludus_plugin_{file.stem}"])


def failure(act: object, text: str) -> Exception:
    try:
        act(text)  # type: ignore[operator]
    except Exception as error:
        return error
    raise AssertionError("it did not fail")


def test_the_innermost_line_of_the_plugin_is_named(plugin: dict[str, object], request: pytest.FixtureRequest) -> None:
    file = f"{request.node.name}.py"
    error = failure(plugin["act"], "{}")
    assert in_words(error) == describe(error) == f"KeyError: 'move' ({file}:12, in look_up)"
    # Raised inside a library: the plugin's own line, not the library's.
    assert plugin_place(failure(plugin["act"], "{")) == f"{file}:8, in act"


def test_an_error_that_has_nothing_to_do_with_plugins_has_no_place(plugin: dict[str, object]) -> None:
    assert in_words(failure(int, "x")) == "ValueError: invalid literal for int() with base 10: 'x'"
    assert describe(EnvError("illegal")) == "EnvError: illegal"


def test_the_trace_has_the_plugins_frames_alone(plugin: dict[str, object]) -> None:
    trace = plugin_trace(failure(plugin["act"], "{"))
    assert [line.split(", in ")[-1] for line in trace.splitlines() if line.startswith("  File")] == ["act"]
    assert trace.splitlines()[-1].startswith("json.decoder.JSONDecodeError")


def test_a_boundary_tells_the_place_and_logs_the_traceback_once(
    plugin: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(3):
        told = r"^race: KeyError: 'move' \(.*\.py:12, in look_up\)$"
        with pytest.raises(EnvError, match=told), boundary(EnvError, "race"):
            plugin["act"]("{}")  # type: ignore[operator]
    assert caplog.text.count("Traceback (most recent call last)") == 1


def test_a_plugin_that_fails_while_it_is_loaded_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "fails_at_once.py"
    file.write_text("import os\n\nregister = None\nregister('x')\n")
    with pytest.raises(ConfigError, match=r"fails_at_once.py: TypeError: .*fails_at_once.py:4, in <module>\)"):
        load_plugins([file])


def test_an_installed_package_is_the_users_own_code_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_frames, "_packages", set())
    point = importlib.metadata.EntryPoint("loads", "json:loads", "ludus.test_own")
    monkeypatch.setattr(plugins, "entry_points", lambda group: {"loads": point} if group == "ludus.test_own" else {})
    registry: Registry[object] = Registry("thing", "ludus.test_own")
    try:
        place = plugin_place(failure(registry.find("loads"), "{"))
    finally:
        Registry.every.remove(registry)
    assert "json/decoder.py:" in place
