"""How language models are asked and how their replies are sampled: `explore.prompt` and `explore.sampling`.

A game, a taskset and a held-out game have their own over these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ludus.config.base import Model, Scalar
from ludus.config.problems import Contradiction, Path, at

if TYPE_CHECKING:
    from ludus.config.run import RunConfig

OWN_ARGUMENTS = frozenset(
    {"messages", "conversation", "tools", "add_generation_prompt", "continue_final_message", "tokenize"}
)
"""Arguments of a chat template that are ludus' own."""
THINKING_ARGUMENTS = ("enable_thinking", "thinking")
"""What chat templates call it."""


class SamplingConfig(Model):
    """How a language model samples a reply."""

    max_tokens: int = Field(default=64, gt=0, le=131_072)
    """Tokens of one reply."""
    ignore_end: bool = False
    """Let every reply have `max_tokens` tokens, past the token that would end it: for measurements."""
    temperature: float = Field(default=1.0, gt=0, le=10)
    """1 samples as the model is; less prefers likely tokens."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Sample from the likeliest tokens with this probability together; 1: from all."""
    top_k: int = Field(default=0, ge=0)
    """0: no limit."""
    min_p: float = Field(default=0.0, ge=0, lt=1)
    """Never sample a token that is less likely than the likeliest one times this; 0: no limit."""
    repetition_penalty: float = Field(default=1.0, gt=0, le=10)
    """Above 1, tokens that the conversation has already are less likely: their logits are divided by this where they
    are positive, and multiplied where they are not. 1: no penalty."""
    stop: tuple[Annotated[str, Field(min_length=1, max_length=256)], ...] = Field(
        default=(), strict=False, max_length=16, examples=[["</answer>"]]
    )
    """End a reply with the token that completes one of these strings."""
    thinking: bool | None = None
    """Whether the chat template has the model think before it answers (Qwen3, SmolLM3). Default: as the template has
    it."""
    thinking_budget: int | None = Field(default=None, gt=0, le=131_072, examples=[2048])
    """Tokens of one reply's thoughts. Thoughts that are longer are closed with `</think>`, which is not trained on, and
    the model answers with what is left of `max_tokens`. Default: no limit of their own."""
    template_arguments: dict[str, Scalar] = Field(default={}, examples=[{"reasoning_effort": "low"}])
    """Further arguments of the model's chat template."""

    @property
    def is_bent(self) -> bool:
        """Whether tokens are sampled from another distribution than the model's at the temperature."""
        return self.top_p < 1 or self.top_k > 0 or self.min_p > 0 or self.repetition_penalty != 1


class PromptConfig(Model):
    """How a game and a language model talk: prompts, moves in replies, invalid moves, and what a training row is."""

    template: str = "plain"
    """Name of the prompt template: `plain`, `boxed`, `think`, or one that a plugin registered."""
    action: str = "whole"
    """How the move is found in a reply: `whole`, `boxed`, `bracket`, `last_line`, `choice`, `regex:...`."""
    invalid_moves: int = Field(default=0, ge=0)
    """Invalid moves in a row after which a seat may try again; one more and it forfeits."""
    invalid_reward: float = -1.0
    """What a seat that forfeits gets; the others share the opposite."""
    max_turns: int | None = Field(default=None, gt=0)
    """Replies of one seat in one game; a longer game is cut and counts as truncated."""
    rows: Literal["episode", "turn"] = "episode"
    """What a training sequence is: all that a seat said in a game, with the rest masked; or one reply with all that
    came before it."""


def check_sampling(config: RunConfig) -> Iterator[Contradiction]:
    """Options that contradict each other, wherever replies are sampled."""
    yield from _contradictions(("explore", "sampling"), config.explore.sampling)
    own = {
        ("games",): [game.sampling for game in config.games],
        ("tasks",): [taskset.sampling for taskset in config.tasks],
        ("evaluate", "tasks"): [taskset.sampling for taskset in config.evaluate.tasks],
        ("evaluate", "held_out_games"): [game.sampling for game in config.evaluate.held_out_games],
    }
    for path, listed in own.items():
        for place, sampling in enumerate(listed):
            if sampling is not None:
                yield from _contradictions((*path, place, "sampling"), sampling)


def _contradictions(path: Path, sampling: SamplingConfig) -> Iterator[Contradiction]:
    budget, arguments = sampling.thinking_budget, sampling.template_arguments
    if budget is not None and budget >= sampling.max_tokens:
        text = f"{budget} tokens of thoughts leave no answer within max_tokens ({sampling.max_tokens}); write less"
        yield at((*path, "thinking_budget"), text)
    if budget is not None and sampling.thinking is False:
        yield at((*path, "thinking_budget"), "has no effect: thinking is false; leave it out")
    for name in arguments:
        if name in OWN_ARGUMENTS:
            yield at((*path, "template_arguments", name), "is what ludus gives the template itself; leave it out")
        elif sampling.thinking is not None and name in THINKING_ARGUMENTS:
            yield at((*path, "template_arguments", name), "says what thinking says; leave one of the two out")
