"""A conversation as token ids that only grows: what was said is never made into tokens again.

A seat's tokens are `opening(...)`, then what the model sampled, then `reply(...)`, then what it sampled, and so on. The
parts are what the model's own chat template puts around messages; that they add up to what the template makes of the
whole conversation is checked when a `ChatFormat` is made. A template that drops earlier thoughts (Qwen3) passes, but
here thoughts stay: they were sampled, so they are part of what the next token depends on.

Invariant: only the template opens and closes turns. A text that contains a mark of the model, such as `<|im_end|>`, is
broken up before it becomes tokens, so no game and no opponent can speak in another's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ludus.config import SamplingConfig
from ludus.config.sections.sampling import THINKING_ARGUMENTS
from ludus.errors import ConfigError

Messages = Sequence[Mapping[str, str]]
_RULES, _QUESTIONS, _ANSWERS = "probe-rules", ("probe-one", "probe-two", "probe-three"), ("probe-yes", "probe-no")
_ODD_TEXTS = ("", " \n padded \n ", "{{ x }} {% y %}", "<think>a</think>b", "<tool_response>a</tool_response>")
"""Texts that some templates treat in ways of their own."""
_REMEMBERED_TEXTS = 1024
_THOUGHTS = re.compile(r"(?:<think>\s*(?:</think>\s*)?)?\Z")
"""How a template opens thoughts where the model is to speak, or closes them at once."""


class ChatFormat:
    """What a tokenizer's chat template puts around the turns of a conversation."""

    def __init__(self, tokenizer: Any, sampling: SamplingConfig | None = None) -> None:
        """`sampling` says whether the model is to think, and what else its template is told."""
        self._tokenizer = tokenizer
        self._tokens = lru_cache(_REMEMBERED_TEXTS)(self._tokenise)
        self._openings = lru_cache(_REMEMBERED_TEXTS)(self._open)  # the attempts of a group begin alike
        self._name = tokenizer.name_or_path or type(tokenizer).__name__
        marks = _marks(tokenizer)
        self._arguments = _template_arguments(self._name, tokenizer, sampling or SamplingConfig())
        self._marks = re.compile("|".join(map(re.escape, sorted(marks, key=len, reverse=True))) or r"(?!)")
        self._mark_ids = frozenset(tokenizer.convert_tokens_to_ids(sorted(marks)))
        if not self._is_append_only([]):
            raise ConfigError(
                f"{self._name} has a chat template that does more than append to a conversation, so what was said "
                "earlier would not stay as it was; use a model with a plain template such as ChatML"
            )
        self._takes_rules = self._is_append_only([{"role": "system", "content": _RULES}])
        self._around = self._constant_parts()
        self._end = self._end_of_turn()
        self.stop_tokens: frozenset[int] = frozenset({self._end, tokenizer.eos_token_id} - {None})

    @property
    def tokenizer(self) -> Any:
        """The tokenizer itself, to look single tokens up."""
        return self._tokenizer

    def opening(self, messages: Messages) -> list[int]:
        """The tokens of the first messages (`system` and `user`) up to where the model is to speak."""
        return list(self._openings(tuple(tuple(message.items()) for message in messages)))

    def reply(self, user_text: str, *, ended: bool) -> list[int]:
        """The tokens between what the model sampled and where it is to speak again.

        Args:
            user_text: what the model is told.
            ended: whether what it sampled ended with a stop token; if it was cut at its length, its turn is closed.
        """
        text = self._without_marks(user_text)
        before, after = self._around or ("", "")
        tokens = self._encode(before + text + after if self._around else self._after_answer(text))
        return tokens[tokens.index(self._end) + 1 :] if ended else tokens

    def encode_reply(self, text: str) -> list[int]:
        """The tokens of what somebody says in the model's place, with the end of its turn."""
        return [*self._encode(self._without_marks(text)), self._end]

    def tokens_of(self, text: str) -> list[int]:
        """The tokens of a text as the template writes one, the model's marks as such."""
        return self._encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """What sampled tokens say, without the model's marks."""
        return decode_tokens(self._tokenizer, [int(token) for token in tokens])

    def _open(self, messages: tuple[tuple[tuple[str, str], ...], ...]) -> tuple[int, ...]:
        safe = [{**dict(message), "content": self._without_marks(dict(message)["content"])} for message in messages]
        return self._tokenise(self._render(safe if self._takes_rules else _folded(safe)))

    def _render(self, messages: Messages) -> str:
        try:
            text = self._tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=True, **self._arguments
            )
        except Exception as error:  # a template is a program; it raises what its author chose
            raise ConfigError(f"{self._name} has a chat template that fails: {error}") from error
        return str(text)

    def _encode(self, text: str) -> list[int]:
        return list(self._tokens(text))

    def _tokenise(self, text: str) -> tuple[int, ...]:
        return tuple(int(token) for token in self._tokenizer.encode(text, add_special_tokens=False))

    def _without_marks(self, text: str) -> str:
        return self._marks.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)

    def _after_answer(self, user_text: str) -> str:
        question, answer = _QUESTIONS[0], _ANSWERS[0]
        text = self._render([_said("user", question), _said("assistant", answer), _said("user", user_text)])
        return text[text.index(answer) + len(answer) :]

    def _constant_parts(self) -> tuple[str, str] | None:
        """What stands around a user's text in a reply, if the template leaves the text as it is; spares rendering."""
        before, text, after = self._after_answer(_QUESTIONS[1]).partition(_QUESTIONS[1])
        try:
            is_constant = bool(text) and all(self._after_answer(odd) == before + odd + after for odd in _ODD_TEXTS)
        except ConfigError:
            return None
        return (before, after) if is_constant else None

    def _is_append_only(self, rules: list[dict[str, str]]) -> bool:
        """Whether a whole conversation is rendered as the parts of which it is made here."""
        first, second, third = (_said("user", text) for text in _QUESTIONS)
        yes, no = (_said("assistant", text) for text in _ANSWERS)
        try:
            whole = self._render([*rules, first, yes, second, no, third])
            opening = self._render([*rules, first])
            after = [self._after_answer(question["content"]) for question in (second, third)]
        except (ConfigError, ValueError):
            return False
        # Many templates open thoughts, or close them at once, where the model is to speak, and leave that out of
        # earlier turns. Here it stays, as thoughts do.
        before = whole.partition(yes["content"])[0]
        thoughts = "" if before.startswith(opening) else _THOUGHTS.findall(opening)[0]
        opening, later = opening.removesuffix(thoughts), after[0].removesuffix(thoughts)
        # Some templates put a space before an answer, which the model says itself.
        gap = before[len(opening) :]
        parts = [opening, gap, yes["content"], later, gap, no["content"], after[1]]
        return whole == "".join(parts) and not gap.strip() and all(message["content"] in opening for message in rules)

    def _end_of_turn(self) -> int:
        """The token with which the template closes what the model said."""
        for token in self._encode(self._after_answer(_QUESTIONS[1])):
            if token in self._mark_ids:
                return token
        raise ConfigError(
            f"{self._name} has a chat template without a token that ends a turn, so a reply would have no end; "
            "use a model with a template such as ChatML"
        )


