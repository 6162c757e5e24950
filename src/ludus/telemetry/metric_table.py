"""Every metric that a run can emit: name, unit, meaning; and the page that lists them all.

`<player>` stands for a name, `[<game>/]` for a part that may be missing; `_PLACEHOLDERS` says what they match. To add a
metric: a row here, then `make pages` for docs/metrics.md. A test holds the rows against what real runs emit.

Units: `share` is between 0 and 1; `count` and the like are totals since the run began unless the meaning says
otherwise; `reward` is in the game's or the task's own terms.

Invariant: a name that a run emits is that of exactly one row, or of a named row and one that stands for many; then the
named one counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property

from ludus.config import CHESS_LOSS_OPTIONS, LOSS_OPTIONS

EVALUATE = (
    ("evaluate/[<game>/]<player>/score", "share", "points against a fixed player, seats balanced, a draw counts half; "
     "`past` is past versions, `itself` a team; with several games also by game, as all of these"),
    ("evaluate/[<game>/]<player>/return", "reward", "mean return against it; the headline where a game pays more than "
     "win or lose"),
    ("evaluate/[<game>/]<player>/return_ci95", "reward", "half of the 95 % interval of that mean"),
    ("evaluate/[<game>/]<player>/by_return", "flag", "1 where a game pays more than win or lose"),
    ("evaluate/[<game>/]<player>/games", "games", "that these figures are of"),
    ("evaluate/[<game>/]<player>/wins", "share", "games with the best return, not shared by all"),
    ("evaluate/[<game>/]<player>/draws", "share", "games with equal returns"),
    ("evaluate/[<game>/]<player>/losses", "share", "all others"),
    ("evaluate/[<game>/]<player>/score_seat_<seat>", "share", "the score in games from one seat"),
    ("evaluate/[<game>/]<player>/return_seat_<seat>", "reward", "the mean return in games from one seat"),
    ("evaluate/return", "reward", "games of one player or one team: mean return of a seat"),
    ("evaluate/return_ci95", "reward", "half of the 95 % interval of that mean"),
    ("evaluate/[<game>/]nash_conv", "reward", "small games in which something is hidden: what best responses gain "
     "against the policy, summed over seats; exact"),
    ("evaluate/[<game>/]exploitability", "reward", "the same, mean over seats"),
    ("evaluate/[<player>/]optimal_moves", "share", "Connect Four, final evaluation: moves that keep the outcome of "
     "perfect play, in positions where it matters; by a solver. With a player's name: its moves"),
    ("evaluate/[<player>/]optimal_moves_ci95", "share", "half of the 95 % interval of that share"),
    ("evaluate/[<player>/]judged_positions", "count", "positions that it is of"),
    ("evaluate/number", "count", "which evaluation of the run this is, from 0"),
    ("evaluate/version", "version", "the version that was measured"),
    ("evaluate/invalid_moves", "share", "games of words: moves of the measured version that the rules did not allow"),
    ("evaluate/<taskset>/mean[@<k>]", "reward", "held-out tasks: mean of all attempts; with `@k` there are k at each"),
    ("evaluate/<taskset>/success", "share", "held-out tasks: attempts that earned at least `evaluate.success`"),
    ("evaluate/<taskset>/tasks", "count", "held-out tasks that these are of"),
    ("evaluate/<taskset>/sampled/mean", "reward", "the same of attempts that are sampled as in training; those above "
     "take the likeliest tokens then"),
    ("evaluate/<taskset>/sampled/success", "share", "the same"),
    ("evaluate/<taskset>/best@<k>", "reward", "held-out tasks: the best of k attempts, mean over tasks"),
    ("evaluate/<taskset>/pass@<k>", "share", "held-out tasks: the chance that one of k attempts succeeds, unbiased"),
    ("league/elo", "rating", "Elo of the version that was evaluated last, from one fit of all games so far; the mean "
     "of all members is 1000"),
    ("league/elo_error", "rating", "the same: its standard error"),
    ("league/mu", "rating", "TrueSkill of the version that was evaluated last: its mean"),
    ("league/sigma", "rating", "the same: its uncertainty"),
)  # fmt: skip

EXPLORE = (
    ("explore/[<game>/]reward", "reward", "mean return of the learning seats over the last 512 training episodes of a "
     "game or taskset since the run was started (fused: of the update); with several games by game"),
    ("explore/[<game>/]length", "plies", "per episode, over the same episodes, as all of these down to `reply_chars`"),
    ("explore/[<game>/]draws", "share", "games: episodes with equal returns"),
    ("explore/[<game>/]seat_<seat>/reward", "reward", "games: mean return of a seat"),
    ("explore/[<game>/]seat_<seat>/wins", "share", "games: wins of a seat"),
    ("explore/[<game>/]invalid_moves", "share", "games of words: moves of the learning seats that were not allowed"),
    ("explore/[<game>/]format_success", "share", "games of words: their replies that had the form that was asked for"),
    ("explore/[<game>/]reply_chars", "characters", "games of words: length of their replies"),
    ("explore/against_<opponent>/score", "share", "fused: points against an opponent of the training games"),
    ("explore/refilled", "tasks", "explore.refill: played for this batch in place of those of which nothing was left"),
    ("explore/cut_off", "episodes", "explore.cut_off: given up since this start, when enough of a batch were there"),
    ("explore/cut_off_late", "episodes", "of these, that came back all the same and were dropped"),
    ("explore/failed_episodes", "episodes", "that ended with an error"),
    ("explore/rewards/<reward>/scored", "count", "tasks: training responses that a reward has scored; "
     "no `explore/rewards/*` counts evaluation"),
    ("explore/rewards/<reward>/failed", "count", "tasks: responses that it could not score"),
    ("explore/rewards/<reward>/sum", "reward", "tasks: what it gave in all, before its weight"),
    ("explore/tokens_per_s", "tokens/s", "language models: sampled by all explorers for each second of their play, "
     "evaluation included: what the engines write"),
    ("explore/reply_tokens", "tokens", "language models: sampled per reply, in training episodes of late"),
    ("explore/cut_replies", "share", "language models: the same replies that reached `max_tokens` before their end"),
    ("explore/closed_thoughts", "share", "language models: the same replies whose thoughts `thinking_budget` closed; "
     "left out where there are none"),
    ("explore/engine/running", "requests", "language models: that the engines were writing, mean over looks; local "
     "engines and vLLM's"),
    ("explore/engine/waiting", "requests", "language models: that waited for a place there"),
    ("explore/engine/prefix_hits", "share", "language models: tokens of prompts found in the prefix cache of the "
     "engines; vLLM tells with `--enable-prompt-tokens-details`"),
    ("explore/workflow/attempts", "count", "tasks: attempts, retries and evaluation included, as all `workflow`"),
    ("explore/workflow/retries", "count", "tasks: attempts that were made again after a failure"),
    ("explore/workflow/failed", "count", "tasks: attempts that were given up"),
    ("explore/workflow/timeouts", "count", "tasks: attempts that took too long"),
    ("explore/workflow/metrics/<figure>/sum", "figure's own", "tasks: a figure of the workflow, such as its turns"),
    ("explore/workflow/metrics/<figure>/count", "count", "tasks: attempts that had this figure"),
    ("explore/endpoints/<endpoint>/requests", "count", "sent to an endpoint"),
    ("explore/endpoints/<endpoint>/failed", "count", "requests that an endpoint did not answer"),
    ("explore/endpoints/<endpoint>/retries", "count", "requests that were sent again"),
    ("explore/endpoints/<endpoint>/prompt_tokens", "tokens", "sent to an endpoint"),
    ("explore/endpoints/<endpoint>/sampled_tokens", "tokens", "that an endpoint wrote"),
    ("explore/endpoints/<endpoint>/cost", "currency", "of an endpoint, by the prices in the config"),
    ("explore/judge/score", "share", "the judge's mean score of late"),
    ("explore/judge/verdicts", "count", "episodes that the judge has scored"),
)  # fmt: skip

EXPERIENCE = (
    ("experience/refused", "sequences", "refused"),
    ("experience/kept", "share", "rows of the latest groups that operators let through"),
    ("experience/pass_rate", "share", "of successes in the latest groups, as the operator `pass_rate` saw them"),
    ("experience/zero_variance", "share", "latest groups whose rewards were all equal"),
    ("experience/<figure>", "figure's own", "what an operator of your own reports, mean over the latest groups"),
)  # fmt: skip

BUFFER = (
    ("buffer/size", "rows", "in the window now"),
    ("buffer/inserted", "rows", "made durable"),
    ("buffer/duplicates", "rows", "dropped because they were there already"),
    ("buffer/committed", "rows", "trained on, each as often as it was used"),
    ("buffer/stale", "rows", "refused because they were too old (`train.max_staleness`)"),
    ("buffer/evicted_unused", "rows", "pushed out by newer ones before their first use"),
    ("buffer/evicted_used", "rows", "pushed out after it"),
    ("buffer/lost", "rows", "gone from the log while they were still wanted"),
    ("buffer/discarded", "rows", "taken out by people"),
    ("buffer/expert_epochs", "passes", "through the expert rows"),
    ("buffer/pairs_epochs", "passes", "through the preference pairs"),
    ("buffer/imports_waiting", "rows", "that people brought back and that are not yet trained on"),
    ("buffer/feeds_taken", "rows", "taken in from other runs (`buffer.feeds`)"),
    ("buffer/feeds_missed", "rows", "of other runs that were gone or damaged before they could be taken in"),
    ("buffer/feeds_damaged", "segments", "of other runs that could not be read"),
    ("gathering/expert_rows", "rows", "found for the expert store when the run began"),
    ("gathering/expert_refused", "rows", "that could not be used for it"),
    ("gathering/pairs_rows", "rows", "found for the store of preference pairs"),
    ("gathering/pairs_refused", "rows", "that could not be used for it"),
    ("queue/episodes_in_flight", "episodes", "that explorers are playing now"),
    ("queue/batches_ahead", "batches", "that wait for the trainer now"),
)  # fmt: skip

LOADER = (
    ("loader/<stage>/load", "threads", "busy with a stage of the trainer's loader (`buffer.loader`), mean over the "
     "last half second or more"),
    ("loader/<stage>/queue", "count", "that wait in a stage whose queue is bounded"),
    ("loader/<stage>/<figure>", "count", "what a stage has done since the trainer was started, such as `chunks`, "
     "`positions`, `cache_hits`"),
    ("loader/refused", "count", "chunks, positions and files that the loader refused, each once; "
     "`refused_chunks.jsonl` lists them"),
    ("loader/refused/<reason>", "count", "the same by reason"),
)  # fmt: skip

TRAIN = (
    ("train/loss", "objective", "the weighted sum of the terms, mean over the update's steps, as all of these"),
    ("train/<term>", "objective", "a term of the objective by the name of its loss, before its weight"),
    ("train/entropy", "nats", "of the policy, mean over decisions"),
    ("train/approx_kl", "nats", "to the policy that played"),
    ("train/clip_fraction", "share", "of ratios that the loss clips or leaves out"),
    ("train/importance_weight", "ratio", "mean weight of a correction between engine and learner"),
    ("train/taper", "ratio", "TOPR: mean weight of a token after tapering"),
    ("train/sft_weight", "ratio", "mean weight of an expert token"),
    ("train/preference_accuracy", "share", "DPO: pairs in which the chosen answer is ahead"),
    ("train/preference_margin", "nats", "DPO: by how much it is ahead"),
    ("train/grad_norm", "norm", "of the gradient, before clipping"),
    ("train/learning_rate", "rate", "now"),
    ("train/mu", "share", "MIX and CHORD: weight of the expert term now"),
    ("train/explained_variance", "up to 1", "how much of the targets' variance the value estimate explained"),
    ("train/value_mean", "reward", "value estimates of the batch"),
    ("train/target_mean", "reward", "what they should have been"),
    ("train/advantage_std", "reward", "language models: spread of the advantages"),
    ("train/reward", "reward", "split: mean return of the sequences in the batch that the policy sampled, without any "
     "window or transform"),
    ("train/rows", "rows", "in the batch: decisions of a network, sequences of a language model"),
    ("train/tokens", "tokens", "language models: sampled ones in the batch"),
    ("train/optimizer_steps", "steps", "taken in the update"),
    ("train/skipped", "steps", "skipped in the update because something was not finite"),
    ("train/skipped_in_a_row", "steps", "skipped since the last one that was taken"),
    ("train/kl_stopped", "0 or 1", "whether the update was ended early by `train.algorithm.kl_stop`"),
    ("train/mismatch_kl", "nats", "language models: from the engine that sampled to the learner before its first step"),
    ("train/effective_sample_size", "share", "language models: of the importance weights between the two"),
    ("train/equal_groups", "share", "groups whose rewards are all equal"),
    ("train/baseline", "reward", "remax: mean reward of the greedy attempts"),
    ("train/without_baseline", "share", "remax: sequences without a greedy attempt to be compared with"),
    ("train/reverse_kl", "nats", "distill: to the teacher, over sampled tokens"),
    ("train/kl_reward", "nats", "what `kl_reward` charges for, mean over tokens"),
    ("train/staleness", "versions", "split: behind the newest, mean over the batch"),
    ("train/updates_behind", "updates", "split, schedule sync: since the version that the batch was played with"),
    ("train/seconds", "s", "split: wall time of the update in the trainer"),
    ("train/validation/<term>", "objective", "held-out rows of a loader: a term of the objective, after a round"),
    ("train/validation/rows", "rows", "held-out rows that these were measured on"),
    ("train/validation/policy_top1", "share", "chess: held-out positions in which the likeliest move is the target's"),
    ("train/validation/wdl_accuracy", "share", "chess: held-out positions whose likeliest result is the game's"),
    ("train/validation/wdl_brier", "0 to 2", "chess: squared error of win, draw and loss, summed"),
    ("warm_start/games", "games", "played for the warm start of a language model"),
    ("warm_start/too_long", "sequences", "of those games that do not fit the model's context and are left out"),
    ("warm_start/progress", "share", "of the warm start that is done"),
    ("warm_start/loss", "nats", "of the warm start, mean over tokens"),
)  # fmt: skip

POPULATION = (
    ("psro/nash_conv", "payoff", "what the seats could gain by leaving the meta-strategy, added up; exact"),
    ("psro/nash_conv_bound", "payoff", "at least so much could be gained: the newest answers do"),
    ("psro/value", "payoff", "what seat 0 gets under the meta-strategy"),
    ("psro/seat_<seat>/policies", "policies", "exact PSRO: in the population of a seat"),
    ("psro/seat_<seat>/support", "policies", "exact PSRO: of those, the ones that the meta-strategy plays"),
    ("psro/policies", "policies", "populations that learn: frozen ones"),
    ("psro/support", "policies", "populations that learn: the ones that the meta-strategy plays, over all seats"),
    ("psro/matches", "matches", "populations that learn: played to measure"),
    ("psro/steps", "steps", "populations that learn: of all learners"),
    ("psro/cpu_s", "CPU s", "work"),
    ("psro/histories", "histories", "exact PSRO: size of the game's tree"),
    ("learner/<agent>/<metric>", "metric's own", "populations that learn: any of these metrics, of an agent's learner"),
)  # fmt: skip

LOOP = (
    ("loop/steps_per_s", "1/s", "environment steps trained on since the last line"),
    ("loop/episodes", "episodes", "trained on or (fused) played, since the run began"),
    ("time/<room>_s", "s", "wall time spent in a room since the last line; `explore`: waiting for episodes (schedule "
     "sync), playing, mean over explorers (async)"),
    ("telemetry/dropped", "lines", "that sinks besides `metrics.jsonl` did not get; absent while there are none"),
    ("telemetry/unwritten", "lines", "that a full disk kept out of `metrics.jsonl` or `events.jsonl`; absent as above"),
)  # fmt: skip

RUNTIME = (
    ("runtime/restarts", "count", "workers that were started again since the run was; on one machine absent while 0"),
    ("runtime/requeued", "episodes", "that were given out again, since their explorer was lost; absent as above"),
    ("runtime/refused_late", "count", "messages of an earlier start of a worker, or repeated, and episodes that came "
     "when nobody waited for them any more; absent as above"),
    ("runtime/workers", "count", "Ray: workers that there are now"),
    ("runtime/nodes", "count", "Ray: nodes of the cluster, at most 200"),
    ("runtime/worker_load", "CPU s/s", "Ray: of a worker over the last second or more, mean over workers"),
    ("runtime/workers/<worker>/load", "CPU s/s", "Ray: the same of each of the first 64 workers"),
    ("runtime/nodes/<node>/workers", "count", "Ray: workers of this run on each of the first 64 nodes"),
    ("runtime/nodes/<node>/load", "processes", "Ray: that run or wait to on this node, for each core; of nodes that "
     "have a worker of this run"),
    ("runtime/transfers_per_version", "count", "Ray: nodes that a version left the loop's disk for, of the version "
     "before the newest; more than there are nodes only where one was sent to a node again"),
    ("runtime/files_sent", "files", "Ray: of the run that left for a node, since the run was started"),
    ("runtime/files_sent_again", "files", "Ray: of those, files of versions that the node had been sent before"),
)  # fmt: skip

SECTIONS = {
    "Evaluation": EVALUATE,
    "Play": EXPLORE,
    "Experience": EXPERIENCE,
    "Buffer": BUFFER,
    "Loader": LOADER,
    "Training": TRAIN,
    "Populations": POPULATION,
    "Workers and nodes": RUNTIME,
    "The loop": LOOP,
}

_PLACEHOLDERS = {
    "game": r"(?:(?!seat_\d).)+",
    "k": r"\d+",
    "metric": r".+",
    "room": r"[a-z_]+",
    "seat": r"\d+",
    "taskset": r".+",
    "term": rf"(?:{'|'.join([*LOSS_OPTIONS, *CHESS_LOSS_OPTIONS])})(?:_\d+)?",
}
"""What the name in angle brackets may be; others are anything without a slash."""
_PART = re.compile(r"<(\w+)>|\[([^]]*)\]|([^<\[]+)")
_INTRODUCTION = """\
# Metrics

