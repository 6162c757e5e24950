"""What attempts are compared with, in real runs: greedy attempts (remax), and a teacher (distill)."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus.config import parse_config
from ludus.errors import ConfigError
from ludus.orchestrator.trainer_client import TrainerClient
from ludus.records import Episode, Experiences, join
from ludus.runs import SingleRun
from ludus.sources.protocol import Batch
from ludus.storage.arrow import episodes_from_table
from ludus.storage.jsonl import read_jsonl
from ludus.storage.segment_reader import SegmentReader

WORKFLOW = """
import zlib

from ludus.workflows import register_workflow


async def luck(task, model):
    reply = await model.chat().say(task.inputs["prompt"])
    if task.seats[0].greedy and task.inputs["row"] % 4 == 0:
        raise RuntimeError("no luck")
    return zlib.crc32((task.inputs["prompt"] + reply).encode("utf-8", "replace")) % 16 / 16


luck.many_chats = False
register_workflow("luck", luck)
"""
TASKS = """
name: baselines
tasks: [{path: "ludus/arithmetic?digits=1&count=40", order: adaptive}]
rewards: [{kind: exact}]
workflow: {kind: custom, name: luck}
policy: {model: {path: MODEL, lora: null}}
explore: {games_in_flight: 8, group: 4, sampling: {max_tokens: 3}}
train: {steps: 90, batch_episodes: 8, minibatch: 8, algorithm: {preset: remax}}
telemetry: {tensorboard: false, every_s: 0}
"""
GAMES = """
name: baselines
games: ["open_spiel:tic_tac_toe"]
policy: {model: {path: MODEL, lora: {rank: 2}}}
explore: {games_in_flight: 6, group: 3, sampling: {max_tokens: 2}}
league: {opponents: [{kind: fixed, players: [random]}]}
train: {steps: 12, batch_episodes: 6, minibatch: 8, algorithm: {preset: remax}}
evaluate: {against: []}
telemetry: {tensorboard: false, every_s: 0}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from ludus.lm.tiny_model import make_tiny_model

    return make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", layers=1, width=16, heads=2, kv_heads=1)


@pytest.fixture
def ordered(monkeypatch: pytest.MonkeyPatch) -> list[Experiences]:
    """Every batch that the trainer is asked to train on."""
    found: list[Experiences] = []
    step = TrainerClient.step

    def remember(self: TrainerClient, batch: Batch | None) -> Any:
        found.extend([] if batch is None else [batch.experiences])
        return step(self, batch)

    monkeypatch.setattr(TrainerClient, "step", remember)
    return found


def run(text: str, model: Path, folder: Path) -> Path:
    plugin = folder.parents[1] / "luck.py"  # one file for all runs here: a name is registered once
    plugin.write_text(WORKFLOW)
    config = parse_config(text.replace("MODEL", str(model)), "run.yaml")
    status = SingleRun(config, folder, plugins=[str(plugin)]).run_to_end()
    assert status.stage == "done", status.error
    return folder


def training_episodes(folder: Path) -> list[Episode]:
    tables = [table for _, table in SegmentReader(folder / "episodes").scan()]
    return [each for table in tables for each in episodes_from_table(table) if each.task.purpose == "train"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TASKS, id="sync"),
        pytest.param(TASKS + "schedule: async\n", id="async", marks=pytest.mark.slow),
        pytest.param(GAMES, id="game", marks=pytest.mark.slow),
    ],
)
def test_attempts_are_compared_with_the_greedy_one_of_their_group(
    text: str, model: Path, tmp_path: Path, ordered: list[Experiences]
) -> None:
    folder, size = run(text, model, tmp_path / "run"), 3 if text == GAMES else 4
    played = training_episodes(folder)
    greedy = {each.task.group: each for each in played if any(seat.greedy for seat in each.task.seats)}
    assert {each.task.id % size for each in greedy.values()} == {size - 1}
    assert len(greedy) == len({each.task.group for each in played}) >= 4
    for each in greedy.values():
        assert [seat.greedy for seat in each.task.seats] == [seat.learns for seat in each.task.seats]
    batch = join(ordered)
    assert (batch.sequences["task"] % size != size - 1).all(), "a greedy attempt is not trained on"
    columns = (batch.sequences[name].tolist() for name in ("group", "seat", "baseline"))
    for group, seat, baseline in zip(*columns, strict=True):
        expected = float("nan") if greedy[group].error else greedy[group].returns[seat]
        assert baseline == pytest.approx(expected, abs=1e-6, nan_ok=True)
    trained = [line for line in read_jsonl(folder / "metrics.jsonl") if "train/without_baseline" in line]
    assert 2 <= len(trained) <= len(ordered)
    if text != GAMES:
        assert np.isnan(batch.sequences["baseline"]).any(), "some greedy attempts failed"
        assert len(np.unique(batch.sequences["baseline"])) > 3


