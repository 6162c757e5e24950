"""Which runner an explorer of a population gets, and that everybody in it plays what it is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ludus.config import RunConfig, parse_config, resolve
from ludus.errors import ConfigError
from ludus.explore.messages import Setup
from ludus.explore.runners.host_runner import HostRunner
from ludus.explore.runners.language_runner import LanguageRunner
from ludus.explore.runners.mixed_runner import MixedRunner
from ludus.explore.worker import build_runner
from ludus.games import make_game
from ludus.lm.language_shape import LanguageModelShape
from ludus.policies import AnyShape, PolicyShape, PolicyStore, as_numpy
from ludus.records import EpisodeBatch, PolicyName, PolicyRef, PolicyVersion, Seat, Task, TaskId
from ludus.runtime import NodeFiles, Pulse

Runner = HostRunner | LanguageRunner | MixedRunner
KUHN = "open_spiel:kuhn_poker"
NETWORK = f"""
name: x
games: [{KUHN}]
topology: split
policy: {{name: learner, network: {{kind: mlp, hidden: [8]}}}}
"""


def words_text(model: Path) -> str:
    return f"""
name: x
games: [{KUHN}]
policy: {{name: learner, model: {{path: {model}, lora: null}}}}
explore: {{prompt: {{template: bare}}, sampling: {{max_tokens: 4}}}}
train: {{algorithm: {{preset: reinforce}}}}
"""


def ref(name: str, version: int = 1) -> PolicyRef:
    return PolicyRef(name=PolicyName(name), version=PolicyVersion(version if name != "random" else 0))


def config_of(text: str) -> RunConfig:
    return resolve(parse_config(text, "x.yaml"))


def publish_network(store: PolicyStore, name: str) -> PolicyShape:
    spec = make_game(KUHN).spec
    shape = PolicyShape(
        network=config_of(NETWORK).policy.network,
        observation_shape=spec.observation_shape,
        actions=spec.actions,
        layout="channels_first",
        games=(KUHN,),
    )
    store.publish(ref(name), as_numpy(shape.build().init(1)), shape, step=0)
    return shape


def publish_model(store: PolicyStore, name: str, model: Path) -> LanguageModelShape:
    from safetensors.numpy import load_file

    config = config_of(words_text(model)).policy.model
    assert config is not None
    shape = LanguageModelShape(model=config, critic=False, games=(KUHN,))
    store.publish(ref(name), load_file(model / "model.safetensors"), shape, step=0)
    return shape


@pytest.fixture
def built() -> Iterator[list[Runner]]:
    runners: list[Runner] = []
    yield runners
    for runner in runners:
        if isinstance(runner, LanguageRunner | MixedRunner):
            runner.close()


def build(built: list[Runner], run: Path, text: str, shape: AnyShape, lm_config: str) -> Runner:
    setup = Setup(
        run="x",
        config=config_of(text).model_dump_json(),
        shape=shape.to_json(),
        slots=8,
        lm_config=lm_config,
    )
    built.append(build_runner(setup, Pulse(), NodeFiles(run)))
    return built[-1]


def play(runner: Runner, *others: str) -> EpisodeBatch:
    """Games of the learner against each of them, in both seats."""
    seats = [(Seat(policy=ref("learner"), learns=True), Seat(policy=ref(name))) for name in others]
    pairs = [pair for one, two in seats for pair in ((one, two), (two, one))]
    runner.submit(Task(id=TaskId(n), game=KUHN, seed=n, seats=pair) for n, pair in enumerate(pairs * 4))
    while not runner.is_idle:
        runner.step()
    batch = runner.harvest()
    assert len(batch.episodes) == 8 * len(others)
    assert [episode.error for episode in batch.episodes if episode.error] == []
    assert all(all(episode.move_actions) for episode in batch.episodes if episode.replies)
    return batch


def test_a_network_learns_from_games_against_everybody(
    poker_speaker: Path, tmp_path: Path, built: list[Runner]
) -> None:
    store = PolicyStore(tmp_path / "policies")
    publish_network(store, "main")
    publish_model(store, "words", poker_speaker)
    lm_config = config_of(words_text(poker_speaker)).model_dump_json()
    runner = build(built, tmp_path, NETWORK, publish_network(store, "learner"), lm_config)
    assert isinstance(runner, MixedRunner)
    rows = play(runner, "main", "words", "random").experiences
    assert rows.steps["observation"].shape[1:] == make_game(KUHN).spec.observation_shape
    assert len(rows) == 24
    assert set(rows.sequences["policy"].tolist()) == {"learner"}


def test_a_language_model_learns_from_games_against_everybody(
    poker_speaker: Path, tmp_path: Path, built: list[Runner]
) -> None:
    store = PolicyStore(tmp_path / "policies")
    publish_network(store, "main")
    publish_model(store, "words", poker_speaker)
    text = words_text(poker_speaker)
    runner = build(
        built, tmp_path, text, publish_model(store, "learner", poker_speaker), config_of(text).model_dump_json()
    )
    assert isinstance(runner, MixedRunner)
    rows = play(runner, "main", "words", "random").experiences
    assert "observation" not in rows.steps
    assert len(rows) == 24


def test_where_one_kind_is_alone_its_own_runner_plays(poker_speaker: Path, tmp_path: Path, built: list[Runner]) -> None:
    text = words_text(poker_speaker)
    lm_config = config_of(text).model_dump_json()
    boards, words = PolicyStore(tmp_path / "boards/policies"), PolicyStore(tmp_path / "words/policies")
    publish_network(boards, "main")
    shape = publish_network(boards, "learner")
    assert isinstance(build(built, tmp_path / "boards", NETWORK, shape, lm_config), HostRunner)
    publish_model(words, "words", poker_speaker)
    runner = build(built, tmp_path / "words", text, publish_model(words, "learner", poker_speaker), lm_config)
    assert isinstance(runner, LanguageRunner)
    assert len(play(runner, "words", "random").experiences) == 16


def test_language_models_on_several_base_models_are_refused(
    poker_speaker: Path, tmp_path: Path, built: list[Runner]
) -> None:
    import shutil

    other = tmp_path / "other"
    shutil.copytree(poker_speaker, other)
    store = PolicyStore(tmp_path / "policies")
    publish_model(store, "words", poker_speaker)
    publish_model(store, "others", other)
    lm_config = config_of(words_text(poker_speaker)).model_dump_json()
    with pytest.raises(ConfigError, match="language models stand on several models"):
        build(built, tmp_path, NETWORK, publish_network(store, "learner"), lm_config)
