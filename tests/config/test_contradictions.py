"""Settings that cannot hold together are refused, with both key paths and what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from ludus.config import RunConfig, build_config, load_or_demo, parse_resolved, resolve
from ludus.config.loading.load import parse_config
from ludus.errors import ConfigError

OPEN_SPIEL = "games.0=open_spiel:tic_tac_toe"
OBJECTIVE = "train.algorithm.objective"
WORDS = ("policy.model.path=ludus/mini", "train.algorithm.preset=reinforce")


def make(*overrides: str) -> RunConfig:
    return build_config({"name": "x", "games": ["pgx:connect_four"]}, overrides)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        # runtime
        (
            ["runtime.interface=eth0"],
            "runtime.interface: is for runtime.kind: ray; add that, or leave the interface out",
        ),
        (
            [
                "topology=split",
                OPEN_SPIEL,
                "policy.model.path=ludus/mini",
                "runtime.kind=ray",
                "explore.engine={kind: vllm, url: 'http://10.0.0.9:8000/v1', model: base}",
                "train.algorithm.preset=reinforce",
            ],
            "explore.engine.url: adapters are on the disk of the explorer's node; write a server of each node, such as "
            "http://127.0.0.1:8000/v1",
        ),
        *(
            (
                ["topology=split", OPEN_SPIEL, *WORDS, f"explore.engine={{kind: vllm{engine}}}", *more],
                line,
            )
            for engine, more, line in (
                ("", [], "explore.engine.url: which server? Write its url, or servers: 1 to have the run start one"),
                (
                    ", url: 'http://127.0.0.1:8000/v1', servers: 2",
                    [],
                    "explore.engine.servers: the run starts none where there is a url; leave one of the two out",
                ),
                (
                    ", url: 'http://127.0.0.1:8000/v1', tensor_parallel: 2",
                    [],
                    "explore.engine.tensor_parallel: has no effect: the server at explore.engine.url is yours; write "
                    "servers instead",
                ),
                (
                    ", url: 'http://127.0.0.1:8000/v1'",
                    ["runtime={kind: ray, address: 'a:1', engine: {cpus: 2}}"],
                    "runtime.engine: has no effect: it is for the servers that a run starts (explore.engine.servers)",
                ),
            )
        ),
        # sampling
        *(
            (["topology=split", OPEN_SPIEL, *WORDS, *more], line)
            for more, line in (
                (
                    ["explore.sampling={max_tokens: 64, thinking_budget: 64}"],
                    "explore.sampling.thinking_budget: 64 tokens of thoughts leave no answer within max_tokens (64); "
                    "write less",
                ),
                (
                    ["games.0={key: 'open_spiel:tic_tac_toe', sampling: {thinking: false, thinking_budget: 8}}"],
                    "games.0.sampling.thinking_budget: has no effect: thinking is false; leave it out",
                ),
                (
                    ["explore.sampling={template_arguments: {tools: x}}"],
                    "explore.sampling.template_arguments.tools: is what ludus gives the template itself; leave it out",
                ),
                (
                    ["explore.sampling={thinking: true, template_arguments: {enable_thinking: true}}"],
                    "explore.sampling.template_arguments.enable_thinking: says what thinking says; leave one of the "
                    "two out",
                ),
                (
                    ["explore.engine={kind: vllm, servers: 1}", "explore.sampling={temperature: 0.7, min_p: 0.1}"],
                    "explore.sampling.temperature: is 0.7, and vLLM gives log-probabilities there only after top_p, "
                    "top_k, min_p and repetition_penalty; write 1, or leave those out",
                ),
            )
        ),
        # topology
        (
            ["topology=fused", "schedule=async"],
            "schedule: play and training at the same time need separate processes, but topology is fused; "
            "write topology: split, or schedule: sync",
        ),
        (
            ["topology=fused", "games.0=nim"],
            "games.0.key: nim is not a pgx game, but topology is fused; "
            "write topology: split, or games.0.key: a pgx: game",
        ),
        (
            ["topology=fused", "games.1=pgx:othello"],
            "games: 2 games are played, but topology is fused; write topology: split, or games: one game",
        ),
        (
            ["topology=fused", "mode=train"],
            "mode: mode train is a process of its own, but topology is fused; write topology: split, or mode: both",
        ),
        (
            ["topology=fused", "experience.sampling=[{kind: normalise}]"],
            "experience.sampling: reward transforms work on recorded episodes, but topology is fused; "
            "write topology: split, or experience.sampling: []",
        ),
        (
            ["topology=fused", "league.opponents=[{kind: fixed, players: [random, mcts-5]}]"],
            "league.opponents.0.players: mcts-5 cannot play on the device, but topology is fused; "
            "write topology: split, or league.opponents.0.players: [random]",
        ),
        # batches
        (
            ["train.batch_steps=1000"],
            "train.batch_steps: 1000 is not a multiple of explore.games_in_flight (256); write train.batch_steps: 1024",
        ),
        (
            ["explore.games_in_flight=10", "train.batch_steps=100"],
            "train.batch_steps: 100 is not a multiple of train.minibatch (256); write train.batch_steps: 1280",
        ),
        (
            ["train.batch_episodes=10"],
            "train.batch_episodes: the fused topology counts steps; write train.batch_steps instead",
        ),
        (
            ["train.steps=1000"],
            "train.steps: 1000 is less than one batch (train.batch_steps: 4096); write at least that",
        ),
        (
            [OPEN_SPIEL, "train.batch_steps=1024"],
            "train.batch_steps: topology split counts episodes; write train.batch_episodes instead",
        ),
        (
            [OPEN_SPIEL, "explore.workers=8", "explore.games_in_flight=4"],
            "explore.workers: 8 workers share explore.games_in_flight (4) games; write at most 4 workers",
        ),
        (
            ["runtime.explore.cpus=2"],
            "runtime.explore: has no effect: runtime.kind: local has no nodes to choose from",
        ),
        (
            ["runtime={kind: ray, explore: {labels: {zone: a}}}"],
            "runtime.explore.labels: has no effect: ludus starts a cluster of one node where runtime.address is left out",
        ),
        (
            ["train.accumulate=3"],
            "train.accumulate: train.minibatch (256) cannot be split into 3 equal parts; write a divisor of it",
        ),
        (
            ["train.shards=3", "explore.games_in_flight=768", "train.minibatch=256"],
            "train.minibatch: 256 cannot be shared evenly by 3 shards (train.shards); write 258, or train.shards: 1",
        ),
        (
            ["train.shards=2", "explore.games_in_flight=255", "train.batch_steps=130560"],
            "explore.games_in_flight: 255 cannot be shared evenly by 2 shards (train.shards); write 256, or "
            "train.shards: 1",
        ),
        (
            ["train.shards=2", "train.accumulate=256"],
            "train.accumulate: train.minibatch (128) of each shard cannot be split into 256 equal parts; write a "
            "divisor of it",
        ),
        (
            [OPEN_SPIEL, "train.shards=2"],
            "train.shards: has no effect: shards are for topology: fused; write train.trainers",
        ),
        # buffer
        (
            [OPEN_SPIEL, "buffer.capacity=300"],
            "buffer.capacity: 300 sequences are less than one batch (train.batch_episodes: 256, 2 seats each); "
            "write at least 512",
        ),
        (
            ["schedule=async", "buffer.capacity=600", "buffer.min_size=700"],
            "buffer.min_size: 700 is more than buffer.capacity (600); write at most that",
        ),
        (
            ["schedule=async", "buffer.min_size=769"],
            "buffer.min_size: only 768 episodes are played before the first update (train.max_staleness: 2); "
            "write at most that",
        ),
        (
            ["schedule=async", "buffer.samples_per_insert=1.5"],
            "buffer.samples_per_insert: 1.5 cannot be reached with buffer.reuse: 1; write at most 1, or a higher reuse",
        ),
        (
            ["schedule=async", "buffer.reuse=4"],
            "buffer.reuse: 4 uses need experience 3 versions old, but train.max_staleness is 2; "
            "write at least that there",
        ),
        # algorithm
        (
            [OPEN_SPIEL, "train.algorithm.advantage.perspective=alternate"],
            "train.algorithm.advantage.perspective: alternate is for topology: fused; write seat (it serves every game)",
        ),
        (
            [f"{OBJECTIVE}=[]"],
            f"{OBJECTIVE}: has no terms; write at least one, or leave it out for the preset's",
        ),
        (
            [f"{OBJECTIVE}=[{{loss: ppo_clp}}]"],
            f'{OBJECTIVE}.0.loss: "ppo_clp": no such loss; did you mean ppo_clip? Else: one of your own needs --plugin FILE',
        ),
        (
            ["train.algorithm.preset=pppo"],
            'train.algorithm.preset: "pppo": no such preset; did you mean ppo? Else: one of your own needs --plugin FILE',
        ),
        (
            ["train.optimizer.schedule=cosin"],
            'train.optimizer.schedule: "cosin": no such schedule; did you mean cosine? Else: one of your own needs --plugin FILE',
        ),
        (
            ["topology=split", "train.algorithm.advantage={kind: custom, name: mine}"],
            'train.algorithm.advantage.name: "mine": no such advantage; one of your own needs --plugin FILE',
        ),
        (
            ["train.algorithm.advantage.name=mine"],
            "train.algorithm.advantage.name: has no effect: train.algorithm.advantage.kind is gae",
        ),
        (
            ["policy.network={kind: custom, name: mine}"],
            'policy.network.name: "mine": no such network; one of your own needs --plugin FILE',
        ),
        (
            [f"{OBJECTIVE}=[{{loss: value, options: {{clip_low: 1}}}}]"],
            f"{OBJECTIVE}.0.options.clip_low: the loss value has no such option; its options: clip",
        ),
        (
            [f"{OBJECTIVE}=[{{loss: ppo_clip, options: {{dual_clip: 0.5}}}}]"],
            f"{OBJECTIVE}.0.options.dual_clip: the loss ppo_clip expects a number > 1 or null, got 0.5",
        ),
        (
            [f"{OBJECTIVE}=[{{loss: kl, options: {{estimator: k4}}}}]"],
            f'{OBJECTIVE}.0.options.estimator: the loss kl expects k1, k2 or k3, got "k4"',
        ),
        (
            [f"{OBJECTIVE}=[{{loss: ppo_clip, options: {{clip_low: true}}}}]"],
            f"{OBJECTIVE}.0.options.clip_low: the loss ppo_clip expects a number > 0 or null, got true",
        ),
        # league
        (
            ["league.opponents=[{kind: fixed}]"],
            "league.opponents.0.players: league.opponents.0.kind is fixed, but has no players; write players: [random]",
        ),
        (
            ["league.opponents=[{kind: custom}]"],
            "league.opponents.0.name: league.opponents.0.kind is custom; write the name of the registered sampler",
        ),
        (["policy.name=random"], "policy.name: random is a fixed player's name; write another, such as main"),
        (["policy.name=mcts-25"], "policy.name: mcts-25 is a fixed player's name; write another, such as main"),
        # repeats
        (
            ["evaluate.against=[random, mcts-5, random]"],
            "evaluate.against.2: random is already there as evaluate.against.0; write it once",
        ),
        (
            [OPEN_SPIEL, "games.1=open_spiel:tic_tac_toe"],
            "games.1: open_spiel:tic_tac_toe is already there as games.0; write it once",
        ),
        # no effect
        (["buffer.reuse=2"], "buffer.reuse: has no effect: there is no buffer in topology: fused"),
        (["buffer.capacity=2"], "buffer.capacity: has no effect: there is no buffer in topology: fused"),
        (["explore.workers=2"], "explore.workers: has no effect: topology: fused plays in one process"),
        (
            [OPEN_SPIEL, "record.sample_every=2"],
            "record.sample_every: has no effect: topology: split records every episode",
        ),
        (
            [OPEN_SPIEL, "buffer.sampler=uniform"],
            "buffer.sampler: has no effect: schedule: sync trains once on the episodes just played; "
            "write schedule: async",
        ),
        (
            ["schedule=async", "buffer.priority_exponent=1"],
            "buffer.priority_exponent: has no effect: buffer.sampler is fifo; write sampler: prioritised",
        ),
        (
            ["train.max_staleness=5"],
            "train.max_staleness: has no effect: schedule: sync is as far behind as synchronise.offset says; "
            "write schedule: async, or leave it out",
        ),
        (
            ["train.algorithm.advantage={kind: gae, rho_clip: 2}"],
            "train.algorithm.advantage.rho_clip: has no effect: train.algorithm.advantage.kind is gae",
        ),
        (
            ["train.algorithm.advantage={kind: monte_carlo, lam: 0.5}"],
            "train.algorithm.advantage.lam: has no effect: train.algorithm.advantage.kind is monte_carlo",
        ),
        (
            ["topology=split", "schedule=async", "explore.refill=2"],
            "explore.refill: has no effect: schedule: async waits for whole batches anyway",
        ),
        (
            ["topology=split", "synchronise.offset=1", "explore.refill=2"],
            "explore.refill: plays with the version that the batch is played with, and synchronise.offset has others "
            "played ahead; write synchronise.offset: 0, or leave it out",
        ),
        (
            ["topology=fused", "explore.cut_off=0.9"],
            "explore.cut_off: has no effect: topology: fused plays all games in step and waits for none",
        ),
        (
            ["topology=split", "mode=train", "explore.cut_off=0.9"],
            "explore.cut_off: has no effect: mode: train plays nothing for training",
        ),
        (
            ["topology=split", "train.batch_episodes=8", "explore.cut_off=0.9"],
            "explore.cut_off: has no effect: 0.9 of 8 episodes (a batch) are all of them, rounded up; "
            "write at most 0.875, or a larger train.batch_episodes",
        ),
        (
            ["topology=fused", "explore.refill=2"],
            "explore.refill: has no effect: topology: fused refuses nothing that it played",
        ),
        (
            ["train.optimizer={kind: sgd, eps: 0.1}"],
            "train.optimizer.eps: has no effect: train.optimizer.kind is sgd",
        ),
        (
            ["train.optimizer={schedule: constant, final_fraction: 0.5}"],
            "train.optimizer.final_fraction: has no effect: train.optimizer.schedule is constant",
        ),
        (
            ["league.opponents=[{kind: mirror, players: [random]}]"],
            "league.opponents.0.players: has no effect: league.opponents.0.kind is mirror; players is for fixed",
        ),
        (
            ["league.opponents=[{kind: lagged, weighting: linear}]"],
            "league.opponents.0.weighting: has no effect: league.opponents.0.kind is lagged; weighting is for pfsp",
        ),
    ],
)
def test_a_contradiction_is_one_line_that_says_what_to_write(changes: list[str], line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve(make(*changes))
    assert refused.value.problems == (line,)


def test_all_contradictions_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        resolve(make("topology=fused", "schedule=async", "mode=train", "train.batch_steps=1000", "train.accumulate=3"))
    assert [line.split(":")[0] for line in refused.value.problems] == [
        "schedule",
        "mode",
        "train.batch_steps",
        "train.accumulate",
    ]


def test_a_contradiction_is_reported_with_the_line_of_its_key() -> None:
    text = "name: x\ngames: [pgx:connect_four]\ntrain:\n  batch_steps: 1000\nbuffer:\n\n  reuse: 3\n"
    with pytest.raises(ConfigError) as refused:
        parse_resolved(text, "run.yaml", ["train.accumulate=3"])
    assert [line.split(": ")[0] for line in refused.value.problems] == [
        "run.yaml:4    train.batch_steps",
        "run.yaml:7    buffer.reuse",
        "command line  train.accumulate",
    ]


def test_what_was_suggested_is_accepted() -> None:
    resolve(make("explore.games_in_flight=10", "train.batch_steps=1280"))
    resolve(make("schedule=async", "buffer.reuse=4", "train.max_staleness=3"))
    for kind in ("adam", "adamw", "rmsprop", "sgd"):
        resolve(make(f"train.optimizer={{kind: {kind}, weight_decay: 0.1}}"))


def test_without_a_file_the_demo_is_loaded(tmp_path: Path) -> None:
    assert load_or_demo(None).name == "connect_four"
    assert load_or_demo(None, ["seed=3"]).seed == 3
    with pytest.raises(ConfigError, match=r"^demo\.yaml:\d+  train\.batch_steps: \d+ is not a multiple of"):
        load_or_demo(None, ["explore.games_in_flight=497"])
    file = tmp_path / "run.yaml"
    file.write_text("name: y\ngames: [pgx:chess]\n")
    assert load_or_demo(file).name == "y"


def test_settings_of_language_models_that_cannot_hold_are_refused() -> None:
    text = """
