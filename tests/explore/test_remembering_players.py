"""What explorers record of networks that remember, and of central critics, is what a trainer finds in the same experience."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest

from ludus.config import MemoryConfig, MlpConfig
from ludus.explore.actors import NetworkActors
from ludus.explore.runners.host_runner import HostRunner
from ludus.games import make_game
from ludus.games.protocol import write_state
from ludus.policies import PolicyShape, PolicyStore, as_numpy
from ludus.records import PolicyName, PolicyRef, Seat, Task, TaskId
from ludus.train.batches import make_rows

MAIN = PolicyRef(name=PolicyName("main"))


@pytest.mark.parametrize("key", ["pettingzoo:mpe.simple_speaker_listener_v4(max_cycles=7)", "open_spiel:kuhn_poker"])
def test_recorded_decisions_are_those_of_the_unrolled_network(key: str, tmp_path: Path) -> None:
    game = make_game(key)
    shape = PolicyShape(
        network=MlpConfig(hidden=(8,), activation="tanh", memory=MemoryConfig(size=5, chunk=3)),
        observation_shape=game.spec.observation_shape,
        actions=game.spec.actions,
        layout="channels_first",
        games=(key,),
        critic="central",
        state_size=game.spec.state_size,
        normalises_value=True,
    )
    network, random = shape.build(), np.random.default_rng(0)
    scale = {"value_scale.mean": 0.4, "value_scale.square": 2.0, "value_scale.counted": 0.1}
    params = {
        name: np.asarray(scale.get(name, random.normal(scale=0.5, size=size)), np.float32)
        for name, size in network.shapes().items()
    }
    store = PolicyStore(tmp_path)
    store.publish(MAIN, as_numpy(params), shape, step=0)
    runner = HostRunner(
        run="test", games=lambda _: game, actors=NetworkActors(store), players=lambda *_: None, slots=5, noise=0.2
    )
    seats = (Seat(policy=MAIN, learns=True),) * game.spec.players
    runner.submit([Task(id=TaskId(number), game=key, seed=number, seats=seats) for number in range(12)])
    while not runner.is_idle:
        runner.step()
    found = runner.harvest().experiences
    assert len(found) > 12
    maker = make_rows(network)
    rows = maker.of(found, None, params)  # type: ignore[arg-type]
    logits, value = jax.jit(maker.apply)(params, rows.batch)
    chosen = jax.nn.log_softmax(np.where(rows.batch["legal"], logits, -1e9))
    logp = np.take_along_axis(np.asarray(chosen), rows.batch["action"][..., None], axis=-1)[..., 0]
    mask = found.steps["mask"]
    np.testing.assert_allclose(rows.scatter(logp)[mask], found.steps["logp"][mask], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rows.scatter(value), found.steps["value"], rtol=1e-4, atol=1e-4)
    assert np.abs(rows.batch["memory"]).max() > 0 or found.lengths.max() <= 3


def test_a_game_without_a_state_shows_what_all_seats_see() -> None:
    game = make_game("open_spiel:kuhn_poker")
    position = game.start(3)
    state = np.full(game.spec.state_size, np.nan, np.float32)
    write_state(position, game.spec, state)
    seen = np.zeros((2, *game.spec.observation_shape), np.float32)
    for seat in range(2):
        position.observe(seat, seen[seat])
    np.testing.assert_array_equal(state, seen.ravel())
