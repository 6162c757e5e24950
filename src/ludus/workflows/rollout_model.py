"""The policy as a workflow sees it: chats in which what is said is kept as the very tokens that were sampled.

Invariants: every reply has a seed of its own, derived from the task, the attempt, the chat and the reply's number, so
an attempt does not depend on its neighbours. A model belongs to one attempt: when that is over, it speaks no more. That
the engine is out of reach is remembered, whatever the workflow makes of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ludus.errors import EngineLost, EnvError, PolicyError
from ludus.inference.conversation import ChatTemplate, Conversation
from ludus.inference.policy_sampler import ANSWER_S, Interrupted, PolicySampler
from ludus.inference.protocol import Completion, Request, Sampling
from ludus.records import EpisodeId, PolicyRef, Task, derive_seed
from ludus.rewards.rewards import Scored

MOST_CHATS = 4096
"""Of one attempt."""


class OutOfRoom(PolicyError):
    """A conversation has filled the model's context. A workflow may end with what it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One reply, in the order of all of them."""

    chat: int
    reply: int
    heard: str
    text: str


class RolloutModel:
    """The policy, for one attempt at one task."""

    def __init__(
        self,
        task: Task,
        episode: EpisodeId,
        sampler: PolicySampler,
        *,
        sampling: Sampling,
        retry: int = 0,
        many_chats: bool = True,
        score: Callable[[str], Awaitable[Scored]] | None = None,
        on_trouble: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            sampling: how tokens are drawn, and how many a reply has where the workflow does not say.
            retry: which time the attempt is made; another one has other seeds.
            many_chats: whether there may be more than one.
            score: the run's rewards.
            on_trouble: called once when the engine is out of reach, to end the attempt.
        """
        self.chats: list[Chat] = []
        self.said: list[Said] = []
        self.trouble: Interrupted | EngineLost | None = None
        """That the engine could not be reached."""
        self._task = task
        self._episode = episode
        self._sampler = sampler
        self._sampling = sampling.as_greedy() if task.seats[0].greedy else sampling
        self._retry = retry
        self._many_chats = many_chats
        self._score = score
        self._on_trouble = on_trouble
        self._is_over = False

    @property
    def seed(self) -> int:
        """For whatever else in the attempt is up to chance."""
        return derive_seed(self._task.seed, "workflow", self._task.attempt, self._retry)

    @property
    def policy(self) -> PolicyRef:
        """Whose words they are."""
        return self._task.seats[0].policy

    @property
    def context(self) -> int:
        """Tokens that a conversation may have, replies included."""
        return self._sampler.context

    @property
    def template(self) -> ChatTemplate:
        """What makes conversations into tokens."""
        return self._sampler.template

    @property
    def max_tokens(self) -> int:
        """Tokens of a reply, unless something else is asked for."""
        return self._sampling.max_tokens

    def chat(self, system: str = "") -> Chat:
        """Begin a conversation. The policy remembers nothing of others."""
        return self.add_chat(Conversation(self.template, system))

    async def complete(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int | None = None) -> str:
        """Reply to a conversation that somebody else had; the reply alone is the policy's."""
        conversation = Conversation(self.template)
        conversation.hear_all(messages)
        return await self.add_chat(conversation).reply(max_tokens=max_tokens)

    async def score(self, response: str) -> Scored:
        """What the run's rewards give for a response.

        Raises:
            RolloutError: a reward failed, or the run has none.
        """
        if self._score is None:
            raise EnvError("the workflow asks for the run's rewards, but the run has none; give it some under rewards")
        return await self._score(response)

    def add_chat(self, conversation: Conversation) -> Chat:
        """Go on from a conversation that has begun already."""
        self.check_open()
        if self.chats and not self._many_chats:
            raise EnvError("the workflow began a second chat, but says of itself that it has one; set many_chats")
        if len(self.chats) >= MOST_CHATS:
            raise EnvError(f"the workflow has had {MOST_CHATS} chats, which is the most")
        self.chats.append(Chat(self, len(self.chats), conversation))
        return self.chats[-1]

    def room(self, conversation: Conversation) -> int:
        """Tokens that the next reply may have, at most."""
        return self.context - len(conversation)

    def reply_seed(self, *path: int | str) -> int:
        """The seed of a reply that is told from all others by this path."""
        return derive_seed(self._task.seed, "speak", self._task.attempt, self._retry, *path)

    def session(self, chat: int) -> str:
        """What the engine knows a chat by."""
        return f"{self._episode}/{self._retry}/{chat}"

    async def sample(
        self, conversation: Conversation, *, chat: int, seed: int, max_tokens: int, after: Sequence[int] = ()
    ) -> Completion:
        """Have the engine go on from a conversation, and from tokens that are not part of it yet.

        Raises:
            OutOfRoom: the context is full.
            PolicyError, TimeoutExceeded: as the engine raises them.
        """
        self.check_open()
        room = self.room(conversation) - len(after)
        if room < 1:
            raise OutOfRoom(f"a conversation of {len(conversation)} tokens fills the context of {self.context}")
        request = Request(
            prompt=(*conversation.prompt, *after),
            policy=self.policy,
            sampling=replace(self._sampling, max_tokens=min(max_tokens, room)),
            seed=seed,
            deadline_s=ANSWER_S,
            session=self.session(chat),
        )
        try:
            completion = await self._sampler.sample(request)
        except (Interrupted, EngineLost) as trouble:
            self.trouble = self.trouble or trouble
            self._on_trouble()
            raise
        if after:
            self._sampler.went_on(request.session)
        return completion

    def close(self) -> None:
        """The attempt is over."""
        self._is_over = True
        for chat in self.chats:
            self._sampler.engine.end_session(self.session(chat.number))

    def check_open(self) -> None:
        """Raise PolicyError when the attempt is over."""
        if self._is_over:
            raise PolicyError("the attempt is over; its model speaks no more")


class Chat:
    """One conversation with the policy."""

    def __init__(self, model: RolloutModel, number: int, conversation: Conversation) -> None:
        self.number = number
        self.conversation = conversation
        self._model = model
        self._is_busy = False

    @property
    def is_cut(self) -> bool:
        """Whether the latest reply reached its length before its end."""
        return self.conversation.is_cut

    @property
    def room(self) -> int:
        """Tokens that are left for what is said next and its reply."""
        return self._model.room(self.conversation)

    async def say(self, text: str, *, max_tokens: int | None = None) -> str:
        """Say something to the policy; returns its reply.

        Raises:
            OutOfRoom: the context is full.
            PolicyError: the policy cannot answer.
        """
        if self._is_busy:
            raise EnvError("a chat takes one message at a time; begin another to say two things at once")
        self.conversation.hear(text)
        return await self.reply(max_tokens=max_tokens)

    async def reply(self, *, max_tokens: int | None = None) -> str:
        """The policy's reply to what was said last. Raises as `say` does."""
        self._is_busy = True
        try:
            completion = await self._model.sample(
                self.conversation,
                chat=self.number,
                seed=self._model.reply_seed(self.number, len(self.conversation.replies)),
                max_tokens=max_tokens or self._model.max_tokens,
            )
        finally:
            self._is_busy = False
        return self.take(completion)

    def take(self, completion: Completion) -> str:
        """Note what the policy said; returns it as text. Raises PolicyError when the attempt is over."""
        self._model.check_open()
        text = self.conversation.say(completion)
        number = len(self.conversation.replies) - 1
        self._model.said.append(Said(chat=self.number, reply=number, heard=self.conversation.heard, text=text))
        return text

    def mark(self, *, format_ok: bool = True, is_invalid: bool = False) -> None:
        """Say of the latest reply whether its form was right and what it asked for possible, for reward transforms."""
        latest = self.conversation.replies[-1]
        latest.format_ok, latest.is_invalid = format_ok, is_invalid
