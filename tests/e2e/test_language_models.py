"""A language model through the whole loop: warm start, self-play, adapters, and the commands on what came of it."""

import asyncio
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ludus.cli.inspect import replay
from ludus.cli.match import match
from ludus.cli.play import play
from ludus.policies import PolicyStore
from ludus.storage.jsonl import read_jsonl


@pytest.fixture
def run(language_run: Any) -> Path:
    path: Path = language_run.path
    return path


def test_every_version_is_an_adapter_that_peft_loads_on_the_warmed_base(run: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    store = PolicyStore(run / "policies")
    newest = store.versions("main")[-1]
    assert newest.version >= 1
    base = AutoModelForCausalLM.from_pretrained(run / "base")
    loaded = PeftModel.from_pretrained(base, store.path(newest))
    assert any("lora_B" in name and parameter.abs().sum() > 0 for name, parameter in loaded.named_parameters())


def test_metrics_tell_of_play_and_training(run: Path) -> None:
    names = {name for line in read_jsonl(run / "metrics.jsonl") for name in line}
    assert {"train/loss", "train/grad_norm", "explore/length", "evaluate/random/score"} <= names


def test_a_recorded_game_can_be_read_again(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replay(run, "last", plugin=None, moves_only=False)
    shown = capsys.readouterr().out
    assert "seat 0" in shown
    assert "returns:" in shown


def test_a_person_can_play_against_it_and_leave(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("what\n?\n4\nq\n"))
    play(run, policy=None, seat=0, seed=0, game=None, plugin=None, sample=False)
    shown = capsys.readouterr().out
    assert "'what' is not a legal move here" in shown
    assert "legal moves: 0, 1" in shown
    assert "Left the game." in shown or "You won." in shown


def test_versions_and_fixed_players_meet_in_words(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    match(run, "latest", "0", games=4, show=2, moves_only=True)
    shown = capsys.readouterr().out
    assert shown.count("returns:") == 2
    assert "'" in shown.partition("\n")[2], "moves are words"
    match(run, "random", "latest", games=3, seed=1, greedy=True, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert [seat["games"] for seat in found["by_seat"]] == [2, 1]
    assert found["failed"] == 0


def test_what_is_served_stands_on_the_warmed_base_wherever_the_run_was_moved(run: Path, tmp_path: Path) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    from ludus.config import load_config
    from ludus.inference.protocol import Request, Sampling
    from ludus.serve.app import open_service
    from ludus.storage.run_directory import RunDirectory

    moved = RunDirectory(tmp_path / "moved")
    shutil.copytree(run, moved.path)
    store = PolicyStore(moved.policies)
    newest = store.versions("main")[-1]
    engine = open_service(moved, load_config(moved.config), threads=1).engine
    prompt = tuple(b"hello")
    said = asyncio.run(
        engine.generate(Request(prompt=prompt, policy=newest, sampling=Sampling(max_tokens=4, temperature=0.0), seed=0))
    )
    reference = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(moved.base), store.path(newest))
    with torch.inference_mode():
        logits = reference(torch.tensor([[*prompt, *said.tokens.tolist()]])).logits[0, len(prompt) - 1 : -1]
    expected = logits.log_softmax(-1).gather(1, torch.tensor(said.tokens.tolist())[:, None])[:, 0]
    assert torch.allclose(expected, torch.from_numpy(said.logps), atol=1e-4)
