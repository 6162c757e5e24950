"""A run in stages: each begins with the policy of the one before, none is done twice, whenever it is killed."""

import json
import random
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))

from killing import count_events, describe, finish, kill, start, wait_for_event

from ludus import SingleRun, load_config, parse_config
from ludus.cli.arguments import open_run
from ludus.errors import ConfigError, LudusError, StorageError
from ludus.policies import Policy, PolicyStore
from ludus.runs.staged import StagedRun, make_run
from ludus.storage.jsonl import read_jsonl
from ludus.storage.run_directory import BegunStage, StagedDirectory

LANGUAGE = """
name: sums
tasks: ["ludus/arithmetic?digits=1&count=60"]
rewards: [{kind: exact}, {kind: length, label: short, weight: 0.1, longest: 3, buffer: 2}]
policy: {model: {path: ludus/mini, lora: null}}
explore: {games_in_flight: 8, group: 4, sampling: {max_tokens: 3}}
buffer: {expert: {sources: [{path: "ludus/arithmetic?digits=1&count=60", fields: {prompt: prompt, response: answer}}], rows: 8}}
train: {batch_episodes: 8, minibatch: 16}
evaluate: {tasks: [{path: "ludus/arithmetic?digits=1&count=4", split: test, name: held_out}]}
telemetry: {tensorboard: false, every_s: 0}
stages:
  - {name: sft, train: {steps: 40, algorithm: {preset: sft}}}
  - {name: mix, train: {steps: 300, algorithm: {preset: mix}}}
  - {name: grpo, train: {steps: 60, algorithm: {preset: grpo}}, buffer: {expert: null}}
"""
WORDS = """
name: words
games: [open_spiel:tic_tac_toe]
policy: {model: {path: ludus/mini, lora: {rank: 4}}}
warm_start: {games: 20, minibatch: 8}
explore: {games_in_flight: 8, prompt: {template: bare}, sampling: {max_tokens: 4}}
train: {steps: 50, batch_episodes: 4, minibatch: 4, algorithm: {preset: reinforce}}
evaluate: {against: [random], games: 2, final_games: 2}
telemetry: {tensorboard: false, every_s: 0}
"""
# The program that this compiles to is that of `test_driving.py`.
BOARDS = """
name: boards
games: [pgx:tic_tac_toe]
explore: {games_in_flight: 32, noise: 0.05}
policy: {network: {kind: mlp, hidden: [16]}}
train: {steps: 2048, batch_steps: 512, minibatch: 128, epochs: 1}
evaluate: {against: [random], games: 2, final_games: 2, every: 100000000}
league: {opponents: [{kind: mirror, weight: 2}, {kind: pfsp}, {kind: fixed, players: [random]}], snapshot_every: 100000000}
telemetry: {tensorboard: false, every_s: 0}
stages:
  - {name: first}
  - {name: second, train: {steps: 1024}, seed: 5}
"""


def attempts(run: Path) -> int:
    return len(list((run / "logs").glob("attempt_*")))


def newest(run: Path) -> Policy[object]:
    store = PolicyStore(run / "policies")
    return store.load(store.versions("main")[-1])


