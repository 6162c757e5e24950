"""Configs of a study are read once, and each is the one that its file holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from ludus.config import dump_config, load_config, parse_resolved
from ludus.errors import ConfigError
from ludus.monitor import config_memo
from ludus.monitor.config_memo import ConfigMemo

TEXT = dump_config(parse_resolved("name: study\ngames: [open_spiel:tic_tac_toe]\ntrain: {steps: 100}\n", "text"))


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.replace("seed: 0\n", "seed: 12\n"),
        TEXT.replace("name: study\n", "name: other\n"),
        TEXT.replace("name: study\n", "name: 'quoted'\n"),
        TEXT.replace("name: study\n", "name: no-dash\n"),
        TEXT.replace("steps: 100\n", "steps: 200\n"),
    ],
)
def test_each_config_is_its_own(tmp_path: Path, text: str) -> None:
    first, second = tmp_path / "first" / "config.yaml", tmp_path / "second" / "config.yaml"
    for path, content in ((first, TEXT), (second, text)):
        path.parent.mkdir()
        path.write_text(content)
        (path.parent / "format.json").write_text("{}")
    memo = ConfigMemo()
    memo.load(first)
    assert memo.load(second) == load_config(second)
    assert memo.load(first) == load_config(first)


@pytest.mark.parametrize("text", [TEXT.replace("name: study\n", "name: null\n"), TEXT + "seed: 1\n", "name: [", ""])
def test_what_is_refused_stays_refused(tmp_path: Path, text: str) -> None:
    good, path = tmp_path / "good.yaml", tmp_path / "config.yaml"
    good.write_text(TEXT)
    path.write_text(text)
    memo = ConfigMemo()
    memo.load(good)
    with pytest.raises(ConfigError):
        memo.load(path)


def test_a_study_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = list[Path]()
    monkeypatch.setattr(config_memo, "load_config", lambda path: parsed.append(path) or load_config(path))
    memo = ConfigMemo()
    for seed in range(20):
        path = tmp_path / f"{seed}.yaml"
        path.write_text(TEXT.replace("seed: 0\n", f"seed: {seed}\n"))
        assert memo.load(path).seed == seed
    assert len(parsed) == 1
