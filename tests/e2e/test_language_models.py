"""A language model through the whole loop: warm start, self-play, adapters, and the commands on what came of it."""

import io
from pathlib import Path

import pytest

from ludus.cli.play import play
from ludus.cli.replay import replay
from ludus.config.load import parse_config
from ludus.loop import Loop
from ludus.policies import PolicyStore
from ludus.storage.jsonl import read_jsonl

CONFIG = """
name: words
games: [open_spiel:tic_tac_toe]
policy: {model: {path: MODEL, lora: {rank: 4}}}
warm_start: {games: 8, minibatch: 8}
experience: {final: [{kind: role_advantage}]}
explore: {games_in_flight: 4, speech: {prompt: bare, max_tokens: 4, invalid_moves: 1}}
train: {steps: 100, batch_episodes: 4, minibatch: 4, algorithm: {preset: reinforce}}
evaluate: {against: [random], games: 2, final_games: 4}
telemetry: {tensorboard: false, every_s: 0}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from ludus.policies.tiny_model import make_tiny_model

    folder = tmp_path_factory.mktemp("words")
    make_tiny_model(folder / "tiny", layers=1, width=16, heads=2, kv_heads=1)
    config = parse_config(CONFIG.replace("MODEL", str(folder / "tiny")), "words.yaml")
    status = Loop(config, folder / "run").run_to_end()
    assert status.stage == "done", status.error
    return folder / "run"


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
