"""`ludus bench lm`: language models beside TRL's GRPOTrainer, per CPU-second, one thread each, in one interleaved run.

The 0.8M-parameter `ludus/tiny`, every parameter trained, 64 completions of 32 and of 128 tokens to prompts of 16, eight
to each prompt, one optimizer step for each batch. End to end: a whole run of ludus (explorer, durable store, trainer,
published weights) beside a whole run of TRL. Shares are of what the matrix products alone would take at the rate that
the same process measured between batches.

Then, with adapters: games of eight turns with growing history, as whole episodes that go on from what was computed,
and as one row per turn with every turn computed anew; and the same run with exploring and training at once.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ludus.bench.loop import run_loop
from ludus.bench.measuring import Figure, Measured, run_rounds, run_this_side
from ludus.runtime import limit_threads

LENGTHS = (32, 128)
TURN_TOKENS = 32
UNIT = "tokens per CPU-second"
TRL = "TRL GRPOTrainer"
FLOPS_PER_TOKEN = 2.0 * (4 * (128 * 256 + 128 * 128 + 128 * 768 + 384 * 128) + 128 * 259)
"""Of the tiny model's matrix products, reading or writing one token."""
PROMPT_TOKENS = 16
GROUP, PROMPTS = 8, 8
BATCH = GROUP * PROMPTS
GAMES = Path(__file__).with_name("word_games.py")
"""A plugin: it is loaded as a file, never imported, so that nothing is registered twice."""
MICRO_BATCH = 4096
"""Tokens computed at once: all of a batch of short completions, as TRL does it."""
LETTERS = """
name: bench_letters
games: [bench_letters]
policy: {{model: {{path: ludus/tiny, lora: null}}}}
explore:
  games_in_flight: 64
  group: 8
  prompt: {{template: bare}}
  sampling: {{max_tokens: {tokens}, ignore_end: true}}
train:
  steps: 1000000000000
  batch_episodes: 64
  minibatch: 64
  epochs: 1
  tokens_per_micro_batch: {micro_batch}
  algorithm: {{preset: grpo}}
"""
DIALOGUE = """
name: bench_dialogue
games: [bench_dialogue]
policy: {{model: {{path: ludus/tiny}}}}
explore:
  games_in_flight: 64
  engine: {{kind: local, reuse: {reuse}}}
  prompt: {{template: bare, rows: {rows}}}
  sampling: {{max_tokens: {tokens}, ignore_end: true}}
train:
  steps: 1000000000000
  batch_episodes: 64
  minibatch: {minibatch}
  epochs: 1
  algorithm: {{preset: reinforce}}
"""
SHARED = """
seed: 1
evaluate: {games: 0, final_games: 0, every: 1000000000000, against: []}
telemetry: {tensorboard: false}
league: {snapshot_every: 1000000000000, opponents: [{kind: mirror}]}
"""

Results = dict[tuple[str, int], list[Measured]]


def bench_lm(*, rounds: int, seconds: float) -> list[Figure]:
    """Run all sides in turn, `rounds` times, and report medians."""
    sides = [(side, tokens) for tokens in LENGTHS for side in ("trl", "loop", "generation", "training")]
    sides += [(side, TURN_TOKENS) for side in ("episode_rows", "turn_rows", "async")]
    results: Results = {side: [] for side in sides}
    for side, measured in run_rounds("ludus.bench.lm", sides, rounds=rounds, seconds=seconds):
        results[side].append(measured)
    return [*(figure for tokens in LENGTHS for figure in beside_trl(results, tokens)), *over_turns(results)]


