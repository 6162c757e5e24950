"""A tiny language model, made once, for what the PyTorch learner promises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ludus.records import Experiences

if TYPE_CHECKING:
    from ludus.lm.language_models import LanguageModel

VOCABULARY = 200
"""Tokens that made-up sequences use."""
GPU_ROWS: list[tuple[str, ...]] = []
"""What `make gpu` measured: test, GPU, time, peak memory."""


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what GPUs did, as a table that can be sent."""
    if GPU_ROWS:
        terminalreporter.section("GPUs")
        for row in (("what", "GPU", "updates took", "peak"), *GPU_ROWS):
            terminalreporter.write_line("| " + " | ".join(row) + " |")


@pytest.fixture(scope="session")
def load_tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., LanguageModel]:
    """Load the tiny model anew; the files are made once."""
    import torch

    from ludus.config import LanguageModelConfig
    from ludus.lm.language_models import load_language_model
    from ludus.lm.tiny_model import make_tiny_model

    torch.set_num_threads(1)
    folder: Path = make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", layers=2, width=32, context=256)

    def load(**config: Any) -> LanguageModel:
        return load_language_model(LanguageModelConfig(path=str(folder), **config))

    return load


@pytest.fixture(scope="session")
def tiny(load_tiny: Callable[..., LanguageModel]) -> LanguageModel:
    return load_tiny()


def mixed_experiences(
    on_policy: int = 8, expert: int = 4, pairs: int = 0, *, seed: int = 0, turns: int = 1
) -> Experiences:
    """Sequences of every source; those of others than on_policy hold nothing but tokens, and pairs share their prompt."""
    count = on_policy + expert + 2 * pairs
    batch = token_experiences(rows=count, seed=seed, turns=turns, groups=max(4, count // 2))
    source = np.array(["on_policy"] * on_policy + ["expert"] * expert + ["pairs"] * 2 * pairs, object)
    pair = np.full(count, "", object)
    chosen = np.zeros(count, bool)
    for number in range(pairs):
        rows = [on_policy + expert + number, on_policy + expert + pairs + number]
        pair[rows], chosen[rows[0]] = f"p{number}", True
    steps = {name: batch.steps[name].copy() for name in ("logp", "value", "reward")}
    for column in steps.values():
        column[(source != "on_policy")[batch.sequence_of_step()]] = 0.0
    group = np.array([f"g{row % 4}" for row in range(count)], object)
    order = np.random.default_rng(seed).permutation(count)
    labels = {"source": source, "pair": pair, "chosen": chosen, "group": group}
    return batch.replace(sequences=labels, steps=steps).take(order)


def token_experiences(
    rows: int = 8, *, prompt: int = 5, longest: int = 9, seed: int = 0, groups: int = 4, turns: int = 1
) -> Experiences:
    """Sequences of a prompt and sampled tokens, with `turns` chunks of each; groups share their first prompt."""
    random = np.random.default_rng(seed)
    prompts = random.integers(0, VOCABULARY, (groups, prompt))
    tokens, masks, lengths = [], [], []
    for row in range(rows):
        parts, kinds = [prompts[row % groups]], [np.zeros(prompt, bool)]
        for turn in range(turns):
            if turn:
                parts.append(random.integers(0, VOCABULARY, random.integers(1, 4)))
                kinds.append(np.zeros(len(parts[-1]), bool))
            parts.append(random.integers(0, VOCABULARY, random.integers(2, longest + 1)))
            kinds.append(np.ones(len(parts[-1]), bool))
        tokens.append(np.concatenate(parts))
        masks.append(np.concatenate(kinds))
        lengths.append(len(tokens[-1]))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    count = int(offsets[-1])
    reward = np.zeros(count, np.float32)
    reward[offsets[1:] - 1] = random.normal(size=rows)
    steps = {
        "action": np.concatenate(tokens).astype(np.int32),
        "mask": np.concatenate(masks),
        "logp": -5.0 - random.random(count).astype(np.float32),
        "value": random.normal(size=count).astype(np.float32),
        "reward": reward,
        "version": np.zeros(count, np.int32),
    }
    sequences = {
        "episode": np.array([f"e{row}" for row in range(rows)], object),
        "seat": np.zeros(rows, np.int64),
        "group": np.array([f"g{row % groups}" for row in range(rows)], object),
        "truncated": np.zeros(rows, bool),
    }
    return Experiences(sequences=sequences, offsets=offsets, steps=steps)
