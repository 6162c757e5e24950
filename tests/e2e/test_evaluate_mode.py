"""Mode evaluate: versions of another run are measured without a trainer, and none twice."""

import shutil
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))

from killing import count_events, episodes, finish, kill, start, wait_for_event

from ludus import SingleRun, parse_config
from ludus.cli.summary import measured_table
from ludus.errors import ConfigError, StorageError
from ludus.policies import PolicyStore
from ludus.records import PolicyRef
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.jsonl import read_jsonl

NETWORK = """
name: small
games: [pgx:tic_tac_toe]
explore: {games_in_flight: 32, noise: 0.05}
policy: {network: {kind: mlp, hidden: [16]}, start: RUN}
train: {steps: 4096, batch_steps: 512, minibatch: 128, epochs: 1}
league: {opponents: [{kind: mirror, weight: 2}, {kind: pfsp}, {kind: fixed, players: [random]}], snapshot_every: 2048}
evaluate: {against: [random], games: 4, final_games: 6, versions: all}
telemetry: {tensorboard: false, every_s: 0}
mode: evaluate
"""


def measured(run: Path) -> list[dict[str, Any]]:
    return [event for event in read_jsonl(run / "events.jsonl") if event["event"] == "measured"]


def versions(run: Path) -> list[PolicyRef]:
    return PolicyStore(run / "policies").versions("main")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, finished_run: Path) -> Path:
    run = tmp_path_factory.mktemp("evaluate") / "run"
    status = SingleRun(parse_config(NETWORK.replace("RUN", str(finished_run)), "small.yaml"), run).run_to_end()
    assert (status.stage, status.error) == ("done", "")
    return run


def test_every_version_is_measured_at_the_step_it_was_trained_to(unbroken: Path, finished_run: Path) -> None:
    theirs = PolicyStore(finished_run / "policies")
    steps = [theirs.load(ref).step for ref in theirs.versions("main")]
    assert len(steps) > 2
    assert [event["policy"] for event in measured(unbroken)] == [str(ref) for ref in theirs.versions("main")]
    lines = [line for line in read_jsonl(unbroken / "metrics.jsonl") if "evaluate/random/score" in line]
    assert [line["step"] for line in lines] == steps
    assert all(0 <= line["evaluate/random/score"] <= 1 for line in lines)


def test_nothing_is_trained_and_the_copies_are_the_versions(unbroken: Path, finished_run: Path) -> None:
    logs = {path.name for path in (unbroken / "logs" / "latest").iterdir()}
    assert any("explorer" in name for name in logs)
    assert not any("trainer" in name for name in logs)
    saved = CheckpointStore(unbroken / "checkpoints", keep=3).latest()
    assert saved is not None
    assert list(saved.path.glob("*.safetensors")) == []
    mine, theirs = PolicyStore(unbroken / "policies"), PolicyStore(finished_run / "policies")
    for ref in versions(unbroken):
        assert mine.load(ref).weights_hash == theirs.load(ref).weights_hash


def test_what_was_measured_is_not_measured_again(unbroken: Path, finished_run: Path) -> None:
    before = len(measured(unbroken))
    config = parse_config(NETWORK.replace("RUN", str(finished_run)), "small.yaml")
    assert SingleRun(config, unbroken).run_to_end().stage == "done"
    assert len(measured(unbroken)) == before


def test_the_end_is_a_table_with_a_row_for_each_version(unbroken: Path) -> None:
    console = Console(width=120, file=StringIO())
    console.print(measured_table(unbroken / "events.jsonl"))
    rows = [line.split() for line in console.file.getvalue().splitlines() if line.startswith("main@")]  # type: ignore[attr-defined]
    assert [row[0] for row in rows] == [event["policy"] for event in measured(unbroken)]
    assert rows[-1][2] == f"{measured(unbroken)[-1]['scores']['evaluate/random/score']:.3f}"


@pytest.mark.slow
def test_a_killed_evaluation_goes_on_with_the_first_version_that_was_not_measured(
    unbroken: Path, finished_run: Path, tmp_path: Path
) -> None:
    config, run = tmp_path / "small.yaml", tmp_path / "run"
    config.write_text(NETWORK.replace("RUN", str(finished_run)).replace("final_games: 6", "final_games: 60"))
    process = start(config, run)
    assert wait_for_event(process, run, "measured", 1), finish(process)
    kill(process)
    assert count_events(run, "measured") < len(versions(finished_run)), "it was over too soon: more games"
    code, error = finish(start(config, run))
    assert code == 0, error
    names = [event["policy"] for event in measured(run)]
    assert list(dict.fromkeys(names)) == [str(ref) for ref in versions(finished_run)]
    # A version is measured twice only if the kill came before its checkpoint, and then to the same end.
    assert len(names) <= len(set(names)) + 1
    scores = {name: [e["scores"] for e in measured(run) if e["policy"] == name] for name in names}
    assert all(each == found[0] for found in scores.values() for each in found)
    assert episodes(run)  # and no episode is there twice


