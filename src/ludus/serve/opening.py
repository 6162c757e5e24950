"""Open a run for serving: its model, its engine, its members."""

from __future__ import annotations

from dataclasses import replace

from ludus.config import RunConfig
from ludus.errors import ConfigError
from ludus.explore.runners.text_building import make_engine
from ludus.http.token_text import TokenText
from ludus.lm.chat import ChatFormat
from ludus.lm.language_models import load_language_model
from ludus.lm.language_shape import LanguageModelShape
from ludus.policies import PolicyStore
from ludus.serve.app import Service
from ludus.serve.members import Members
from ludus.serve.writer import Writer
from ludus.storage.run_directory import RunDirectory


def open_service(
    run: RunDirectory, config: RunConfig, *, threads: int | None = None, max_in_flight: int = 64
) -> Service:
    """Everything that the application needs to serve a run, live or finished.

    Raises:
        ConfigError: the run has no language model, or none that can be loaded here.
    """
    if config.policy.model is None:
        raise ConfigError(f"{run.path} trains a network, not a language model; play against it with: ludus play")
    store = PolicyStore(run.policies)
    versions = store.versions(config.policy.name)
    if not versions:
        raise ConfigError(f"{run.path} has published no policy yet")
    shape = store.shape(versions[-1])
    if not isinstance(shape, LanguageModelShape):
        raise ConfigError(f"{run.path}: {versions[-1]} is a network, not a language model")
    shape = replace(shape, critic=False).standing_on(run.base)
    model = load_language_model(shape.model, threads=threads)
    engine = make_engine(config, model, shape, store)
    return Service(
        engine=engine,
        members=Members(store, config.policy.name, catalog=run.catalog),
        writer=Writer(engine, ChatFormat(model.tokenizer), context=model.context, sampling=config.explore.sampling),
        token_text=TokenText(model.tokenizer),
        max_in_flight=max_in_flight,
    )
