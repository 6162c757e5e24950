"""Every kind of mistake gives exactly the line that a user can act on."""

from __future__ import annotations

from pathlib import Path

import pytest

from ludus.config import build_config, load_config, parse_config
from ludus.config.loading.slots import all_paths
from ludus.config.loading.validation import KNOWN_AS
from ludus.config.run import RunConfig
from ludus.errors import ConfigError

GOOD = "name: x\ngames: [pgx:connect_four]\n"
NAME = 'text such as "connect_four" (matching ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$)'


def lines(text: str | bytes, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        parse_config(text, "run.yaml", overrides)
    return list(refused.value.problems)


def test_a_good_config_has_no_problems() -> None:
    config = parse_config(GOOD, "run.yaml")
    assert (config.name, config.games[0].key) == ("x", "pgx:connect_four")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        # wrong types
        ("train: {algorithm: {kl_stop: '0,01'}}", 'train.algorithm.kl_stop: expected a number > 0, got "0,01"'),
        ("seed: 1.5", "seed: expected a whole number ≥ 0 and < 9223372036854775808, got 1.5"),
        ("seed: true", "seed: expected a whole number ≥ 0 and < 9223372036854775808, got true"),
        ("seed: null", "seed: expected a whole number ≥ 0 and < 9223372036854775808, got null"),
        ("seed: 1:30", 'seed: expected a whole number ≥ 0 and < 9223372036854775808, got "1:30"'),
        ("evaluate: {greedy: yes}", 'evaluate.greedy: expected true or false, got "yes" — write true'),
        ("evaluate: {greedy: 1}", "evaluate.greedy: expected true or false, got 1"),
        ("evaluate: {against: random}", 'evaluate.against: expected a list, got "random"'),
        (
            "policy: {network: {kind: mlp, hidden: [64, x]}}",
            'policy.network.hidden.1: expected a whole number > 0 and ≤ 65536, got "x"',
        ),
        (
            "train: 3",
            "train: expected a mapping (keys: steps, updates, hours, batch_steps, batch_episodes, minibatch, epochs, accumulate, "
            "aggregation, aggregation_length, tokens_per_micro_batch, device, forward, activation_checkpointing, shards, trainers, "
            "sharding, offload_optimizer, value_normalisation, algorithm, optimizer, swa, max_staleness, stop, max_skipped), got 3",
        ),
        ("experience: {step: {a: 1}}", "experience.step: expected a list, got a mapping"),
        # limits
        ("explore: {games_in_flight: 0}", "explore.games_in_flight: expected a whole number > 0 and ≤ 1000000, got 0"),
        ("train: {optimizer: {learning_rate: .nan}}", "train.optimizer.learning_rate: expected a number > 0, got nan"),
        ("train: {optimizer: {learning_rate: 1e999}}", "train.optimizer.learning_rate: expected a number > 0, got inf"),
        (
            "train: {algorithm: {advantage: {lam: 2}}}",
            "train.algorithm.advantage.lam: expected a number ≥ 0 and ≤ 1, got 2",
        ),
        # words
        ("topology: fussed", 'topology: expected fused, split or tabular, got "fussed" — did you mean fused?'),
        ("schedule: 3", "schedule: expected sync or async, got 3"),
        (
            "runtime: {kind: ray, explore: {labels: {zone: '(a'}}}",
            "runtime.explore.labels: zone: expected a value, !value, in(a, b) or !in(a, b), got a mapping",
        ),
        (
            "runtime: {kind: ray, train: {gpus: 1.5}}",
            "runtime.train.gpus: expected a share of one GPU, or a whole number of them, got 1.5",
        ),
        (
            "runtime: {kind: ray, train: {resources: {GPU: 1}}}",
            "runtime.train.resources: GPU is no custom resource; write cpus or gpus, got a mapping",
        ),
        ("runtime: {kind: slurm}", 'runtime.kind: expected local or ray, got "slurm"'),
        (
            "runtime: {kind: ray, address: somewhere}",
            r'runtime.address: expected text such as "10.0.0.1:6379" (matching ^[A-Za-z0-9_.\-]{1,253}:[0-9]{1,5}$), got "somewhere"',
        ),
        (
            "policy: {network: {kind: resnte}}",
            'policy.network.kind: expected mlp, resnet, chess_residual, chess_attention or custom, got "resnte" — did you mean resnet?',
        ),
        (
            "policy: {network: {kind: [1]}}",
            "policy.network.kind: expected mlp, resnet, chess_residual, chess_attention or custom, got a list",
        ),
        (
            "policy: {network: {hidden: [64]}}",
            "policy.network.kind: missing; expected mlp, resnet, chess_residual, chess_attention or custom",
        ),
        (
            "experience: {final: [{kind: role_advantge}]}",
            "experience.final.0.kind: expected role_advantage or custom, "
            'got "role_advantge" — did you mean role_advantage?',
        ),
        (
            "evaluate: {against: [MCTS!]}",
            'evaluate.against.0: expected a fixed player such as random, mcts-25 or uci:stockfish?nodes=100, got "MCTS!"',
        ),
        # unknown keys
        ("explore: {num_worker: 4}", "explore.num_worker: unknown key — did you mean explore.workers?"),
        ("train: {stepz: 3}", "train.stepz: unknown key — did you mean train.steps?"),
        ("train: {lr: 3}", "train.lr: unknown key — did you mean train.optimizer.learning_rate?"),
        ("learning_rate: 3", "learning_rate: unknown key — did you mean train.optimizer.learning_rate?"),
        ("train: {gamma: 0.9}", "train.gamma: unknown key — did you mean train.algorithm.advantage.gamma?"),
        (
            "league: {opponents: [{kind: mirror, wieght: 2}]}",
            "league.opponents.0.wieght: unknown key — did you mean league.opponents.0.weight?",
        ),
        (
            "policy: {network: {kind: resnet, hidden: [64]}}",
            "policy.network.hidden: unknown key; policy.network with kind: resnet takes kind, channels, blocks",
        ),
        ("telemetry: {zzz: 1}", "telemetry.zzz: unknown key; telemetry takes tensorboard, wandb, every_s"),
        (
            "<<: 1",
            "<<: unknown key; the top level takes name, seed, games, tasks, workflow, rewards, topology, schedule, synchronise, mode, policy, "
            "explore, experience, buffer, train, cycle, warm_start, league, population, evaluate, checkpoint, record, telemetry, runtime, stages",
        ),
    ],
)
def test_one_mistake_is_one_line(text: str, line: str) -> None:
    assert lines(GOOD + text + "\n") == [f"run.yaml:3  {line}"]


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file() -> None:
    text = """\
name: my run
games: [3]
explore:
  num_worker: 4

  games_in_flight: many
train:
  algorithm:
    advantage: {kind: gea}
    kl_stop: "0,01"
foo: &a 1
foo: *a
"""
    assert lines(text, "train.steps=ten", "bar=1") == [
        f'run.yaml:1    name: expected {NAME}, got "my run"',
        "run.yaml:2    games.0: expected a game such as pgx:connect_four, or a mapping (keys: key, weight, prompt, sampling, rewards), got 3",
        "run.yaml:4    explore.num_worker: unknown key — did you mean explore.workers?",
        'run.yaml:6    explore.games_in_flight: expected a whole number > 0 and ≤ 1000000, got "many"',
        'run.yaml:9    train.algorithm.advantage.kind: expected gae, monte_carlo, vtrace, group, rloo, opmd, asymre, remax, distill or custom, got "gea" — did you mean gae?',
        'run.yaml:10   train.algorithm.kl_stop: expected a number > 0, got "0,01"',
        "run.yaml:11   foo: anchor &a is not allowed; write the value out",
        "run.yaml:12   foo: given twice (first on line 11)",
        "run.yaml:12   foo: alias *a is not allowed; write the value out",
        'command line  train.steps: expected a whole number > 0 and ≤ 1000000000000000, got "ten"',
        "command line  bar: unknown key; the top level takes name, seed, games, tasks, workflow, rewards, topology, schedule, synchronise, mode, policy, "
        "explore, experience, buffer, train, cycle, warm_start, league, population, evaluate, checkpoint, record, telemetry, runtime, stages",
    ]


