"""Who meets whom: balanced seats, honest mixtures, no self-match unless asked."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from ludus.config import LeagueConfig, OpponentConfig
from ludus.errors import ConfigError, LudusError
from ludus.games.protocol import GameSpec
from ludus.league import OPPONENTS, Matchmaker, Pool, Rating, evaluation_seats, rating_opponents, register_opponents
from ludus.league.matchmaking.matchmaker import SAMPLERS, Weighed
from ludus.records import EpisodeId, Match, PolicyName, PolicyRef, PolicyVersion

KINDS = ("mirror", "lagged", "random", "fixed", "match_quality", "pfsp")


def main(version: int) -> PolicyRef:
    return PolicyRef(name=PolicyName("main"), version=PolicyVersion(version))


def game(players: int = 2, teams: tuple[int, ...] = ()) -> GameSpec:
    return GameSpec(key="g", players=players, actions=3, observation_shape=(4,), max_length=9, teams=teams)


def make(*opponents: OpponentConfig, versions: int = 5, seed: int = 1) -> tuple[Pool, Matchmaker]:
    config = LeagueConfig(opponents=opponents)
    pool = Pool(config, main(0))
    for version in range(versions):
        pool.add_snapshot(main(version), version)
        pool.set_learner(main(version))
    return pool, Matchmaker(config, pool, seed)


def mixture_of(matchmaker: Matchmaker) -> dict[PolicyRef, float]:
    """Probability of each opponent as the pool is now."""
    total: Counter[PolicyRef] = Counter()
    available = matchmaker._available()
    scale = sum(weight for _, weight in available)
    for distribution, weight in available:
        for ref, probability in distribution:
            total[ref] += probability * weight / scale
    return dict(total)


def only(kind: str, **options: object) -> OpponentConfig:
    players = ("random",) if kind == "fixed" else ()
    return OpponentConfig.model_validate({"kind": kind, "players": players, **options})


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SAMPLERS, "added", {})


def test_config_and_registry_name_the_same_kinds() -> None:
    named = set(OpponentConfig.model_fields["kind"].annotation.__args__)  # type: ignore[union-attr]
    assert named - {"custom"} == set(OPPONENTS) == {*KINDS, "population"}


def test_mirror_fills_every_seat_with_a_learner() -> None:
    _, matchmaker = make(only("mirror"))
    for players in (2, 3, 5):
        seats = matchmaker.seats_for(7, game(players))
        assert [(seat.policy, seat.learns) for seat in seats] == [(main(4), True)] * players


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mirror"])
@pytest.mark.parametrize("players", [2, 3, 4])
def test_learner_has_each_seat_equally_often_and_never_meets_itself(kind: str, players: int) -> None:
    _, matchmaker = make(only(kind))
    count = 120 * players
    places: Counter[int] = Counter()
    against: Counter[tuple[str, int]] = Counter()
    for task in range(count):
        seats = matchmaker.seats_for(task, game(players))
        (mine,) = [place for place, seat in enumerate(seats) if seat.learns]
        assert seats[mine].policy == main(4)
        assert all(seat.policy != main(4) for place, seat in enumerate(seats) if place != mine)
        places[mine] += 1
        if players == 2:
            against[str(seats[1 - mine].policy), mine] += 1
    assert places == {place: count // players for place in range(players)}
    assert all(against[name, 0] == against[name, 1] for name, _ in against)


def test_seats_are_a_pure_function_of_pool_seed_and_task() -> None:
    choices = (only("lagged"), only("mirror", weight=2.0), only("fixed", players=["random", "mcts-25"]))
    _, first = make(*choices)
    _, second = make(*choices)
    _, other_seed = make(*choices, seed=2)
    forward = [first.seats_for(task, game()) for task in range(200)]
    backward = [second.seats_for(task, game()) for task in reversed(range(200))][::-1]
    assert forward == backward
    assert forward != [other_seed.seats_for(task, game()) for task in range(200)]


def test_mixture_follows_the_weights() -> None:
    _, matchmaker = make(only("mirror", weight=3.0), only("lagged", weight=1.0))
    drawn = Counter(
        "mirror" if all(seat.learns for seat in matchmaker.seats_for(task, game())) else "lagged"
        for task in range(0, 8000, 2)
    )
    assert drawn["mirror"] / 4000 == pytest.approx(0.75, abs=0.03)
    assert mixture_of(matchmaker) == pytest.approx({main(4): 0.75, **{main(v): 0.0625 for v in range(4)}})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("versions", [0, 1, 2, 6])
def test_every_sampler_gives_a_finite_mixture_whatever_the_pool(kind: str, versions: int) -> None:
    pool, matchmaker = make(only(kind), versions=versions)
    for member in pool.members:
        member.rating = Rating(25.0, 1e-6)
    mixture = mixture_of(matchmaker)
    assert math.fsum(mixture.values()) == pytest.approx(1.0)
    assert all(math.isfinite(value) and value >= 0 for value in mixture.values())
    assert len(matchmaker.seats_for(0, game())) == 2


def test_without_past_versions_the_learner_plays_itself_and_every_seat_learns() -> None:
    _, matchmaker = make(only("lagged"), versions=1)
    assert [seat.learns for seat in matchmaker.seats_for(0, game())] == [True, True]
    _, mixed = make(only("lagged"), only("fixed"), versions=1)
    assert list(mixture_of(mixed)) == [PolicyRef(name=PolicyName("random"))]


def test_hopelessly_uneven_matches_fall_back_to_uniform() -> None:
    pool, matchmaker = make(only("match_quality"), versions=4)
    for member in pool.snapshots[:-1]:
        member.rating = Rating(25.0 + 1e5, 1e-3)
    assert list(mixture_of(matchmaker).values()) == pytest.approx([1 / 3] * 3)


def test_match_quality_prefers_the_even_match() -> None:
    pool, matchmaker = make(only("match_quality"), versions=3)
    for member, mu in zip(pool.snapshots, (10.0, 29.0, 30.0), strict=True):
        member.rating = Rating(mu, 1.0)
    mixture = mixture_of(matchmaker)
    assert mixture[main(1)] > 10 * mixture[main(0)]


@pytest.mark.parametrize("weighting", ["squared", "variance", "linear"])
def test_pfsp_weighs_by_recent_score_and_unmet_opponents_count_as_even(weighting: str) -> None:
    pool, matchmaker = make(only("pfsp", weighting=weighting), versions=4)
    for _ in range(30):
        for opponent, mine in ((main(0), 1.0), (main(1), -1.0)):
            pool.record(Match(id=EpisodeId("e"), game="g", seats=(main(3), opponent), returns=(mine, -mine)))
    mixture = mixture_of(matchmaker)
    assert pool.recent_score(pool.snapshots[0]) > 0.95
    assert pool.recent_score(pool.snapshots[2]) == 0.5
    if weighting == "variance":
        assert mixture[main(2)] > 5 * max(mixture[main(0)], mixture[main(1)])
    else:
        assert mixture[main(1)] > mixture[main(2)] > 5 * mixture[main(0)]


def test_pfsp_on_a_pool_that_is_beaten_or_all_drawn_stays_finite() -> None:
    pool, matchmaker = make(only("pfsp"), versions=3)
    pool._recent.update({"main@0": [1e9, 1e9], "main@1": [1e9, 1e9]})
    assert math.fsum(mixture_of(matchmaker).values()) == pytest.approx(1.0)
    for _ in range(20):
        pool.record(Match(id=EpisodeId("e"), game="g", seats=(main(2), main(0)), returns=(0.0, 0.0)))
    assert math.fsum(mixture_of(matchmaker).values()) == pytest.approx(1.0)


def test_deleted_policy_is_never_drawn() -> None:
    pool, matchmaker = make(only("lagged"))
    gone = pool.find(main(1))
    assert gone is not None
    gone.active = False
    pool.revision += 1
    drawn = {seat.policy for task in range(300) for seat in matchmaker.seats_for(task, game())}
    assert drawn == {main(0), main(2), main(3), main(4)}


def test_team_games_seat_one_policy_per_team() -> None:
    _, matchmaker = make(only("lagged"))
    sides = set()
    for task in range(40):
        seats = matchmaker.seats_for(task, game(4, teams=(0, 1, 0, 1)))
        assert seats[0] == seats[2]
        assert seats[1] == seats[3]
        assert seats[0].learns != seats[1].learns
        sides.add(seats[0].learns)
    assert sides == {True, False}


def test_single_player_game_has_the_learner_alone() -> None:
    _, matchmaker = make(only("lagged"))
    (seat,) = matchmaker.seats_for(3, game(1))
    assert seat.learns


@pytest.mark.parametrize("players", [1, 2, 3])
def test_evaluation_gives_the_player_every_seat_equally_often_and_never_learns(players: int) -> None:
    games = [evaluation_seats(game(players), main(4), main(1), k, greedy=True) for k in range(12)]
    places = Counter([seat.policy for seat in seats].index(main(4)) for seats in games)
    assert set(places.values()) == {12 // players}
    assert not any(seat.learns for seats in games for seat in seats)
    assert all(seat.greedy for seats in games for seat in seats)


def test_rating_opponents_are_past_versions_of_even_strength() -> None:
    pool, _ = make(only("mirror"))
    for member, mu in zip(pool.snapshots, (5.0, 24.0, 10.0, 26.0, 25.0), strict=True):
        member.rating = Rating(mu, 2.0)
    assert set(rating_opponents(pool, main(4), 2)) == {main(1), main(3)}
    assert rating_opponents(pool, main(4), 2) == rating_opponents(pool, main(4), 2)
    assert main(4) not in rating_opponents(pool, main(4), 99)


@pytest.mark.usefixtures("clean_registry")
def test_custom_sampler_is_one_class_and_one_call() -> None:
    class Oldest:
        def weigh(self, pool: Pool) -> Weighed:
            return [(pool.snapshots[0].ref, 1.0)]

    register_opponents("oldest", lambda config: Oldest())
    _, matchmaker = make(OpponentConfig(kind="custom", name="oldest"))
    assert mixture_of(matchmaker) == {main(0): 1.0}
    with pytest.raises(ConfigError, match="registered already, as something else"):
        register_opponents("oldest", lambda config: Oldest())


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.parametrize("weight", [float("nan"), float("inf"), -1.0])
def test_custom_sampler_with_impossible_weights_is_refused(weight: float) -> None:
    class Broken:
        def weigh(self, pool: Pool) -> Weighed:
            return [(main(0), weight), (main(1), 1.0)]

    register_opponents("broken", lambda config: Broken())
    _, matchmaker = make(OpponentConfig(kind="custom", name="broken"))
    with pytest.raises(LudusError, match="finite and not negative"):
        matchmaker.seats_for(0, game())


def test_unknown_sampler_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean lagged"):
        make(OpponentConfig(kind="custom", name="laged"))
