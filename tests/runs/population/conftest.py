import json
import os
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

END = 257
FOLLOWS = {"a": "PB", "P": "A", "A": "S", "S": "s", "s": END, "B": "e", "e": "t", "t": END}
"""What may come after which byte: the chat's `a` begins a reply, and replies are `PASs` or `Bet`, evenly."""


@pytest.fixture(scope="session")
def poker_speaker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model of a few thousand parameters that says legal moves of Kuhn poker without having been taught."""
    from safetensors.numpy import load_file, save_file
    from transformers import AutoTokenizer

    from ludus.lm.tiny_model import make_tiny_model

    folder = make_tiny_model(tmp_path_factory.mktemp("models") / "poker", layers=1, width=16, heads=2, kv_heads=1)
    end = AutoTokenizer.from_pretrained(folder).eos_token_id
    weights = load_file(folder / "model.safetensors")
    for name in weights:
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            weights[name] = np.zeros_like(weights[name])  # what comes next depends on the last token alone
    seen = np.zeros_like(weights["model.embed_tokens.weight"])
    said = np.zeros_like(seen)
    seen[:, -1] = 1.0
    for place, (sign, after) in enumerate(FOLLOWS.items()):
        seen[ord(sign)] = np.eye(seen.shape[1])[place]
        for token in [end] if after == END else [ord(each) for each in after]:
            said[token, place] += 5.0
    weights |= {"model.embed_tokens.weight": seen, "lm_head.weight": said}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    return folder
