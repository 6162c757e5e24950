"""Which runs of the tests prove which rows of the metric table.

`PROMISES`: rows that a run of a kind must emit; the run is one that its test file makes anyway. `ELSEWHERE`: rows that
only appear when something rare happens, each with the file of src/ludus that says its name and, so, emits it.
"""

from __future__ import annotations

from pathlib import Path

from ludus.storage.jsonl import read_jsonl
from ludus.telemetry.metric_table import find_metric

LEARNER = "learner/<agent>/<metric>"

PROMISES: dict[str, tuple[str, ...]] = {
    "fused": (
        "evaluate/[<game>/]<player>/score",
        "evaluate/[<game>/]<player>/return",
        "evaluate/[<game>/]<player>/return_ci95",
        "evaluate/[<game>/]<player>/games",
        "evaluate/[<game>/]<player>/wins",
        "evaluate/[<game>/]<player>/draws",
        "evaluate/[<game>/]<player>/losses",
        "evaluate/[<game>/]<player>/score_seat_<seat>",
        "evaluate/[<game>/]<player>/return_seat_<seat>",
        "evaluate/number",
        "evaluate/version",
        "league/elo",
        "league/elo_error",
        "league/mu",
        "league/sigma",
        "explore/[<game>/]reward",
        "explore/[<game>/]length",
        "explore/[<game>/]draws",
        "explore/[<game>/]seat_<seat>/reward",
        "explore/[<game>/]seat_<seat>/wins",
        "explore/against_<opponent>/score",
        "train/loss",
        "train/<term>",
        "train/entropy",
        "train/approx_kl",
        "train/clip_fraction",
        "train/grad_norm",
        "train/learning_rate",
        "train/explained_variance",
        "train/value_mean",
        "train/target_mean",
        "train/rows",
        "train/optimizer_steps",
        "train/skipped",
        "train/skipped_in_a_row",
        "train/kl_stopped",
        "loop/episodes",
        "loop/steps_per_s",
        "time/<room>_s",
    ),
    "cut_off": ("explore/cut_off", "explore/cut_off_late"),
    "split": (
        "evaluate/return",
        "evaluate/return_ci95",
        "explore/failed_episodes",
        "experience/refused",
        "buffer/size",
        "buffer/inserted",
        "buffer/duplicates",
        "buffer/committed",
        "buffer/stale",
        "buffer/evicted_unused",
        "buffer/evicted_used",
        "buffer/lost",
        "buffer/discarded",
        "queue/episodes_in_flight",
        "queue/batches_ahead",
        "train/staleness",
        "train/updates_behind",
        "train/seconds",
        "train/reward",
    ),
    "tasks": (
        "evaluate/<taskset>/mean[@<k>]",
        "evaluate/<taskset>/success",
        "evaluate/<taskset>/tasks",
        "evaluate/<taskset>/best@<k>",
        "evaluate/<taskset>/pass@<k>",
        "explore/rewards/<reward>/scored",
        "explore/rewards/<reward>/sum",
        "explore/tokens_per_s",
        "explore/reply_tokens",
        "explore/cut_replies",
        "explore/engine/running",
        "explore/engine/waiting",
        "explore/engine/prefix_hits",
        "explore/workflow/attempts",
        "experience/kept",
        "experience/zero_variance",
        "buffer/expert_epochs",
        "gathering/expert_rows",
        "gathering/expert_refused",
        "train/mu",
        "train/advantage_std",
        "train/tokens",
        "train/mismatch_kl",
        "train/effective_sample_size",
        "train/equal_groups",
    ),
    "endpoints": (
        "evaluate/invalid_moves",
        "explore/[<game>/]invalid_moves",
        "explore/[<game>/]format_success",
        "explore/[<game>/]reply_chars",
        "explore/endpoints/<endpoint>/requests",
        "explore/endpoints/<endpoint>/prompt_tokens",
        "explore/endpoints/<endpoint>/sampled_tokens",
        "explore/endpoints/<endpoint>/cost",
        "explore/judge/score",
        "explore/judge/verdicts",
    ),
    "fed": ("buffer/feeds_taken", "buffer/feeds_missed", "buffer/feeds_damaged"),
    "distilled": ("train/reverse_kl",),
    "chess": (
        "loader/<stage>/load",
        "loader/<stage>/queue",
        "loader/<stage>/<figure>",
        "loader/refused",
        "loader/refused/<reason>",
        "train/validation/<term>",
        "train/validation/rows",
        "train/validation/policy_top1",
        "train/validation/wdl_accuracy",
        "train/validation/wdl_brier",
    ),
    "population": (
        "psro/nash_conv",
        "psro/value",
        "psro/policies",
        "psro/support",
        "psro/matches",
        "psro/steps",
        "psro/cpu_s",
        LEARNER,
    ),
    "tabular": ("psro/seat_<seat>/policies", "psro/seat_<seat>/support", "psro/histories", "time/<room>_s"),
}

