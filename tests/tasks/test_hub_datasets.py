"""Hugging Face datasets by folder; without a network an id is refused in one sentence, and code never runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from ludus.config import TasksetConfig
from ludus.errors import ConfigError
from ludus.tasks import Taskset, load_taskset

datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as people upload them: a file for each split."""
    made = tmp_path / "sums"
    made.mkdir()
    for split, count in (("train", 5), ("test", 2)):
        lines = [json.dumps({"question": f"{split} {i}", "answer": str(i), "more": {"x": i}}) for i in range(count)]
        (made / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    return made


def load(path: Path | str, **settings: Any) -> Taskset:
    return load_taskset(TasksetConfig.model_validate({"path": str(path), "name": "x", **settings}))


def test_a_folder_is_read_by_split(folder: Path) -> None:
    fields = {"prompt": "question", "x": "more.x"}
    assert load(folder, fields=fields).rows[4] == {"prompt": "train 4", "x": 4}
    assert [row["prompt"] for row in load(folder, split="test", fields=fields).rows] == ["test 0", "test 1"]
    with pytest.raises(ConfigError, match=r"no split 'dev'; it has train, test"):
        load(folder, split="dev", fields=fields)
    with pytest.raises(ConfigError, match=r"no column query; it has question, answer, more"):
        load(folder, fields={"prompt": "query"})


def test_what_save_to_disk_wrote_is_read(tmp_path: Path) -> None:
    whole = datasets.Dataset.from_dict({"prompt": ["a", "b"], "answer": [1, 2]})
    whole.save_to_disk(str(tmp_path / "one"))
    datasets.DatasetDict({"test": whole, "dev": whole}).save_to_disk(str(tmp_path / "two"))
    assert load(tmp_path / "one").rows == ({"prompt": "a", "answer": 1}, {"prompt": "b", "answer": 2})
    assert len(load(tmp_path / "two", split="dev", limit=1)) == 1
    with pytest.raises(ConfigError, match=r"say which split; it has test, dev"):
        load(tmp_path / "two")
    with pytest.raises(ConfigError, match=r"split 'train' was asked for, but it has none"):
        load(tmp_path / "one", split="train")


def test_a_dataset_with_a_script_is_refused_and_does_not_run(tmp_path: Path) -> None:
    made, marker = tmp_path / "evil", tmp_path / "marker"
    made.mkdir()
    (made / "evil.py").write_text(f"open({str(marker)!r}, 'w')\n")
    with pytest.raises(ConfigError, match=r"cannot be read as a dataset"):
        load(made)
    assert not marker.exists()


def test_only_plain_readers_are_used(tmp_path: Path) -> None:
    made = tmp_path / "pages"
    made.mkdir()
    (made / "train.xml").write_text("<a>1</a>")
    with pytest.raises(ConfigError, match=r"it takes the reader 'xml'; ludus reads datasets of arrow, csv"):
        load(made)


def test_an_id_that_cannot_be_reached_is_refused_in_one_sentence() -> None:
    with pytest.raises(ConfigError, match=r"^taskset x: nobody/nothing: cannot be read as a dataset: .*$"):
        load("nobody/nothing")


def test_a_bad_file_in_a_folder_is_refused_in_one_sentence(folder: Path) -> None:
    (folder / "train.jsonl").write_text('{"question": "a"}\nhello\n')
    with pytest.raises(ConfigError, match=r"cannot be read as a dataset: [^\n]*$"):
        load(folder, fields={"prompt": "question"})
