"""Players that search: MCTS and minimax by OpenSpiel's own algorithms, and a solver of Connect Four.

They need a position that OpenSpiel can look into (`SearchablePosition`): its own games, and pgx games with a twin. Both
look at the whole state, so they are refused where a seat must not see it.
"""

from __future__ import annotations

import numpy as np

from ludus.errors import ConfigError, PolicyError
from ludus.games import Game, Position, SearchablePosition
from ludus.games.connect_four_solver import GAMES, ConnectFourSolver

UCT_C = 2.0
ROLLOUTS = 1
MAX_MEMORY_MB = 1000
SEED_LIMIT = 2**31 - 1


class MctsPlayer:
    """OpenSpiel's MCTS: UCT with random rollouts, and proven wins and losses backed up (`solve`).

    This is the C++ bot, a fifteenth of the Python bot's cost. In Connect Four the two score, C++ first, 0.506 ± 0.016
    with 25 simulations (1,000 games) and 0.472 ± 0.010 with 100 (2,600 games); they choose alike in single positions.
    """

    def __init__(self, game: Game, simulations: int) -> None:
        _refuse(f"mcts-{simulations}", game)
        self._simulations = simulations

    def choose(self, position: Position, seat: int, rng: np.random.Generator) -> int:
        """Search from the position; a forced move is played at once."""
        import pyspiel

        legal = position.legal(seat)
        if len(legal) == 1:
            return legal[0]
        searchable = _searchable(position)
        state = searchable.open_spiel_state()
        rollout_seed, tree_seed = rng.integers(SEED_LIMIT, size=2).tolist()
        evaluator = pyspiel.RandomRolloutEvaluator(ROLLOUTS, rollout_seed)
        bot = pyspiel.MCTSBot(
            state.get_game(), evaluator, UCT_C, self._simulations, MAX_MEMORY_MB, True, tree_seed, False
        )
        return searchable.from_open_spiel(bot.step(state))


class MinimaxPlayer:
    """OpenSpiel's alpha-beta search to a fixed depth; positions beyond it count as even.

    Plays any of the moves that are best at that depth with equal probability, so that games between two players
    without other chance are not all the same game.
    """

    def __init__(self, game: Game, depth: int) -> None:
        _refuse(f"minimax-{depth}", game, is_minimax=True)
        self._depth = depth

    def choose(self, position: Position, seat: int, rng: np.random.Generator) -> int:
        """Search each move; a forced move is played at once."""
        from open_spiel.python.algorithms import minimax

        legal = position.legal(seat)
        if len(legal) == 1:
            return legal[0]
        searchable = _searchable(position)
        state = searchable.open_spiel_state()
        values: dict[int, float] = {}
        for action in state.legal_actions():
            values[action], _ = minimax.alpha_beta_search(
                state.get_game(),
                state=state.child(action),
                value_function=lambda _: 0.0,
                maximum_depth=self._depth - 1,
                maximizing_player_id=seat,
            )
        best = [action for action, value in values.items() if value == max(values.values())]
        return searchable.from_open_spiel(best[int(rng.integers(len(best)))])


class SolverPlayer:
    """Plays Connect Four perfectly: wins as soon as it can, loses as late as it can; equal moves by chance."""

    def __init__(self, game: Game) -> None:
        if game.spec.key not in GAMES:
            raise ConfigError(f"player 'solver' cannot play {game.spec.key}: it plays {' and '.join(GAMES)}")
        self._solver = ConnectFourSolver()

    def choose(self, position: Position, seat: int, rng: np.random.Generator) -> int:
        """Choose among the best moves."""
        searchable = _searchable(position)
        values = self._solver.values(searchable.open_spiel_state().history())
        best = [column for column, value in sorted(values.items()) if value == max(values.values())]
        return searchable.from_open_spiel(best[int(rng.integers(len(best)))])


def _searchable(position: Position) -> SearchablePosition:
    if not isinstance(position, SearchablePosition):
        raise PolicyError(f"{type(position).__name__} has no open_spiel_state: OpenSpiel's players cannot play it")
    return position


def _refuse(player: str, game: Game, *, is_minimax: bool = False) -> None:
    spec = game.spec
    problems = {
        "seats act at the same time": spec.is_simultaneous,
        "it would look at hidden information": not spec.has_perfect_information,
        "rewards come before the end": spec.rewards_every_move,
        "it is not a zero-sum game for two": is_minimax and (spec.players != 2 or not spec.is_zero_sum),
        "it has chance": is_minimax and spec.has_chance,
        "OpenSpiel has no equal game": not spec.is_searchable,
    }
    if found := [problem for problem, is_there in problems.items() if is_there]:
        raise ConfigError(f"player {player!r} cannot play {spec.key}: {'; '.join(found)}")