def beside_trl(results: Results, tokens: int) -> list[Figure]:
    """What 64 completions of `tokens` tokens come to."""
    whole = rate(results["trl", tokens])
    generating = rate(results["trl", tokens], "generation_cpu_s")
    training = statistics.median(r["steps"] / (r["cpu_s"] - r["generation_cpu_s"]) for r in results["trl", tokens])
    # Reading what was written costs one forward and two backward products for every token of prompt and completion.
    flops = {"generation": FLOPS_PER_TOKEN, "training": 3 * FLOPS_PER_TOKEN * (PROMPT_TOKENS + tokens) / tokens}
    shape = f"64x{tokens}"
    return [
        Figure.against(f"{shape}, end to end", rate(results["loop", tokens]), UNIT, TRL, whole),
        Figure.against(f"{shape}, generation", rate(results["generation", tokens]), UNIT, TRL, generating),
        Figure.against(f"{shape}, training", rate(results["training", tokens]), UNIT, TRL, training),
        *(
            Figure.against(
                f"{shape}, {part}, of products alone",
                rate(results[part, tokens]),
                UNIT,
                "matrix products",
                statistics.median(r["gemm_flops"] for r in results[part, tokens]) / flops[part],
            )
            for part in ("generation", "training")
        ),
    ]


def over_turns(results: Results) -> list[Figure]:
    """What eight turns come to, and what two cores do at once."""
    episodes, turns = results["episode_rows", TURN_TOKENS], results["turn_rows", TURN_TOKENS]
    wall = {name: rate(results[name, TURN_TOKENS], "wall_s") for name in ("episode_rows", "async")}
    return [
        Figure.against("8 turns, whole episodes", rate(episodes), UNIT, "a row per turn", rate(turns)),
        Figure.against("8 turns, async", wall["async"], "tokens per second", "sync", wall["episode_rows"]),
    ]


def rate(results: list[Measured], time: str = "cpu_s") -> float:
    """Median of tokens per second of that kind of time."""
    return statistics.median(result["steps"] / result[time] for result in results)


def run_words(config: str, seconds: float, schedule: str = "sync") -> Measured:
    """A whole run: explorer, store, trainer and what goes between them."""
    return run_loop(seconds, f"{config}schedule: {schedule}\n", shared=SHARED, plugins=[str(GAMES)])


def run_dialogue(tokens: int, seconds: float, rows: str, schedule: str = "sync") -> Measured:
    """Games of eight turns; a batch is one optimizer step, whatever its rows are."""
    by_turn = rows == "turn"
    config = DIALOGUE.format(
        tokens=tokens, rows=rows, reuse="false" if by_turn else "true", minibatch=64 * 8 if by_turn else 64
    )
    return run_words(config, seconds, schedule)


