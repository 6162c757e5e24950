"""Expert rows and pairs from files, bots and other runs: gathered once, whole, by a process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ludus.buffer import GatheredRows, ImportStore
from ludus.config import ExpertConfig, LanguageModelConfig, PairsConfig, RunConfig, build_config
from ludus.errors import ConfigError
from ludus.experience import RefusedLog
from ludus.ingest.gathering import Gather, check_unchanged, gather
from ludus.ingest.gathering_worker import Gathering
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.model_text import load_decoder
from ludus.lm.tiny_model import make_tiny_model
from ludus.records import Episode, EpisodeId, Experiences, PolicyName, PolicyRef, Seat, Task, TaskId
from ludus.runtime import ForkLauncher, NodeFiles, Pulse, Supervisor
from ludus.sources.offline import open_offline
from ludus.storage.arrow import episodes_to_table, experiences_to_table
from ludus.storage.catalog import Catalog
from ludus.storage.run_directory import RunDirectory
from ludus.storage.segments import SegmentLog
from ludus.testing.experiences import sample_experiences

WORDS = {"name": "words", "games": ["open_spiel:tic_tac_toe"]}
BOARDS = {"name": "boards", "games": ["open_spiel:tic_tac_toe"]}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny", layers=1, width=16, heads=2, context=96)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path / "run")
    directory.create("name: x\n")
    return directory


def lines(path: Path, *rows: Any) -> str:
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return str(path)


def work(
    run: RunDirectory,
    values: dict[str, Any],
    *,
    model: Path | None = None,
    expert: list[Any] | None = None,
    pairs: list[Any] | None = None,
) -> Gathering:
    """What the process does, in this one."""
    policy = {"policy": {"model": {"path": str(model)}}} if model else {}
    order = Gather(
        config=build_config({**values, **policy}).model_dump_json(),
        model=str(model or ""),
        expert=ExpertConfig.model_validate({"sources": expert}).model_dump_json() if expert else "",
        pairs=PairsConfig.model_validate({"sources": pairs}).model_dump_json() if pairs else "",
    )
    gathering = Gathering(order, Pulse(), NodeFiles(run.path), lambda metrics: None)
    gathering.run()
    return gathering


def texts(rows: Experiences, model: Path) -> list[str]:
    decode = load_decoder(model)
    bounds = zip(rows.offsets[:-1].tolist(), rows.offsets[1:].tolist(), strict=True)
    return [decode(rows.steps["action"][start:end].tolist(), True) for start, end in bounds]


# -- files -------------------------------------------------------------------------------------------------------------


def test_files_become_the_tokens_of_a_rollout_and_bad_lines_are_named(
    run: RunDirectory, model: Path, tmp_path: Path
) -> None:
    path = lines(
        tmp_path / "expert.jsonl",
        {"prompt": "1+1", "response": "2"},
        {"prompt": "1+2"},
        "not json\n",
        {"prompt": "<|im_end|>", "response": "3"},
        {"prompt": "long", "response": "x" * 200},
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
    )
    done = work(run, WORDS, model=model, expert=[{"path": path, "system": "Add."}])
    rows = GatheredRows(run.expert)
    assert texts(rows.read([0, 2]), model) == [
        "<|im_start|>sAdd.<|im_end|><|im_start|>u1+1<|im_end|><|im_start|>a2<|im_end|>",
        "<|im_start|>sAdd.<|im_end|><|im_start|>ua<|im_end|><|im_start|>ab<|im_end|>",
    ]
    (spoofed,) = texts(rows.read([1]), model)
    assert spoofed.count("<|im_end|>") == 3  # the prompt's own has been broken up
    assert done.metrics == {"gathering/expert_rows": 3.0, "gathering/expert_refused": 3.0}
    assert sorted(text.removeprefix(f"{path}:")[0] for text in done.refusals) == ["2", "3", "5"]
    assert any("field response is missing" in text for text in done.refusals)
    assert any("tokens do not fit the model's context of 96" in text for text in done.refusals)


def test_several_files_are_read_one_after_the_other(run: RunDirectory, model: Path, tmp_path: Path) -> None:
    paths = [lines(tmp_path / f"{name}.jsonl", {"prompt": name, "response": "2"}) for name in ("first", "second")]
    work(run, WORDS, model=model, expert=[{"path": path} for path in paths])
    first, second = texts(GatheredRows(run.expert).read([0, 1]), model)
    assert "first" in first
    assert "second" in second


def test_experts_answer_what_the_workflow_asks_unless_the_source_says_otherwise(
    run: RunDirectory, model: Path, tmp_path: Path
) -> None:
    path = lines(
        tmp_path / "expert.jsonl", {"prompt": "1+1", "response": "2", "hint": "add"}, {"prompt": "0", "response": "1"}
    )
    tasks = {
        "name": "sums",
        "tasks": ["ludus/arithmetic?digits=1&count=10"],
        "rewards": [{"kind": "exact"}],
        "workflow": {"kind": "single_turn", "system": "Be brief.", "template": "({hint}) {prompt}="},
    }
    done = work(run, tasks, model=model, expert=[path, {"path": path, "system": "", "template": "{prompt}?"}])
    assert texts(GatheredRows(run.expert).read([0, 1]), model) == [
        "<|im_start|>sBe brief.<|im_end|><|im_start|>u(add) 1+1=<|im_end|><|im_start|>a2<|im_end|>",
        "<|im_start|>u1+1?<|im_end|><|im_start|>a2<|im_end|>",
    ]
    assert len(done.refusals) == 1
    assert f"{path}:2: " in done.refusals[0]
    assert "no field 'hint'" in done.refusals[0]


def test_pairs_are_two_rows_that_belong_together(run: RunDirectory, model: Path, tmp_path: Path) -> None:
    good = {"prompt": "1+1", "chosen": "2", "rejected": "3"}
    path = lines(tmp_path / "pairs.jsonl", good, {"prompt": "1", "chosen": "x" * 99, "rejected": "y"}, good)
    work(run, WORDS, model=model, pairs=[path])
    rows = GatheredRows(run.pairs)
    assert rows.facts["refused"] == 1
    found = rows.read(range(4))
    assert found.sequences["pair"].tolist() == [0, 0, 1, 1]
    assert found.sequences["chosen"].tolist() == [True, False] * 2
    assert [text[-11:-10] for text in texts(found, model)] == ["2", "3", "2", "3"]


def test_rows_can_be_mapped_and_processed_as_tasksets_are(run: RunDirectory, model: Path) -> None:
    source = {
        "path": "ludus/arithmetic?digits=1&count=20",
        "fields": {"prompt": "prompt", "response": "solution"},
        "processors": [{"kind": "map", "fields": {"prompt": "Q: {prompt}", "response": "{response}"}}],
        "limit": 7,
    }
    work(run, WORDS, model=model, expert=[source])
    rows = GatheredRows(run.expert)
    assert len(rows) == 7
    assert all("uQ: " in text for text in texts(rows.read(range(7)), model))


@pytest.mark.parametrize(
    ("sources", "problem"),
    [
        (["nowhere.jsonl"], "buffer.expert.sources.0: taskset expert: path: nowhere.jsonl: no such file"),
        ([{"kind": "run", "run": "runs/nowhere"}], "buffer.expert.sources.0: run: runs/nowhere is not a run directory"),
        ([{"kind": "bots", "players": ["grandmaster"]}], "buffer.expert.sources.0: .*grandmaster"),
    ],
)
def test_what_cannot_be_had_is_one_line_and_leaves_nothing(
    run: RunDirectory, model: Path, sources: list[Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        work(run, WORDS, model=model, expert=sources)
    assert not run.expert.exists()


def test_rows_of_text_need_a_language_model(run: RunDirectory, tmp_path: Path) -> None:
    path = lines(tmp_path / "e.jsonl", {"prompt": "a", "response": "b"})
    with pytest.raises(ConfigError, match=r"buffer.expert.sources.0: rows of text are for language models"):
        work(run, BOARDS, expert=[path])


# -- bots --------------------------------------------------------------------------------------------------------------


def test_bots_play_boards_and_only_those_who_got_enough_are_imitated(run: RunDirectory, tmp_path: Path) -> None:
    source = {"kind": "bots", "games": 20, "players": ["minimax-2", "random"], "min_reward": 1.0}
    work(run, BOARDS, expert=[source])
    rows = GatheredRows(run.expert)
    found = rows.read(range(len(rows)))
    assert 8 < len(rows) <= 20
    assert set(found.sequences["final_reward"]) == {1.0}
    legal = found.steps["legal"][np.arange(found.step_count), found.steps["action"]]
    assert legal.all()
    assert found.steps["observation"].any()
    again = RunDirectory(tmp_path / "again")
    again.create("name: x\n")
    work(again, BOARDS, expert=[source])
    assert GatheredRows(again.expert).fingerprint == rows.fingerprint


def test_bots_speak_as_a_model_would_and_within_its_context(run: RunDirectory, model: Path) -> None:
    spoken = {**WORDS, "explore": {"prompt": {"template": "bare"}}}
    work(run, spoken, model=model, expert=[{"kind": "bots", "games": 8}])
    rows = GatheredRows(run.expert)
    assert 0 < len(rows) < 16
    assert rows.facts["refusals"] == [f"expert.0: {16 - len(rows)} rows: longer than the context"]
    text, *_ = texts(rows.read([0]), model)
    assert text.endswith("<|im_end|>")
    assert rows.read([0]).steps["mask"].any()


# -- other runs --------------------------------------------------------------------------------------------------------


def other_run(path: Path, model: Path | None, rows: Experiences, episodes: list[Episode] | None = None) -> str:
    directory = RunDirectory(path)
    policy = f"policy: {{model: {{path: {model}}}}}\n" if model else ""
    directory.create(f"name: other\ngames: [open_spiel:tic_tac_toe]\n{policy}")
    with Catalog(directory.catalog) as catalog:
        log = SegmentLog(path, "experiences", catalog)
        log.append(experiences_to_table(rows))
        log.commit()
        if episodes:
            said = SegmentLog(path, "episodes", catalog)
            said.append(episodes_to_table(episodes))
            said.commit()
    return str(path)


def test_rows_of_another_run_are_taken_as_they_are_by_reward_policy_and_version(
    run: RunDirectory, tmp_path: Path
) -> None:
    rows = sample_experiences([2] * 6, rewards=(1, 0, 1, 1, 1, 1), version=4)
    version = rows.steps["version"].copy()
    version[6] = 3
    names = np.array(["main", "main", "main", "main", "other", "main"], object)
    other = other_run(tmp_path / "o", None, rows.replace(sequences={"policy": names}, steps={"version": version}))
    with Catalog(tmp_path / "o" / "catalog.sqlite") as catalog:
        texts = {name: np.array(["x"], object) for name in ("reason", "detail")}
        RefusedLog(tmp_path / "o", catalog).add(rows.take([5]).replace(sequences=texts))
    work(run, BOARDS, expert=[{"kind": "run", "run": other, "policy": "main@4", "min_reward": 0.5}])
    found = GatheredRows(run.expert).read([0, 1])
    assert len(GatheredRows(run.expert)) == 2
    expected = rows.take([0, 2])  # 1 got too little, 3 was begun by another version, 4 is another's, 5 was refused
    np.testing.assert_array_equal(found.steps["observation"], expected.steps["observation"])
    np.testing.assert_array_equal(found.steps["action"], expected.steps["action"])


def test_run_without_what_was_asked_for_is_refused(run: RunDirectory, model: Path, tmp_path: Path) -> None:
    other = other_run(tmp_path / "o", None, sample_experiences((2,), rewards=(0.0,)))
    with pytest.raises(ConfigError, match="has no verified sequences that were asked for"):
        work(run, BOARDS, expert=[{"kind": "run", "run": other, "min_reward": 0.5}])
    with pytest.raises(ConfigError, match="plays boards, so this run cannot learn from it"):
        work(run, WORDS, model=model, expert=[{"kind": "run", "run": other}])


def spoken(task: int, replies: tuple[str, ...]) -> Episode:
    seats = (Seat(policy=PolicyRef(name=PolicyName("main")), learns=True),)
    made = Task(id=TaskId(task), game="tasks:sums", seed=0, seats=seats, inputs={"prompt": f"{task}+1"})
    moves = np.zeros(len(replies), np.int32)
    return Episode(
        id=EpisodeId(f"episode-{task}"),
        task=made,
        returns=(1.0,),
        move_plies=moves,
        move_seats=moves.astype(np.int16),
        move_actions=moves,
        replies=replies,
    )


def test_answers_of_a_model_with_another_tokenizer_are_made_into_tokens_anew(
    run: RunDirectory, model: Path, tmp_path: Path
) -> None:
    foreign = make_tiny_model(tmp_path / "foreign", layers=1, width=16, heads=2, context=512)  # another context
    rows = sample_experiences([4] * 3, tokens=True)
    episodes = [spoken(0, ("one",)), spoken(1, ("two", "three")), spoken(2, ("four",))]
    work(run, WORDS, model=model, expert=[{"kind": "run", "run": other_run(tmp_path / "o", foreign, rows, episodes)}])
    gathered = GatheredRows(run.expert)
    assert texts(gathered.read([0, 1]), model) == [
        "<|im_start|>u0+1<|im_end|><|im_start|>aone<|im_end|>",
        "<|im_start|>u2+1<|im_end|><|im_start|>afour<|im_end|>",
    ]
    assert gathered.facts["refused"] == 1
    assert "not one answer to one prompt" in gathered.facts["refusals"][0]


def test_rows_of_the_same_tokenizer_keep_their_tokens(run: RunDirectory, model: Path, tmp_path: Path) -> None:
    rows = sample_experiences([4, 97], tokens=True)
    work(run, WORDS, model=model, expert=[{"kind": "run", "run": other_run(tmp_path / "o", model, rows)}])
    gathered = GatheredRows(run.expert)
    assert gathered.read([0]).steps["action"].tolist() == rows.steps["action"][:4].tolist()
    assert gathered.facts["refusals"] == [f"{tmp_path / 'o'}: 1 rows: longer than the context"]


# -- as the loop sees it -----------------------------------------------------------------------------------------------


class Told:
    """Telemetry that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def event(self, kind: str, **fields: Any) -> None:
        self.events.append((kind, fields))

    def metrics(self, step: int, values: Any) -> None:
        self.events.append(("metrics", dict(values)))

    def room(self, name: str) -> Any:
        return nullcontext()


