"""Language models on the nodes of a cluster: what the config names comes there by its content, and the bits are the same."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "golden"))

from cut_examples import weights_of

from ludus import make_run, parse_config
from ludus.runtime.ray.hashing import hash_file

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

TEXT = """
name: taught
tasks: ["ludus/arithmetic?digits=1&ops=+&count=64"]
rewards: [{kind: custom, name: shortness}, {kind: reward_model, path: CLASSIFIER, squash: true}]
policy: {model: {path: MODEL, lora: {rank: 2}}, teacher: {run: TEACHER}}
explore: {games_in_flight: 8, workers: 2, group: 4, sampling: {max_tokens: 4}}
train: {steps: 120, batch_episodes: 8, minibatch: 8, algorithm: {preset: distill}}
evaluate: {tasks: [{path: "ludus/arithmetic?digits=1&ops=+&count=4", split: test, name: held_out}], final_games: 4}
telemetry: {tensorboard: false, every_s: 0}
"""
PLUGIN = """
from ludus.rewards import register_reward


def shortness(attempt):
    return 1.0 / (1 + len(attempt.response))


register_reward("shortness", shortness)
"""


@pytest.fixture
def classifier(tmp_path: Path, language_run: Any) -> Path:
    """A reward model: a sequence classifier of one output."""
    import transformers

    folder, base = tmp_path / "classifier", language_run.path / "base"
    settings = transformers.Qwen3Config.from_pretrained(base).to_dict() | {"num_labels": 1}
    made: Any = transformers.Qwen3ForSequenceClassification(transformers.Qwen3Config(**settings))
    made.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    return folder


@pytest.fixture
def node_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the nodes of a cluster that is started next keep what comes to them; sockets allow no long path."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def test_models_a_teacher_and_plugins_come_to_nodes_by_content_and_the_weights_are_the_same(
    node_disk: Path, cluster: Any, classifier: Path, language_run: Any, tmp_path: Path
) -> None:
    plugin = tmp_path / "shortness.py"
    plugin.write_text(PLUGIN)
    model = Path(language_run.path).parent / "tiny"
    text = TEXT.replace("CLASSIFIER", str(classifier)).replace("TEACHER", str(language_run.path))
    text = text.replace("MODEL", str(model))
    found = {}
    for name, runtime in {"local": "local", "ray": f'{{kind: ray, address: "{cluster.address}"}}'}.items():
        config = parse_config(f"{text}runtime: {runtime}\n", "run.yaml")
        assert make_run(config, tmp_path / name, plugins=[str(plugin)]).run_to_end().stage == "done"
        found[name] = weights_of(tmp_path / name / "policies")

    assert found["ray"] == found["local"]
    there = {path.name for path in node_disk.rglob("ludus-cache-*/*")}  # each node has a cache of its own
    versions = sorted((tmp_path / "ray" / "policies" / "main").glob("*/adapter_model.safetensors"))
    travelled = [
        model / "model.safetensors",
        language_run.path / "base" / "model.safetensors",
        classifier / "model.safetensors",
        plugin,
        next((tmp_path / "ray" / "teacher").rglob("adapter_model.safetensors")),
        versions[-1],
    ]
    assert [path for path in travelled if hash_file(path) not in there] == []
