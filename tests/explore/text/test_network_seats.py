"""Networks in games of words: what they see, do and learn from is what play on boards would have given them."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from ludus.config import MemoryConfig, MlpConfig
from ludus.experience import verify
from ludus.explore.actors import Decided, Needs, NetworkActors
from ludus.explore.players.network_seats import Networks, Sight
from ludus.explore.runners.host_runner import HostRunner
from ludus.explore.runners.mixed_runner import MixedRunner
from ludus.games import Game, Position, make_game
from ludus.policies import PolicyShape, PolicyStore, as_numpy
from ludus.records import EpisodeBatch, PolicyName, PolicyRef, PolicyVersion, Seat, Task, TaskId

NOISE = 0.3
MODEL = PolicyRef(name=PolicyName("main"), version=PolicyVersion(3))
"""The parrot's policy: `main` speaks in the runners of this folder."""


def net(version: int = 0, name: str = "net") -> PolicyRef:
    return PolicyRef(name=PolicyName(name), version=PolicyVersion(version))


def is_network(name: str) -> bool:
    return name == "net"


class Always:
    """Plays the action that the parrot says."""

    def choose(self, position: Position, seat: int, rng: np.random.Generator) -> int:
        return 1


@pytest.fixture
def store(tmp_path: Path) -> PolicyStore:
    return PolicyStore(tmp_path / "policies")


def publish(store: PolicyStore, game: Game, *, remembers: bool = False) -> None:
    """Versions 0 and 1 of a network for a game; one that remembers has a critic that sees everything as well."""
    shape = PolicyShape(
        network=MlpConfig(hidden=(16,), memory=MemoryConfig(size=8) if remembers else None),
        critic="central" if remembers else "shared",
        state_size=game.spec.state_size if remembers else 0,
        observation_shape=game.spec.observation_shape,
        actions=game.spec.actions,
        layout="channels_first",
        games=(game.spec.key,),
    )
    for version in (0, 1):
        store.publish(net(version), as_numpy(shape.build().init(version + 7)), shape, step=0)


def host_runner(store: PolicyStore, **options: float | None) -> HostRunner:
    return HostRunner(
        run="test",
        games=make_game,
        actors=NetworkActors(store),
        players=lambda name, game: None if name == "net" else Always(),
        slots=8,
        **options,  # type: ignore[arg-type]
    )


def play(runner: object, tasks: Sequence[Task]) -> EpisodeBatch:
    runner.submit(tasks)  # type: ignore[attr-defined]
    while not runner.is_idle:  # type: ignore[attr-defined]
        runner.step()  # type: ignore[attr-defined]
    batch: EpisodeBatch = runner.harvest()  # type: ignore[attr-defined]
    return batch


def rows_of(batch: EpisodeBatch) -> dict[tuple[str, int], tuple[bytes, ...]]:
    """Every value of every row, by episode and seat."""
    rows, found = batch.experiences, {}
    for row in range(len(rows)):
        part = slice(rows.offsets[row], rows.offsets[row + 1])
        facts = [repr(rows.sequences[name][row]).encode() for name in sorted(rows.sequences)]
        steps = [rows.steps[name][part].tobytes() for name in sorted(rows.steps)]
        found[str(rows.sequences["episode"][row]), int(rows.sequences["seat"][row])] = (*facts, *steps)
    return found


def meetings(key: str, count: int, opponent: PolicyRef = MODEL) -> list[Task]:
    """Games of the newest network that learns against somebody, in both seats; every fourth is played greedily."""
    tasks = []
    for number in range(count):
        learner, other = Seat(policy=net(1), learns=True, greedy=number % 4 == 3), Seat(policy=opponent)
        seats = (learner, other) if number % 2 else (other, learner)
        tasks.append(Task(id=TaskId(number), game=key, seed=100 + number, seats=seats))
    return tasks


@pytest.mark.parametrize(("key", "says"), [("kuhn_poker", "Bet"), ("leduc_poker", "Call")])
@pytest.mark.parametrize(("noise", "remembers"), [(0.0, False), (NOISE, False), (NOISE, True)])
def test_rows_against_a_language_model_are_those_of_play_on_boards(
    key: str,
    says: str,
    noise: float,
    remembers: bool,
    store: PolicyStore,
    make_runner: Callable[..., tuple[object, object]],
) -> None:
    publish(store, make_game(f"open_spiel:{key}"), remembers=remembers)
    tasks = meetings(f"open_spiel:{key}", 40)
    networks = Networks(NetworkActors(store), is_network, noise=noise)
    words = play(make_runner(lambda prompt: says, networks=networks)[0], tasks)
    boards = play(host_runner(store, noise=noise), tasks)
    assert not any(episode.error for episode in words.episodes)
    assert len(words.experiences) == 40
    assert set(words.experiences.steps["mask"].tolist()) == ({True, False} if noise else {True})
    assert ("state" in words.experiences.steps) == remembers
    assert rows_of(words) == rows_of(boards)
    returns = [{episode.id: episode.returns for episode in batch.episodes} for batch in (words, boards)]
    assert returns[0] == returns[1]


