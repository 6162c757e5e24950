"""Checks before anything is written: every part that a config names exists, and the parts fit together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ludus.buffer import read_messages, read_pair
from ludus.config import GameChoice, RunConfig, TasksetConfig, needs_greedy, wanted_sources
from ludus.config.sections.buffer import BotGamesConfig, RowFileConfig, RunEpisodesConfig
from ludus.errors import ConfigError
from ludus.experience import build_filters, build_pipeline
from ludus.explore.players.fixed import make_player, make_text_player
from ludus.explore.prompts import find_prompt
from ludus.explore.runners.search_decisions import SearchedGame
from ludus.extras import LANGUAGE_MODELS, NETWORKS, need_packages
from ludus.games import Game, make_game
from ludus.games.missing_methods import refuse_incomplete_game
from ludus.games.protocol import GameSpec, TextGame
from ludus.games.registry import find_device_game, is_users_own, make_text_game
from ludus.league import make_sampler
from ludus.lm.devices import find_device
from ludus.lm.extraction import check_extraction
from ludus.lm.model_folder import find_model_folder
from ludus.orchestrator.policy_start import check_fits_games, check_teacher, find_start
from ludus.records import derive_seed
from ludus.rewards.making import check_rewards
from ludus.storage.run_directory import RunDirectory, find_run
from ludus.tasks import GameTasks, MixedTasks, Taskset, TasksetTasks, TaskStream, load_taskset
from ludus.tasks.processors import process_each
from ludus.train.loaders import check_loader
from ludus.workflows.making import check_workflow_config

log = logging.getLogger(__name__)

T = TypeVar("T")


def check_parts(config: RunConfig, run: RunDirectory | None = None) -> Playables:
    """Make all that a config plays, and check that all parts that it names exist and fit together; `run` may have some.

    Raises:
        ConfigError: one line for each part that is unknown or does not fit; nothing has been written yet.
    """
    problems: list[str] = []
    _check_packages(config)
    if config.population is not None and config.population.oracle == "exact":
        playables = Playables(games=_find_tabular_game(config, problems))
    elif config.policy.model is None:
        playables = Playables(games=_find_boards(config, problems), held_out_games=_find_held_out(config, problems))
        if playables.held_out_games:
            both = playables.game_specs | playables.held_out_specs
            collect(problems, check_fits_games, config, both)
    else:
        playables = Playables(
            games=_find_text_games(config, problems),
            held_out_games=_find_held_out(config, problems),
            tasksets=load_tasksets(config.tasks, problems),
            held_out=load_tasksets(config.evaluate.tasks, problems),
        )
        for line in overlaps(playables):
            log.warning("%s", line)
        _check_attempts(config, problems)
        _check_language_model(config, problems)
    for choice in config.league.opponents:
        collect(problems, make_sampler, choice)
    collect(problems, build_pipeline, config.experience)
    collect(problems, build_filters, config.experience)
    if config.mode != "evaluate":
        problems += source_problems(config)
        _check_experts(config, run, problems)
        collect(problems, check_loader, config)
        collect(problems, _check_release, config)
        collect(problems, check_teacher, config, run)
    if problems:
        raise ConfigError(*dict.fromkeys(problems))
    return playables


def _check_packages(config: RunConfig) -> None:
    """First of all, because most other checks import what may be missing."""
    if config.policy.model is not None:
        need_packages("policy.model", *LANGUAGE_MODELS)
    elif config.population is None or config.population.oracle != "exact":
        need_packages("policy.network", *NETWORKS)
    if config.runtime.kind == "ray":
        need_packages("runtime: ray", "ray")


def _check_release(config: RunConfig) -> None:
    release = None if config.cycle is None else config.cycle.release
    if release is not None and any(file.format == "onnx" for file in release.files):
        need_packages("cycle.release: format onnx", "onnx")


def _find_tabular_game(config: RunConfig, problems: list[str]) -> dict[str, Game]:
    from ludus.games.sequence_form_building import load_turn_based

    games = {choice.key: collect(problems, make_game, choice.key) for choice in config.games}
    found = {key: game for key, game in games.items() if game is not None}
    for game in found.values():
        collect(problems, load_turn_based, game.spec.tree)
    return found


def _find_boards(config: RunConfig, problems: list[str]) -> dict[str, Game]:
    games = collect(problems, lambda: {choice.key: make_game(choice.key) for choice in config.games}) or {}
    for key in filter(is_users_own, games):
        collect(problems, refuse_incomplete_game, games[key])
    if games:
        collect(problems, check_fits_games, config, {key: game.spec for key, game in games.items()})
    if config.topology == "fused":
        for game in games.values():
            collect(problems, find_device_game, game)
    for name in _fixed_players(config):
        for game in games.values():
            collect(problems, make_player, name, game)
    return games


def _find_held_out(config: RunConfig, problems: list[str]) -> dict[str, Game | TextGame]:
    """The games that are only measured on, with players that can play them."""
    speaks, found = config.policy.model is not None, dict[str, Game | TextGame]()
    make: Callable[[str], Game | TextGame] = make_text_game if speaks else make_game
    for choice in config.evaluate.held_out_games:
        game = collect(problems, make, choice.key)
        if game is None:
            continue
        found[choice.key] = game
        if choice.nodes > 1 and not isinstance(game, SearchedGame):
            problems.append(f"evaluate.held_out_games: {choice.key}: no search for its networks; leave nodes out")
        against = config.evaluate.against if choice.against is None else choice.against
        for name in sorted(set(against) - config.explore.endpoints.keys()):
            collect(problems, make_text_player if speaks else make_player, name, game)
    return found


def _find_text_games(config: RunConfig, problems: list[str]) -> dict[str, TextGame]:
    games = collect(problems, lambda: {choice.key: make_text_game(choice.key) for choice in config.games}) or {}
    for key in filter(partial(is_users_own, in_words=True), games):
        collect(problems, partial(refuse_incomplete_game, in_words=True), games[key])
    for name in sorted(set(_fixed_players(config)) - config.explore.endpoints.keys()):
        for game in games.values():
            collect(problems, make_text_player, name, game)
    return games


def _check_attempts(config: RunConfig, problems: list[str]) -> None:
    """The rewards and workflows of the run, and of the games and tasksets that have their own."""
    sets = (*config.tasks, *config.evaluate.tasks)
    for rewards in (config.rewards, *(game.rewards for game in config.games)):
        collect(problems, check_rewards, rewards)
    for taskset in sets:
        collect(problems, check_rewards, taskset.rewards or ())
        collect(problems, check_workflow_config, taskset.workflow or config.workflow)


def _check_language_model(config: RunConfig, problems: list[str]) -> None:
    """What a language model is sampled with: endpoints, prompts, how its moves are read, and the model itself."""
    if config.explore.endpoints:
        from ludus.explore.players.endpoints import check_endpoint

        for name, endpoint in config.explore.endpoints.items():
            collect(problems, check_endpoint, name, endpoint)
    own = [*(game.prompt for game in config.games), *(game.prompt for game in config.evaluate.held_out_games)]
    for prompt in (config.explore.prompt, *(each for each in own if each is not None)):
        collect(problems, find_prompt, prompt.template)
        collect(problems, check_extraction, prompt.action)
    if config.policy.model is not None:
        collect(problems, find_model_folder, config.policy.model.path)
        if config.runtime.kind == "local" and config.train.device not in ("auto", "cpu"):
            collect(problems, find_device, config.train.device)
        collect(problems, find_start, config)


def _check_experts(config: RunConfig, run: RunDirectory | None, problems: list[str]) -> None:
    """What demonstrations and pairs are made of, unless the run has them already: then it needs no file any more."""
    for store in ("expert", "pairs"):
        wanted = getattr(config.buffer, store)
        if wanted is None or (run is not None and (run.path / store / "rows.json").is_file()):
            continue
        for place, source in enumerate(wanted.sources):
            found: list[str] = []
            if isinstance(source, RowFileConfig):
                collect(found, check_row_file, source, store)
            elif isinstance(source, RunEpisodesConfig) and not find_run(Path(source.run)).is_run():
                found.append(f"{source.run} is not a run; write the directory of one, such as runs/teacher")
            problems += [f"buffer.{store}.sources.{place}: {problem}" for problem in found]


def check_row_file(source: RowFileConfig, store: str) -> None:
    """Read a file of demonstrations or pairs. Raises ConfigError if there is no such file, or no sound row in it."""
    read = read_messages if store == "expert" else read_pair

    def keep(fields: dict[str, Any]) -> dict[str, Any]:
        read(fields, system="")
        return fields

    last = partial(process_each, name=store, function=keep)
    load_taskset(source.as_taskset(name=store), required=(), last=last)


def _fixed_players(config: RunConfig) -> list[str]:
    players = {name for choice in config.league.opponents for name in choice.players}
    players |= set(config.warm_start.players if config.warm_start else ())
    sources = config.buffer.expert.sources if config.buffer.expert else ()
    players |= {name for source in sources if isinstance(source, BotGamesConfig) for name in source.players}
    return sorted(players | set(config.evaluate.against))


def collect(problems: list[str], make: Callable[..., T], *arguments: Any) -> T | None:
    """Make or check something; note what is wrong with it instead of stopping at it."""
    try:
        return make(*arguments)
    except ConfigError as error:
        problems += error.problems
        return None


def source_problems(config: RunConfig) -> Iterator[str]:
    """What is learnt from and not there, or there and not learnt from; one line each."""
    algorithm = config.train.algorithm
    wanted = wanted_sources(algorithm)
    if config.buffer.loader is not None:
        return
    for source in ("expert", "pairs"):
        is_given = getattr(config.buffer, source) is not None
        if source in wanted and not is_given:
            yield f"buffer.{source}: train.algorithm learns from {source}, and there is none; write its sources"
        if is_given and source not in wanted:
            yield f"buffer.{source}: nothing in train.algorithm learns from it; write a term with source: {source}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Playables:
    """Everything that episodes of a run can be of."""

    games: Mapping[str, Game | TextGame] = field(default_factory=dict)
    """By key: boards for networks, games of words for language models."""
    held_out_games: Mapping[str, Game | TextGame] = field(default_factory=dict)
    """For evaluation only."""
    tasksets: Sequence[Taskset] = ()
    held_out: Sequence[Taskset] = ()
    """For evaluation only."""

    @property
    def game_specs(self) -> dict[str, GameSpec]:
        """What is known of the games, by key."""
        return {key: game.spec for key, game in self.games.items()}

    @property
    def held_out_specs(self) -> dict[str, GameSpec]:
        """What is known of the games that are only measured on, by key."""
        return {key: game.spec for key, game in self.held_out_games.items()}

    @property
    def specs(self) -> dict[str, GameSpec]:
        """What an episode can be checked against, by what its task has as game."""
        return self.game_specs | {taskset.game: attempt_spec(taskset) for taskset in (*self.tasksets, *self.held_out)}


def attempt_spec(taskset: Taskset) -> GameSpec:
    """What an attempt at a taskset's row looks like to the loop: one seat, rewarded at the end."""
    return GameSpec(
        key=taskset.game,
        players=1,
        actions=0,
        observation_shape=(),
        max_length=1,
        is_zero_sum=False,
        has_chance=True,
        min_return=float("-inf"),
        max_return=float("inf"),
    )


