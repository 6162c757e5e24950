"""What follows from a config."""

from __future__ import annotations

import pytest

from ludus.config import ALGORITHMS, AlgorithmConfig, RunConfig, build_config, dump_config, parse_config, resolve
from ludus.config.sections.train_presets import wanted_sources


def make(*overrides: str, game: str = "pgx:connect_four") -> RunConfig:
    return build_config({"name": "x", "games": [game]}, overrides)


def test_the_fused_topology_gets_its_defaults_and_leaves_the_other_alone() -> None:
    config = resolve(make("explore.games_in_flight=512"))
    assert config.topology == "fused"
    assert (config.train.batch_steps, config.train.batch_episodes) == (8192, None)
    assert (config.checkpoint.every, config.league.snapshot_every, config.evaluate.every) == (50, 500_000, 500_000)
    assert config.record.sample_every == 500_000 // 8192
    assert (config.buffer.capacity, config.buffer.min_size, config.buffer.samples_per_insert) == (None, None, None)


def test_the_split_topology_gets_its_defaults_and_leaves_the_other_alone() -> None:
    config = resolve(make("explore.games_in_flight=64", "schedule=async", "buffer.reuse=2"))
    assert config.topology == "split"
    assert (config.train.batch_steps, config.train.batch_episodes) == (None, 64)
    assert (config.checkpoint.every, config.record.sample_every) == (1, None)
    assert (config.buffer.capacity, config.buffer.min_size, config.buffer.samples_per_insert) == (1024, 64, 2.0)


@pytest.mark.parametrize(
    "change",
    [
        "games.0=open_spiel:connect_four",
        "games.1=pgx:othello",
        "schedule=async",
        "mode=explore",
        "experience.final=[{kind: role_advantage}]",
        "league.opponents=[{kind: mirror}, {kind: fixed, players: [mcts-25]}]",
    ],
)
def test_what_one_program_cannot_do_makes_the_default_topology_split(change: str) -> None:
    assert resolve(make(change)).topology == "split"


@pytest.mark.parametrize("kind", ["lagged", "pfsp", "match_quality", "random"])
def test_opponents_that_are_networks_stay_on_the_device(kind: str) -> None:
    assert resolve(make(f"league.opponents=[{{kind: mirror}}, {{kind: {kind}}}]")).topology == "fused"


def test_what_is_given_stays() -> None:
    given = {
        "league.snapshot_every": 1000,
        "evaluate.every": 3000,
        "checkpoint.every": 7,
        "record.sample_every": 9,
        "train.batch_steps": 4096,
    }
    config = resolve(make(*(f"{key}={value}" for key, value in given.items())))
    for key, value in given.items():
        section, name = key.split(".")
        assert getattr(getattr(config, section), name) == value
    assert resolve(make("league.snapshot_every=1000")).evaluate.every == 1000


def test_the_number_of_players_in_a_key_counts_for_the_buffer() -> None:
    config = resolve(make("explore.games_in_flight=10", game="open_spiel:leduc_poker(players=3)"))
    assert config.buffer.capacity == 8 * 10 * 3


def test_presets_fill_what_is_not_given() -> None:
    ppo = resolve(make()).train
    assert [(term.loss, term.weight) for term in ppo.algorithm.objective or ()] == [
        ("ppo_clip", 1.0),
        ("value", 1.0),
        ("entropy", 0.01),
    ]
    assert ppo.algorithm.objective is not None
    assert ppo.algorithm.objective[0].options == {"clip_low": 0.2, "clip_high": 0.2, "dual_clip": None}
    assert (ppo.epochs, ppo.algorithm.advantage and ppo.algorithm.advantage.kind) == (4, "gae")
    reinforce = resolve(make("train.algorithm.preset=reinforce", "train.algorithm.objective=[{loss: reinforce}]")).train
    assert [term.loss for term in reinforce.algorithm.objective or ()] == ["reinforce"]
    assert (reinforce.epochs, reinforce.algorithm.advantage and reinforce.algorithm.advantage.kind) == (
        1,
        "monte_carlo",
    )


def test_epochs_follow_the_preset_unless_they_are_given() -> None:
    assert resolve(make("train.algorithm.preset=a2c")).train.epochs == 1
    assert resolve(make("train.algorithm.preset=a2c", "train.epochs=4")).train.epochs == 4


