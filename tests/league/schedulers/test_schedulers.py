"""Who learns against whom: PSRO answers the meta-strategy, leagues follow AlphaStar's rules."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from ludus.config import PopulationConfig
from ludus.config.sections.population import Scheduler
from ludus.league.matchmaking.population import UNIFORM, Recruit, Roster
from ludus.league.payoffs.normal_form import Array
from ludus.league.schedulers import SCHEDULERS, Learner, ScoreBook, View
from ludus.records import PolicyRef

STEPS = 1000


def ref(text: str) -> PolicyRef:
    return PolicyRef.parse(text)


def populate(scheduler: str, *names: str, live: tuple[str, ...] = (), **options: object) -> View:
    """A view of a population of these policies, all of them frozen but those in `live`."""
    config = PopulationConfig.model_validate({"oracle": "learned", "scheduler": scheduler, **options})
    agents = SCHEDULERS[scheduler]().agents(config, name="main", seats=2)
    roster = Roster(agents)
    for name in (*names, *live):
        agent = str(ref(name).name)
        roster.add(
            Recruit(ref=ref(name), agent=agent, generation=1, learner=f"{agent}-1", steps=100, frozen=name in names)
        )
    seats = [[UNIFORM, *(ref(name) for name in (*names, *live))]] if config.shared else _by_seat(agents, names)
    shape = [len(seats[0]), len(seats[-1])]
    joint = np.zeros(shape)
    joint[0, 0] = 1.0
    return View(
        config=config,
        steps=STEPS,
        seed=3,
        generation=1,
        roster=roster,
        seats=seats,
        table=np.zeros((2, *shape)),
        joint=joint,
    )


def _by_seat(agents: tuple[str, ...], names: tuple[str, ...]) -> list[list[PolicyRef]]:
    return [[UNIFORM, *(ref(name) for name in names if ref(name).name == agent)] for agent in agents]


def shared(weights: list[float]) -> Array:
    return np.outer(weights, weights)


def test_config_and_registry_name_the_same_schedulers() -> None:
    assert set(get_args(Scheduler)) == set(SCHEDULERS)


def test_psro_answers_the_meta_strategy_with_a_new_learner() -> None:
    view = replace(populate("psro", "main@1", "main@2"), joint=shared([0.2, 0.0, 0.8]))
    (assignment,) = SCHEDULERS["psro"]().assignments(view)
    assert assignment.learner == "main-2"
    assert dict(assignment.opponents.others) == pytest.approx({UNIFORM: 0.2, ref("main@2"): 0.8})
    assert assignment.until == STEPS


def test_psro_of_seats_answers_the_other_seats_part_of_a_joint_strategy() -> None:
    joint = np.array([[0.0, 0.5], [0.3, 0.2]])
    view = replace(populate("psro", "seat_0@1", "seat_1@1", shared=False), joint=joint)
    first, second = SCHEDULERS["psro"]().assignments(view)
    assert dict(first.opponents.fixed) == pytest.approx({(None, UNIFORM): 0.3, (None, ref("seat_1@1")): 0.7})
    assert dict(second.opponents.fixed) == pytest.approx({(UNIFORM, None): 0.5, (ref("seat_0@1"), None): 0.5})
    assert (first.opponents.seat, second.opponents.seat) == (0, 1)


def test_further_kinds_of_learners_answer_the_same_mixture() -> None:
    view = populate("psro", "main@1", learners={"words": {}})
    one, other = SCHEDULERS["psro"]().assignments(view)
    assert (one.agent, other.agent) == ("main", "words")
    assert one.opponents == other.opponents


@pytest.mark.parametrize(
    ("initialise", "parent"), [("random", None), ("inherit_last", "main@2"), ("inherit_best", "main@1")]
)
def test_what_a_learner_begins_with(initialise: str, parent: str | None) -> None:
    view = replace(populate("psro", "main@1", "main@2", initialise=initialise), joint=shared([0.1, 0.7, 0.2]))
    (assignment,) = SCHEDULERS["psro"]().assignments(view)
    assert assignment.begins_with == (None if parent is None else ref(parent))


def test_self_play_answers_the_newest_and_fixed_the_players_of_the_config() -> None:
    view = populate("self_play", "main@1", "main@2")
    (assignment,) = SCHEDULERS["self_play"]().assignments(view)
    assert assignment.opponents.others == ((ref("main@2"), 1.0),)
    view = replace(populate("fixed", "main@1"), fixed=(ref("mcts-25"), UNIFORM))
    (assignment,) = SCHEDULERS["fixed"]().assignments(view)
    assert assignment.opponents.others == ((ref("mcts-25"), 0.5), (UNIFORM, 0.5))


def test_main_agent_and_exploiter_alternate() -> None:
    scheduler = SCHEDULERS["sequential_league"]()
    view = replace(populate("sequential_league", "main@1"), joint=shared([0.4, 0.6]))
    (exploiter,) = scheduler.assignments(view)  # the second generation
    assert exploiter.agent == "main_exploiter"
    assert exploiter.opponents.others == ((ref("main@1"), 1.0),)
    assert exploiter.begins_with is None
    (main,) = scheduler.assignments(replace(view, generation=2))
    assert main.agent == "main"
    assert main.begins_with == ref("main@1")
    assert dict(main.opponents.others) == pytest.approx({UNIFORM: 0.4, ref("main@1"): 0.6})


def test_a_pipeline_freezes_one_learner_in_each_generation() -> None:
    scheduler = SCHEDULERS["pipelined_psro"]()
    view = replace(populate("pipelined_psro", pipeline=3, meta_solver="uniform"), generation=0)
    parts = scheduler.assignments(view)
    assert [part.learner for part in parts] == ["main_0-1", "main_1-2", "main_2-3"]
    assert [part.until for part in parts] == [1000, 500, 334]
    assert [scheduler.is_frozen(view, part) for part in parts] == [True, False, False]
    assert all(part.opponents.others == ((UNIFORM, 1.0),) for part in parts)


def test_learners_in_a_pipeline_answer_those_below_them_as_they_are_now() -> None:
    view = populate("pipelined_psro", "main_0@1", live=("main_1@1", "main_2@1"), pipeline=3, meta_solver="uniform")
    for name, learner in (("main_1@1", "main_1-2"), ("main_2@1", "main_2-3")):
        known = view.roster.find(ref(name))
        assert known is not None
        view.roster._recruits[ref(name)] = replace(known, learner=learner)
    lowest, middle, highest = SCHEDULERS["pipelined_psro"]().assignments(view)
    assert set(lowest.opponents.policies) == {UNIFORM, ref("main_0@1")}
    assert set(middle.opponents.policies) == {UNIFORM, ref("main_0@1"), ref("main_1@1")}
    assert set(highest.opponents.policies) == {UNIFORM, ref("main_0@1"), ref("main_1@1"), ref("main_2@1")}
    assert highest.learner == "main_0-4"


# -- AlphaStar's league ------------------------------------------------------------------------------------------------

MAIN, EXPLOITER, LEAGUE = "main", "main_exploiter_0", "main_league_exploiter_0"


def league(*names: str, live: tuple[str, ...] = (), **options: object) -> View:
    view = populate("league", *names, live=live, **options)
    learners = {agent: Learner(name=f"{agent}-1", agent=agent, steps=100) for agent in view.roster.agents}
    return replace(view, learners=learners)


def met(book: ScoreBook, one: str, other: str, *, won: int, lost: int) -> None:
    for points, times in ((1.0, won), (0.0, lost)):
        for _ in range(times):
            book.add(one, other, points)


def shares_of(view: View, agent: str) -> dict[str, float]:
    assignment = next(each for each in SCHEDULERS["league"]().assignments(view) if each.agent == agent)
    return {str(policy): share * (1 - assignment.mirror) for policy, share in assignment.opponents.others}


def test_a_main_agent_plays_itself_and_the_hard_ones() -> None:
    view = league("main@1", "main@2")
    met(view.book, MAIN, "main@1", won=99, lost=0)
    met(view.book, MAIN, "random", won=99, lost=0)
    met(view.book, MAIN, "main@2", won=40, lost=40)
    (main, *_) = SCHEDULERS["league"]().assignments(view)
    assert main.mirror == pytest.approx(0.35)
    assert shares_of(view, MAIN)["main@2"] > 0.6  # nearly all of the rest: nobody is verified


def test_exploiters_that_beat_the_main_agent_are_verified() -> None:
    view = league("main@1", f"{EXPLOITER}@1")
    met(view.book, MAIN, "main@1", won=50, lost=50)
    met(view.book, MAIN, "random", won=50, lost=50)
    met(view.book, MAIN, f"{EXPLOITER}@1", won=10, lost=90)
    pfsp = {"main@1": 0.25, "random@0": 0.25, f"{EXPLOITER}@1": (1 - 10.5 / 101) ** 2}
    whole = sum(pfsp.values())
    expected = 0.5 * pfsp[f"{EXPLOITER}@1"] / whole + 0.15
    assert shares_of(view, MAIN)[f"{EXPLOITER}@1"] == pytest.approx(expected, rel=1e-6)


def test_versions_that_the_main_agent_has_forgotten_are_verified() -> None:
    view = league("main@1", "main@2", "main@3")
    met(view.book, MAIN, "main@1", won=30, lost=70)  # it used to beat this one
    met(view.book, MAIN, "main@2", won=60, lost=40)
    met(view.book, MAIN, "main@3", won=70, lost=30)
    met(view.book, MAIN, "random", won=99, lost=0)
    with_verification = shares_of(view, MAIN)
    without = shares_of(replace(view, config=_rules(view.config, verification=0.0)), MAIN)
    assert with_verification["main@1"] / without["main@1"] > 1.0
    assert with_verification["main@3"] / without["main@3"] < 1.0


def _rules(config: PopulationConfig, **rules: object) -> PopulationConfig:
    return config.model_copy(update={"league": config.league.model_copy(update=rules)})


def test_a_main_exploiter_plays_the_main_agent_unless_that_is_hopeless() -> None:
    view = league("main@1", live=("main@2",))
    assert shares_of(view, EXPLOITER) == {"main@2": 1.0}
    met(view.book, EXPLOITER, MAIN, won=1, lost=99)
    assert shares_of(view, EXPLOITER) == {"main@1": 1.0}


def test_a_league_exploiter_plays_everybody_and_none_of_the_beaten() -> None:
    view = league("main@1", f"{EXPLOITER}@1", live=("main@2",))
    met(view.book, LEAGUE, "random", won=10_000, lost=0)
    shares = shares_of(view, LEAGUE)
    assert set(shares) == {"random@0", "main@1", f"{EXPLOITER}@1"}
    assert shares["main@1"] == pytest.approx(shares[f"{EXPLOITER}@1"])
    assert shares["random@0"] < 0.001


def test_a_learner_is_frozen_when_it_beats_all_or_after_long() -> None:
    scheduler, view = SCHEDULERS["league"](), league("main@1", league={"slice_steps": 50})
    (main, *_) = scheduler.assignments(view)
    assert not scheduler.is_frozen(view, main)  # 100 steps are enough, but it does not beat main@1
    met(view.book, MAIN, "main@1", won=90, lost=10)
    assert scheduler.is_frozen(view, main)
    view.learners[MAIN].frozen_at = 60
    assert not scheduler.is_frozen(view, main)  # it was frozen not long ago
    view = league("main@1", league={"slice_steps": 25})
    assert scheduler.is_frozen(view, main)  # 100 steps are twice as many as are enough


def test_exploiters_begin_anew_and_main_agents_go_on() -> None:
    scheduler, view = SCHEDULERS["league"](), league("main@1")
    main, exploiter, explorer = scheduler.assignments(view)
    assert not scheduler.is_over(view, main)
    assert scheduler.is_over(view, exploiter)
    resets = [scheduler.is_over(replace(view, generation=number), explorer) for number in range(400)]
    assert 0.15 < np.mean(resets) < 0.35


def test_a_league_ends_when_its_main_agents_have_had_their_steps() -> None:
    view = league("main@1")
    view.learners[MAIN].steps = STEPS
    assert SCHEDULERS["league"]().assignments(view) == ()


def test_exploiters_may_begin_with_the_main_agent_and_get_fewer_steps() -> None:
    rules = {"slice_steps": 40, "exploiter_slice_steps": 10, "exploiters_begin": "main"}
    view = league("main@1", live=("main@2",), league=rules)
    view.learners.pop(EXPLOITER)
    main, exploiter, explorer = SCHEDULERS["league"]().assignments(view)
    assert main.begins_with is None
    assert exploiter.begins_with == ref("main@2")
    assert explorer.begins_with is None  # it has begun already
    assert exploiter.until == 10
    assert main.until - view.learners[MAIN].steps == 40
