"""What people see of a population that learns, from states made by hand: every number, table, tree and picture."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from rich.console import Console

from ludus.cli.league import closing_lines, figures, print_standing
from ludus.league.matchmaking.population import Recruit, Roster, label
from ludus.league.payoffs.empirical_game import EmpiricalGame
from ludus.league.payoffs.normal_form import product
from ludus.records import PolicyRef
from ludus.reports.charts import render
from ludus.reports.ladder import LadderRow
from ludus.reports.lineage_text import lineage_lines
from ludus.reports.population_standing import PopulationStanding
from ludus.runs.population.population_state import PopulationState
from ludus.runs.population.standing import standing_of_state

BOUND = "psro/nash_conv_bound"


def make_state(
    agents: tuple[str, ...] = ("main",), *, players: int = 2, symmetric: bool = True, metric: str = BOUND
) -> PopulationState:
    """The uniform player alone."""
    table = EmpiricalGame(players, symmetric=symmetric, constant_sum=0.0)
    for player in range(1 if symmetric else players):
        table.add_policy("random", player)
    state = PopulationState(roster=Roster(agents), table=table, joint=np.ones((1,) * players))
    note_generation(state, metric, None)
    return state


def join(
    state: PopulationState, agent: str = "main", *, parent: str | None = None, frozen: bool = True, seat: int = 0
) -> str:
    ref = state.roster.next_ref(agent)
    generation = state.generation + 1
    state.roster.add(
        Recruit(
            ref=ref,
            agent=agent,
            generation=generation,
            learner=f"{agent}-{generation}",
            parent=None if parent is None else PolicyRef.parse(parent),
            frozen=frozen,
        )
    )
    state.table.add_policy(label(ref), seat)
    return label(ref)


def note_generation(state: PopulationState, metric: str, value: float | None) -> None:
    """Everybody who is frozen is played alike."""
    shape, strategies = state.table.populations.shape, []
    for size, places in zip(shape, state.frozen_places(), strict=True):
        strategy = np.zeros(size)
        strategy[places] = 1.0 / len(places)
        strategies.append(strategy)
    state.joint = product(strategies)
    names = state.table.populations.names[: 1 if state.table.symmetric else None]
    shares = [
        [(name, float(share)) for name, share in zip(of, strategy, strict=True) if share > 0]
        for of, strategy in zip(names, strategies, strict=False)
    ]
    metrics = {} if value is None else {metric: value}
    state.history.append({"generation": state.generation, "shares": shares, "metrics": metrics})


def finish_generation(state: PopulationState, value: float = 0.5, metric: str = BOUND) -> None:
    state.generation += 1
    note_generation(state, metric, value)


def ladder_row(place: int, policy: str) -> LadderRow:
    return LadderRow(
        rank=place,
        policy=policy,
        kind="snapshot",
        elo=1000.0 - place,
        elo_error=20.0,
        mu=30.0 - place,
        sigma=1.0,
        games=12,
        wins=6,
        draws=0,
        losses=6,
        mirror_games=0,
        active=True,
        created_step=0,
        score=0.5,
    )


@pytest.fixture
def two_generations() -> PopulationState:
    """main@1 beats random, main@2 beats main@1 and loses to random."""
    state = make_state()
    for value in (0.8, 0.2):
        join(state)
        finish_generation(state, value)
    for winner, loser in (("main@1", "random"), ("main@2", "main@1"), ("random", "main@2")):
        for _ in range(10):
            state.table.record((winner, loser), (1.0, -1.0))
            state.table.record((loser, winner), (-1.0, 1.0))
    return PopulationState.from_json(state.to_json())


def shown(standing: PopulationStanding) -> str:
    console = Console(file=io.StringIO(), width=80)
    print_standing(console, standing)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_every_measure_of_rock_paper_scissors_says_that_all_are_equal(two_generations: PopulationState) -> None:
    standing = standing_of_state(two_generations, [ladder_row(1, "main@2"), ladder_row(2, "random")])
    assert [row.policy for row in standing.rows] == ["main@2", "random", "main@1"]
    for row in standing.rows:
        assert row.share == pytest.approx(1 / 3)
        assert row.alpha_rank == pytest.approx(1 / 3)
        assert row.elo == pytest.approx(1000.0)
        assert row.payoff == pytest.approx(0.0)
    assert [row.mu for row in standing.rows] == [29.0, 28.0, None]


def test_payoffs_have_both_seatings_games_and_are_exact_in_mirror_matches(two_generations: PopulationState) -> None:
    payoffs = standing_of_state(two_generations).payoffs
    assert payoffs is not None
    assert payoffs.rows == payoffs.columns == ("random", "main@1", "main@2")
    assert payoffs.mean.tolist() == [[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]
    assert payoffs.games.tolist() == [[0, 20, 20], [20, 0, 20], [20, 20, 0]]
    assert payoffs.exact.tolist() == np.eye(3, dtype=bool).tolist()
    assert payoffs.half_width[0, 0] == 0.0 < payoffs.standard_error[0, 1] < payoffs.half_width[0, 1]


def test_the_second_half_of_the_generations_is_weighed_against_the_first(two_generations: PopulationState) -> None:
    standing = standing_of_state(two_generations)
    assert standing.relative_performance == pytest.approx(-1.0), "random and main@1 have an answer to main@2: random"


def test_a_bound_is_called_one_and_an_exact_value_too(two_generations: PopulationState) -> None:
    standing = standing_of_state(two_generations)
    assert (standing.exploitability.generations, standing.exploitability.values) == ((1, 2), (0.8, 0.2))
    assert closing_lines(standing)[0].startswith("NashConv (lower bound): 0.8 █")
    assert {"ladder", "nash_conv_bound", "payoffs", "meta_strategy", "lineage"} == {*figures(standing, "x")}
    for entry in two_generations.history:
        entry["metrics"] = {"psro/nash_conv": 0.3}
    exact = standing_of_state(two_generations)
    assert "nash_conv" in figures(exact, "x")
    assert closing_lines(exact)[0].startswith("NashConv (exact): 0.3 ")


def test_who_joined_since_the_meta_strategy_was_solved_is_there_without_a_share(
    two_generations: PopulationState,
) -> None:
    join(two_generations, frozen=False)
    rows = {row.policy: row for row in standing_of_state(two_generations).rows}
    newest = rows["main@3"]
    assert (newest.frozen, newest.share, newest.payoff, newest.elo, newest.alpha_rank) == (False,) + (None,) * 4
    assert rows["main@2"].share == pytest.approx(1 / 3)


def test_json_has_all_of_it_and_no_nan(two_generations: PopulationState) -> None:
    join(two_generations)
    found = json.loads(json.dumps(standing_of_state(two_generations).to_json(), allow_nan=False))
    assert found["payoffs"]["mean"][0][3] is None
    assert found["payoffs"]["half_width"][0][3] is None
    assert found["exploitability"]["metric"] == BOUND
    assert [each["generation"] for each in found["meta_strategies"]] == [0, 1, 2]
    assert found["meta_strategies"][0]["shares"] == [{"random": 1.0}]
    assert found["lineage"][1]["ref"] == "main@2"


def test_a_population_for_each_seat_has_rows_and_columns_of_its_own() -> None:
    state = make_state(("seat_0", "seat_1"), symmetric=False)
    join(state, "seat_0", seat=0)
    join(state, "seat_1", seat=1)
    finish_generation(state)
    state.table.record(("seat_0@1", "random"), (1.0, -1.0))
    standing = standing_of_state(state)
    assert standing.payoffs is not None
    assert (standing.payoffs.rows, standing.payoffs.columns) == (("random", "seat_0@1"), ("random", "seat_1@1"))
    assert standing.payoffs.mean[1, 0] == 1.0
    assert sorted((row.policy, row.seat) for row in standing.rows) == [
        ("random", 0),
        ("random", 1),
        ("seat_0@1", 0),
        ("seat_1@1", 1),
    ]
    assert standing.relative_performance is None
    assert "seat 0 (rows) against seat 1" in shown(standing)


def test_more_than_two_players_are_told_that_pairs_make_no_table() -> None:
    state = make_state(players=3)
    join(state)
    finish_generation(state)
    state.table.record(("main@1", "random", "random"), (2.0, -1.0, -1.0))
    standing = standing_of_state(state)
    assert standing.payoffs is None
    assert "3 players: pairs make no table of payoffs" in shown(standing)
    assert {row.policy: row.payoff for row in standing.rows}["main@1"] == pytest.approx(2.0 / 2.0)
    assert figures(standing, "x")["payoffs"].axes[0].get_title(loc="left") == "x: payoffs"


def make_league(generations: int) -> PopulationState:
    """Frozen in every third round; the main agent goes on, the others begin anew."""
    agents = ("main", "main_exploiter_0", "main_league_exploiter_0")
    state = make_state(agents)
    for generation in range(1, generations + 1):
        for agent in agents:
            newest = state.roster.newest(agent)
            goes_on = newest is not None and (agent == "main" or not newest.frozen)
            parent = str(newest.ref) if newest is not None and goes_on else None
            join(state, agent, parent=parent, frozen=generation % 3 == 0)
        finish_generation(state, 1.0 / generation)
    return state


def test_sixty_members_fit_a_terminal_of_80_columns_whole() -> None:
    state = make_league(60)
    ladder = [ladder_row(place, name) for place, name in enumerate(state.table.populations.names[0], 1)]
    lines = shown(standing_of_state(state, ladder)).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 80
    text = "\n".join(lines)
    assert "main_league_exploite…" not in text, "the number of an exploiter stays when its name is cut"
    assert len(text.split("Lineage")[1].splitlines()) < 40


def test_the_lineage_keeps_a_line_of_descent_on_one_line_and_indents_branches() -> None:
    state = make_state()
    for parent in (None, "main@1", "main@1", None, "main@2"):
        join(state, parent=parent)
        finish_generation(state)
    join(state, frozen=False)
    assert lineage_lines(standing_of_state(state)) == [
        "main",
        "  ●@4 g4, ○ until g6",
        "  ●@1 g1 → ●@2 g2 → ●@5 g5",
        "    └ from @1: ●@3 g3",
    ]


def test_what_a_learner_was_in_passing_is_counted() -> None:
    lines = lineage_lines(standing_of_state(make_league(7)))
    assert lines[:2] == ["main", "  ○×2 → ●@3 g3 → ○×2 → ●@6 g6 → ○ until g7"]
    assert lines[3] == "  ○×2 → ●@3 g3, ○×2 → ●@6 g6, ○ until g7"


@pytest.mark.parametrize("generations", [0, 1, 30])
def test_every_picture_is_drawn_as_png_and_svg_at_a_readable_size(generations: int) -> None:
    state = make_league(generations)
    names = state.table.populations.names[0]
    standing = standing_of_state(state, [ladder_row(place, name) for place, name in enumerate(names, 1)])
    drawn = figures(standing, "x")
    assert {"payoffs", "meta_strategy", "nash_conv_bound", "ladder"} <= {*drawn}
    for name, figure in drawn.items():
        width, height = figure.get_size_inches()
        assert 2 < width < 22, name
        assert 1.5 < height < 22, name
    for name in ("nash_conv_bound", "meta_strategy"):
        assert render(drawn[name], "png").startswith(b"\x89PNG")
        assert b"<svg" in render(drawn[name], "svg")[:500]


def test_zero_has_a_mark_of_its_own_on_a_logarithmic_axis(two_generations: PopulationState) -> None:
    two_generations.history[-1]["metrics"] = {BOUND: 0.0}
    axes = figures(standing_of_state(two_generations), "x")["nash_conv_bound"].axes[0]
    assert axes.get_yscale() == "log"
    assert axes.get_ylabel() == "NashConv (lower bound)"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["is 0"]
    assert (np.asarray(axes.get_lines()[0].get_ydata()) > 0).all()


def test_equal_pictures_are_equal_bytes(two_generations: PopulationState) -> None:
    once, again = (render(figures(standing_of_state(two_generations), "x")["lineage"], "svg") for _ in range(2))
    assert once == again