DISTILL = (
    TASKS.replace("preset: remax}", "preset: distill}, optimizer: {learning_rate: 0.005, schedule: constant}")
    .replace("policy: {", "policy: {teacher: TEACHER, ")
    .replace("max_tokens: 3", "max_tokens: 8")
)


@pytest.fixture(scope="module")
def taught(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose policy began as another model than its teacher."""
    folder = tmp_path_factory.mktemp("taught")
    text = DISTILL.replace("TEACHER", str(model)).replace("steps: 90", "steps: 3800")
    text = text.replace("batch_episodes: 8, minibatch: 8", "batch_episodes: 32").replace("flight: 8", "flight: 32")
    return run(text, sharpened(model, folder / "student"), folder / "run")


def distances(folder: Path) -> list[float]:
    """Reverse KL to the teacher, update after update."""
    return [line["train/reverse_kl"] for line in read_jsonl(folder / "metrics.jsonl") if "train/reverse_kl" in line]


def test_its_metrics_are_explained_and_those_that_are_promised_are_there(taught: Path, check_promises: Any) -> None:
    check_promises("distilled", taught)


def test_a_student_becomes_like_its_teacher(taught: Path) -> None:
    found = distances(taught)
    assert len(found) > 10
    assert np.mean(found[-3:]) < 0.5 * np.mean(found[:3])


@pytest.mark.slow
def test_a_version_of_another_run_teaches_even_when_that_run_is_gone(taught: Path, model: Path, tmp_path: Path) -> None:
    source = Path(shutil.copytree(taught, tmp_path / "source"))
    text = DISTILL.replace("TEACHER", f"{{run: {source}}}").replace("minibatch: 8", "minibatch: 8, trainers: 2")
    text += "schedule: async\n"
    folder = run(text, model, tmp_path / "run")
    shutil.rmtree(source)
    run(text.replace("steps: 90", "steps: 300"), model, folder)
    assert len(list((folder / "teacher" / "main").iterdir())) == 1
    assert all(0 < distance < 5 for distance in distances(folder))
    assert sum(event["event"] == "started" for event in read_jsonl(folder / "events.jsonl")) == 2


def test_a_teacher_with_other_tokens_is_refused_before_anything_is_played(model: Path, tmp_path: Path) -> None:
    strange = Path(shutil.copytree(model, tmp_path / "strange"))
    text = (strange / "tokenizer.json").read_text()
    (strange / "tokenizer.json").write_text(text.replace('"a": 97', '"a": 98').replace('"b": 98', '"b": 97'))
    with pytest.raises(ConfigError, match="has other tokens than"):
        run(DISTILL.replace("TEACHER", str(strange)), model, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def sharpened(model: Path, folder: Path) -> Path:
    """The same model with opinions: the next token is drawn from fewer."""
    from ludus.config import LanguageModelConfig
    from ludus.lm.language_models import load_language_model
    from ludus.lm.language_shape import write_model_folder

    loaded = load_language_model(LanguageModelConfig(path=str(model)))
    weights = {name: tensor.numpy() for name, tensor in loaded.model.named_parameters()}
    write_model_folder(folder, loaded, {**weights, "model.norm.weight": 15 * weights["model.norm.weight"]})
    return folder
