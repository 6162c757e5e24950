import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ludus.runtime import limit_threads

limit_threads(1, os.environ, devices=2)

from ludus.config import MlpConfig  # noqa: E402
from ludus.explore.actors import NetworkActors  # noqa: E402
from ludus.explore.players.fixed import make_player  # noqa: E402
from ludus.explore.runners.host_runner import HostRunner  # noqa: E402
from ludus.games import Game, make_game  # noqa: E402
from ludus.policies import PolicyShape, PolicyStore, as_numpy  # noqa: E402
from ludus.records import PolicyName, PolicyRef, PolicyVersion  # noqa: E402

MakeRunner = Callable[..., HostRunner]


def main_policy(version: int = 0) -> PolicyRef:
    return PolicyRef(name=PolicyName("main"), version=PolicyVersion(version))


@pytest.fixture
def make_runner(tmp_path: Path) -> MakeRunner:
    """Runners whose policy `main` has versions 0 and 1 with different random weights."""

    def make(game: Game, **options: object) -> HostRunner:
        shape = PolicyShape(
            network=MlpConfig(hidden=(16,)),
            observation_shape=game.spec.observation_shape,
            actions=game.spec.actions,
            layout="channels_first",
            games=(game.spec.key,),
        )
        store = PolicyStore(tmp_path / game.spec.key)
        for version in (0, 1):
            store.publish(main_policy(version), as_numpy(shape.build().init(version)), shape, step=0)
        return HostRunner(
            run="test",
            games=lambda key: game,
            actors=NetworkActors(store),
            players=lambda name, game: None if name == "main" else make_player(name, game),
            **{"slots": 8, **options},  # type: ignore[arg-type]
        )

    return make


@pytest.fixture(scope="session")
def tic_tac_toe() -> Game:
    return make_game("open_spiel:tic_tac_toe")