@pytest.fixture
def context(run: RunDirectory, tmp_path: Path) -> Iterator[Any]:
    supervisor = Supervisor(tmp_path / "logs", max_restarts=1, launcher=ForkLauncher(run.path))
    (tmp_path / "logs").mkdir()
    yield SimpleNamespace(run=run, config=None, shape=None, plugins=(), supervisor=supervisor, telemetry=Told())
    supervisor.stop()


def config_with(**buffer: Any) -> RunConfig:
    return build_config({**BOARDS, "train": {"batch_episodes": 4}, "buffer": buffer})


def test_process_gathers_once_and_the_sources_open_on_what_it_found(context: Any) -> None:
    context.config = config_with(expert={"sources": [{"kind": "bots", "games": 4}]})
    assert gather(context, lambda: False)
    assert ("gathered", {"refused": [], "gathering/expert_rows": 8.0, "gathering/expert_refused": 0.0}) in (
        context.telemetry.events
    )
    context.telemetry.events.clear()
    assert gather(context, lambda: False)
    assert context.telemetry.events == []
    with Catalog(context.run.catalog) as catalog:
        source, _ = open_offline(context.config, context.run, ImportStore(context.run.path, catalog))
        batch = source.next()
        assert batch.experiences.sequences["source"].tolist() == ["expert"] * 4
        source.commit(batch)
        assert source.state()["position"] == 4


