"""Everything that is known of one attempt, as JSON: for people who want to see what their workflow does."""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.explore.runners.workflow_episode import WorkflowEpisode
from ludus.http.token_text import TokenText, token_text
from ludus.inference.conversation import Columns, Conversation
from ludus.records import Episode


def trace(made: WorkflowEpisode, episode: Episode) -> dict[str, Any]:
    """The attempt: its task, its chats token by token, and what it is worth.

    Of a token: its `id`, what it spells (`text`), whether the policy sampled it (`mask`), and if so its `logp`, the
    `version` that sampled it and the `reward` that stands on it.
    """
    text = token_text(made.model.template)
    scored = made.scored
    return {
        "episode": episode.id,
        "task": {"id": episode.task.id, "set": episode.task.game, "seed": episode.task.seed, **_inputs(episode)},
        "policy": str(made.model.policy),
        "turns": [{"chat": reply.chat, "heard": reply.heard, "said": reply.text} for reply in made.model.said],
        "chats": [_tokens(chat.conversation, text) for chat in made.model.chats],
        "response": made.outcome.response,
        "rewards": dict(episode.rewards),
        "notes": {} if scored is None else scored.notes,
        "total": episode.returns[0],
        "metrics": dict(made.outcome.metrics),
        "truncated": episode.truncated,
        "error": episode.error,
        "duration_s": episode.duration_s,
    }


def _inputs(episode: Episode) -> dict[str, Any]:
    hidden = ("group_seed",)
    return {"inputs": {name: value for name, value in episode.task.inputs.items() if name not in hidden}}


def _tokens(conversation: Conversation, text: TokenText) -> list[dict[str, Any]]:
    columns = conversation.as_episode() if conversation.replies else _unsaid(conversation)
    return [_token(columns, place, text) for place in range(len(columns["action"]))]


def _unsaid(conversation: Conversation) -> Columns:
    """What was heard, and never replied to."""
    heard = np.array(conversation.prompt, np.int32)
    return {"action": heard, "mask": np.zeros(len(heard), np.bool_), "reward": np.zeros(len(heard), np.float32)}


def _token(columns: Columns, place: int, text: TokenText) -> dict[str, Any]:
    id, is_sampled = int(columns["action"][place]), bool(columns["mask"][place])
    shown = {"id": id, "text": text.describe(id, 0.0)["token"], "mask": is_sampled}
    if not is_sampled:
        return shown
    return {
        **shown,
        "logp": float(columns["logp"][place]),
        "version": int(columns["version"][place]),
        "reward": float(columns["reward"][place]),
    }
