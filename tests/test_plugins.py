"""The registry that serves every kind of plugin, and the files that fill it."""

import importlib.metadata
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ludus
from ludus import plugins
from ludus.errors import ConfigError
from ludus.plugins import Registry, load_plugins, plugin_files


@pytest.fixture
def fruits() -> Iterator[Registry[str]]:
    registry = Registry("fruit", "ludus.test_fruits", built_in={"apple": "red"}, reserved=("pear",))
    yield registry
    Registry.every.remove(registry)


def test_what_is_added_is_found_beside_what_is_built_in(fruits: Registry[str]) -> None:
    fruits.add("plum", "blue")
    fruits.add("plum", "blue")
    assert (fruits.find("plum"), fruits.find("apple"), fruits.get("fig")) == ("blue", "red", None)
    assert fruits.names() == ["apple", "pear", "plum"]
    assert "plum" in fruits
    assert "fig" not in fruits


@pytest.mark.parametrize("name", ["apple", "pear", "", "Plum", "a b", "a" * 33, "../x"])
def test_a_name_that_is_taken_or_no_name_is_refused(fruits: Registry[str], name: str) -> None:
    with pytest.raises(ConfigError, match=r"expected a new name of small letters.*taken are apple, pear"):
        fruits.add(name, "grey")


def test_two_things_under_one_name_are_refused(fruits: Registry[str]) -> None:
    fruits.add("plum", "blue")
    with pytest.raises(ConfigError, match="fruit 'plum' is registered already, as something else"):
        fruits.add("plum", "yellow")
    assert fruits.find("plum") == "blue"


def test_an_unknown_name_is_answered_with_the_nearest(fruits: Registry[str]) -> None:
    with pytest.raises(ConfigError, match=r"fruit 'aple': no such fruit; did you mean apple\?"):
        fruits.find("aple")
    with pytest.raises(ConfigError, match="there are apple, pear; one of your own needs --plugin FILE"):
        fruits.find("xyz")


def test_an_entry_point_is_loaded_when_it_is_asked_for(fruits: Registry[str], monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("digits", "string:digits", fruits.group)
    monkeypatch.setattr(plugins, "entry_points", lambda group: {"digits": point} if group == fruits.group else {})
    assert "digits" in fruits
    assert fruits.find("digits") == "0123456789"
    assert fruits.names() == ["apple", "digits", "pear"]


def test_a_file_is_run_once_and_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_FILES", {})
    file = tmp_path / "counting.py"
    file.write_text("from pathlib import Path\nwith open(Path(__file__).with_name('runs'), 'a') as f: f.write('x')\n")
    load_plugins([file, str(file)])
    load_plugins([file])
    assert (tmp_path / "runs").read_text() == "x"
    assert plugin_files() == [str(file)]


@pytest.mark.parametrize(("text", "problem"), [(None, "no such file"), ("1 / 0", "ZeroDivisionError"), ("(", "Syntax")])
def test_a_file_that_cannot_be_run_is_refused_with_the_reason(tmp_path: Path, text: str | None, problem: str) -> None:
    file = tmp_path / "broken.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        load_plugins([file])
    assert str(file) not in plugin_files()


def test_every_part_has_a_recipe_and_an_entry_point_group() -> None:
    root = Path(__file__).parents[1]
    pages = "".join(page.read_text() for page in (root / "docs").rglob("*.md"))
    functions = [getattr(ludus, name) for name in ludus.__all__ if name.startswith("register_")]
    assert [one.__name__ for one in functions if one.__name__ not in pages] == []
    groups = {registry.group for registry in Registry.every}
    assert len(groups) >= 20
    assert groups <= set(re.findall(r"ludus\.[a-z_]+", (root / "pyproject.toml").read_text()))
