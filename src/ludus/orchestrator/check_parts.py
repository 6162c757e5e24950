"""Checks before anything is written: every part that a config names exists, and the parts fit together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ludus.config import RunConfig
from ludus.errors import ConfigError
from ludus.experience import build_filters, build_pipeline
from ludus.explore.players.fixed import make_player, make_text_player
from ludus.explore.prompts import find_prompt
from ludus.games import Game, make_game
from ludus.games.protocol import TextGame
from ludus.games.registry import find_device_game, make_text_game
from ludus.league import make_sampler
from ludus.lm.extraction import check_extraction
from ludus.lm.model_folder import find_model_folder
from ludus.orchestrator.policy_shape import network_shape
from ludus.orchestrator.policy_start import check_fits_games, find_start
from ludus.orchestrator.source_problems import source_problems
from ludus.orchestrator.task_sets import Playables, load_tasksets, warn_of_overlaps
from ludus.orchestrator.teacher import check_teacher
from ludus.rewards.making import check_rewards
from ludus.storage.run_directory import RunDirectory
from ludus.train.loaders import check_loader
from ludus.workflows.making import check_workflow_config


def check_parts(config: RunConfig, run: RunDirectory | None = None) -> Playables:
    """Make all that a config plays, and check that all parts that it names exist and fit together; `run` may have some.

    Raises:
        ConfigError: one line for each part that is unknown or does not fit; nothing has been written yet.
    """
    problems: list[str] = []
    if config.population is not None and config.population.oracle == "exact":
        playables = Playables(games=_find_tabular_game(config, problems))
    elif config.policy.model is None:
        playables = Playables(games=_find_boards(config, problems))
    else:
        playables = Playables(
            games=_find_text_games(config, problems),
            tasksets=load_tasksets(config.tasks, problems),
            held_out=load_tasksets(config.evaluate.tasks, problems),
        )
        warn_of_overlaps(playables)
        _check_attempts(config, problems)
        _check_endpoints(config, problems)
        _check_language_model(config, problems)
    for choice in config.league.opponents:
        with collecting(problems):
            make_sampler(choice)
    with collecting(problems):
        build_pipeline(config.experience)
    with collecting(problems):
        build_filters(config.experience)
    if config.mode != "evaluate":
        problems += source_problems(config)
        with collecting(problems):
            check_loader(config)
        with collecting(problems):
            check_teacher(config, run)
    if problems:
        raise ConfigError(*dict.fromkeys(problems))
    return playables


def _find_tabular_game(config: RunConfig, problems: list[str]) -> dict[str, Game]:
    from ludus.games.sequence_form_building import load_turn_based

    games: dict[str, Game] = {}
    for choice in config.games:
        with collecting(problems):
            games[choice.key] = make_game(choice.key)
            load_turn_based(games[choice.key].spec.tree)
    return games


def _find_boards(config: RunConfig, problems: list[str]) -> dict[str, Game]:
    games: dict[str, Game] = {}
    with collecting(problems):
        games = {choice.key: make_game(choice.key) for choice in config.games}
    if games:
        with collecting(problems):
            shape = network_shape(config, {key: game.spec for key, game in games.items()})
            check_fits_games(find_start(config), shape)
    if config.topology == "fused":
        for game in games.values():
            with collecting(problems):
                find_device_game(game)
    for name in _fixed_players(config):
        for game in games.values():
            with collecting(problems):
                make_player(name, game)
    return games


def _find_text_games(config: RunConfig, problems: list[str]) -> dict[str, TextGame]:
    games: dict[str, TextGame] = {}
    with collecting(problems):
        games = {choice.key: make_text_game(choice.key) for choice in config.games}
    for name in sorted(set(_fixed_players(config)) - config.explore.endpoints.keys()):
        for game in games.values():
            with collecting(problems):
                make_text_player(name, game)
    return games


def _check_attempts(config: RunConfig, problems: list[str]) -> None:
    """The rewards and workflows of the run, and of the games and tasksets that have their own."""
    sets = (*config.tasks, *config.evaluate.tasks)
    for rewards in (config.rewards, *(game.rewards for game in config.games)):
        with collecting(problems):
            check_rewards(rewards)
    for taskset in sets:
        with collecting(problems):
            check_rewards(taskset.rewards or ())
        with collecting(problems):
            check_workflow_config(taskset.workflow or config.workflow)


def _check_language_model(config: RunConfig, problems: list[str]) -> None:
    """What a language model speaks with: its prompt, how its words are read, and the model itself."""
    for prompt in (config.explore.prompt, *(game.prompt for game in config.games if game.prompt is not None)):
        with collecting(problems):
            find_prompt(prompt.template)
        with collecting(problems):
            check_extraction(prompt.action)
    if config.policy.model is not None:
        with collecting(problems):
            find_model_folder(config.policy.model.path)
        with collecting(problems):
            find_start(config)


def _check_endpoints(config: RunConfig, problems: list[str]) -> None:
    if not config.explore.endpoints:
        return
    from ludus.explore.players.endpoints import check_endpoint

    for name, endpoint in config.explore.endpoints.items():
        with collecting(problems):
            check_endpoint(name, endpoint)


def _fixed_players(config: RunConfig) -> list[str]:
    players = {name for choice in config.league.opponents for name in choice.players}
    players |= set(config.warm_start.players if config.warm_start else ())
    return sorted(players | set(config.evaluate.against))


@contextmanager
def collecting(problems: list[str]) -> Iterator[None]:
    """Note what is wrong instead of stopping at it."""
    try:
        yield
    except ConfigError as error:
        problems += error.problems