def first(run: Path) -> Policy[object]:
    store = PolicyStore(run / "policies")
    return store.load(store.versions("main")[0])


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SFT, MIX and GRPO on a language model, killed in the middle of MIX and gone on with."""
    folder = tmp_path_factory.mktemp("sums")
    config, run = folder / "sums.yaml", folder / "run"
    config.write_text(LANGUAGE)
    process = start(config, run)
    assert wait_for_event(process, run / "2_mix", "published", 3), finish(process)
    kill(process)
    code, error = finish(start(config, run))
    assert code == 0, error
    return run


def test_a_killed_run_goes_on_in_its_stage_and_does_none_twice(killed: Path) -> None:
    assert [attempts(killed / name) for name in ("1_sft", "2_mix", "3_grpo")] == [1, 2, 1]
    published = [
        event["policy"] for event in read_jsonl(killed / "2_mix" / "events.jsonl") if event["event"] == "published"
    ]
    assert len(set(published)) == len(published) > 3
    assert StagedDirectory(killed).read() == tuple(
        BegunStage(folder=folder, is_done=True) for folder in ("1_sft", "2_mix", "3_grpo")
    )


def test_every_stage_begins_with_the_weights_of_the_one_before(killed: Path) -> None:
    for before, after in (("1_sft", "2_mix"), ("2_mix", "3_grpo")):
        begun = load_config(killed / after / "config.yaml").policy.start
        assert begun == str(killed / before)
    # The first version of MIX is gone by now, where many are published; of GRPO it is not.
    assert first(killed / "3_grpo").weights_hash == newest(killed / "2_mix").weights_hash
    assert newest(killed / "1_sft").weights_hash != newest(killed / "2_mix").weights_hash


def test_only_stages_that_learn_from_examples_have_them(killed: Path) -> None:
    assert [(killed / name / "expert").is_dir() for name in ("1_sft", "2_mix", "3_grpo")] == [True, True, False]


def test_commands_take_the_newest_stage_and_say_so(killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, config = open_run(killed)
    assert (run.path, config.name) == (killed / "3_grpo", "sums.grpo")
    assert capsys.readouterr().err == f"{killed} has stages; this is {killed / '3_grpo'}\n"
    assert open_run(killed / "1_sft")[1].name == "sums.sft"


def test_a_stage_is_measured_on_held_out_tasks(killed: Path, tmp_path: Path) -> None:
    overrides = ["stages=[]", "mode=evaluate", f"policy.start={killed / '2_mix'}", "evaluate.samples=2"]
    status = SingleRun(parse_config(LANGUAGE, "sums.yaml", overrides), tmp_path / "run").run_to_end()
    assert (status.stage, status.error) == ("done", "")
    (line,) = [line for line in read_jsonl(tmp_path / "run" / "metrics.jsonl") if "evaluate/held_out/pass@2" in line]
    assert line["step"] == newest(killed / "2_mix").step
    assert {"evaluate/held_out/mean@2", "evaluate/held_out/best@2", "evaluate/held_out/success"} <= line.keys()


@pytest.mark.slow
def test_what_adapters_stand_on_goes_from_stage_to_stage_also_when_all_is_moved(tmp_path: Path) -> None:
    text = WORDS + "stages: [{name: warm}, {name: more}]\n"
    assert StagedRun(parse_config(text, "words.yaml"), tmp_path / "before").run_to_end().stage == "done"
    (tmp_path / "before").rename(tmp_path / "after")
    longer = WORDS + "stages: [{name: warm}, {name: more}, {name: most}]\n"
    assert StagedRun(parse_config(longer, "words.yaml"), tmp_path / "after").run_to_end().stage == "done"
    assert (tmp_path / "after" / "3_most" / "base").resolve() == tmp_path / "after" / "1_warm" / "base"
    assert first(tmp_path / "after" / "3_most").weights_hash == newest(tmp_path / "after" / "2_more").weights_hash


# -- driven by a program, on boards, which is quicker --------------------------------------------------------------------


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two stages on boards, stopped in the first and gone on with. Read only: copy it."""
    run = tmp_path_factory.mktemp("boards") / "run"
    endless = parse_config(BOARDS, "boards.yaml", ["stages.0.train.steps=1000000000"])
    loop = StagedRun(endless, run)
    loop.start()
    end = time.monotonic() + 120
    while (status := loop.wait(0.02)).update < 2:
        assert time.monotonic() < end
    assert (status.stage_name, status.stage_number, status.stage_count) == ("first", 1, 2)
    assert (status.run, status.run_dir) == ("boards", str(run))
    loop.pause()
    while loop.status().stage != "paused":
        assert time.monotonic() < end
    held = loop.checkpoint()
    loop.resume()
    while loop.wait(0.02).update <= held.update:
        assert time.monotonic() < end
    loop.stop()
    assert loop.wait(60).stage == "stopped"
    assert not (run / "2_second").exists()
    assert not [thread for thread in threading.enumerate() if thread.name in ("loop", "telemetry")]
    steps = loop.status().steps + 1024
    status = StagedRun(parse_config(BOARDS, "boards.yaml", [f"stages.0.train.steps={steps}"]), run).run_to_end()
    assert (status.stage, status.stage_number, status.steps) == ("done", 2, 1024)
    (run / "steps").write_text(str(steps))
    return run


@pytest.fixture
def again(done: Path, tmp_path: Path) -> Path:
    """The same run somewhere else."""
    shutil.copytree(done, tmp_path / "run", symlinks=True)
    return tmp_path / "run"


def go_on(run: Path, *overrides: str) -> StagedRun:
    steps = (run / "steps").read_text()
    return StagedRun(parse_config(BOARDS, "boards.yaml", [f"stages.0.train.steps={steps}", *overrides]), run)


@pytest.mark.slow
def test_kills_at_any_moment_change_nothing(tmp_path: Path) -> None:
    config = tmp_path / "boards.yaml"
    config.write_text(BOARDS.replace("steps: 2048", "steps: 200000").replace("steps: 1024", "steps: 200000"))
    dice, kills = random.Random(7), 0
    process = start(config, tmp_path / "broken")
    while kills < 12:
        try:
            process.wait(dice.uniform(0.5, 9.0))
            break
        except subprocess.TimeoutExpired:
            kill(process)
            kills += 1
            process = start(config, tmp_path / "broken")
    code, error = finish(process)
    assert code == 0, error
    assert kills > 4, "it was over too soon: more steps"
    code, error = finish(start(config, tmp_path / "whole"))
    assert code == 0, error
    for stage in ("1_first", "2_second"):
        broken, whole = describe(tmp_path / "broken" / stage), describe(tmp_path / "whole" / stage)
        for part in ("progress", "files", "league", "episodes"):
            assert broken[part] == whole[part], (stage, part)


