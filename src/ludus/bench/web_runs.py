"""The runs that `ludus bench web` looks at: finished, of the sizes that users have, in the files that ludus writes.

Every file is made by the writer that a run uses; what stands in them is drawn at random, from one seed.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ludus.config import dump_config, parse_resolved
from ludus.extras import is_installed
from ludus.games.registry import make_game
from ludus.records import Episode, EpisodeId, Experiences, PolicyName, PolicyRef, PolicyVersion, Seat, Task, TaskId
from ludus.storage.arrow import episodes_to_table, experiences_to_table
from ludus.storage.atomic import write_json
from ludus.storage.catalog import Catalog
from ludus.storage.jsonl import JsonlWriter
from ludus.storage.run_directory import RunDirectory
from ludus.storage.segments import LogName, SegmentLog
from ludus.storage.traces import TracedSequence, TraceLog, encode_traces, packed

GAME = "open_spiel:connect_four"
BEGAN_S = 1_700_000_000.0
PER_SEGMENT = 1000
DISTINCT_GAMES = 250
"""Games that are played to make a run of many: the others repeat their moves."""
POINTS_PER_LINE = 20
VOCABULARY = 259
"""Bytes and three marks, as of `ludus/tiny`."""
BOARDS = """
name: {name}
seed: {seed}
games: [open_spiel:connect_four]
topology: split
policy: {{network: {{kind: mlp, hidden: [256, 256]}}}}
train: {{steps: 10000000, batch_episodes: 512}}
evaluate: {{against: [random, mcts-25]}}
"""
WORDS = """
name: words
games: [open_spiel:tic_tac_toe]
policy: {model: {path: ludus/tiny, lora: {rank: 16, alpha: 32}}}
train: {steps: 1000000}
"""
NAMES = (
    *(f"train/{name}" for name in ("loss", "reward", "approx_kl", "entropy", "explained_variance", "learning_rate")),
    *(f"train/{name}" for name in ("grad_norm", "clip_fraction", "optimizer_steps", "rows", "value", "ppo_clip")),
    *("loop/steps_per_s", "loop/episodes", "explore/length", "explore/draws", "buffer/size", "buffer/inserted"),
    *("queue/episodes_in_flight", "time/explore_s"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much there is of everything."""

    points: int = 1_000_000
    episodes: int = 10_000
    tokens: int = 32_000
    runs: int = 500


def make_runs(folder: Path, sizes: Sizes) -> None:
    """`one/` with a run for each page, and `many/` with as many runs as a study has."""
    one, many = folder / "one", folder / "many"
    demo = _make_run(one / "demo", BOARDS.format(name="demo", seed=0))
    _write_history(demo, lines=600, every=16_384)
    _record_games(demo, 2000)
    _write_history(
        _make_run(one / "points", BOARDS.format(name="points", seed=0)), lines=sizes.points // POINTS_PER_LINE
    )
    games = _make_run(one / "games", BOARDS.format(name="games", seed=0))
    _write_history(games, lines=100)
    _record_games(games, sizes.episodes)
    _record_words(_make_run(one / "words", WORDS), sizes.tokens)
    _repeat_run(many, sizes.runs)


def make_live_run(path: Path) -> RunDirectory:
    """A run of which nothing has been written yet."""
    return _make_run(path, BOARDS.format(name="live", seed=0))


def episode_id(number: int) -> str:
    """What an episode is called."""
    return f"{number:016x}"


def _make_run(path: Path, config: str) -> RunDirectory:
    run = RunDirectory(path)
    run.create(dump_config(parse_resolved(config, str(path))))
    Catalog(run.catalog).close()
    return run


