"""The synchronous examples, cut to a few thousand steps, and the hash of the weights that each of them ends with.

A change that is not meant to change what is learnt leaves every hash as it is. Bits depend on the processor and on the
libraries that compute, so the table has one entry for each machine that it was recorded on; `make golden` records this
one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import re
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TABLE = Path(__file__).with_name("weights.json")
QUICK_EVALUATION = {"games": 2, "final_games": 2, "every": None, "at_start": False}

CUTS: dict[str, dict[str, Any]] = {
    "connect_four.yaml": {
        "train": {"steps": 32768, "batch_steps": 4096, "shards": 1},  # as it was recorded
        "policy": {"network": {"hidden": [128, 128]}},
        "explore": {"games_in_flight": 256},
    },
    "kuhn_poker.yaml": {"train": {"steps": 6000}},
    "leduc_league.yaml": {"train": {"steps": 6000}, "league": {"snapshot_every": 2000}},
    "tic_tac_toe_split.yaml": {"train": {"steps": 6000}},
    "marl/simple_spread.yaml": {"train": {"steps": 4000}},
    "marl/simple_tag.yaml": {"train": {"steps": 4000}},
    "marl/speaker_listener.yaml": {"train": {"steps": 4000}},
    "psro/kuhn.yaml": {"population": {"stop": {"generations": 6}}},
    "psro/kuhn_learned.yaml": {
        "train": {"steps": 8192, "batch_steps": 4096, "minibatch": 1024},
        "population": {"stop": {"generations": 2, "nash_conv": None}},
    },
    "psro/kuhn_words_warm_up.yaml": {"warm_start": {"games": 200}, "train": {"steps": 600, "batch_episodes": 32}},
    "llm/tictactoe.yaml": {
        "schedule": "sync",
        "warm_start": {"games": 200},
        "train": {"steps": 1500, "batch_episodes": 32, "minibatch": 32},
    },
    "rft/arithmetic_mix.yaml": {"explore": {"games_in_flight": 64}},
}
"""By example: what is laid over it. Stages are cut by `CUT_STAGES`."""

CUT_STAGES: dict[str, dict[str, dict[str, Any]]] = {
    "rft/arithmetic_mix.yaml": {
        "sft": {"train": {"steps": 4000}},
        "mix": {"train": {"steps": 3000, "batch_episodes": 32, "minibatch": 48}},
    },
}

HAS_NO_EVALUATION = ("psro/kuhn.yaml", "psro/kuhn_learned.yaml")
"""Examples whose config has no evaluation to cut."""


def cut(example: str) -> str:
    """The example's YAML with its cuts."""
    document = yaml.safe_load((EXAMPLES / example).read_text())
    document = laid_over(document, CUTS[example])
    if example not in HAS_NO_EVALUATION:
        document = laid_over(document, {"evaluate": QUICK_EVALUATION})
    for stage in document.get("stages", ()):
        stage.update(laid_over(stage, CUT_STAGES[example][stage["name"]]))
    return yaml.safe_dump(document)


def laid_over(below: Any, above: Any) -> Any:
    """Values of one document over those of another, key by key."""
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        return {**below, **{key: laid_over(below.get(key), value) for key, value in above.items()}}
    return above


def final_weights(example: str, folder: Path) -> dict[str, str]:
    """Run a cut example; returns the hash of the newest weights of each policy, by its folder in the run."""
    from ludus import make_run, parse_config

    loop = make_run(parse_config(cut(example), example), folder)
    assert loop.run_to_end().stage == "done"
    return weights_of(folder)


def weights_of(folder: Path) -> dict[str, str]:
    """The hash of the newest weights of each policy in a run, by its folder there."""
    newest: dict[str, Path] = {}
    for weights in sorted(folder.rglob("policies/*/*/*.safetensors")):
        newest[str(weights.parent.parent.relative_to(folder))] = weights.parent
    return {policy: _hash_of(weights) for policy, weights in sorted(newest.items())}


def _hash_of(folder: Path) -> str:
    """Of the tensors, by name: the same whatever file they are in."""
    from safetensors.numpy import load_file

    tensors = {
        name: tensor for file in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(file).items()
    }
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tensor.shape}".encode() + tensor.tobytes())
    return digest.hexdigest()[:16]


def machine() -> dict[str, str]:
    """What the bits depend on besides the code: the processor, and the libraries that compute."""
    processor = Path("/proc/cpuinfo").read_text()
    model, flags = (re.search(rf"{key}\s*:\s*(.*)", processor) for key in ("model name", "flags"))
    vectors = sorted(
        flag for flag in (flags[1].split() if flags else ()) if flag.startswith(("avx", "amx", "fma", "sse4"))
    )
    libraries = {
        name: version(name) for name in ("jax", "jaxlib", "flax", "optax", "pgx", "torch", "open_spiel", "numpy")
    }
    return {"processor": model[1] if model else platform.machine(), "vectors": " ".join(vectors), **libraries}


def recorded() -> list[dict[str, Any]]:
    """The table: one entry for each machine."""
    entries: list[dict[str, Any]] = json.loads(TABLE.read_text())
    return entries


def main() -> None:
    """Record what the examples end with on this machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("examples", nargs="*", default=list(CUTS))
    here, chosen = machine(), parser.parse_args().examples
    others = [entry for entry in recorded() if entry["machine"] != here]
    weights = next((entry["weights"] for entry in recorded() if entry["machine"] == here), {})
    for example in chosen:
        with tempfile.TemporaryDirectory() as folder:
            weights[example] = final_weights(example, Path(folder) / "run")
            sys.stderr.write(f"{example}: {weights[example]}\n")
    sys.stdout.write(json.dumps([*others, {"machine": here, "weights": weights}], indent=2) + "\n")


if __name__ == "__main__":
    main()