def test_a_network_begins_with_the_weights_of_the_stage_before(done: Path) -> None:
    assert first(done / "2_second").weights_hash == newest(done / "1_first").weights_hash


def test_a_run_whose_stages_are_done_has_nothing_to_do(again: Path) -> None:
    before = [attempts(again / name) for name in ("1_first", "2_second")]
    status = go_on(again).run_to_end()
    assert (status.stage, status.stage_name) == ("done", "second")
    assert [attempts(again / name) for name in ("1_first", "2_second")] == before


def test_what_a_stage_that_is_done_was_may_not_change(again: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        go_on(again, "stages.0.train.steps=9999999", "stages.1.seed=6", "evaluate.games=3").run_to_end()
    first_line, second_line = refused.value.problems
    assert first_line.startswith("stages.0.train.steps: the run has ")
    assert first_line.endswith("but this stage is done; write it as before, or choose another --run-dir")
    assert second_line.startswith("stages.1.seed: the run has 5, now 6")


def test_stages_that_have_begun_may_not_be_others_and_new_ones_may_follow(again: Path) -> None:
    with pytest.raises(ConfigError, match=r"stages\.1\.name: the run has 2_second, now 2_other"):
        go_on(again, "stages.1.name=other").run_to_end()
    # The directory was copied: the third stage finds the second where it is now.
    status = go_on(again, "stages.2={name: third, train: {steps: 512}}").run_to_end()
    assert (status.stage, status.stage_name, status.stage_count) == ("done", "third", 3)
    assert first(again / "3_third").weights_hash == newest(again / "2_second").weights_hash


def test_a_stage_that_finished_without_being_noted_is_not_trained_again(again: Path) -> None:
    record = json.loads((again / "stages.json").read_text())
    record["stages"][1]["done"] = False
    (again / "stages.json").write_text(json.dumps(record))
    before = newest(again / "2_second")
    started = count_events(again / "2_second", "published")
    assert go_on(again).run_to_end().stage == "done"
    assert newest(again / "2_second").ref == before.ref
    assert count_events(again / "2_second", "published") == started
    assert json.loads((again / "stages.json").read_text())["stages"][1]["done"] is True


def test_the_last_stage_may_measure_the_one_before_it(again: Path) -> None:
    measure = "{name: measure, mode: evaluate, evaluate: {versions: all, final_games: 4}}"
    status = go_on(again, f"stages.2={measure}").run_to_end()
    assert (status.stage, status.stage_name) == ("done", "measure")
    events = read_jsonl(again / "3_measure" / "events.jsonl")
    measured = [event["policy"] for event in events if event["event"] == "measured"]
    assert measured == [str(ref) for ref in PolicyStore(again / "2_second" / "policies").versions("main")]


def test_a_stage_that_has_begun_goes_on_under_its_own_settings_only(again: Path) -> None:
    record = json.loads((again / "stages.json").read_text())
    record["stages"][1]["done"] = False
    (again / "stages.json").write_text(json.dumps(record))
    with pytest.raises(ConfigError, match=r"stages\.1\.seed: the run has 5, now 6; write it as before"):
        go_on(again, "stages.1.seed=6").run_to_end()


def test_a_record_of_a_newer_ludus_is_refused(again: Path) -> None:
    (again / "stages.json").write_text(json.dumps({"format": 2, "stages": []}))
    with pytest.raises(StorageError, match="has format 2, this ludus reads up to 1"):
        go_on(again).run_to_end()


def test_a_run_in_stages_and_one_without_do_not_share_a_directory(again: Path, finished_run: Path) -> None:
    config = parse_config(BOARDS, "boards.yaml")
    with pytest.raises(StorageError, match="is a run without stages"):
        StagedRun(config, finished_run).run_to_end()
    with pytest.raises(StorageError, match="not empty and not a run"):
        SingleRun(parse_config(BOARDS, "boards.yaml", ["stages=[]"]), again).run_to_end()
    with pytest.raises(ConfigError, match="run it with StagedRun"):
        SingleRun(config)
    assert isinstance(make_run(config), StagedRun)


def test_a_part_that_a_later_stage_lacks_is_missed_before_the_first_begins(tmp_path: Path) -> None:
    text = BOARDS.replace("seed: 5", "evaluate: {against: [mcts-0x]}").replace("mcts-0x", "nobody")
    with pytest.raises(ConfigError, match=r"stages\.1: .*nobody"):
        StagedRun(parse_config(text, "boards.yaml"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_there_is_no_checkpoint_before_the_first_stage(tmp_path: Path) -> None:
    loop = StagedRun(parse_config(BOARDS, "boards.yaml"), tmp_path / "run")
    with pytest.raises(LudusError, match="no stage of this run has begun"):
        loop.checkpoint()
    assert replace(loop.status(), elapsed_s=0.0).stage == "starting"
