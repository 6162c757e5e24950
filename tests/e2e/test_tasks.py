"""A language model on a taskset through the whole loop: attempts, rewards, operators, expert rows, held-out tasks."""

from pathlib import Path
from typing import Any

import pytest

from ludus.config import parse_config
from ludus.errors import ConfigError
from ludus.runs import SingleRun
from ludus.storage.catalog import Catalog
from ludus.storage.jsonl import read_jsonl
from ludus.storage.segment_reader import SegmentReader

CONFIG = """
name: sums
tasks: [{path: "ludus/arithmetic?digits=1&count=60", order: adaptive}]
rewards: [{kind: exact}, {kind: length, label: short, weight: 0.1, longest: 3, buffer: 2}]
policy: {model: {path: MODEL, lora: null}}
explore: {games_in_flight: 8, group: 4, sampling: {max_tokens: 3}}
experience: {operators: [{kind: zero_variance}]}
buffer: {expert: {sources: [{path: "ludus/arithmetic?digits=1&count=60", fields: {prompt: prompt, response: answer}}], rows: 8}}
train: {steps: 200, batch_episodes: 8, minibatch: 16, algorithm: {preset: mix}}
evaluate: {tasks: [{path: "ludus/arithmetic?digits=1&count=8", split: test, name: held_out}], samples: 2}
telemetry: {tensorboard: false, every_s: 0}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from ludus.lm.tiny_model import make_tiny_model

    return make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", layers=1, width=16, heads=2, kv_heads=1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    folder = tmp_path_factory.mktemp("sums") / "run"
    status = SingleRun(parse_config(CONFIG.replace("MODEL", str(model)), "sums.yaml"), folder).run_to_end()
    assert status.stage == "done", status.error
    return folder


def test_held_out_tasks_are_measured_from_the_start(run: Path) -> None:
    lines = [line for line in read_jsonl(run / "metrics.jsonl") if "evaluate/held_out/pass@2" in line]
    assert lines[0]["step"] == 0
    assert lines[-1]["step"] >= 200
    assert all(0 <= line["evaluate/held_out/pass@2"] <= 1 for line in lines)


def test_its_metrics_are_explained_and_those_that_are_promised_are_there(run: Path, check_promises: Any) -> None:
    check_promises("tasks", run)


def test_both_sources_are_learnt_from(run: Path) -> None:
    trained = [line for line in read_jsonl(run / "metrics.jsonl") if "train/sft" in line]
    assert trained
    assert trained[-1]["buffer/expert_epochs"] > 0
    assert {"train/ppo_clip", "explore/rewards/exact/scored"} <= trained[-1].keys()


def test_what_operators_refuse_is_kept_apart_with_its_reason(run: Path) -> None:
    with Catalog.open_readonly(run / "catalog.sqlite") as catalog:
        counts = catalog.refused()
    reasons = [reason for _, table in SegmentReader(run / "refused").scan() for reason in table["reason"].to_pylist()]
    assert reasons.count("zero_variance") == counts["zero_variance"] > 0
    kept = [group for _, table in SegmentReader(run / "experiences").scan() for group in table["group"].to_pylist()]
    assert all(kept.count(group) == 4 for group in kept)


def test_episodes_say_what_was_attempted_and_what_each_reward_gave(run: Path) -> None:
    table = next(table for _, table in SegmentReader(run / "episodes").scan())
    assert '"prompt"' in table["inputs"][0].as_py()
    assert '"exact"' in table["rewards"][0].as_py()


def test_a_policy_can_begin_with_the_weights_of_another_run(run: Path, model: Path, tmp_path: Path) -> None:
    text = CONFIG.replace("MODEL", str(model)).replace("policy: {", f"policy: {{start: {run}, ")
    text = text.replace("steps: 200", "steps: 1").replace("name: sums", "name: more")
    assert SingleRun(parse_config(text, "more.yaml"), tmp_path / "more").run_to_end().stage == "done"
    from ludus.policies import PolicyStore

    before, after = PolicyStore(run / "policies"), PolicyStore(tmp_path / "more" / "policies")
    first = after.load(after.versions("main")[0])
    assert first.weights_hash == before.load(before.versions("main")[-1]).weights_hash


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("fields: {prompt: prompt, response: answer}", "fields: {prompt: nothing}"), "nothing"),
        (("preset: mix", "preset: grpo"), "buffer.expert: nothing in train.algorithm learns from it"),
        (("kind: exact", "kind: custom, name: unheard"), "unheard"),
        (("ludus/arithmetic?digits=1&count=60", "nowhere.jsonl"), "nowhere.jsonl"),
        (("policy: {", "policy: {start: nowhere, "), "policy.start: nowhere is not a run"),
    ],
)
def test_what_is_not_there_is_said_in_one_sentence(
    change: tuple[str, str], problem: str, model: Path, tmp_path: Path
) -> None:
    text = CONFIG.replace("MODEL", str(model)).replace(*change)
    with pytest.raises(ConfigError, match=problem.replace(".", r"\.")):
        SingleRun(parse_config(text, "sums.yaml"), tmp_path / "run").run_to_end()


REFILLING = """
name: refilling
tasks: ["ludus/arithmetic?digits=1&count=60"]
rewards: [{kind: format, pattern: "[0-9]"}]
policy: {model: {path: MODEL, lora: null}}
explore: {games_in_flight: 8, group: 4, refill: 20, sampling: {max_tokens: 3}}
experience: {operators: [{kind: zero_variance}]}
train: {steps: 120, batch_episodes: 8, minibatch: 16, algorithm: {preset: dapo}}
telemetry: {tensorboard: false, every_s: 0}
"""


def refilled(folder: Path, model: Path, *changes: tuple[str, str]) -> tuple[list[dict[str, Any]], int]:
    """The lines of all updates, and the number of tasks that were played."""
    text = REFILLING.replace("MODEL", str(model))
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    status = SingleRun(parse_config(text, "refilling.yaml"), folder).run_to_end()
    assert status.stage == "done", status.error
    played = [
        purpose for _, table in SegmentReader(folder / "episodes").scan() for purpose in table["purpose"].to_pylist()
    ]
    lines = [line for line in read_jsonl(folder / "metrics.jsonl") if "train/ppo_clip" in line]
    return lines, played.count("train")


def test_groups_that_operators_refuse_are_replaced_in_a_synchronous_batch(tmp_path: Path, model: Path) -> None:
    lines, played = refilled(tmp_path / "run", model)
    assert any(line["explore/refilled"] > 0 for line in lines)
    assert played == sum(8 + line["explore/refilled"] for line in lines)
    rows = sum(table.num_rows for _, table in SegmentReader(tmp_path / "run" / "experiences").scan())
    assert rows == 8 * len(lines)  # every batch is whole, and nothing that was kept is left over


def test_refilling_is_bounded_and_trains_on_what_there_is(tmp_path: Path, model: Path) -> None:
    lines, _ = refilled(tmp_path / "run", model, ("refill: 20", "refill: 1"), ("[0-9]", "[0-4]"))
    assert max(line["explore/refilled"] for line in lines) == 8
    rows = sum(table.num_rows for _, table in SegmentReader(tmp_path / "run" / "experiences").scan())
    assert len(lines) < rows < 8 * len(lines)