def load_tasksets(configs: Sequence[TasksetConfig], problems: list[str]) -> list[Taskset]:
    """Read tasksets; what is wrong with them is noted."""
    found = [collect(problems, load_taskset, config) for config in configs]
    return [taskset for taskset in found if taskset is not None]


def overlaps(playables: Playables) -> list[str]:
    """Held-out sets of which something is trained on, one line each."""
    trained = {_prompt(row) for taskset in playables.tasksets for row in taskset.rows}
    lines = []
    for held_out in playables.held_out:
        if shared := sum(_prompt(row) in trained for row in held_out.rows):
            many = f"{shared:,} of the {len(held_out):,} tasks of evaluate.tasks {held_out.name}"
            lines.append(f"{many} are trained on, too: what is measured there is no held-out success")
    return lines


def _prompt(row: Mapping[str, object]) -> str:
    return " ".join(str(row["prompt"]).split())


def make_tasks(config: RunConfig, playables: Playables) -> TaskStream:
    """What makes the run's tasks: from its games, from its tasksets, or from both by weight."""
    greedy, group, seed = needs_greedy(config.train.algorithm), config.explore.group, config.seed
    is_mixed = bool(config.games and config.tasks)
    streams: dict[str, tuple[TaskStream, float]] = {}
    if config.games:
        own = derive_seed(seed, "stream", "games") if is_mixed else seed
        weight = sum(game.weight for game in config.games)
        streams["games"] = GameTasks(config.games, own, group, greedy=greedy), weight
    if config.tasks:
        own = derive_seed(seed, "stream", "tasks") if is_mixed else seed
        weight = sum(taskset.weight for taskset in config.tasks)
        sets = TasksetTasks(playables.tasksets, own, group, held_out=playables.held_out, greedy=greedy)
        streams["tasks"] = sets, weight
    return MixedTasks(streams, seed, group) if is_mixed else next(iter(streams.values()))[0]


def evaluation_streams(config: RunConfig, playables: Playables) -> tuple[TaskStream, ...]:
    """What makes evaluation tasks of kinds that the run does not train on."""
    seed, found = derive_seed(config.seed, "held out"), list[TaskStream]()
    if not config.games and config.evaluate.held_out_games:
        found.append(GameTasks([GameChoice(key=game.key) for game in config.evaluate.held_out_games], seed))
    if not config.tasks and playables.held_out:
        found.append(TasksetTasks([], seed, held_out=playables.held_out))
    return tuple(found)
