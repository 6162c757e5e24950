"""What people wrote, as rows of tokens: the same tokens as in a rollout, and every flaw by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from ludus.buffer import BadDemonstration, as_expert_rows, as_rows, encode_messages, read_messages, read_pair
from ludus.testing.experiences import sample_experiences

END = 0


class Letters:
    """A chat whose tokens are letters; 0 ends a turn, 1 begins one."""

    def opening(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        text = "".join(f"{message['role'][0]}{message['content']}" for message in messages)
        return [1, *map(ord, text), 1]

    def reply(self, user_text: str, *, ended: bool) -> list[int]:
        return [*([] if ended else [END]), 1, *map(ord, user_text), 1]

    def encode_reply(self, text: str) -> list[int]:
        return [*map(ord, text), END]


def said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def test_prompt_and_response_are_one_turn_and_the_end_is_learnt() -> None:
    messages = read_messages({"prompt": "ab", "response": "cd", "answer": 3})
    row = encode_messages(Letters(), messages, context=100)
    assert row.tokens.tolist() == [1, ord("u"), ord("a"), ord("b"), 1, ord("c"), ord("d"), END]
    assert row.mask.tolist() == [False] * 5 + [True] * 3


def test_all_answers_of_a_conversation_count_or_only_the_last() -> None:
    given = [said("system", "s"), said("user", "a"), said("assistant", "b"), said("user", "c"), said("assistant", "d")]
    messages = read_messages({"messages": given})
    assert messages == given
    row = encode_messages(Letters(), messages, context=100)
    assert [chr(token) for token in row.tokens[row.mask]] == ["b", "\0", "d", "\0"]
    last = encode_messages(Letters(), messages, context=100, only_last=True)
    assert [chr(token) for token in last.tokens[last.mask]] == ["d", "\0"]


def test_row_has_the_last_word_on_the_system_message() -> None:
    assert read_messages({"prompt": "a", "response": "b"}, system="x")[0] == said("system", "x")
    assert read_messages({"prompt": "a", "response": "b", "system": "y"}, system="x")[0] == said("system", "y")
    assert read_messages({"prompt": "a", "response": "b", "system": ""}, system="x")[0] == said("user", "a")
    given = [said("system", "z"), said("user", "a"), said("assistant", "b")]
    assert read_messages({"messages": given}, system="x") == given


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"prompt": "a"}, "field response is missing; it has prompt"),
        ({"prompt": " ", "response": "b"}, "field prompt: expected text that is not blank"),
        ({"prompt": "a", "response": 3}, "field response: expected text"),
        ({"prompt": "a", "response": "b", "system": 1}, "field system: expected text"),
        ({"messages": "hello"}, "expected a list of messages"),
        ({"messages": []}, "expected a list of messages"),
        ({"messages": ["x"]}, "expected messages of system, user, assistant, got 'None'"),
        ({"messages": [said("tool", "x")]}, "got 'tool'"),
        ({"messages": [said("user", "x")]}, "expected the assistant to speak last"),
        ({"messages": [said("assistant", "x")]}, "expected user and assistant in turn"),
        ({"messages": [said("user", "x"), said("user", "y"), said("assistant", "z")]}, "in turn"),
        ({"messages": [said("system", "x")]}, "in turn"),
        ({"messages": [{"role": "user"}, said("assistant", "x")]}, "field messages: content is missing"),
    ],
)
def test_every_flaw_is_named(fields: Any, problem: str) -> None:
    with pytest.raises(BadDemonstration, match=problem):
        read_messages(fields)


def test_conversation_that_does_not_fit_is_refused() -> None:
    with pytest.raises(BadDemonstration, match="8 tokens do not fit the model's context of 7"):
        encode_messages(Letters(), read_messages({"prompt": "ab", "response": "cd"}), context=7)


def test_pairs_may_be_texts_answers_or_whole_conversations() -> None:
    question = said("user", "a")
    expected = ([question, said("assistant", "b")], [question, said("assistant", "c")])
    assert read_pair({"prompt": "a", "chosen": "b", "rejected": "c"}) == expected
    answers = {"chosen": [said("assistant", "b")], "rejected": [said("assistant", "c")]}
    assert read_pair({"prompt": "a", **answers}) == expected
    whole = {name: [question, *given] for name, given in answers.items()}
    assert read_pair(whole) == expected
    assert read_pair({**whole, "system": "s"})[0][0] == said("system", "s")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"prompt": "a", "chosen": "b"}, "field rejected is missing"),
        ({"prompt": "a", "chosen": "b", "rejected": "b"}, "expected two different answers"),
        ({"chosen": "b", "rejected": "c"}, "field prompt is missing"),
        ({"chosen": [said("assistant", "b")], "rejected": [said("assistant", "c")]}, "in turn"),
        (
            {
                "chosen": [said("user", "a"), said("assistant", "b")],
                "rejected": [said("user", "x"), said("assistant", "c")],
            },
            "answers to the same conversation",
        ),
        ({"chosen": [said("user", "a")], "rejected": [said("user", "a")]}, "to speak last"),
    ],
)
def test_every_flaw_of_a_pair_is_named(fields: Any, problem: str) -> None:
    with pytest.raises(BadDemonstration, match=problem):
        read_pair(fields)


def test_rows_have_the_documented_columns_and_names_of_their_own() -> None:
    encoded = [encode_messages(Letters(), read_messages({"prompt": "a", "response": t}), context=9) for t in "xyzw"]
    rows = as_rows(encoded, origin="expert.0", first=10)
    again = as_rows(encoded[1:], origin="expert.0", first=11)
    assert rows.sequences["episode"].tolist()[1:] == again.sequences["episode"].tolist()
    assert rows.sequences["task"].tolist() == [10, 11, 12, 13]
    assert len(set(as_rows(encoded, origin="other").sequences["episode"]) & set(rows.sequences["episode"])) == 0
    assert not rows.steps["logp"].any()
    couples = as_rows(encoded, origin="pairs.0", first=4, pairs=True)
    assert couples.sequences["pair"].tolist() == [2, 2, 3, 3]
    assert couples.sequences["chosen"].tolist() == [True, False, True, False]
    assert len(as_rows([], origin="x")) == 0


def test_rows_of_games_lose_what_only_their_run_knows() -> None:
    rows = sample_experiences((2, 3), version=7, seats=(1, 0)).replace(
        sequences={"turn": np.arange(2), "group": np.array(["g", "g"], object)}, steps={"invalid": np.zeros(5, bool)}
    )
    expert = as_expert_rows(rows, origin="expert.1", first=5)
    assert expert.sequences["task"].tolist() == [5, 6]
    assert expert.sequences["group"].tolist() == ["", ""]
    assert "turn" not in expert.sequences
    assert "invalid" not in expert.steps
    assert not expert.steps["version"].any()
    np.testing.assert_array_equal(expert.steps["observation"], rows.steps["observation"])