def decode_tokens(tokenizer: Any, tokens: Sequence[int]) -> str:
    """What tokens say, without the model's marks."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:  # ten times as fast: transformers looks at the type of every token
        return str(backend.decode(list(tokens), skip_special_tokens=True))
    return str(tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False))


def _template_arguments(name: str, tokenizer: Any, sampling: SamplingConfig) -> dict[str, Any]:
    """What a template is told besides the messages. Raises ConfigError for what it does not know."""
    template = str(tokenizer.chat_template)
    unknown = [key for key in sampling.template_arguments if not re.search(rf"\b{re.escape(key)}\b", template)]
    if unknown:
        raise ConfigError(f"{name} knows no {unknown[0]!r} in its chat template; leave it out of template_arguments")
    if sampling.thinking is None:
        return dict(sampling.template_arguments)
    switch = next((key for key in THINKING_ARGUMENTS if re.search(rf"\b{key}\b", template)), None)
    if switch is None:
        raise ConfigError(
            f"{name} cannot turn thinking on or off in its chat template (which knows no {THINKING_ARGUMENTS[0]!r}); "
            "leave thinking out"
        )
    return {**sampling.template_arguments, switch: sampling.thinking}


def _marks(tokenizer: Any) -> set[str]:
    """The texts that a tokenizer makes into one of its special tokens wherever they stand."""
    added = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
    return added | set(tokenizer.all_special_tokens)


def _said(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def _folded(messages: Messages) -> list[dict[str, str]]:
    """System messages put before the first user message, for templates that know no system role."""
    rules = [message["content"] for message in messages if message["role"] == "system"]
    others = [dict(message) for message in messages if message["role"] != "system"]
    if rules and others:
        others[0]["content"] = "\n\n".join([*rules, others[0]["content"]])
    return others or [_said("user", "\n\n".join(rules))]
