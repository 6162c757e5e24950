"""Whether what another run plays can be trained on here: asked once, when that run is first seen."""

from __future__ import annotations

from ludus.config import RunConfig, load_config
from ludus.errors import ConfigError
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.model_folder import find_model_folder
from ludus.lm.model_text import tokenizer_fingerprint
from ludus.orchestrator.context import RunContext
from ludus.storage.run_directory import RunDirectory


def check_fit(key: str, run: RunDirectory, context: RunContext) -> None:
    """See to it that a run plays games of this one, and that its rows are what this policy learns from.

    Args:
        key: where the run is named in the config, for the message.
        run: the other run.
        context: this run.

    Raises:
        ConfigError: they do not fit together, or the other run's config cannot be read.
    """
    where = f"{key}: {run.path}"
    try:
        theirs = load_config(run.config)
    except ConfigError as error:
        raise ConfigError(f"{where} cannot be read: {error}") from error
    if theirs.buffer.feeds:
        raise ConfigError(f"{where} is fed by other runs itself; name those here instead")
    if foreign := [game for game in _games(theirs) if game not in context.specs]:
        mine = ", ".join(context.specs)
        raise ConfigError(f"{where} plays {foreign[0]}, which is no game of this run ({mine}); name another run")
    _check_policy(where, theirs, run, context)


def _games(config: RunConfig) -> list[str]:
    return [game.key for game in config.games] + [each.game for each in config.tasks]


def _check_policy(where: str, theirs: RunConfig, run: RunDirectory, context: RunContext) -> None:
    mine, model = context.shape, theirs.policy.model
    if isinstance(mine, LanguageModelShape) != (model is not None):
        what = "is a network's" if model is None else "is a language model's"
        raise ConfigError(f"{where} {what}, and the policy of this run is not; name another run")
    if isinstance(mine, LanguageModelShape) and model is not None:
        folder = run.base if run.base.is_dir() else find_model_folder(model.path)
        if tokenizer_fingerprint(folder) != tokenizer_fingerprint(find_model_folder(mine.model.path)):
            raise ConfigError(f"{where} has another tokenizer than {mine.model.path}; name a run of the same model")
    elif context.config.policy.critic == "central" and theirs.policy.critic != "central":
        raise ConfigError(f"{where} does not record what a central critic sees; write policy.critic: central there")