name: x
games: [open_spiel:tic_tac_toe]
policy: {model: {path: models/tiny, lora: null}}
explore: {engine: {kind: vllm, url: 'http://127.0.0.1:8000/v1', model: base}, noise: 0.1}
league: {opponents: [{kind: lagged}]}
train: {aggregation_length: 9, algorithm: {advantage: {kind: rloo}}}
"""
    with pytest.raises(ConfigError) as refused:
        resolve(parse_config(text, "run.yaml"))
    problems = "\n".join(refused.value.problems)
    assert (
        "past versions (league.opponents: lagged) would need one of its own; write a lora, or opponents of" in problems
    )
    keys = ("policy.model.lora", "explore.group", "explore.noise")
    for path in (*keys, "train.aggregation_length"):
        assert path in problems


def test_settings_of_language_models_are_refused_without_one() -> None:
    with pytest.raises(ConfigError) as refused:
        resolve(
            parse_config(
                "name: x\ngames: [pgx:connect_four]\nwarm_start: {}\nexplore: {group: 4}\n"
                "train: {activation_checkpointing: true, device: cuda}\n",
                "run.yaml",
            )
        )
    problems = "\n".join(refused.value.problems)
    assert "warm_start" in problems
    assert "explore.group" in problems
    assert "train.activation_checkpointing" in problems
    assert "train.device" in problems


def test_one_gpu_for_several_trainers_of_a_language_model_is_refused() -> None:
    text = "name: x\ngames: [open_spiel:tic_tac_toe]\npolicy: {model: {path: ludus/tiny}}\n"
    with pytest.raises(ConfigError) as refused:
        resolve(parse_config(f'{text}train: {{device: "cuda:1", trainers: 2}}\n', "run.yaml"))
    assert refused.value.problems == (
        "train.device: is one GPU, and 2 trainers need one each (train.trainers); write cuda, or auto",
    )


def test_several_trainers_of_a_network_are_processes_of_their_own() -> None:
    text = "name: x\ngames: [pgx:connect_four]\ntrain: {trainers: 2}\n"
    assert resolve(parse_config(text, "run.yaml")).topology == "split"
    with pytest.raises(ConfigError) as refused:
        resolve(parse_config(f"{text}topology: fused\n", "run.yaml"))
    assert refused.value.problems == (
        "train.trainers: several trainers are separate processes, but topology is fused; "
        "write topology: split, or train.trainers: 1",
    )