`metrics.jsonl` has one JSON object per report: `time`, `step` and numbers by name. TensorBoard and Weights & Biases get
the same numbers under the same names ([Trackers](trackers.md)). `step` counts environment steps, and in populations
generations (`psro/...`).

`<player>` stands for a name, and what is in square brackets may be missing. `share` is between 0 and 1; counts are
totals since the run began unless they say otherwise. On the command line: `ludus metrics train/approx_kl`.

This page is made from `src/ludus/telemetry/metric_table.py` by `make pages`.
"""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One row: a metric, or all metrics of one form."""

    name: str
    unit: str
    meaning: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What its names look like."""
        return re.compile(_regex(self.name))


METRICS: tuple[Metric, ...] = tuple(
    Metric(name=name, unit=unit, meaning=meaning) for rows in SECTIONS.values() for name, unit, meaning in rows
)


@cache
def find_metric(name: str) -> Metric | None:
    """The row that explains a name; None when there is none. A learner's metric is explained by its own row."""
    learner = re.fullmatch(r"learner/[^/]+/(.+)", name)
    if learner is not None:
        return find_metric(learner[1])
    found = [metric for metric in METRICS if metric.pattern.fullmatch(name)]
    return min(found, key=lambda metric: metric.name.count("<"), default=None)


def search_metrics(words: str) -> list[Metric]:
    """Rows for what somebody typed: the row of this name, else those that have it in name or meaning."""
    exact = find_metric(words)
    if exact is not None:
        return [exact]
    sought = words.lower()
    return [metric for metric in METRICS if sought in metric.name or sought in metric.meaning.lower()]


def metrics_page() -> str:
    """docs/metrics.md."""
    parts = [_INTRODUCTION]
    for title, rows in SECTIONS.items():
        lines = "\n".join(f"| `{name}` | {unit} | {meaning} |" for name, unit, meaning in rows)
        parts.append(f"## {title}\n\n| name | unit | meaning |\n|---|---|---|\n{lines}\n")
    return "\n".join(parts)


def _regex(name: str) -> str:
    """A row's name as a regular expression."""
    out = ""
    for placeholder, optional, plain in _PART.findall(name):
        if placeholder:
            out += _PLACEHOLDERS.get(placeholder, r"[^/]+")
        elif optional:
            out += f"(?:{_regex(optional)})?"
        else:
            out += re.escape(plain)
    return out


if __name__ == "__main__":
    print(metrics_page(), end="")