def test_one_version_or_the_newest(finished_run: Path, tmp_path: Path) -> None:
    number = versions(finished_run)[1].version
    text = NETWORK.replace("RUN", f"{finished_run}@{number}").replace("versions: all", "versions: latest")
    assert SingleRun(parse_config(text, "small.yaml"), tmp_path / "one").run_to_end().stage == "done"
    assert [event["policy"] for event in measured(tmp_path / "one")] == [f"main@{number}"]


def test_a_version_that_cannot_be_read_is_passed_over_and_told_of(finished_run: Path, tmp_path: Path) -> None:
    shutil.copytree(finished_run, tmp_path / "theirs", symlinks=True)
    damaged, *_ = versions(tmp_path / "theirs")
    weights = PolicyStore(tmp_path / "theirs" / "policies").path(damaged) / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8] + b"12345678")
    config = parse_config(NETWORK.replace("RUN", str(tmp_path / "theirs")), "small.yaml")
    assert SingleRun(config, tmp_path / "run").run_to_end().stage == "done"
    (skipped,) = [
        event for event in read_jsonl(tmp_path / "run" / "events.jsonl") if event["event"] == "version_skipped"
    ]
    assert skipped["policy"] == str(damaged)
    assert str(damaged) not in {event["policy"] for event in measured(tmp_path / "run")}
    only = parse_config(NETWORK.replace("RUN", f"{tmp_path / 'theirs'}@0"), "x.yaml", ["evaluate.versions=latest"])
    with pytest.raises(StorageError, match=r"no version of .* can be read"):
        SingleRun(only, tmp_path / "none").run_to_end()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ((", start: RUN", ""), "policy.start: mode is evaluate, so there must be a run to measure"),
        (("RUN", "nowhere"), "policy.start: nowhere is not a run"),
        (("versions: all", "versions: all, final_games: 0"), "evaluate.final_games: mode is evaluate, and 0 games"),
        (("start: RUN", "start: RUN@3"), "evaluate.versions: policy.start names one version"),
        (("mode: evaluate", "mode: both"), "evaluate.versions: has no effect: mode is both"),
        (("hidden: [16]", "hidden: [17]"), "policy.start: .* was trained with network: .*16"),
        (("pgx:tic_tac_toe", "pgx:connect_four"), r"policy.start: the network of .* sees \(3, 3, 2\)"),
    ],
)
def test_what_cannot_be_measured_is_said(
    change: tuple[str, str], problem: str, finished_run: Path, tmp_path: Path
) -> None:
    text = NETWORK.replace("final_games: 6, ", "") if "final_games: 0" in change[1] else NETWORK
    text = text.replace(*change).replace("RUN", str(finished_run))
    with pytest.raises(ConfigError, match=problem):
        SingleRun(parse_config(text, "small.yaml"), tmp_path / "run")


def test_a_run_that_trains_and_one_that_measures_do_not_share_a_directory(unbroken: Path, finished_run: Path) -> None:
    text = NETWORK.replace("RUN", str(finished_run))
    with pytest.raises(ConfigError, match='mode: the run has "evaluate", now "both"'):
        SingleRun(parse_config(text, "small.yaml", ["mode=both", "evaluate.versions=latest"]), unbroken).run_to_end()
    with pytest.raises(ConfigError, match='mode: the run has "both", now "evaluate"'):
        SingleRun(parse_config(text, "small.yaml"), finished_run).run_to_end()
    assert SingleRun(parse_config(text, "small.yaml")).run.path == Path("runs/small-evaluate")


def test_a_language_model_is_measured_with_the_config_that_trained_it(language_run: Any, tmp_path: Path) -> None:
    """Its warm start is not done again: what it stands on is the other run's."""
    overrides = ["mode=evaluate", f"policy.start={language_run.path}", "evaluate.versions=all"]
    status = SingleRun(parse_config(language_run.text, "words.yaml", overrides), tmp_path / "run").run_to_end()
    assert (status.stage, status.error) == ("done", "")
    assert [event["policy"] for event in measured(tmp_path / "run")] == [
        str(ref) for ref in versions(language_run.path)
    ]
    assert not (tmp_path / "run" / "base").exists()
    theirs = [line for line in read_jsonl(language_run.path / "metrics.jsonl") if "evaluate/random/score" in line]
    mine = [line for line in read_jsonl(tmp_path / "run" / "metrics.jsonl") if "evaluate/random/score" in line]
    assert mine[-1]["step"] == theirs[-1]["step"]
