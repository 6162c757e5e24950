"""Chat templates that think: thinking on and off, other arguments, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ludus.config import SamplingConfig
from ludus.errors import ConfigError
from ludus.inference.conversation import Conversation
from ludus.lm.chat import ChatFormat
from ludus.lm.tiny_model import END, START, make_tiny_model

TURNS = (
    "{% for message in messages %}"
    f"{START}{{{{ message.role }}}}\n{{{{ message.content }}}}{END}\n"
    "{% endfor %}"
    f"{{% if add_generation_prompt %}}{START}assistant\n"
)
SWITCH = (
    TURNS + "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
"""As Qwen3: thoughts of earlier turns are not shown, those of the turn to come are closed at once."""
ALWAYS = TURNS + "<think>\n{% endif %}"
"""As models that always think: thoughts are opened for them."""
EFFORT = "{{ 'Effort: ' + reasoning_effort|default('medium') + '\\n' }}" + TURNS + "{% endif %}"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("models") / "m"
    return AutoTokenizer.from_pretrained(make_tiny_model(folder, layers=1, width=16, heads=2, kv_heads=1))


@pytest.fixture
def with_template(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    def change(template: str) -> Any:
        monkeypatch.setattr(tokenizer, "chat_template", template)
        return tokenizer

    return change


def spelled(chat: ChatFormat, tokens: list[int]) -> str:
    return str(chat.tokenizer.decode(tokens))


def asked(chat: ChatFormat) -> str:
    return spelled(chat, chat.opening([{"role": "user", "content": "q"}]))


def test_thinking_is_turned_off_by_the_template_and_stays_off_in_later_turns(with_template: Any) -> None:
    tokenizer = with_template(SWITCH)
    by_default, on, off = (ChatFormat(tokenizer, SamplingConfig(thinking=how)) for how in (None, True, False))
    assert asked(by_default) == asked(on) == f"{START}user\nq{END}\n{START}assistant\n"
    assert asked(off) == f"{asked(on)}<think>\n\n</think>\n\n"
    later = spelled(off, off.reply("and?", ended=True))
    assert later == f"\n{START}user\nand?{END}\n{START}assistant\n<think>\n\n</think>\n\n"
    assert spelled(on, on.reply("and?", ended=True)) + "<think>\n\n</think>\n\n" == later


def test_a_template_that_opens_thoughts_itself_is_taken(with_template: Any) -> None:
    chat = ChatFormat(with_template(ALWAYS))
    assert asked(chat).endswith("assistant\n<think>\n")
    assert spelled(chat, chat.reply("and?", ended=False)).startswith(END)


def test_a_template_that_puts_other_words_before_a_reply_is_still_refused(with_template: Any) -> None:
    with pytest.raises(ConfigError, match="does more than append"):
        ChatFormat(with_template(TURNS + "Sure: {% endif %}"))


def test_template_arguments_reach_the_template(with_template: Any) -> None:
    tokenizer = with_template(EFFORT)
    assert asked(ChatFormat(tokenizer)).startswith("Effort: medium\n")
    low = SamplingConfig(template_arguments={"reasoning_effort": "low"})
    assert asked(ChatFormat(tokenizer, low)).startswith("Effort: low\n")


@pytest.mark.parametrize(
    ("sampling", "match"),
    [
        (SamplingConfig(thinking=False), "cannot turn thinking on or off"),
        (SamplingConfig(template_arguments={"effort": "low"}), "knows no 'effort' in its chat template"),
    ],
)
def test_what_a_template_does_not_know_is_refused(with_template: Any, sampling: SamplingConfig, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        ChatFormat(with_template(TURNS + "{% endif %}"), sampling)


def test_a_reply_that_ended_at_a_string_has_its_turn_closed(with_template: Any) -> None:
    import numpy as np

    from ludus.inference.conversation import DICTATED
    from ludus.inference.protocol import Completion

    chat = ChatFormat(with_template(SWITCH))
    conversation = Conversation(chat)
    conversation.hear("q")
    tokens = np.array(chat.tokens_of("yes</answer>"), np.int32)
    zeros = np.zeros(len(tokens), np.float32)
    conversation.say(Completion(tokens=tokens, logps=zeros, values=zeros, policy=DICTATED, finish="stop"))
    assert not conversation.is_cut
    conversation.hear("and?")
    assert f"yes</answer>{END}\n{START}user\nand?" in spelled(chat, list(conversation.prompt))