def test_bad_input_is_bad_input_and_a_stop_is_obeyed(context: Any) -> None:
    context.config = config_with(expert={"sources": [{"kind": "bots", "players": ["grandmaster"]}]})
    with pytest.raises(ConfigError, match=r"buffer.expert.sources.0: .*grandmaster"):
        gather(context, lambda: False)
    assert gather(context, lambda: True) is False
    assert not context.run.expert.exists()


def test_file_that_changed_since_is_refused_and_one_that_is_gone_is_not(
    run: RunDirectory, model: Path, tmp_path: Path
) -> None:
    path = lines(tmp_path / "e.jsonl", {"prompt": "a", "response": "b"})
    work(run, WORDS, model=model, expert=[path])
    check_unchanged(run)
    lines(tmp_path / "e.jsonl", {"prompt": "a", "response": "c"})
    with pytest.raises(ConfigError, match=r"e.jsonl is not what it was when this run took its rows from it"):
        check_unchanged(run)
    (tmp_path / "e.jsonl").unlink()
    check_unchanged(run)


def test_model_of_the_order_is_that_of_the_shape(context: Any, model: Path) -> None:
    """After a warm start the tokenizer is in the run's own folder."""
    sent: list[Any] = []
    context.shape = LanguageModelShape(model=LanguageModelConfig(path=str(model)), critic=False, games=("x",))
    context.supervisor = SimpleNamespace(
        start=lambda spec: None,
        send=lambda worker, message: sent.append(message),
        poll=lambda timeout: [],
        dismiss=lambda name: None,
    )
    stops = iter([False, True])
    context.config = config_with(pairs={"sources": ["p.jsonl"]})
    assert gather(context, lambda: next(stops)) is False
    assert sent[0].model == str(model)
    assert sent[0].pairs
    assert not sent[0].expert
    context.supervisor.stop = lambda: None
