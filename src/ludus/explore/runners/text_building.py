"""Make the runner of a language model from a setup message: its engine, and rollouts for every game and taskset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import cast

from ludus.config import PromptConfig, RewardConfigs, RunConfig, SamplingConfig
from ludus.config.parts import ENGINES
from ludus.config.sections.engines import CustomEngineConfig, LocalEngineConfig, VllmEngineConfig
from ludus.errors import PolicyError
from ludus.explore.messages import Setup
from ludus.explore.players.endpoints import Endpoints
from ludus.explore.players.fixed import TextPlayer, make_text_player
from ludus.explore.players.network_seats import Networks
from ludus.explore.runners.language_runner import LanguageRunner
from ludus.explore.runners.text_rollouts import TextRollouts
from ludus.explore.runners.workflow_episode import WorkflowRollouts
from ludus.games.protocol import TextGame
from ludus.games.registry import make_text_game
from ludus.inference.policy_sampler import PolicySampler, make_sampling
from ludus.inference.protocol import Completion, Engine, EngineCounters, Request
from ludus.lm.chat import ChatFormat
from ludus.lm.language_models import LanguageModel, load_language_model
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.model_text import load_model_text
from ludus.lm.node_models import model_here
from ludus.policies import PolicyStore
from ludus.rewards.making import Surroundings, make_rewards
from ludus.runtime import Pulse
from ludus.workflows.making import make_workflow


def build_language_runner(
    setup: Setup,
    config: RunConfig,
    pulse: Pulse,
    store: PolicyStore,
    *,
    extra_players: Mapping[str, TextPlayer] | None = None,
    deadline_s: float | None = None,
    is_patient: bool = True,
    speaks: Callable[[str], bool] | None = None,
    networks: Networks | None = None,
    max_length: int | None = None,
    engine_of: Callable[[LanguageModel], Engine] | None = None,
    has_servers: bool = False,
) -> LanguageRunner:
    """The runner of one language model, in the games and at the tasks of the config.

    Args:
        extra_players: fixed players by name, besides those that can be made by name.
        deadline_s: of an episode, instead of the config's.
        is_patient: whether to wait for an engine that cannot be reached, as long as the config says.
        speaks: tells by its name whether a policy is a language model. Default: the config's own is.
        networks: who decides in the seats of networks, where there are any.
        max_length: moves after which an episode is cut.
        engine_of: makes the engine of the model. Default: that of the config, with the versions of the run.
        has_servers: whether the loop tells of the inference servers that it starts, where the config has some.

    The model's weights are loaded only where an engine in this process needs them.

    Raises:
        ConfigError: a workflow, a reward or the model cannot be made.
    """
    explore = config.explore
    shape = LanguageModelShape.from_json(setup.shape)
    here = model_here(shape.model, store.files)
    is_remote = engine_of is None and drives_servers(config, has_servers=has_servers)
    if is_remote:
        text = load_model_text(here, explore.sampling)
        chat, context = text.chat, text.context
        engine = _server_engine(config, shape, store, context)
    else:
        model = load_language_model(here)
        chat, context = ChatFormat(model.tokenizer, explore.sampling), model.context
        engine = make_engine(config, model, shape, store) if engine_of is None else engine_of(model)
    voice = PolicySampler(
        engine,
        chat,
        context=context,
        patience_s=getattr(explore.engine, "patience_s", 0.0) if is_patient else 0.0,
        pulse=pulse,
    )
    speaking = _manners(voice)
    endpoints = Endpoints(explore, spent=setup.spent)
    games, fixed_player = _text_cast()
    guests = extra_players or {}
    is_model = speaks or (lambda name: name == config.policy.name)

    def player(name: str, game: TextGame) -> TextPlayer | None:
        if is_model(name) or name in explore.endpoints:
            return None
        return guests.get(name) or fixed_player(name, game)

    surroundings = Surroundings(
        engine=endpoints.engine,
        count_tokens=lambda text: len(chat.tokenizer.encode(text, add_special_tokens=False)),
        files=store.files,
        plugins=setup.plugins,
    )

    def play(prompt: PromptConfig | None, sampling: SamplingConfig | None, rewards: RewardConfigs = ()) -> TextRollouts:
        return TextRollouts(
            run=setup.run,
            games=games,
            players=player,
            sampler=speaking(sampling or explore.sampling),
            prompt=prompt or explore.prompt,
            sampling=sampling or explore.sampling,
            rewards=make_rewards(rewards, surroundings) if rewards else None,
            deadline_s=explore.deadline_s if deadline_s is None else deadline_s,
            endpoints=endpoints,
            networks=networks,
            max_length=max_length,
        )

    rollouts: dict[str, TextRollouts | WorkflowRollouts] = {
        game.key: play(game.prompt, game.sampling, game.rewards)
        for game in config.games
        if game.prompt or game.sampling or game.rewards
    }
    rollouts |= {game.key: play(game.prompt, game.sampling) for game in config.evaluate.held_out_games}
    rollouts |= _task_rollouts(setup, config, speaking, surroundings)
    default = play(None, None)
    return LanguageRunner(rollouts, default=default, sampler=voice, slots=setup.slots, endpoints=endpoints)


def _manners(voice: PolicySampler) -> Callable[[SamplingConfig], PolicySampler]:
    """What samples as a config says, over one engine; a chat template that is told the same is made once."""
    chats: dict[str, ChatFormat] = {}
    tokenizer = cast(ChatFormat, voice.template).tokenizer

    def speaking(sampling: SamplingConfig) -> PolicySampler:
        told = repr((sampling.thinking, sorted(sampling.template_arguments.items())))
        if told not in chats:
            chats[told] = ChatFormat(tokenizer, sampling)
        return voice.speaking(chats[told], sampling)

    return speaking


def _task_rollouts(
    setup: Setup,
    config: RunConfig,
    speaking: Callable[[SamplingConfig], PolicySampler],
    surroundings: Surroundings,
) -> dict[str, WorkflowRollouts]:
    """What attempts the tasks of each set, by what they have as their game. Sets that agree in everything share one."""
    found: dict[str, WorkflowRollouts] = {}
    alike: dict[str, WorkflowRollouts] = {}
    for taskset in (*config.tasks, *config.evaluate.tasks):
        workflow = taskset.workflow or config.workflow
        rewards = config.rewards if taskset.rewards is None else taskset.rewards
        sampling = taskset.sampling or config.explore.sampling
        settings = repr((workflow, rewards, sampling))
        if settings not in alike:
            sampler = speaking(sampling)
            alike[settings] = WorkflowRollouts(
                run=setup.run,
                workflow=make_workflow(workflow),
                sampler=sampler,
                sampling=make_sampling(sampling, sampler.template.stop_tokens, max_tokens=workflow.max_tokens),
                rewards=make_rewards(rewards, surroundings) if rewards else None,
                by_turn=config.explore.prompt.rows == "turn",
                retries=workflow.retries,
                deadline_s=config.explore.deadline_s,
            )
        found[taskset.game] = alike[settings]
    return found


def _text_cast() -> tuple[Callable[[str], TextGame], Callable[[str, TextGame], TextPlayer]]:
    """Games by key and fixed players by name, each made once."""
    games = lru_cache(maxsize=64)(make_text_game)
    fixed = lru_cache(maxsize=256)(lambda name, key: make_text_player(name, games(key)))
    return games, lambda name, game: fixed(name, game.spec.key)


def build_bot_runner(run: str, config: RunConfig, chat: ChatFormat, pulse: Pulse, *, slots: int) -> LanguageRunner:
    """The runner of games in which fixed players say what a language model is to learn from."""
    games, fixed_player = _text_cast()
    sampler = PolicySampler(NoEngine(), chat, pulse=pulse)
    rollouts = {
        game.key: TextRollouts(
            run=run,
            games=games,
            players=fixed_player,
            sampler=sampler,
            prompt=(game.prompt or config.explore.prompt).model_copy(update={"rows": "episode"}),
            sampling=config.explore.sampling,
            deadline_s=config.explore.deadline_s,
        )
        for game in config.games
    }
    return LanguageRunner(rollouts, sampler=sampler, slots=slots)


class NoEngine:
    """For games in which only fixed players speak."""

    is_repeatable = True

    def __init__(self) -> None:
        self.counters = EngineCounters()

    async def generate(self, request: Request) -> Completion:
        """Nobody asks."""
        raise PolicyError(f"{request.policy} has no engine here")

    def end_session(self, session: str) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        """Nothing to give back."""


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
    if isinstance(engine, CustomEngineConfig):
        made: Engine = ENGINES.find(engine.name)(model=model, store=store, lora=shape.model.lora, **engine.options)
        return made
    if engine.url is None:  # outside a run nobody starts servers
        from ludus.inference.local.engine import LocalEngine

        return LocalEngine(model, store=store, lora=shape.model.lora)
    return _server_engine(config, shape, store, model.context)


def drives_servers(config: RunConfig, *, has_servers: bool) -> bool:
    """Whether other processes than this one have the model's weights; outside a run nobody starts any."""
    engine = config.explore.engine
    return isinstance(engine, VllmEngineConfig) and (engine.url is not None or has_servers)


def _server_engine(config: RunConfig, shape: LanguageModelShape, store: PolicyStore, context: int) -> Engine:
    """The engine that drives the user's server, or those of the run, which the loop tells of."""
    from ludus.inference.vllm.engine import VllmEngine
    from ludus.inference.vllm.several import ServersEngine
    from ludus.inference.vllm.whole import WholeModels

    engine = cast(VllmEngineConfig, config.explore.engine)
    whole = WholeModels(update=engine.update, is_exact=config.mode == "evaluate") if shape.model.lora is None else None

    def make(url: str, counters: EngineCounters | None = None) -> Engine:
        server = engine.model_copy(update={"url": url})
        return VllmEngine(server, store=store, context=context, counters=counters, whole=whole)

    return ServersEngine(make) if engine.url is None else make(engine.url)
