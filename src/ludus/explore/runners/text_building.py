"""Make the runner of a language model from a setup message: model, engine, games and fixed players, or a workflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

from ludus.config import LocalEngineConfig, RunConfig
from ludus.explore.messages import Setup
from ludus.explore.players.endpoints import Endpoints
from ludus.explore.players.network_seats import Networks
from ludus.explore.players.text import TextPlayer, make_text_player
from ludus.explore.runners.text_runner import TextRunner
from ludus.explore.runners.workflow_runner import WorkflowRunner
from ludus.games.text_protocol import TextGame
from ludus.games.text_registry import make_text_game
from ludus.inference.protocol import Engine
from ludus.lm.chat import ChatFormat
from ludus.lm.language_models import LanguageModel, load_language_model
from ludus.lm.language_shape import LanguageModelShape
from ludus.policies import PolicyStore
from ludus.rewards.making import Surroundings, make_rewards
from ludus.runtime import Pulse
from ludus.workflows.making import make_workflow


def build_text_runner(
    setup: Setup,
    config: RunConfig,
    pulse: Pulse,
    *,
    extra_players: Mapping[str, TextPlayer] | None = None,
    deadline_s: float | None = None,
    is_patient: bool = True,
    speaks: Callable[[str], bool] | None = None,
    networks: Networks | None = None,
    max_length: int | None = None,
) -> TextRunner:
    """The runner of one language model, with the engine of the config.

    Args:
        extra_players: fixed players by name, besides those that can be made by name.
        deadline_s: of an episode, instead of the config's.
        is_patient: whether to wait for an engine that cannot be reached, as long as the config says.
        speaks: tells by its name whether a policy is a language model. Default: the config's own is.
        networks: who decides in the seats of networks, where there are any.
        max_length: moves after which an episode is cut.
    """
    guests = extra_players or {}
    shape = LanguageModelShape.from_json(setup.shape)
    model = load_language_model(shape.model)
    chat = ChatFormat(model.tokenizer)
    policy = config.policy.name

    @lru_cache(maxsize=64)
    def game(key: str) -> TextGame:
        return make_text_game(key)

    @lru_cache(maxsize=256)
    def fixed_player(name: str, key: str) -> TextPlayer:
        return make_text_player(name, game(key))

    def player(name: str, game: TextGame) -> TextPlayer | None:
        is_model = name == policy if speaks is None else speaks(name)
        return (
            None
            if is_model or name in config.explore.endpoints
            else guests.get(name) or fixed_player(name, game.spec.key)
        )

    return TextRunner(
        run=setup.run,
        games=game,
        players=player,
        engine=make_engine(config, model, shape, PolicyStore(Path(setup.run_dir) / "policies")),
        chat=chat,
        prompt=config.explore.prompt,
        sampling=config.explore.sampling,
        slots=setup.slots,
        deadline_s=config.explore.deadline_s if deadline_s is None else deadline_s,
        patience_s=getattr(config.explore.engine, "patience_s", 0.0) if is_patient else 0.0,
        pulse=pulse,
        endpoints=Endpoints(config.explore, spent=setup.spent),
        networks=networks,
        max_length=max_length,
    )


def build_workflow_runner(
    setup: Setup, config: RunConfig, pulse: Pulse, *, engine_of: Callable[[LanguageModel], Engine] | None = None
) -> WorkflowRunner:
    """The runner of one language model that attempts tasks.

    Args:
        engine_of: makes the engine of the model. Default: that of the config, with the versions of the run.

    Raises:
        ConfigError: the workflow, a reward or the model cannot be made.
    """
    shape = LanguageModelShape.from_json(setup.shape)
    model = load_language_model(shape.model)
    endpoints = Endpoints(config.explore, spent=setup.spent)
    store = PolicyStore(Path(setup.run_dir) / "policies")
    surroundings = Surroundings(
        engine=endpoints.engine,
        count_tokens=lambda text: len(model.tokenizer.encode(text, add_special_tokens=False)),
        plugins=setup.plugins,
    )
    return WorkflowRunner(
        run=setup.run,
        workflow=make_workflow(config.workflow),
        engine=make_engine(config, model, shape, store) if engine_of is None else engine_of(model),
        chat=ChatFormat(model.tokenizer),
        context=model.context,
        prompt=config.explore.prompt,
        sampling=config.explore.sampling,
        slots=setup.slots,
        rewards=make_rewards(config.rewards, surroundings) if config.rewards else None,
        max_tokens=config.workflow.max_tokens,
        retries=config.workflow.retries,
        deadline_s=config.explore.deadline_s,
        patience_s=getattr(config.explore.engine, "patience_s", 0.0),
        pulse=pulse,
        endpoints=endpoints,
    )


def make_engine(config: RunConfig, model: LanguageModel, shape: LanguageModelShape, store: PolicyStore) -> Engine:
    """The engine that the config names."""
    engine = config.explore.engine
    if isinstance(engine, LocalEngineConfig):
        from ludus.inference.local.engine import LocalEngine

        return LocalEngine(
            model,
            store=store,
            lora=shape.model.lora,
            max_batch=engine.max_batch,
            prefill_tokens=engine.prefill_tokens,
            reuse=engine.reuse,
        )
    from ludus.inference.vllm.engine import VllmEngine

    return VllmEngine(engine, store=store, context=model.context)
