"""The checker is checked: a sound game passes, and a game that breaks one promise is caught by that promise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from ludus.errors import EnvError
from ludus.games import GameSpec
from ludus.testing import ConformanceError, check_game

SPEC = GameSpec(key="count", players=2, actions=3, observation_shape=(2,), max_length=6, has_chance=True)


class CountPosition:
    """Seats in turn add 0, 1 or 2 to a sum that starts with the seed; whoever reaches 6 wins. 2 is not legal at 5."""

    def __init__(self, seed: int) -> None:
        self.total = seed % 2
        self.plies = 0

    def is_over(self) -> bool:
        return self.total >= 6 or self.plies >= SPEC.max_length

    def acting(self) -> Sequence[int]:
        return () if self.is_over() else (self.plies % 2,)

    def legal(self, seat: int) -> Sequence[int]:
        return [0, 1] if self.total == 5 else [0, 1, 2]

    def observe(self, seat: int, out: np.ndarray) -> None:
        out[:] = self.total, seat

    def check(self, actions: Mapping[int, int]) -> None:
        acting = self.acting()
        if set(actions) != set(acting) or any(actions[seat] not in self.legal(seat) for seat in acting) or not acting:
            raise EnvError("refused")

    def act(self, actions: Mapping[int, int]) -> None:
        self.check(actions)
        self.total += sum(actions.values())
        self.plies += 1

    def returns(self) -> Sequence[float]:
        if self.total < 6:
            return [0.0, 0.0]
        winner = (self.plies - 1) % 2
        return [1.0, -1.0] if winner == 0 else [-1.0, 1.0]

    def text(self, seat: int | None = None) -> str:
        return f"{self.total} after {self.plies}"

    def action_text(self, seat: int, action: int) -> str:
        return f"+{action}"


class CountGame:
    def __init__(self, position: type[CountPosition] = CountPosition, **changes: Any) -> None:
        self.position = position
        self.spec = replace(SPEC, **changes)

    def start(self, seed: int) -> CountPosition:
        return self.position(seed)


class Whole(CountPosition):
    def state(self, out: np.ndarray) -> None:
        out[:] = self.total, self.plies, 1


class HalfState(Whole):
    def state(self, out: np.ndarray) -> None:
        out[:2] = self.total, self.plies


class EmptyLegal(CountPosition):
    def legal(self, seat: int) -> Sequence[int]:
        return []


class UnsortedLegal(CountPosition):
    def legal(self, seat: int) -> Sequence[int]:
        return [1, 0]


class RepeatedLegal(CountPosition):
    def legal(self, seat: int) -> Sequence[int]:
        return [1, 1]


class LegalOutOfRange(CountPosition):
    def legal(self, seat: int) -> Sequence[int]:
        return [0, 1, 3]


class RaisingLegal(CountPosition):
    def legal(self, seat: int) -> Sequence[int]:
        raise ZeroDivisionError


class UnknownSeat(CountPosition):
    def acting(self) -> Sequence[int]:
        return () if self.is_over() else (2,)


class BothAct(CountPosition):
    def acting(self) -> Sequence[int]:
        return () if self.is_over() else (0, 1)


class NobodyActs(CountPosition):
    def acting(self) -> Sequence[int]:
        return ()


class NanObservation(CountPosition):
    def observe(self, seat: int, out: np.ndarray) -> None:
        out[:] = np.inf


class HalfObservation(CountPosition):
    def observe(self, seat: int, out: np.ndarray) -> None:
        out[0] = self.total


class AddingObservation(CountPosition):
    def observe(self, seat: int, out: np.ndarray) -> None:
        out[:] = np.nan_to_num(out) + 1


class WrongShapeObservation(CountPosition):
    def observe(self, seat: int, out: np.ndarray) -> None:
        out[:] = [1, 2, 3]


class SpillingObservation(CountPosition):
    def observe(self, seat: int, out: np.ndarray) -> None:
        out[:] = self.total, seat
        out.base[2] = 0


class AcceptsIllegal(CountPosition):
    def check(self, actions: Mapping[int, int]) -> None:
        if set(actions) != set(self.acting()):
            raise EnvError("refused")


class AcceptsMissingSeat(CountPosition):
    def check(self, actions: Mapping[int, int]) -> None:
        if actions or not self.acting():
            super().check(actions)


class AcceptsIdleSeat(CountPosition):
    def check(self, actions: Mapping[int, int]) -> None:
        super().check({seat: action for seat, action in actions.items() if seat in self.acting()})


class WrongRefusal(CountPosition):
    def check(self, actions: Mapping[int, int]) -> None:
        try:
            super().check(actions)
        except EnvError as error:
            raise ValueError("refused") from error


class RefusesTooLate(CountPosition):
    def act(self, actions: Mapping[int, int]) -> None:
        before = self.total
        self.total += 1
        self.check(actions)
        self.total = before + sum(actions.values())
        self.plies += 1


class AcceptsAfterEnd(CountPosition):
    def check(self, actions: Mapping[int, int]) -> None:
        if self.acting():
            super().check(actions)


class ShortReturns(CountPosition):
    def returns(self) -> Sequence[float]:
        return [0.0]


class NoReturns(CountPosition):
    def returns(self) -> Sequence[float]:
        return None  # type: ignore[return-value]


class NanReturns(CountPosition):
    def returns(self) -> Sequence[float]:
        return [float("nan"), 0.0]


class LargeReturns(CountPosition):
    def returns(self) -> Sequence[float]:
        return [2 * value for value in super().returns()]


class UnbalancedReturns(CountPosition):
    def returns(self) -> Sequence[float]:
        return [max(value, 0.0) for value in super().returns()]


class EarlyReturns(CountPosition):
    def returns(self) -> Sequence[float]:
        return super().returns() if self.is_over() else [0.5, -0.5]


class EmptyText(CountPosition):
    def text(self, seat: int | None = None) -> str:
        return "" if seat == 1 else "x"


class NoActionText(CountPosition):
    def action_text(self, seat: int, action: int) -> str:
        return None  # type: ignore[return-value]


class Shared(CountPosition):
    """All positions share the count of plies."""

    everyone: ClassVar[list[int]] = []

    def act(self, actions: Mapping[int, int]) -> None:
        super().act(actions)
        self.everyone.append(1)

    def observe(self, seat: int, out: np.ndarray) -> None:
        out[:] = len(self.everyone), seat


class Unseeded(CountPosition):
    """Depends on something other than the seed."""

    started: ClassVar[list[int]] = []

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.started.append(seed)
        self.total = len(self.started) % 3


class ChangedByLooking(CountPosition):
    def text(self, seat: int | None = None) -> str:
        self.looks = getattr(self, "looks", 0) + 1
        return f"{self.total} {self.looks}"


class NotAPosition:
    def __init__(self, seed: int) -> None:
        pass


BROKEN: dict[str, tuple[Callable[[], Any], str]] = {
    "empty_legal": (lambda: CountGame(EmptyLegal), "never empty"),
    "unsorted_legal": (lambda: CountGame(UnsortedLegal), "ascends"),
    "repeated_legal": (lambda: CountGame(RepeatedLegal), "ascends"),
    "legal_out_of_range": (lambda: CountGame(LegalOutOfRange), r"within 0\.\.2"),
    "raising_legal": (lambda: CountGame(RaisingLegal), "ZeroDivisionError"),
    "unknown_seat": (lambda: CountGame(UnknownSeat), r"seats of 0\.\.1"),
    "both_act": (lambda: CountGame(BothAct), "is_simultaneous is False"),
    "nobody_acts": (lambda: CountGame(NobodyActs), "at least one decision"),
    "nan_observation": (lambda: CountGame(NanObservation), "finite numbers"),
    "half_observation": (lambda: CountGame(HalfObservation), "fills all of out"),
    "adding_observation": (lambda: CountGame(AddingObservation), "from the position alone"),
    "wrong_shape": (lambda: CountGame(WrongShapeObservation), r"observe\(0, out\).*ValueError"),
    "spilling_observation": (lambda: CountGame(SpillingObservation), "writes to out alone"),
    "accepts_illegal": (lambda: CountGame(AcceptsIllegal), "was accepted"),
    "accepts_missing_seat": (lambda: CountGame(AcceptsMissingSeat), r"act\(\{\}\).*was accepted"),
    "accepts_idle_seat": (lambda: CountGame(AcceptsIdleSeat), "was accepted"),
    "wrong_refusal": (lambda: CountGame(WrongRefusal), "expected EnvError, got ValueError"),
    "refuses_too_late": (lambda: CountGame(RefusesTooLate), "changes nothing"),
    "accepts_after_end": (lambda: CountGame(AcceptsAfterEnd), "after the end: was accepted"),
    "too_long": (lambda: CountGame(max_length=2), r"within max_length \(2\)"),
    "short_returns": (lambda: CountGame(ShortReturns), "2 numbers, one per seat"),
    "no_returns": (lambda: CountGame(NoReturns), r"returns\(\) gave None"),
    "nan_returns": (lambda: CountGame(NanReturns), "are finite"),
    "large_returns": (lambda: CountGame(LargeReturns), r"within \[-1.0, 1.0\]"),
    "unbalanced_returns": (lambda: CountGame(UnbalancedReturns), "sum to 0"),
    "early_returns": (lambda: CountGame(EarlyReturns), "before the end"),
    "half_state": (lambda: CountGame(HalfState, state_shape=(3,)), r"state\(out\) fills all of out"),
    "no_state": (lambda: CountGame(state_shape=(3,)), "has a method state"),
    "unequal_team": (lambda: CountGame(teams=(0, 0)), "one team get the same"),
    "empty_text": (lambda: CountGame(EmptyText), "non-empty strings"),
    "no_action_text": (lambda: CountGame(NoActionText), "non-empty strings"),
    "shared": (lambda: CountGame(Shared), "beside others too"),
    "unseeded": (lambda: CountGame(Unseeded), "the same seed and actions"),
    "changed_by_looking": (lambda: CountGame(ChangedByLooking), "changes nothing"),
    "hidden_chance": (lambda: CountGame(has_chance=False), "without chance starts the same"),
    "not_a_position": (lambda: CountGame(NotAPosition), "gives a NotAPosition, which lacks acting"),  # type: ignore[arg-type]
    "no_players": (lambda: CountGame(players=0), "at least one player"),
    "no_actions": (lambda: CountGame(actions=0), "one action"),
    "no_length": (lambda: CountGame(max_length=0), "max_length is at least 1"),
    "bad_shape": (lambda: CountGame(observation_shape=(0,)), "positive sizes"),
    "bad_range": (lambda: CountGame(min_return=2.0), "at most spec.max_return"),
    "nan_range": (lambda: CountGame(min_return=float("nan")), "at most spec.max_return"),
    "bad_teams": (lambda: CountGame(teams=(0,)), "a team for each seat"),
    "no_key": (lambda: CountGame(key=""), "has a key"),
    "lone_zero_sum": (lambda: CountGame(players=1), "is not zero-sum"),
    "no_spec": (lambda: object(), "spec"),
}


class Together(CountPosition):
    """Both seats add at the same time; the sum decides for nobody."""

    def acting(self) -> Sequence[int]:
        return () if self.is_over() else (0, 1)

    def returns(self) -> Sequence[float]:
        return [0.0, 0.0]


class TogetherWithoutWaiting(Together):
    def check(self, actions: Mapping[int, int]) -> None:
        if not actions or any(actions[seat] not in self.legal(seat) for seat in actions) or not self.acting():
            raise EnvError("refused")
        if not set(actions) <= {0, 1}:
            raise EnvError("refused")


def test_sound_game_passes() -> None:
    check_game(CountGame())


def test_sound_game_with_a_state_and_with_rewards_of_any_size_passes() -> None:
    check_game(CountGame(Whole, state_shape=(3,), min_return=float("-inf"), max_return=float("inf")))


def test_seats_of_a_team_may_get_different_rewards_where_the_spec_says_so() -> None:
    check_game(CountGame(teams=(0, 0), teams_share_rewards=False))


def test_sound_simultaneous_game_passes() -> None:
    check_game(CountGame(Together, is_simultaneous=True))


def test_simultaneous_game_that_does_not_wait_for_every_seat_is_caught() -> None:
    with pytest.raises(ConformanceError, match="was accepted"):
        check_game(CountGame(TogetherWithoutWaiting, is_simultaneous=True))


@pytest.mark.parametrize("promise", BROKEN)
def test_broken_promise_is_caught_and_named(promise: str) -> None:
    make, message = BROKEN[promise]
    with pytest.raises(ConformanceError, match=message):
        check_game(make())


def test_message_names_the_game() -> None:
    with pytest.raises(ConformanceError, match=r"^count: "):
        check_game(CountGame(EmptyLegal))


def test_broken_promise_is_an_assertion_error() -> None:
    assert issubclass(ConformanceError, AssertionError)


def test_a_method_that_is_missing_is_named() -> None:
    class Silent:
        acting, legal, observe = CountPosition.acting, CountPosition.legal, CountPosition.observe
        act, returns = CountPosition.act, CountPosition.returns

    class NoStart:
        spec = SPEC

    with pytest.raises(ConformanceError, match=r"start\(\) gives a Silent, which lacks text\(\), action_text\(\)"):
        check_game(type("Game", (), {"spec": SPEC, "start": lambda self, seed: Silent()})())
    with pytest.raises(ConformanceError, match="NoStart lacks start"):
        check_game(NoStart())  # type: ignore[arg-type]
