"""Experiences and episodes as Arrow tables: bit for bit, zero-copy, sliced, and readable by people."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from ludus.errors import CorruptRecord, StorageError
from ludus.records import Episode, EpisodeId, Experiences, PolicyName, PolicyRef, PolicyVersion, Seat, Task, TaskId
from ludus.storage.arrow import (
    episodes_from_bytes,
    episodes_from_table,
    episodes_to_bytes,
    episodes_to_table,
    experiences_from_bytes,
    experiences_from_table,
    experiences_to_bytes,
    experiences_to_table,
    from_bytes,
    to_bytes,
)
from ludus.testing.experiences import sample_experiences


def board_experiences(lengths: tuple[int, ...] = (3, 0, 2)) -> Experiences:
    """Sequences with observations and legal moves."""
    rng = np.random.default_rng(len(lengths))
    count, n = sum(lengths), len(lengths)
    return Experiences(
        sequences={
            "episode": np.array([f"episode-{i}" for i in range(n)]),
            "task": np.arange(n),
            "attempt": np.zeros(n, np.int64),
            "game": np.array(["open_spiel:µ"] * n, object),
            "seat": np.arange(n) % 2,
            "final_reward": rng.normal(size=n).astype(np.float32),
            "truncated": rng.integers(0, 2, n).astype(bool),
        },
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        steps={
            "action": rng.integers(0, 7, count).astype(np.int32),
            "mask": rng.integers(0, 2, count).astype(bool),
            "logp": rng.normal(size=count).astype(np.float32),
            "observation": rng.normal(size=(count, 3, 2, 2)).astype(np.float32),
            "legal": rng.integers(0, 2, (count, 7)).astype(bool),
        },
    )


def assert_same(left: Experiences, right: Experiences) -> None:
    assert left.offsets.tolist() == right.offsets.tolist()
    assert left.sequences.keys() == right.sequences.keys()
    assert left.steps.keys() == right.steps.keys()
    for name in left.sequences:
        assert left.sequences[name].tolist() == right.sequences[name].tolist(), name
    for name in left.steps:
        assert left.steps[name].dtype == right.steps[name].dtype, name
        assert left.steps[name].shape == right.steps[name].shape, name
        assert left.steps[name].tobytes() == right.steps[name].tobytes(), name


def test_experiences_survive_the_way_through_a_table_and_a_socket() -> None:
    original = board_experiences()
    assert_same(experiences_from_table(experiences_to_table(original)), original)
    assert_same(experiences_from_bytes(experiences_to_bytes(original)), original)


def test_strings_come_back_as_object_arrays() -> None:
    sequences = experiences_from_table(experiences_to_table(board_experiences())).sequences
    assert sequences["episode"].dtype == sequences["game"].dtype == object
    assert {type(text) for text in sequences["episode"]} == {str}


def test_numbers_are_shared_not_copied() -> None:
    original = board_experiences()
    back = experiences_from_table(experiences_to_table(original))
    for name in ("action", "logp", "observation"):
        assert np.shares_memory(back.steps[name], original.steps[name]), name


def test_experiences_whose_offsets_do_not_start_at_zero_are_cut_out() -> None:
    whole = board_experiences((2, 3, 1, 4))
    part = Experiences(
        sequences={name: column[1:3] for name, column in whole.sequences.items()},
        offsets=whole.offsets[1:4],
        steps=whole.steps,
    )
    table = experiences_to_table(part)
    assert_same(experiences_from_table(table), whole.take([1, 2]))
    assert table.nbytes < experiences_to_table(whole).nbytes


@pytest.mark.parametrize(("start", "count"), [(0, 4), (1, 2), (3, 1), (2, 0), (1, 3)])
def test_slice_of_a_table_is_the_same_as_those_sequences(start: int, count: int) -> None:
    whole = board_experiences((9, 3, 0, 4))
    part = experiences_to_table(whole).slice(start, count)
    assert_same(experiences_from_table(part), whole.take(np.arange(start, start + count)))
    assert_same(experiences_from_bytes(to_bytes(part)), whole.take(np.arange(start, start + count)))


def test_table_of_several_chunks_is_put_together() -> None:
    whole = board_experiences((2, 3, 1, 4))
    table = experiences_to_table(whole)
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1, 2), table.slice(3, 1)])
    assert_same(experiences_from_table(chunked), whole)


def test_token_sequences_need_no_observation_and_nothing_is_nothing() -> None:
    tokens = board_experiences()
    tokens = Experiences(
        sequences=tokens.sequences,
        offsets=tokens.offsets,
        steps={name: tokens.steps[name] for name in ("action", "mask", "logp")},
    )
    assert_same(experiences_from_bytes(experiences_to_bytes(tokens)), tokens)
    assert_same(experiences_from_bytes(experiences_to_bytes(Experiences.empty())), Experiences.empty())
    assert_same(experiences_from_table(experiences_to_table(board_experiences(()))), board_experiences(()))


def test_person_sees_lists_and_true_and_false() -> None:
    row = experiences_to_table(board_experiences()).to_pylist()[0]
    assert row["game"] == "open_spiel:µ"
    assert len(row["action"]) == 3
    assert set(row["mask"]) <= {True, False}
    assert len(row["observation"][0]) == 12


def test_columns_of_objects_are_refused() -> None:
    strange = board_experiences().replace(steps={"action": np.array([None] * 5)})
    with pytest.raises(StorageError, match="dtype object"):
        experiences_to_table(strange)


def test_columns_cut_differently_and_nulls_are_corrupt() -> None:
    one, other = pa.array([[1.0], [2.0, 3.0]], pa.large_list(pa.float32())), pa.array([[1, 2], [3]])
    with pytest.raises(CorruptRecord, match="cut differently"):
        experiences_from_table(pa.table({"logp": one, "action": other}))
    with pytest.raises(CorruptRecord, match="nulls"):
        experiences_from_table(pa.table({"task": pa.array([1, None])}))
    with pytest.raises(CorruptRecord, match="nulls"):
        experiences_from_table(pa.table({"logp": pa.array([[1.0, None]])}))


def test_bytes_that_are_no_stream_are_a_corrupt_record() -> None:
    stream = experiences_to_bytes(board_experiences())
    for bad in (b"", b"garbage" * 10, stream[: len(stream) // 2]):
        with pytest.raises(CorruptRecord):
            from_bytes(bad)


def episodes() -> list[Episode]:
    seats = (
        Seat(policy=PolicyRef(name=PolicyName("main@home"), version=PolicyVersion(7)), learns=True),
        Seat(policy=PolicyRef(name=PolicyName("random")), greedy=True),
    )
    task = Task(
        id=TaskId(5),
        attempt=2,
        purpose="evaluate",
        game="g",
        seed=2**63 - 1,
        seats=seats,
        group="x",
        inputs={"prompt": "2+2?", "n": [1, None, {"deep": 0.1}]},
    )
    played = Episode(
        id=EpisodeId("a1"),
        task=task,
        returns=(1.0, -1 / 3),
        move_plies=np.array([0, 0, 1], np.int32),
        move_seats=np.array([0, 1, 0], np.int16),
        move_actions=np.array([3, 4, 5], np.int32),
        move_texts=("take", "2+2?", ""),
        replies=("I take", "four\n", "x"),
        rewards={"maths": 1.0, "length": -1 / 3},
        truncated=True,
        duration_s=0.25,
    )
    failed = Episode(
        id=EpisodeId("a2"),
        task=Task(id=TaskId(6), game="g", seed=0, seats=()),
        returns=(),
        move_plies=np.zeros(0, np.int32),
        move_seats=np.zeros(0, np.int16),
        move_actions=np.zeros(0, np.int32),
        error="EnvError: raised",
    )
    return [played, failed, played]


def assert_same_episode(left: Episode, right: Episode) -> None:
    for name in (
        "id",
        "task",
        "returns",
        "truncated",
        "error",
        "duration_s",
        "length",
        "move_texts",
        "replies",
        "rewards",
    ):
        assert getattr(left, name) == getattr(right, name)
    for name in ("move_plies", "move_seats", "move_actions"):
        assert getattr(left, name).dtype == getattr(right, name).dtype
        assert getattr(left, name).tolist() == getattr(right, name).tolist()


def test_episodes_come_back_with_their_tasks() -> None:
    for back in (
        episodes_from_table(episodes_to_table(episodes())),
        episodes_from_bytes(episodes_to_bytes(episodes())),
    ):
        for left, right in zip(back, episodes(), strict=True):
            assert_same_episode(left, right)
    assert episodes_from_bytes(episodes_to_bytes([])) == []


def test_slice_and_chunks_of_an_episode_table_come_back_too() -> None:
    table = episodes_to_table(episodes())
    assert_same_episode(episodes_from_table(table.slice(1, 1))[0], episodes()[1])
    doubled = episodes_from_table(pa.concat_tables([table, table.slice(2)]))
    assert [episode.id for episode in doubled] == ["a1", "a2", "a1", "a1"]


def test_episodes_of_an_earlier_version_had_no_parts_of_their_rewards() -> None:
    back = episodes_from_table(episodes_to_table(episodes()).drop_columns(["rewards"]))
    assert [dict(episode.rewards) for episode in back] == [{}, {}, {}]


def test_person_can_query_an_episode_table() -> None:
    row = episodes_to_table(episodes()).to_pylist()[0]
    assert row["policies"] == ["main@home", "random"]
    assert (row["learns"], row["length"], row["seed"]) == ([True, False], 2, 2**63 - 1)
    assert json.loads(row["rewards"]) == {"maths": 1.0, "length": -1 / 3}
    with pytest.raises(CorruptRecord, match="not a table of episodes"):
        episodes_from_table(pa.table({"x": [1]}))


def buffers_of(table: pa.Table) -> dict[str, list[int]]:
    """The addresses of what every column consists of."""
    return {
        name: [buffer.address for buffer in table.column(name).chunk(0).buffers() if buffer is not None]
        for name in table.column_names
    }


def test_columns_that_nobody_changed_are_the_very_bytes_that_came() -> None:
    came = from_bytes(experiences_to_bytes(sample_experiences([2, 3, 4])))
    rows = experiences_from_table(came)
    assert buffers_of(experiences_to_table(rows)) == buffers_of(came)


def test_only_the_columns_that_were_replaced_are_encoded_again() -> None:
    came = from_bytes(experiences_to_bytes(sample_experiences([2, 3, 4])))
    rows = experiences_from_table(came).replace(sequences={"shaped_reward": np.zeros(3, np.float32)})
    before, after = buffers_of(came), buffers_of(experiences_to_table(rows))
    assert [name for name in before if before[name] != after[name]] == ["shaped_reward"]
    assert experiences_from_table(experiences_to_table(rows)).sequences["shaped_reward"].tolist() == [0.0] * 3


def test_a_choice_of_rows_is_encoded_as_it_is() -> None:
    rows = experiences_from_table(from_bytes(experiences_to_bytes(sample_experiences([2, 3, 4]))))
    chosen = rows.take([2, 0])
    again = experiences_from_table(experiences_to_table(chosen))
    assert again.sequences["episode"].tolist() == [rows.sequences["episode"][2], rows.sequences["episode"][0]]
    np.testing.assert_array_equal(again.steps["legal"], chosen.steps["legal"])
    np.testing.assert_array_equal(again.offsets, chosen.offsets)