def test_a_missing_key_is_reported_where_its_mapping_starts() -> None:
    assert lines("seed: 1\n") == [
        f"run.yaml:1  name: missing; expected {NAME}",
    ]
    text = GOOD + "experience:\n  final:\n    - {kind: role_advantage}\n    - {kind: custom}\n"
    assert lines(text) == ["run.yaml:6  experience.final.1.name: missing; expected text"]


@pytest.mark.parametrize(
    ("text", "found"), [("", "nothing"), ("[]\n", "an empty list"), ("3\n", "3"), ("some words\n", '"some words"')]
)
def test_something_else_than_a_mapping_is_refused(text: str, found: str) -> None:
    (line,) = lines(text)
    assert line.split("  ")[1] == f"expected a mapping with at least the keys name and games, got {found}"


def test_wrong_entries_do_not_make_their_list_wrong_as_well() -> None:
    game = "a game such as pgx:connect_four, or a mapping (keys: key, weight, prompt, sampling, rewards)"
    assert lines("name: x\ngames:\n  - 5\n  - {weight: 2}\n") == [
        f"run.yaml:3  games.0: expected {game}, got 5",
        'run.yaml:4  games.1.key: missing; expected text such as "pgx:connect_four" (matching ^\\S{1,256}$)',
    ]


