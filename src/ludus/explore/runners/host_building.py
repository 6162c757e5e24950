"""Make the runner of networks on boards from a setup message: games, fixed players and whoever decides."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ludus.config import RunConfig
from ludus.explore.actors import NetworkActors
from ludus.explore.messages import Setup
from ludus.explore.players.fixed import Player, make_player
from ludus.explore.runners.host_runner import HostRunner
from ludus.games import make_game
from ludus.games.protocol import Game
from ludus.policies import PolicyShape, PolicyStore
from ludus.runtime import Pulse


def build_host_runner(
    setup: Setup, config: RunConfig, pulse: Pulse, *, actors: NetworkActors | None = None
) -> HostRunner:
    """The runner of network policies on boards; `actors` decide for them, if there are such already."""
    network = config.policy.name

    @lru_cache(maxsize=64)
    def game(key: str) -> Game:
        return make_game(key)

    @lru_cache(maxsize=256)
    def fixed_player(name: str, key: str) -> Player:
        return make_player(name, game(key))

    store = PolicyStore(Path(setup.run_dir) / "policies")

    def player(name: str, game: Game) -> Player | None:
        is_network = name == network or store.has_policy(name)
        return None if is_network else fixed_player(name, game.spec.key)

    if actors is None:
        actors = NetworkActors(store)
        actors.prepare(PolicyShape.from_json(setup.shape))
    return HostRunner(
        run=setup.run,
        games=game,
        actors=actors,
        players=player,
        noise=config.explore.noise,
        slots=setup.slots,
        deadline_s=config.explore.deadline_s,
        max_length=config.explore.max_length,
        pulse=pulse,
    )
