"""A league in turns, as Light-MALib's: the main agent answers the meta-strategy over everybody, then an exploiter
answers the newest main agent alone, and so on.
"""

from __future__ import annotations

from ludus.config import PopulationConfig
from ludus.errors import LudusError
from ludus.league.matchmaking.lineups import LineUps
from ludus.league.schedulers.assignment import Assignment, View
from ludus.league.schedulers.psro import answer_to, newest_or_uniform


class SequentialLeague:
    """Two agents that take turns. The main agent goes on from what it was; exploiters begin anew."""

    def agents(self, config: PopulationConfig, *, name: str, seats: int) -> tuple[str, ...]:
        """The policy, and who looks for its weaknesses."""
        if not config.shared:
            raise LudusError("sequential_league has one population; write population.shared: true")
        return name, f"{name}_exploiter"

    def assignments(self, view: View) -> tuple[Assignment, ...]:
        """Odd generations are the main agent's."""
        generation = view.generation + 1
        main, exploiter = view.roster.agents
        if generation % 2:
            newest = view.roster.newest(main)
            opponents, agent, parent = answer_to(view, 0), main, None if newest is None else newest.ref
        else:
            opponents = LineUps.of_others([(newest_or_uniform(view, main), 1.0)])
            agent, parent = exploiter, None
        return (
            Assignment(
                agent=agent,
                learner=f"{agent}-{generation}",
                generation=generation,
                opponents=opponents,
                until=view.steps,
                begins_with=parent,
            ),
        )

    def is_frozen(self, view: View, done: Assignment) -> bool:
        """Both join."""
        return True

    def is_over(self, view: View, done: Assignment) -> bool:
        """The next turn is another learner's, which may begin with these weights."""
        return True