def run_generation(tokens: int, seconds: float) -> Measured:
    """The local engine alone: 64 completions, eight for each prompt, and between batches the rate of bare products."""
    model = _load_tiny()
    import numpy as np
    import torch

    from ludus.inference.local.engine import LocalEngine
    from ludus.inference.protocol import Request, Sampling
    from ludus.records import PolicyRef

    policy = PolicyRef.parse("main@0")
    engine = LocalEngine(model)
    engine.add_version(policy, {})
    random = np.random.default_rng(0)
    sampling = Sampling(max_tokens=tokens)

    async def write_batch() -> None:
        prompts = [tuple(random.integers(97, 105, PROMPT_TOKENS).tolist()) for _ in range(PROMPTS)]
        requests = [
            Request(prompt=prompts[i // GROUP], policy=policy, sampling=sampling, seed=i, is_last=True)
            for i in range(BATCH)
        ]
        await asyncio.gather(*map(engine.generate, requests))

    with torch.inference_mode():
        return _measure(seconds, lambda: asyncio.run(write_batch()), BATCH * tokens, rows=BATCH)


def run_training(tokens: int, seconds: float) -> Measured:
    """The PyTorch learner alone: one optimizer step on 64 completions, as `grpo` takes it."""
    model = _load_tiny()
    from ludus.config import ALGORITHMS, AlgorithmConfig, TrainConfig
    from ludus.train.torch_learner import TorchLearner

    preset = ALGORITHMS["grpo"]
    algorithm = AlgorithmConfig(preset="grpo", advantage=preset.advantage, objective=preset.objective)
    train = TrainConfig(minibatch=BATCH, epochs=1, tokens_per_micro_batch=MICRO_BATCH, algorithm=algorithm)
    learner = TorchLearner(model, train, lora=None)
    state, batch = learner.init(0), _completions(tokens)
    return _measure(
        seconds,
        lambda: learner.train_batch(state, batch, seed=0, progress=0.0),
        BATCH * tokens,
        rows=MICRO_BATCH,
    )


def run_trl(tokens: int, seconds: float) -> Measured:
    """TRL's GRPOTrainer on the same model, task and shapes."""
    limit_threads(1, os.environ)
    from ludus.bench.trl_grpo import train_trl

    return train_trl(seconds, tokens, prompts=PROMPTS, group=GROUP)


def _load_tiny() -> Any:
    limit_threads(1, os.environ)
    import torch

    from ludus.config import LanguageModelConfig
    from ludus.lm.language_models import load_language_model

    torch.set_num_threads(1)
    return load_language_model(LanguageModelConfig(path="ludus/tiny"))


def _completions(tokens: int) -> Any:
    """64 sequences in groups of eight with the same prompt, rewarded at random."""
    import numpy as np

    from ludus.records import Experiences

    random, length = np.random.default_rng(0), PROMPT_TOKENS + tokens
    prompts = random.integers(0, 256, (PROMPTS, PROMPT_TOKENS)).repeat(GROUP, axis=0)
    sampled = random.integers(0, 256, (BATCH, tokens))
    total = BATCH * length
    mask = np.tile(np.arange(length) >= PROMPT_TOKENS, BATCH)
    reward = np.where(np.tile(np.arange(length) == length - 1, BATCH), random.random(total), 0.0)
    return Experiences(
        sequences={
            "episode": np.array([f"e{i}" for i in range(BATCH)], object),
            "seat": np.zeros(BATCH, np.int64),
            "group": np.array([f"g{i // GROUP}" for i in range(BATCH)], object),
            "truncated": np.zeros(BATCH, bool),
        },
        offsets=np.arange(0, total + 1, length),
        steps={
            "action": np.concatenate([prompts, sampled], axis=1).reshape(-1).astype(np.int32),
            "mask": mask,
            "logp": np.full(total, -5.5, np.float32),
            "value": np.zeros(total, np.float32),
            "reward": reward.astype(np.float32),
            "version": np.zeros(total, np.int32),
        },
    )


def _measure(seconds: float, batch: Callable[[], Any], steps: int, *, rows: int) -> Measured:
    """Repeat a batch; in turn with it, measure how fast matrix products of so many rows are."""
    import torch

    left, right = torch.randn(rows, 128), torch.randn(128, 512)
    flops = 2.0 * rows * 128 * 512
    repeats = max(int(2e9 / flops), 1)

    def multiply() -> None:
        for _ in range(repeats):
            left @ right

    batch()
    multiply()
    spent, multiplied, count, start = 0.0, 0.0, 0, time.perf_counter()
    while time.perf_counter() - start < seconds or not count:
        began = time.process_time()
        batch()
        between = time.process_time()
        multiply()
        spent, multiplied = spent + between - began, multiplied + time.process_time() - between
        count += 1
    return {"steps": float(count * steps), "cpu_s": spent, "gemm_flops": count * repeats * flops / multiplied}


SIDES: dict[str, Callable[[int, float], Measured]] = {
    "loop": lambda tokens, seconds: run_words(LETTERS.format(tokens=tokens, micro_batch=MICRO_BATCH), seconds),
    "generation": run_generation,
    "training": run_training,
    "trl": run_trl,
    "episode_rows": lambda tokens, seconds: run_dialogue(tokens, seconds, "episode"),
    "turn_rows": lambda tokens, seconds: run_dialogue(tokens, seconds, "turn"),
    "async": lambda tokens, seconds: run_dialogue(tokens, seconds, "episode", "async"),
}


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    run_this_side(SIDES)
