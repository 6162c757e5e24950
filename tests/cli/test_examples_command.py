"""`ludus examples`: every example is listed, can be read and can be copied, and nothing is overwritten."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ludus.cli.app import app
from ludus.cli.examples import example_folder
from ludus.errors import ConfigError

RUNNER = CliRunner()


def listed() -> dict[str, str]:
    answer = json.loads(RUNNER.invoke(app, ["examples", "--json"]).stdout)
    return dict(answer["examples"])


def test_every_config_and_plugin_is_listed_with_a_sentence() -> None:
    expected = {path.relative_to(example_folder()).as_posix() for path in example_folder().rglob("*.yaml")}
    assert expected
    assert expected <= listed().keys()
    for name, title in listed().items():
        assert title.endswith("."), name
        assert len(title) > 8, name


def test_one_is_shown_as_it_is() -> None:
    shown = RUNNER.invoke(app, ["examples", "kuhn_poker"]).stdout
    assert shown == (example_folder() / "kuhn_poker.yaml").read_text()


def test_a_folder_is_copied_with_its_plugins(tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["examples", "plugins", "--copy", str(tmp_path)])
    assert result.exit_code == 0
    for name in listed():
        if name.startswith("plugins/"):
            assert (tmp_path / name).read_bytes() == (example_folder() / name).read_bytes()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    mine = tmp_path / "kuhn_poker.yaml"
    mine.write_text("mine")
    result = RUNNER.invoke(app, ["examples", "--copy", str(tmp_path)])
    assert isinstance(result.exception, ConfigError)
    assert "kuhn_poker.yaml: there already" in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["kuhn_poker.yaml"]
    assert mine.read_text() == "mine"


def test_an_unknown_name_is_refused() -> None:
    result = RUNNER.invoke(app, ["examples", "../pyproject"])
    with pytest.raises(ConfigError, match="ludus examples"):
        raise result.exception or AssertionError(result.stdout)


@pytest.mark.parametrize(
    ("name", "meant"), [("kuhn_pokr", "kuhn_poker.yaml"), ("plugin", "plugins"), ("nimm", "plugins/nim")]
)
def test_a_misspelt_name_is_answered_with_the_nearest(name: str, meant: str) -> None:
    result = RUNNER.invoke(app, ["examples", name])
    with pytest.raises(ConfigError, match=f"did you mean .*{meant}"):
        raise result.exception or AssertionError(result.stdout)