def make_language(*overrides: str) -> RunConfig:
    words = ("policy.model.path=models/tiny", "explore.group=4", "explore.sampling.max_tokens=77")
    return make(*words, *overrides, game="open_spiel:tic_tac_toe")


def with_preset(name: str) -> list[str]:
    teacher = ["policy.teacher=models/large"] if name == "distill" else []
    return [f"train.algorithm.preset={name}", *teacher]


ON_BOARDS = {"ppo", "a2c", "reinforce", "reinforce_pp", "topr", "sft"}


@pytest.mark.parametrize("preset", sorted(ALGORITHMS))
@pytest.mark.parametrize("changes", [[], ["schedule=async"], ["topology=split"]])
def test_resolving_again_changes_nothing_also_after_a_round_trip(preset: str, changes: list[str]) -> None:
    make_one = make if preset in ON_BOARDS else make_language
    config = resolve(make_one(*changes, *with_preset(preset)))
    assert resolve(config) == config
    loaded = parse_config(dump_config(config), "config.yaml")
    assert loaded == config
    assert resolve(loaded) == config


def test_a_language_models_loss_is_averaged_as_the_preset_says_unless_it_is_given() -> None:
    found = {name: resolve(make_language(*with_preset(name))).train for name in ALGORITHMS}
    assert {name: train.aggregation for name, train in found.items()} == {
        name: preset.aggregation for name, preset in ALGORITHMS.items()
    }
    assert (found["dr_grpo"].aggregation, found["dr_grpo"].aggregation_length) == ("constant_norm", 77)
    assert (found["gspo"].aggregation, found["gspo"].aggregation_length) == ("sequence_mean_token_mean", None)
    given = resolve(make_language("train.algorithm.preset=dr_grpo", "train.aggregation=token_mean")).train
    assert (given.aggregation, given.aggregation_length) == ("token_mean", None)
    longer = resolve(make_language("train.algorithm.preset=dr_grpo", "train.aggregation_length=500")).train
    assert longer.aggregation_length == 500
    assert resolve(make("train.algorithm.preset=sft")).train.aggregation == "token_mean"


def test_mu_is_filled_where_terms_share_it() -> None:
    assert resolve(make_language("train.algorithm.preset=mix")).train.algorithm.mu == ALGORITHMS["mix"].mu
    given = resolve(make_language("train.algorithm.preset=mix", "train.algorithm.mu={peak: 0.4}")).train.algorithm.mu
    assert given is not None
    assert (given.peak, given.valley) == (0.4, None)
    replaced = resolve(make_language("train.algorithm.preset=mix", "train.algorithm.objective=[{loss: ppo_clip}]"))
    assert replaced.train.algorithm.mu is None


def test_what_a_preset_learns_from_is_known() -> None:
    found = {name: wanted_sources(AlgorithmConfig(preset=name)) for name in ("grpo", "sft", "dpo", "mix")}  # type: ignore[arg-type]
    assert found == {"grpo": {"on_policy"}, "sft": {"expert"}, "dpo": {"pairs"}, "mix": {"on_policy", "expert"}}
    terms = AlgorithmConfig.model_validate({"objective": [{"loss": "sft", "source": "expert", "weight": 0}]})
    assert wanted_sources(terms) == frozenset()


def test_a_short_run_still_has_whole_intervals() -> None:
    config = resolve(make("explore.games_in_flight=1", "train.batch_steps=1", "train.minibatch=1", "train.steps=1"))
    assert (config.league.snapshot_every, config.evaluate.every, config.record.sample_every) == (1, 1, 1)


@pytest.mark.parametrize(
    ("policy", "train", "rate"),
    [
        ("{model: {path: ludus/tiny}}", "{}", 1e-4),
        ("{model: {path: ludus/tiny, lora: null}}", "{}", 1e-5),
        ("{model: {path: ludus/tiny}}", "{optimizer: {learning_rate: 1e-3}}", 1e-3),
        ("{network: {kind: mlp}}", "{}", 1e-3),
    ],
)
def test_the_learning_rate_suits_what_learns(policy: str, train: str, rate: float) -> None:
    text = f"name: x\ngames: [open_spiel:tic_tac_toe]\ntopology: split\npolicy: {policy}\ntrain: {train}\n"
    resolved = resolve(parse_config(text, "x"))
    assert resolved.train.optimizer.learning_rate == rate
    assert resolve(resolved) == resolved