def test_rewards_on_the_way_go_to_the_same_decisions_and_long_games_are_cut_at_the_same_move(
    store: PolicyStore, make_runner: Callable[..., tuple[object, object]]
) -> None:
    key = "open_spiel:cliff_walking"
    publish(store, make_game(key))
    tasks = [Task(id=TaskId(n), game=key, seed=n, seats=(Seat(policy=net(), learns=True),)) for n in range(6)]
    networks = Networks(NetworkActors(store), is_network)
    words = play(make_runner(str, networks=networks, max_length=9)[0], tasks)
    boards = play(host_runner(store, max_length=9), tasks)
    assert np.count_nonzero(words.experiences.steps["reward"]) > 6
    assert rows_of(words) == rows_of(boards)
    assert any(episode.truncated for episode in words.episodes)


@pytest.mark.parametrize(("key", "says"), [("kuhn_poker", "Bet"), ("matrix_rps", "Rock")])
def test_rows_of_networks_pass_the_checks_of_a_run_of_networks(
    key: str, says: str, store: PolicyStore, make_runner: Callable[..., tuple[object, object]]
) -> None:
    game = make_game(f"open_spiel:{key}")
    publish(store, game)
    networks = Networks(NetworkActors(store), is_network)
    batch = play(make_runner(lambda prompt: says, networks=networks)[0], meetings(game.spec.key, 12))
    verified = verify(batch, specs={game.spec.key: game.spec}, known_versions=lambda name, version: version <= 1)
    assert not verified.refused
    assert len(verified.experiences) == 12


def test_a_forfeit_of_the_language_model_is_the_networks_gain(
    store: PolicyStore, make_runner: Callable[..., tuple[object, object]]
) -> None:
    publish(store, make_game("open_spiel:kuhn_poker"))
    networks = Networks(NetworkActors(store), is_network)
    runner, _ = make_runner(lambda prompt: "nonsense", networks=networks, prompt={"invalid_reward": -2.0})
    batch = play(runner, meetings("open_spiel:kuhn_poker", 8))
    rows = batch.experiences
    # Where the model moves first the network has not decided anything yet: there is nothing to learn from.
    assert rows.sequences["seat"].tolist() == [0] * 4
    assert rows.sequences["final_reward"].tolist() == rows.steps["reward"].tolist() == [2.0] * 4
    assert all(sorted(episode.returns) == [-2.0, 2.0] for episode in batch.episodes)


def test_a_network_whose_weights_are_missing_costs_its_own_episodes(
    store: PolicyStore, make_runner: Callable[..., tuple[object, object]]
) -> None:
    publish(store, make_game("open_spiel:kuhn_poker"))
    runner, _ = make_runner(lambda prompt: "Bet", networks=Networks(NetworkActors(store), is_network))
    tasks = [
        Task(
            id=TaskId(n), game="open_spiel:kuhn_poker", seed=n, seats=(Seat(policy=net(n % 2 * 9)), Seat(policy=MODEL))
        )
        for n in range(6)
    ]
    errors = {episode.task.id: episode.error for episode in play(runner, tasks).episodes}
    assert [bool(errors[TaskId(n)]) for n in range(6)] == [False, True] * 3
    assert errors[TaskId(1)].startswith("DamagedPolicy: net@9 cannot be loaded")


def test_decisions_of_one_turn_are_made_together_and_each_gets_its_own() -> None:
    class Counting:
        calls: list[int]

        def act(self, ref, observation, legal, uniform, greedy, state, memory):  # type: ignore[no-untyped-def]
            self.calls.append(len(uniform))
            return Decided((uniform * 10).astype(np.int32), uniform, -uniform, np.zeros((len(uniform), 0), np.float32))

        def needs(self, ref: PolicyRef) -> Needs:
            return Needs()

    actors = Counting()
    actors.calls = []
    networks = Networks(actors, is_network)

    async def ask() -> list[int]:
        nothing = np.zeros(0, np.float32)
        sight = Sight(observation=np.zeros(3, np.float32), legal=np.ones(2, np.bool_), state=nothing, memory=nothing)
        asked = [networks.decide(net(), sight, np.float32(n / 10), greedy=False) for n in range(5)]
        return [choice.action for choice in await asyncio.gather(*asked)]

    assert asyncio.run(ask()) == [0, 1, 2, 3, 4]
    assert actors.calls == [5]


def test_a_mixed_runner_plays_in_words_only_where_somebody_speaks(
    store: PolicyStore, make_runner: Callable[..., tuple[object, object]]
) -> None:
    publish(store, make_game("open_spiel:kuhn_poker"))
    words, engine = make_runner(lambda prompt: "Bet", networks=Networks(NetworkActors(store), is_network))
    runner = MixedRunner(host_runner(store), words, lambda name: name == "main")  # type: ignore[arg-type]
    talk = meetings("open_spiel:kuhn_poker", 10)
    quiet = [
        Task(id=TaskId(100 + task.id), game=task.game, seed=task.seed, seats=(Seat(policy=net(1), learns=True),) * 2)
        for task in talk
    ]
    batch = play(runner, [*talk, *quiet])
    assert {episode.task.id for episode in batch.episodes if episode.replies} == {task.id for task in talk}
    assert len(batch.episodes) == 20
    assert len(batch.experiences) == 30
    assert rows_of(batch) == rows_of(play(host_runner(store), [*talk, *quiet]))
    assert {request.policy for request in engine.requests} == {MODEL}  # type: ignore[attr-defined]
