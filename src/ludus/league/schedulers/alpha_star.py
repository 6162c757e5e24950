"""AlphaStar's league (Vinyals et al. 2019): main agents, main exploiters and league exploiters learn side by side.

Main agents play PFSP over all frozen members, themselves as they are now, and whoever beats them (exploiters, versions
that they have forgotten). Main exploiters play the main agents, league exploiters PFSP over everybody. A learner is
frozen when it beats all that it plays, or when it has learnt for long; exploiters then begin anew. Invariant: every
distribution is a function of the scores in the view.
"""

from __future__ import annotations

from collections.abc import Iterable

from ludus.config import PopulationConfig
from ludus.errors import LudusError
from ludus.league.matchmaking.matchmaker import PFSP_WEIGHTINGS
from ludus.league.matchmaking.population import UNIFORM, LineUps, label
from ludus.league.schedulers.assignment import Assignment, Scheduler, View
from ludus.records import PolicyRef, derive_seed

BEATEN = 0.3
"""Whoever scores less than this against a main agent as it is now plays its past versions instead, and exploiters
against which a main agent scores less are verified."""
FORGOTTEN = 0.7
"""Past versions of its own against which a main agent scores less are forgotten."""
HOPELESS = 0.1
"""A main exploiter that scores less than this against a main agent plays its past versions instead."""

Shares = list[tuple[PolicyRef, float]]


