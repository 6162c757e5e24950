"""Games that can be played on the device: `DeviceGame`s as they are, others when their whole tree fits into tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ludus.errors import ConfigError
from ludus.games.protocol import Game, GameSpec

if TYPE_CHECKING:
    import jax


@runtime_checkable
class DeviceGame(Protocol):
    """A game whose steps can be compiled."""

    @property
    def spec(self) -> GameSpec:
        """What the game is."""
        ...

    @property
    def env(self) -> Any:
        """With `num_players`, `init(key)` and `step(state, action, key)`, and states like pgx's."""
        ...

    def seat_order(self, state: Any) -> jax.Array:
        """The environment's players of a fresh state by seat, `[P]`; can be jitted and mapped."""
        ...


def find_device_game(game: Game) -> DeviceGame:
    """The game as the device plays it; walks the tree of a game of OpenSpiel.

    Raises:
        ConfigError: it cannot be played there.
    """
    if isinstance(game, DeviceGame):
        return game
    if not game.spec.tree:
        raise ConfigError(f"{game.spec.key}: cannot be played on the device; write topology: split")
    from ludus.games.tabulated_env import TabulatedGame
    from ludus.games.tabulating import tabulate

    return TabulatedGame(game.spec, tabulate(game.spec.tree))
