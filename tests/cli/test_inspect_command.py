"""`ludus inspect` on rows: counts by reason, samples with their texts, and the way out to a file and back."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus.buffer import ImportStore, as_rows, encode_messages, read_messages
from ludus.cli.app import main
from ludus.config import LanguageModelConfig
from ludus.experience import Refusals, RefusedLog
from ludus.experience.refusals import refusals_of
from ludus.lm.model_text import ModelText, load_model_text
from ludus.lm.tiny_model import make_tiny_model
from ludus.records import Experiences, PolicyName, PolicyRef
from ludus.storage.arrow import experiences_to_table
from ludus.storage.catalog import Catalog
from ludus.storage.lock import RunLock
from ludus.storage.run_directory import RunDirectory
from ludus.storage.segments import SegmentLog

Ludus = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny", layers=1, width=16, heads=2, context=96)


@pytest.fixture(scope="module")
def text(model: Path) -> ModelText:
    return load_model_text(LanguageModelConfig(path=str(model)))


@pytest.fixture
def run(tmp_path: Path, model: Path, text: ModelText) -> Path:
    """A run of sums: two groups of two were verified, one was refused."""
    directory = RunDirectory(tmp_path / "sums")
    directory.create(f"name: sums\ngames: [open_spiel:tic_tac_toe]\npolicy: {{model: {{path: {model}}}}}\n")
    rows = answers(text, ["2", "3", "4", "five", "0", "0"], [1, 0, 1, 0, 0, 0])
    with Catalog(directory.catalog) as catalog:
        log = SegmentLog(directory.path, "experiences", catalog)
        log.append(experiences_to_table(rows.take(range(4))))
        log.commit()
        texts = {"reason": np.full(2, "zero_variance", object), "detail": np.full(2, "all 2 of group g2 got 0", object)}
        refused = rows.take([4, 5]).replace(sequences=texts)
        RefusedLog(directory.path, catalog).add(refused)
        counted = Refusals()
        counted.add(refusals_of(refused))
        counted.write(catalog)
    return directory.path


def answers(text: ModelText, said: list[str], rewards: list[float]) -> Experiences:
    """What a policy answered to `1+<task>`, in groups of two."""
    encoded = [
        encode_messages(text.chat, read_messages({"prompt": f"1+{task}", "response": answer}), context=96)
        for task, answer in enumerate(said)
    ]
    rows = as_rows(encoded, origin="here", game="tasks:sums")
    reward = np.zeros(rows.step_count, np.float32)
    reward[rows.offsets[1:] - 1] = rewards
    totals = {name: np.array(rewards, np.float32) for name in ("final_reward", "shaped_reward")}
    groups = np.array([f"g{task // 2}" for task in range(len(said))], object)
    return rows.replace(sequences={**totals, "group": groups}, steps={"reward": reward})


@pytest.fixture
def ludus(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ludus:
    def call(*arguments: Any) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ludus", "inspect", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return int(left.value.code or 0), said.out, said.err

    return call


def test_counts_by_reason_and_samples_with_texts_are_shown(run: Path, ludus: Ludus) -> None:
    code, out, _ = ludus(run)
    assert code == 0
    assert "refused      zero_variance: 2\n  zero_variance: episode " in out
    assert "all 2 of group g2 got 0" in out
    assert "> <|im_start|>u1+3<|im_end|><|im_start|>a" in out
    assert "< five" in out
    assert "group g1  reward 0" in out
    facts = json.loads(ludus(run, "--json", "--samples", 2, "--reason", "zero_variance")[1])
    assert [view["response"] for view in facts["samples"]] == ["0", "0"]
    assert json.loads(ludus(run, "--json", "--samples", 0)[1])["samples"] == []


def test_samples_are_shown_as_tokens_when_the_model_is_not_here(run: Path, ludus: Ludus, tmp_path: Path) -> None:
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("tiny}", "elsewhere}"))
    code, out, _ = ludus(run)
    assert code == 0
    assert "258 117" in out
    assert ludus(run, "--export", tmp_path / "rows.jsonl")[0] == 2


def test_rows_go_out_to_a_file_and_come_back_changed(run: Path, ludus: Ludus, tmp_path: Path, text: ModelText) -> None:
    path = tmp_path / "rows.jsonl"
    code, out, _ = ludus(run, "--export", path)
    assert code == 0
    assert f"6 rows written to {path}" in out
    code, out, _ = ludus(run, "--import", path)
    assert "0 rows to train on, 0 to imitate, 0 rejected, 6 unchanged; there is nothing to take" in out
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[3]["response"] == "five"
    lines[0]["reward"], lines[2]["accept"], lines[4]["accept"] = 0.5, False, True
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, _ = ludus(run, "--import", path)
    assert code == 0
    assert "2 rows to train on (and 1 more of their groups), 0 to imitate, 1 rejected, 2 unchanged" in out
    assert "when it resumes" in out
    assert json.loads(ludus(run, "--json")[1])["inbox"] == 1
    with Catalog(run / "catalog.sqlite") as catalog:
        store = ImportStore(run, catalog)
        assert store.take_inbox() == 4
        assert store.claim(10).experiences.sequences["shaped_reward"].tolist() == [0.5, 0.0, 0.0]
        assert store.rejected == {(2, 0, 0)}
    _, out, _ = ludus(run, "--reason", "rejected_by_person")
    assert "rejected_by_person" in out


def test_changed_answers_are_for_runs_with_experts(run: Path, ludus: Ludus, tmp_path: Path, text: ModelText) -> None:
    path = tmp_path / "rows.jsonl"
    ludus(run, "--export", path, "--what", "verified", "--limit", 1)
    line = json.loads(path.read_text())
    path.write_text(json.dumps({**line, "response": "4"}))
    code, _, error = ludus(run, "--import", path)
    assert code == 2
    assert f"{path}:1: source: expert, but the run learns from no expert rows" in error
    config = run / "config.yaml"
    objective = "train: {algorithm: {preset: sft}}"
    config.write_text(f"{config.read_text()}buffer: {{expert: {{sources: [a.jsonl]}}}}\n{objective}\n")
    code, out, error = ludus(run, "--import", path)
    assert code == 0, error
    assert "1 to imitate" in out
    with Catalog(run / "catalog.sqlite") as catalog:
        store = ImportStore(run, catalog)
        store.take_inbox()
        row = store.expert.read([0])
    assert text.chat.decode(row.steps["action"][row.steps["mask"]].tolist()) == "4"
    assert row.steps["action"][-1] == text.chat.encode_reply("4")[-1]


def test_live_run_takes_imports_with_its_next_update(run: Path, ludus: Ludus, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with RunLock(run):
        ludus(run, "--export", path)
        changed = path.read_text().replace('"accept": true', '"accept": false', 1)
        path.write_text(changed)
        code, out, _ = ludus(run, "--import", path)
    assert code == 0
    assert "with its next update" in out


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"id": "x/0"', ":1: not JSON"),
        (b'{"id": "nobody/0", "reward": NaN}', ":1: NaN is not a number that JSON has"),
        (b'{"id": "nobody/0", "id": "x"}', ':1: key "id" stands twice'),
        (b"\xff\xfe", ":1: not UTF-8 text"),
        (b"[" * 100_000, ":1: nested too deep"),
        (b'{"id": "nobody/0"}\n[1]', ":2: expected an object in braces"),
    ],
)
def test_file_of_anything_is_refused_with_its_line(
    run: Path, ludus: Ludus, tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    code, _, error = ludus(run, "--import", path)
    assert code == 2
    assert f"{path}{problem}" in error
    assert "Traceback" not in error
    assert not (run / "inbox").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--export", "/nowhere/rows.jsonl"), "there is no folder /nowhere"),
        (("--export", "rows.jsonl", "--what", "some"), "--what some: expected verified, refused, all"),
        (("--import", "/nowhere.jsonl"), "--import /nowhere.jsonl: no such file"),
        (("--export", "rows.jsonl", "--limit", "0"), "'--limit': Input should be greater than or equal to 1"),
    ],
)
def test_bad_arguments_are_refused(run: Path, ludus: Ludus, arguments: tuple[str, ...], problem: str) -> None:
    code, _, error = ludus(run, *arguments)
    assert code == 2
    assert problem in error


def test_run_without_rows_has_no_samples(tmp_path: Path, ludus: Ludus) -> None:
    directory = RunDirectory(tmp_path / "empty")
    directory.create("name: empty\ngames: [pgx:tic_tac_toe]\n")
    Catalog(directory.catalog).close()
    code, out, _ = ludus(directory.path)
    assert code == 0
    assert "samples" not in out
    assert "0 rows written" in ludus(directory.path, "--export", tmp_path / "rows.jsonl")[1]


def test_what_is_listed_is_on_disk(run: Path, ludus: Ludus) -> None:
    directory = RunDirectory(run)
    with Catalog(directory.catalog) as catalog, catalog.transaction():
        for number in (1, 2):
            catalog.add_checkpoint(number, "0" * 64)
            catalog.add_policy(PolicyRef(name=PolicyName("main"), version=number), weights_hash="0")
    (directory.checkpoints / "00000002").mkdir(parents=True)
    (directory.checkpoints / "00000002" / "manifest.json").write_text("{}")
    directory.policy("main", 1).mkdir(parents=True)
    directory.events.write_text(
        '{"time": 1000000, "event": "opened"}\n{"time": 1000090, "event": "ended", "stopped": true}\n'
    )
    directory.metrics.write_text('{"time": 1000050, "step": 70, "evaluate/random/score": 0.5}\n')
    _, out, _ = ludus(run)
    assert "checkpoints  2\n" in out
    assert "versions     2, newest main@1, 1 not on disk" in out
    assert "state        stopped\nstarted      1970-01-1" in out
    assert ", ran 1:30\nseed         0\nevaluated    at step 70: random 50.0%\n" in out