class AlphaStarLeague(Scheduler):
    """The roles are in the names of the agents: `main`, `main_exploiter_0`, `main_league_exploiter_0`."""

    def agents(self, config: PopulationConfig, *, name: str, seats: int) -> tuple[str, ...]:
        """Everybody who learns."""
        if not config.shared:
            raise LudusError("a league has one population; write population.shared: true")
        rules = config.league
        mains = [name, *(f"{name}_{number}" for number in range(1, rules.main_agents))]
        return (
            *mains,
            *(f"{name}_exploiter_{number}" for number in range(rules.main_exploiters)),
            *(f"{name}_league_exploiter_{number}" for number in range(rules.league_exploiters)),
        )

    def assignments(self, view: View) -> tuple[Assignment, ...]:
        """The next slice of every learner; none once the main agents have had all of their steps."""
        mains = [view.learners[agent] for agent in _mains(view) if agent in view.learners]
        if mains and all(learner.steps >= view.steps for learner in mains):
            return ()
        return tuple(self._slice(view, agent) for agent in view.roster.agents)

    def is_frozen(self, view: View, done: Assignment) -> bool:
        """It beats everybody it plays after enough steps, or has had twice as many."""
        rules, learner = view.config.league, view.learners[done.agent]
        since, enough = learner.steps - learner.frozen_at, freeze_steps(view, done.agent)
        if since < enough and learner.steps < view.steps:
            return False
        opponents = [ref for ref in done.opponents.policies if ref != UNIFORM]
        worst = min((self._score(view, done.agent, ref) for ref in opponents), default=1.0)
        return worst >= rules.freeze_score or since >= 2 * enough or learner.steps >= view.steps

    def is_over(self, view: View, done: Assignment) -> bool:
        """Main agents go on; main exploiters begin anew, league exploiters sometimes."""
        if _is_main(done.agent):
            return False
        if view.learners[done.agent].steps >= view.steps or not _is_league_exploiter(done.agent):
            return True
        draw = derive_seed(view.seed, "reset", done.agent, view.generation) / 2**63
        return bool(draw < view.config.league.reset)

    # -- who plays whom --------------------------------------------------------------------------------------------

    def _slice(self, view: View, agent: str) -> Assignment:
        learner, generation = view.learners.get(agent), view.generation + 1
        shares, mirror = self._meets(view, agent)
        return Assignment(
            agent=agent,
            learner=f"{agent}-{generation}" if learner is None else learner.name,
            generation=generation,
            opponents=LineUps.of_others(shares),
            until=(0 if learner is None else learner.steps) + slice_steps(view, agent),
            begins_with=None if learner is not None else self._beginning(view, agent),
            mirror=mirror,
        )

    @staticmethod
    def _beginning(view: View, agent: str) -> PolicyRef | None:
        """The main agent whose weights a new exploiter gets; exploiters are dealt to the main agents in turn."""
        if _is_main(agent) or view.config.league.exploiters_begin == "random":
            return None
        mains = _mains(view)
        newest = view.roster.newest(mains[int(agent.rsplit("_", 1)[1]) % len(mains)])
        return None if newest is None else newest.ref

    def _meets(self, view: View, agent: str) -> tuple[Shares, float]:
        """Opponents with weights, and the share of games against itself."""
        if _is_main(agent):
            return self._meets_as_main(view, agent)
        if _is_league_exploiter(agent):
            return self._pfsp(view, agent, _everybody(view), "linear_capped"), 0.0
        found = [share for main in _mains(view) for share in self._against(view, agent, main, HOPELESS)]
        return found or _even([UNIFORM]), 0.0

    def _meets_as_main(self, view: View, agent: str) -> tuple[Shares, float]:
        rules, mains = view.config.league, _mains(view)
        verified, mirror = self._verification(view, agent), rules.self_play / len(mains)
        past = 1.0 - rules.self_play - (rules.verification if verified else 0.0)
        shares = [
            *_scaled(self._pfsp(view, agent, _everybody(view), "squared"), max(past, 0.0)),
            *_scaled(verified, rules.verification),
        ]
        for other in mains:
            if other != agent:
                shares += _scaled(self._against(view, agent, other, BEATEN), mirror)
        left = sum(weight for _, weight in shares)
        return (shares, mirror) if left > 0 else (_even([UNIFORM]), mirror)

    def _verification(self, view: View, agent: str) -> Shares:
        """Exploiters that beat it; else those of its own past that it has forgotten."""
        exploiters = [recruit.ref for recruit in view.roster.frozen() if not _is_main(recruit.agent)]
        if any(self._score(view, agent, ref) < BEATEN for ref in exploiters):
            return self._pfsp(view, agent, exploiters, "squared")
        own = [recruit.ref for recruit in view.roster.frozen(agent)]
        scores = [self._score(view, agent, ref) for ref in own]
        while scores and len(scores) > 1 and scores[-1] < scores[-2]:  # better ones are harder: that is no forgetting
            own, scores = own[:-1], scores[:-1]
        own, scores = own[:-1], scores[:-1]
        return self._pfsp(view, agent, own, "squared") if scores and min(scores) < FORGOTTEN else []

    def _against(self, view: View, agent: str, main: str, hopeless: float) -> Shares:
        """A main agent as it is now, or what it was before while there is no winning against it."""
        newest = view.roster.newest(main)
        if newest is None:
            return _even([UNIFORM])
        past = [recruit.ref for recruit in view.roster.frozen(main)]
        if self._score(view, agent, newest.ref) > hopeless or not past:
            return _even([newest.ref])
        return _scaled(self._pfsp(view, agent, past, "variance"), 1.0)

    def _pfsp(self, view: View, agent: str, refs: Iterable[PolicyRef], weighting: str) -> Shares:
        weigh = PFSP_WEIGHTINGS[weighting]
        listed = list(refs)
        shares = [(ref, weigh(self._score(view, agent, ref))) for ref in listed]
        return shares if sum(weight for _, weight in shares) > 0 else _even(listed)

    @staticmethod
    def _score(view: View, agent: str, ref: PolicyRef) -> float:
        """Of late, against a member; or against a learner as it is now, whatever it was at the time."""
        recruit = view.roster.find(ref)
        is_live = recruit is not None and not recruit.frozen
        return view.book.score(agent, recruit.agent if is_live and recruit is not None else label(ref))


def slice_steps(view: View, agent: str) -> int:
    """Steps of a learner in a round."""
    rules = view.config.league
    of_all = rules.slice_steps or max(1, view.steps // 50)
    return of_all if _is_main(agent) else rules.exploiter_slice_steps or of_all


def freeze_steps(view: View, agent: str) -> int:
    """Steps after which a learner may be frozen."""
    return view.config.league.freeze_steps or 2 * slice_steps(view, agent)


def _is_main(agent: str) -> bool:
    return "_exploiter_" not in agent


def _mains(view: View) -> list[str]:
    return [agent for agent in view.roster.agents if _is_main(agent)]


def _is_league_exploiter(agent: str) -> bool:
    return "_league_exploiter_" in agent


def _everybody(view: View) -> list[PolicyRef]:
    return [UNIFORM, *(recruit.ref for recruit in view.roster.frozen())]


def _even(refs: Iterable[PolicyRef]) -> Shares:
    return [(ref, 1.0) for ref in refs]


def _scaled(shares: Shares, total: float) -> Shares:
    whole = sum(weight for _, weight in shares)
    return [(ref, weight * total / whole) for ref, weight in shares] if whole > 0 and total > 0 else []
