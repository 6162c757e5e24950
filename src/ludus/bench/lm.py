"""`ludus bench lm`: language models beside TRL's GRPOTrainer, per CPU-second, one thread each, in one interleaved run.

The 0.8M-parameter `ludus/tiny`, every parameter trained, 64 completions of 32 and of 128 tokens to prompts of 16, eight
to each prompt, one optimizer step for each batch. End to end: a whole run of ludus (explorer, durable store, trainer,
published weights) beside a whole run of TRL. Shares are of what the matrix products alone would take at the rate that
the same process measured between batches.

Then, with adapters: games of eight turns with growing history, as whole episodes that go on from what was computed,
and as one row per turn with every turn computed anew; and the same run with exploring and training at once.
"""

from __future__ import annotations

import statistics
import sys

from ludus.bench.figure import Figure
from ludus.bench.fresh_process import run_side

LENGTHS = (32, 128)
TURN_TOKENS = 32
UNIT = "tokens per CPU-second"
TRL = "TRL GRPOTrainer"
FLOPS_PER_TOKEN = 2.0 * (4 * (128 * 256 + 128 * 128 + 128 * 768 + 384 * 128) + 128 * 259)
"""Of the tiny model's matrix products, reading or writing one token."""
PROMPT_TOKENS = 16

Results = dict[tuple[str, int], list[dict[str, float]]]


def bench_lm(*, rounds: int, seconds: float) -> list[Figure]:
    """Run all sides in turn, `rounds` times, and report medians."""
    sides = [(side, tokens) for tokens in LENGTHS for side in ("trl", "loop", "generation", "training")]
    sides += [(side, TURN_TOKENS) for side in ("episode_rows", "turn_rows", "async")]
    results: Results = {side: [] for side in sides}
    for number in range(rounds):
        for side, tokens in sides:
            print(f"round {number + 1} of {rounds}: {side}, {tokens} tokens", file=sys.stderr)
            results[side, tokens].append(run_side("ludus.bench.lm_sides", side, tokens, seconds=seconds))
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


def rate(results: list[dict[str, float]], time: str = "cpu_s") -> float:
    """Median of tokens per second of that kind of time."""
    return statistics.median(result["steps"] / result[time] for result in results)