def _write_history(run: RunDirectory, *, lines: int, every: int = 1000) -> None:
    """Events from the start to the end, and so many lines of metrics; a version at each hundredth, an
    evaluation at each twentieth."""
    values = np.random.default_rng(0).random((lines, POINTS_PER_LINE))
    name = run.path.name
    with JsonlWriter(run.events) as events, JsonlWriter(run.metrics) as metrics:
        events.write({"time": BEGAN_S, "event": "opened", "run": name})
        events.write({"time": BEGAN_S, "event": "started", "run": name, "resumed": False})
        for number, line in enumerate(values.tolist(), 1):
            metrics.write({"time": BEGAN_S + number, "step": every * number, **dict(zip(NAMES, line, strict=True))})
            if number % max(1, lines // 100) == 0:
                events.write({"time": BEGAN_S + number, "event": "published", "run": name, "policy": f"main@{number}"})
            if number % max(1, lines // 20) == 0:
                measured = {"evaluate/random/score": line[0], "evaluate/random/games": 400}
                metrics.write({"time": BEGAN_S + number, "step": every * number, **measured})
        events.write({"time": BEGAN_S + lines, "event": "ended", "run": name, "stopped": False, "update": lines})
    with Catalog(run.catalog) as catalog, catalog.transaction():
        catalog.set_cursor("progress", {"steps": every * lines, "update": lines, "finished": True})


def _record_games(run: RunDirectory, count: int) -> None:
    """So many games, the rows that were trained on, and the policies that played them."""
    distinct = list(_play_games(min(count, DISTINCT_GAMES)))
    episodes = [_episode(number, *distinct[number % len(distinct)]) for number in range(count)]
    with Catalog(run.catalog) as catalog, catalog.transaction():
        for version in range(1 + count // PER_SEGMENT):
            catalog.add_policy(_ref("main", version), weights_hash=f"{version:064x}")
    for start in range(0, count, PER_SEGMENT):
        part = episodes[start : start + PER_SEGMENT]
        _append(run, "episodes", episodes_to_table(part))
        _append(run, "experiences", experiences_to_table(_rows_of(part)))


def _play_games(count: int) -> Iterator[tuple[list[int], tuple[float, ...]]]:
    rng, game = np.random.default_rng(0), make_game(GAME)
    for seed in range(count):
        position, moves = game.start(seed), list[int]()
        while acting := position.acting():
            moves.append(int(rng.choice(position.legal(acting[0]))))
            position.act({acting[0]: moves[-1]})
        yield moves, tuple(position.returns())


def _episode(number: int, moves: Sequence[int], returns: tuple[float, ...]) -> Episode:
    seats = (
        Seat(policy=_ref("main", number // PER_SEGMENT), learns=True),
        Seat(policy=_ref("random" if number % 4 == 0 else "main", 0), learns=False),
    )
    task = Task(id=TaskId(number), game=GAME, seed=number, seats=seats)
    return Episode(
        id=EpisodeId(episode_id(number)),
        task=task,
        returns=returns,
        move_plies=np.arange(len(moves), dtype=np.int32),
        move_seats=(np.arange(len(moves)) % 2).astype(np.int16),
        move_actions=np.array(moves, np.int32),
        duration_s=0.5,
    )


def _rows_of(episodes: Sequence[Episode]) -> Experiences:
    """What the first seat decided in each."""
    actions = [each.move_actions[::2] for each in episodes]
    rewards = np.array([each.returns[0] for each in episodes], np.float32)
    texts = {"episode": [str(each.id) for each in episodes], "game": [GAME] * len(episodes)}
    texts |= {"policy": ["main"] * len(episodes), "group": [""] * len(episodes)}
    numbers = {"task": [int(each.task.id) for each in episodes], "attempt": [0] * len(episodes)}
    return _experiences(np.concatenate(actions), [len(each) for each in actions], rewards, texts, numbers)


def _experiences(
    actions: Any, lengths: Sequence[int], rewards: Any, texts: dict[str, list[str]], numbers: dict[str, list[int]]
) -> Experiences:
    rng, total, count = np.random.default_rng(1), len(actions), len(lengths)
    return Experiences(
        sequences={
            **{name: np.array(column, object) for name, column in texts.items()},
            **{name: np.array(column, np.int64) for name, column in numbers.items()},
            "seat": np.zeros(count, np.int64),
            "final_reward": rewards,
            "shaped_reward": rewards,
            "truncated": np.zeros(count, bool),
        },
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        steps={
            "action": np.asarray(actions, np.int32),
            "mask": np.ones(total, bool),
            "logp": -rng.random(total, np.float32),
            "value": rng.random(total, np.float32),
            "reward": np.zeros(total, np.float32),
            "version": np.ones(total, np.int32),
        },
    )


def _record_words(run: RunDirectory, tokens: int) -> None:
    """An attempt of so many tokens, with what the trainer thought of each, and a hundred short ones."""
    _write_history(run, lines=100)
    rng = np.random.default_rng(2)
    lengths = [tokens, *[300] * 100]
    said = [rng.integers(97, 123, length).astype(np.int32) for length in lengths]
    episodes = [_attempt(number, each) for number, each in enumerate(said)]
    rewards = np.ones(len(lengths), np.float32)
    texts = {"episode": [str(each.id) for each in episodes], "game": ["tasks:sums"] * len(lengths)}
    texts |= {"policy": ["main"] * len(lengths), "group": ["g0"] * len(lengths)}
    numbers = {"task": list(range(len(lengths))), "attempt": [0] * len(lengths)}
    rows = _experiences(np.concatenate(said), lengths, rewards, texts, numbers)
    _append(run, "episodes", episodes_to_table(episodes))
    _append(run, "experiences", experiences_to_table(rows))
    traces = TraceLog(run.traces, keep_bytes=64_000_000)
    traces.add(1, encode_traces([_traced(str(episodes[0].id), said[0])]))
    traces.close()
    if is_installed("tokenizers"):
        _write_tokenizer(run.base)


def _attempt(number: int, said: Any) -> Episode:
    task = Task(
        id=TaskId(number),
        game="tasks:sums",
        seed=number,
        seats=(Seat(policy=_ref("main", 1), learns=True),),
        inputs={"row": number},
        group="g0",
    )
    return Episode(
        id=EpisodeId(episode_id(number)),
        task=task,
        returns=(1.0,),
        move_plies=np.zeros(1, np.int32),
        move_seats=np.zeros(1, np.int16),
        move_actions=np.ones(1, np.int32),
        move_texts=("What is 2 + 2?",),
        replies=(bytes(said.tolist()).decode(),),
        sampled=len(said),
    )


def _traced(episode: str, tokens: Any) -> TracedSequence:
    rng, count = np.random.default_rng(3), len(tokens)
    numbers = {
        name: rng.standard_normal(count) for name in ("trainer_logp", "advantage", "target", "ref_logp", "value")
    }
    columns = {"action": tokens, "mask": np.ones(count, bool), "version": np.ones(count), "logp": -rng.random(count)}
    return TracedSequence(episode=episode, seat=0, game="tasks:sums", policy="main", columns=packed(columns | numbers))


def _write_tokenizer(folder: Path) -> None:
    """One token for each byte, as `ludus/tiny` has."""
    from tokenizers import Tokenizer, decoders, models

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {chr(number) if 32 < number < 127 else f"<{number}>": number for number in range(VOCABULARY)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))


def _repeat_run(folder: Path, count: int) -> None:
    """So many finished runs: one that was written, and copies of it with other seeds."""
    first = _make_run(folder / "arm_0" / "seed_0", BOARDS.format(name="study", seed=0))
    _write_history(first, lines=200)
    text = first.read_config()
    for number in range(1, count):
        run = RunDirectory(folder / f"arm_{number // 10}" / f"seed_{number % 10}")
        shutil.copytree(first.path, run.path)
        run.config.write_text(text.replace("seed: 0\n", f"seed: {number}\n", 1))
        write_json(run.format, {**json.loads(run.format.read_bytes()), "id": secrets.token_hex(8)})


def _append(run: RunDirectory, name: LogName, table: Any) -> None:
    with Catalog(run.catalog) as catalog:
        log = SegmentLog(run.path, name, catalog)
        log.append(table)
        log.commit()


def _ref(name: str, version: int) -> PolicyRef:
    return PolicyRef(name=PolicyName(name), version=PolicyVersion(version))
