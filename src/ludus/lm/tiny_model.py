"""A tiny language model that ludus makes itself: for laptops, tests and first runs, without a download.

Its tokens are bytes (token = byte value) and three marks; its chat template is ChatML with the role as one letter,
because every byte of a prompt costs as much as a byte of a move. Weights are random: it must be taught before it plays.

Invariant: the same arguments give the same folder, and a folder is there whole or not at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ludus.errors import ConfigError
from ludus.lm.model_folder import writing_model

PAD, START, END = "<|pad|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    f"{START}{{{{ message['role'][0] }}}}{{{{ message['content'] }}}}{END}"
    "{% endfor %}"
    f"{{% if add_generation_prompt %}}{START}a{{% endif %}}"
)


def make_tiny_model(
    folder: Path | str,
    *,
    seed: int = 0,
    layers: int = 4,
    width: int = 128,
    heads: int = 4,
    kv_heads: int = 2,
    context: int = 1024,
) -> Path:
    """Write a small random Qwen3 with a byte-level tokenizer into `folder`, in Hugging Face format.

    The defaults give about 0.8 million parameters. Making the same model again is a no-op.

    Raises:
        ConfigError: the sizes do not fit each other, or `folder` holds something else.
    """
    if width % heads or heads % kv_heads or (width // heads) % 2:
        raise ConfigError(
            f"width {width}, heads {heads}, kv_heads {kv_heads}: the width must be a multiple of twice the heads, "
            "and the heads a multiple of the kv_heads"
        )
    from ludus.lm.language_models import quiet_transformers

    final = Path(folder)
    with writing_model(final) as staging, quiet_transformers():
        tokenizer = _byte_tokenizer(context)
        model = _random_qwen3(tokenizer, seed, layers, width, heads, kv_heads, context)
        tokenizer.save_pretrained(staging)
        model.save_pretrained(staging)
    return final


def _byte_tokenizer(context: int) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    fast: Any = PreTrainedTokenizerFast
    vocabulary = {sign: byte for byte, sign in _signs_of_bytes().items()}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    made = fast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[START],
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )
    made.chat_template = CHAT_TEMPLATE
    return made


def _signs_of_bytes() -> dict[int, str]:
    """The printable sign that byte-level tokenizers write for each byte, as GPT-2 chose them."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    signs = {byte: chr(byte) for byte in printable}
    return signs | {byte: chr(256 + place) for place, byte in enumerate(others)}


def _random_qwen3(tokenizer: Any, seed: int, layers: int, width: int, heads: int, kv_heads: int, context: int) -> Any:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    kind: Any = Qwen3ForCausalLM
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=width // heads,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind(config)