ELSEWHERE: dict[str, str] = {
    "evaluate/[<game>/]nash_conv": "orchestrator/absolute_measures.py",
    "evaluate/[<game>/]exploitability": "orchestrator/absolute_measures.py",
    "evaluate/[<player>/]optimal_moves": "orchestrator/absolute_measures.py",
    "evaluate/[<player>/]optimal_moves_ci95": "orchestrator/absolute_measures.py",
    "evaluate/[<player>/]judged_positions": "orchestrator/absolute_measures.py",
    "evaluate/[<game>/]<player>/by_return": "orchestrator/evaluation_scores.py",
    "evaluate/<taskset>/sampled/mean": "orchestrator/evaluation_scores.py",
    "evaluate/<taskset>/sampled/success": "orchestrator/evaluation_scores.py",
    "explore/closed_thoughts": "orchestrator/explorer_work.py",
    "explore/refilled": "sources/sync_rollouts.py",
    "explore/rewards/<reward>/failed": "rewards/rewards.py",
    "explore/workflow/retries": "explore/runners/workflow_episode.py",
    "explore/workflow/failed": "explore/runners/workflow_episode.py",
    "explore/workflow/timeouts": "explore/runners/workflow_episode.py",
    "explore/workflow/metrics/<figure>/sum": "explore/runners/workflow_episode.py",
    "explore/workflow/metrics/<figure>/count": "explore/runners/workflow_episode.py",
    "explore/endpoints/<endpoint>/failed": "explore/players/endpoints.py",
    "explore/endpoints/<endpoint>/retries": "explore/players/endpoints.py",
    "experience/pass_rate": "experience/operators.py",
    "experience/<figure>": "experience/filters.py",
    "buffer/pairs_epochs": "buffer/epoch_store.py",
    "buffer/imports_waiting": "buffer/import_store.py",
    "gathering/pairs_rows": "ingest/gathering_worker.py",
    "gathering/pairs_refused": "ingest/gathering_worker.py",
    "train/importance_weight": "train/policy_losses.py",
    "train/taper": "train/policy_losses.py",
    "train/sft_weight": "train/losses.py",
    "train/preference_accuracy": "train/losses.py",
    "train/preference_margin": "train/losses.py",
    "train/baseline": "train/torch_credit.py",
    "train/without_baseline": "train/torch_credit.py",
    "train/kl_reward": "train/torch_credit.py",
    "warm_start/games": "ingest/warm_start_worker.py",
    "warm_start/too_long": "ingest/warm_start_worker.py",
    "warm_start/progress": "ingest/warm_start_worker.py",
    "warm_start/loss": "ingest/warm_start_worker.py",
    "psro/nash_conv_bound": "runs/population/measures.py",
    **{
        f"runtime/{name}": "orchestrator/worker_metrics.py"
        for name in (
            "restarts",
            "requeued",
            "refused_late",
            "workers",
            "nodes",
            "worker_load",
            "workers/<worker>/load",
            "nodes/<node>/workers",
            "nodes/<node>/load",
        )
    },
    **{
        f"runtime/{name}": "runtime/ray/transfers.py"
        for name in (
            "transfers_per_version",
            "files_sent",
            "files_sent_again",
        )
    },
    "telemetry/dropped": "telemetry/telemetry.py",
    "telemetry/unwritten": "telemetry/telemetry.py",
}


def rows_of(run: Path) -> set[str]:
    """The rows of the table that a run's metrics belong to; every name must belong to one."""
    names = {name for line in read_jsonl(run / "metrics.jsonl") for name in line if name not in ("time", "step")}
    rows = {name: find_metric(name) for name in names}
    assert [name for name, row in rows.items() if row is None] == []
    return {LEARNER if name.startswith("learner/") else row.name for name, row in rows.items() if row is not None}


def check_promises(kind: str, run: Path) -> None:
    """Every metric of the run is explained, and what is promised of its kind is there."""
    assert set(PROMISES[kind]) - rows_of(run) == set()
