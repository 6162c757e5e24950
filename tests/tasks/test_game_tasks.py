"""Tasks are pure functions of their number."""

from collections import Counter

from ludus.config import GameChoice
from ludus.records import PolicyName, PolicyRef, Seat, TaskId
from ludus.tasks import EvaluationPlan, GameTasks
from ludus.tasks.protocol import EVALUATION_STRIDE, FIRST_EVALUATION_TASK

SEATS = (Seat(policy=PolicyRef(name=PolicyName("main")), learns=True),)


def make(*games: tuple[str, float], seed: int = 3) -> GameTasks:
    return GameTasks([GameChoice(key=key, weight=weight) for key, weight in games], seed)


def test_the_same_number_gives_the_same_task_in_any_order() -> None:
    tasks = make(("pgx:tic_tac_toe", 1), ("pgx:connect_four", 2))
    whole = tasks.training(0, 20, lambda task, game: SEATS)
    assert tasks.training(7, 3, lambda task, game: SEATS) == whole[7:10]
    assert len({task.seed for task in whole}) == 20
    assert make(("pgx:tic_tac_toe", 1), ("pgx:connect_four", 2), seed=4).training(0, 20, lambda t, g: SEATS) != whole


def test_games_are_played_in_proportion_to_their_weights() -> None:
    tasks = make(("pgx:tic_tac_toe", 1), ("pgx:connect_four", 3))
    counts = Counter(tasks.game(TaskId(number)) for number in range(4000))
    assert 0.7 < counts["pgx:connect_four"] / 4000 < 0.8


def test_evaluation_tasks_never_meet_training_tasks_or_each_other() -> None:
    tasks = make(("pgx:tic_tac_toe", 1))
    plan = EvaluationPlan(line_ups=[("pgx:tic_tac_toe", SEATS)] * 5, attempts=SEATS[:1])
    first, second = tasks.evaluation(0, plan), tasks.evaluation(1, plan)
    assert [task.id for task in first] == list(range(FIRST_EVALUATION_TASK, FIRST_EVALUATION_TASK + 5))
    assert second[0].id - first[0].id == EVALUATION_STRIDE
    assert {task.purpose for task in first} == {"evaluate"}
    assert not {task.seed for task in first} & {task.seed for task in second}


def test_the_last_of_a_group_is_greedy_where_that_is_asked_for() -> None:
    line_up = (*SEATS, Seat(policy=PolicyRef(name=PolicyName("random"))))
    games = [GameChoice(key="open_spiel:tic_tac_toe")]
    made = GameTasks(games, 3, 3, greedy=True).training(0, 6, lambda task, game: line_up)
    usual = GameTasks(games, 3, 3).training(0, 6, lambda task, game: line_up)
    assert [[seat.greedy for seat in task.seats] for task in made] == [[task.id % 3 == 2, False] for task in made]
    for one, other in zip(made, usual, strict=True):
        assert (one.id, one.seed, one.game_seed, one.group) == (other.id, other.seed, other.game_seed, other.group)
        assert one.seats == other.seats or one.id % 3 == 2


def test_games_of_one_opening_begin_alike_in_every_evaluation() -> None:
    stream = GameTasks([GameChoice(key="pgx:tic_tac_toe")], seed=5)
    plan = EvaluationPlan(line_ups=[("pgx:tic_tac_toe", SEATS)] * 5, openings={1: 0, 2: 0, 3: 1})
    first, second = (stream.evaluation(job, plan, first=job) for job in (0, 7))
    begins = [task.game_seed for task in first]
    assert begins[1] == begins[2]
    assert len(set(begins)) == 4
    assert begins[1:4] == [task.game_seed for task in second][1:4]
    assert begins[0] != second[0].game_seed
    assert len({task.seed for task in (*first, *second)}) == 10  # whoever plays by chance does so anew
