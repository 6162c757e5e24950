"""Recordings as such: whatever tree of conversations a program makes, every reply is kept once, as it was sampled."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1]))

from attempting import ParrotEngine, attempt

from ludus.config import SamplingConfig
from ludus.http.chat_request import BadRequest
from ludus.inference.policy_sampler import PolicySampler, make_sampling
from ludus.inference.protocol import Completion, Request
from ludus.lm.chat import ChatFormat
from ludus.lm.tiny_model import make_tiny_model
from ludus.records import EpisodeId
from ludus.workflows.interception.agent_request import AgentRequest, read_agent_request, read_turns
from ludus.workflows.interception.interception import Interception
from ludus.workflows.rollout_model import RolloutModel


@pytest.fixture(scope="session")
def chat(tmp_path_factory: pytest.TempPathFactory) -> ChatFormat:
    from transformers import AutoTokenizer

    folder = make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", layers=1, width=16, heads=2, kv_heads=1)
    return ChatFormat(AutoTokenizer.from_pretrained(folder))


class Odd(ParrotEngine):
    """Says what no text would be made into: a token that spells nothing before each reply. Some fail."""

    def __init__(self, chat: ChatFormat, failing: set[int]) -> None:
        super().__init__(chat, lambda prompt: f"r{len(self.requests)}")
        self.given: list[tuple[tuple[int, ...], list[int]]] = []
        self._failing = failing
        self._start = chat.opening([{"role": "user", "content": ""}])[0]

    async def generate(self, request: Request) -> Completion:
        whole = await super().generate(request)
        if len(self.requests) in self._failing:
            raise BadRequest("not now", status=503)
        tokens = np.array([self._start, *whole.tokens.tolist()], np.int32)
        self.given.append((request.prompt, tokens.tolist()))
        nothing = np.zeros(len(tokens), np.float32)
        return Completion(tokens=tokens, logps=nothing, values=nothing, policy=whole.policy, finish=whole.finish)


def open_interception(chat: ChatFormat, engine: ParrotEngine) -> Interception:
    sampling = make_sampling(SamplingConfig(), chat.stop_tokens)
    model = RolloutModel(attempt(), EpisodeId("e"), PolicySampler(engine, chat, context=4096), sampling=sampling)
    return Interception(model)


def request(*messages: tuple[str, str], **fields: Any) -> AgentRequest:
    said = [{"role": role, "content": text} for role, text in messages]
    return read_agent_request(json.dumps({"model": "x", "messages": said, **fields}).encode())


@settings(max_examples=60)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 12), st.sampled_from("ab"), st.integers(1, 3), st.booleans()), min_size=1, max_size=10
    ),
    failing=st.sets(st.integers(1, 12), max_size=3),
)
@example(steps=[(0, "a", 1, False), (1, "b", 1, False), (1, "b", 1, False)], failing={2})
def test_every_reply_stands_in_one_conversation_after_what_it_was_sampled_after(
    chat: ChatFormat, steps: list[tuple[int, str, int, bool]], failing: set[int]
) -> None:
    """Each step goes on from some reply that there is, or begins; some ask for several replies, some at once."""
    engine = Odd(chat, failing)
    interception = open_interception(chat, engine)
    known: list[tuple[list[tuple[str, str]], list[int]]] = [([("system", "s")], [])]

    async def ask(place: int, text: str, count: int, twice: bool) -> None:
        messages, tokens = known[place % len(known)]
        before = [*messages, ("user", text)]
        opening = [{"role": role, "content": said} for role, said in before]
        prompt = [*tokens, *chat.reply(text, ended=True)] if tokens else chat.opening(opening)
        again = 2 if twice else 1
        asked = [
            interception.reply(request(*before, n=count), id=f"{len(known)}-{time}", choice=choice)
            for time in range(again)
            for choice in range(count)
        ]
        for reply in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(reply, BadRequest):
                continue
            assert not isinstance(reply, BaseException), reply
            assert (tuple(prompt), list(reply.tokens)) in engine.given
            known.append(([*before, ("assistant", f" {reply.text}\n")], [*prompt, *reply.tokens]))

    async def all_steps() -> None:
        for step in steps:
            await ask(*step)

    asyncio.run(all_steps())
    rows = [
        columns
        for each in interception.model.chats
        if each.conversation.replies
        for columns in [each.conversation.as_episode()]
    ]
    kept = []
    for columns in rows:
        tokens, mask = columns["action"].tolist(), columns["mask"].tolist()
        edges = [place for place in range(len(mask) + 1) if [*mask, False][place] != [False, *mask][place]]
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            # Replies never touch: the end mark of one and the beginning of the next lie between.
            kept.append((tuple(tokens[:start]), tokens[start:end]))
    assert sorted(kept) == sorted(engine.given)


def turns(**fields: Any) -> list[tuple[str, str]]:
    return [tuple(turn) for turn in read_turns(read_agent_request(json.dumps({"model": "x", **fields}).encode()))]


def test_messages_become_turns_that_alternate() -> None:
    messages = [
        {"role": "developer", "content": "one"},
        {"role": "system", "content": [{"type": "text", "text": "two"}]},
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "7"},
        {"role": "tool", "tool_call_id": "2", "content": "8"},
        {"role": "system", "content": "late"},
    ]
    assert turns(messages=messages) == [
        ("system", "one\n\ntwo"),
        ("user", "a\nb"),
        ("assistant", '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'),
        ("user", "<tool_response>\n7\n</tool_response>\n<tool_response>\n8\n</tool_response>\nlate"),
    ]


def test_tools_that_may_not_be_used_are_not_told_of() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    fields = {"messages": [{"role": "user", "content": "a"}], "tools": [tool]}
    assert "f: no description" in turns(**fields)[0][1]
    assert turns(**fields, tool_choice="none") == [("user", "a")]


def test_half_characters_do_no_harm() -> None:
    assert turns(messages=[{"role": "user", "content": "a\ud800b"}]) == [("user", "a?b")]


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": []},
        {"messages": [{"role": "assistant", "content": "a"}]},
        {"messages": [{"role": "robot", "content": "a"}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        {"messages": [{"role": "user", "content": "a"}], "n": 65},
        {"messages": [{"role": "user", "content": "a"}], "response_format": {"type": "json_object"}},
        {"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "retrieval"}]},
    ],
)
def test_what_cannot_be_answered_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        turns(**fields)