def test_a_value_that_fits_none_of_several_types_is_one_line() -> None:
    text = GOOD + "train: {algorithm: {objective: [{loss: value, options: {clip: [1]}}]}}\n"
    assert lines(text) == [
        "run.yaml:3  train.algorithm.objective.0.options.clip: expected a number or true or false or text, got a list"
    ]


def test_long_and_strange_values_are_shown_short_and_on_one_line() -> None:
    (line,) = lines(GOOD + "topology: " + "x" * 1000 + "\n")
    assert len(line) < 140
    (line,) = lines(GOOD + 'topology: "a\\nb\\tc"\n')
    assert line == 'run.yaml:3  topology: expected fused, split or tabular, got "a\\nb\\tc"'
    (line,) = lines(GOOD + "k" * 5000 + ": 1\n")
    assert len(line) < 400


def test_more_problems_than_anyone_reads_are_counted() -> None:
    found = lines(GOOD + "".join(f"key_{i}: 1\n" for i in range(300)))
    assert len(found) == 51
    assert found[-1] == "… and 250 more problems"


def test_a_file_that_cannot_be_read_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file or directory"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read: embedded null byte"):
        load_config(Path("a\0b"))


def test_lines_name_the_file_as_the_user_named_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(GOOD + "seed: x\n")
    with pytest.raises(ConfigError, match=r"^run\.yaml:3  seed: "):
        load_config(Path("run.yaml"))


def test_plain_values_from_python_are_checked_in_the_same_words() -> None:
    assert build_config({"name": "x", "games": ["pgx:chess"]}, ["seed=3"]).seed == 3
    with pytest.raises(ConfigError) as refused:
        build_config({"name": "x", "games": ["pgx:chess"], "sead": 3})
    assert refused.value.problems == ("config  sead: unknown key — did you mean seed?",)


def test_names_from_other_libraries_lead_to_keys_that_exist() -> None:
    known = {".".join(map(str, path)) for path in all_paths(RunConfig)}
    assert set(KNOWN_AS.values()) <= known


def test_every_key_of_the_schema_misspelled_leads_back_to_itself_or_a_like_one() -> None:
    for path in all_paths(RunConfig):
        key = str(path[-1])
        if len(path) == 1 and len(key) > 4:
            (line,) = [found for found in lines(GOOD + f"{key[:-1]}q: 1\n") if "unknown" in found]
            assert line.endswith(f"did you mean {key}?")
