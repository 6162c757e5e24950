"""Every example of networks passes with `runtime: ray` added, cut short; synchronous ones with the weights of a local run."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))

from cut_examples import CUTS, EXAMPLES, QUICK_EVALUATION, cut, laid_over, weights_of

from ludus import make_run, parse_config

STOCKFISH = shutil.which("stockfish", path=f"{os.environ.get('PATH', '')}:/usr/games")

pytestmark = pytest.mark.timeout(1800)

LEARNED = {"stop": {"generations": 2, "nash_conv": None}}
FURTHER: dict[str, dict[str, Any]] = {
    "connect_four_async.yaml": {"train": {"steps": 20000}, "evaluate": QUICK_EVALUATION},
    "feed/explorer.yaml": {"buffer": {"capacity": 500}},
    "league/connect_four_league.yaml": {
        "policy": {"network": {"hidden": [16]}},
        "explore": {"games_in_flight": 64},
        "train": {"steps": 4096, "batch_steps": 1024},
        "population": {
            "league": {"slice_steps": 2048, "exploiter_slice_steps": 1024},
            "payoffs": {"games": 6, "extra": 4},
            **LEARNED,
        },
    },
    "psro/leduc.yaml": {"population": {"stop": {"generations": 4}}},
    "psro/leduc_learned.yaml": {
        "explore": {"games_in_flight": 64},
        "train": {"steps": 8192, "batch_steps": 4096, "minibatch": 1024},
        "population": LEARNED,
    },
    "plugins/csv_rows.yaml": {"train": {"steps": 2400}, "evaluate": QUICK_EVALUATION},
    "plugins/gated.yaml": {
        "explore": {"games_in_flight": 32},
        "train": {"steps": 2048, "batch_steps": 1024},
        "evaluate": QUICK_EVALUATION,
    },
    "plugins/nim.yaml": {"train": {"steps": 3000}, "evaluate": QUICK_EVALUATION},
    "plugins/spo.yaml": {"train": {"steps": 3000}, "evaluate": QUICK_EVALUATION},
}
CHESS = {
    "buffer": {"loader": {"options": {"positions": 128, "reservoir": 500, "validation_positions": 64}}},
    "cycle": {"new_sequences": 3, "updates": 4},
    "train": {"updates": 8},
    "evaluate": {"games": 2, "final_games": 2},
}
HAS_TIMING = ("connect_four_async.yaml", "feed/explorer.yaml")
"""What these end with depends on how fast anything was."""
BESIDE_OTHERS = ("chess.yaml", "feed/trainer.yaml")
"""Examples with tests of their own, below."""


def has_model(document: Any) -> bool:
    """Whether a language model takes part."""
    if isinstance(document, list):
        return any(map(has_model, document))
    return isinstance(document, dict) and ("model" in document or any(map(has_model, document.values())))


def networks() -> list[str]:
    paths = sorted(EXAMPLES.rglob("*.yaml"))
    return [str(path.relative_to(EXAMPLES)) for path in paths if not has_model(yaml.safe_load(path.read_text()))]


def text_of(example: str) -> str:
    if example in CUTS:
        return cut(example)
    return yaml.safe_dump(laid_over(yaml.safe_load((EXAMPLES / example).read_text()), FURTHER[example]))


def end(text: str, folder: Path, runtime: str, plugins: list[str]) -> dict[str, str]:
    # Bits depend on the number of threads, and the process of the tests has one.
    config = parse_config(f"{text}\nruntime: {{kind: {runtime}, threads: 1}}\n", "run.yaml")
    run = make_run(config, folder, plugins=plugins)
    assert run.run_to_end().stage == "done"
    return weights_of(folder)


def test_every_example_of_networks_is_tested_on_ray() -> None:
    assert set(networks()) == {name for name in CUTS if name in networks()} | set(FURTHER) | set(BESIDE_OTHERS)


@pytest.mark.ray
@pytest.mark.parametrize("example", [name for name in networks() if name not in BESIDE_OTHERS])
def test_an_example_ends_on_ray_as_on_this_machine(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(EXAMPLES.parent)
    plugin = (EXAMPLES / example).with_suffix(".py")
    plugins = [str(plugin)] if plugin.is_file() else []
    found = end(text_of(example), tmp_path / "ray", "ray", plugins)
    if example not in HAS_TIMING:
        assert found == end(text_of(example), tmp_path / "local", "local", plugins)


@pytest.mark.ray
def test_rounds_on_what_another_run_plays_are_trained_on_ray(tmp_path: Path) -> None:
    end(text_of("feed/explorer.yaml"), tmp_path / "explorer", "local", [])
    changes = {
        "buffer": {"feeds": [str(tmp_path / "explorer")]},
        "cycle": {"new_sequences": 100, "updates": 3, "export": str(tmp_path / "exports")},
        "train": {"steps": 800},
        "evaluate": QUICK_EVALUATION,
    }
    text = yaml.safe_dump(laid_over(yaml.safe_load((EXAMPLES / "feed" / "trainer.yaml").read_text()), changes))
    assert end(text, tmp_path / "run", "ray", [])


@pytest.mark.ray
@pytest.mark.skipif(not STOCKFISH, reason="needs stockfish")
def test_chess_trains_beside_its_data_and_is_measured_on_ray(tmp_path: Path) -> None:
    pytest.importorskip("ludus_chess._native")
    document = laid_over(yaml.safe_load((EXAMPLES / "chess.yaml").read_text()), CHESS)
    document["buffer"]["loader"]["command"][5] = "30"
    text = yaml.safe_dump(document)
    assert end(text, tmp_path / "run", "ray", [])
    logs = tmp_path / "run" / "logs" / "latest"
    assert (logs / "explorer-0.log").is_file()
