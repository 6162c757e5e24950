"""`ludus debug`: look closely at one part of a run before it costs hours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.arguments import AsJson, Overrides, Plugins, open_run
from ludus.errors import ConfigError, EnvError
from ludus.plugin_frames import plugin_trace
from ludus.plugins import load_plugins

if TYPE_CHECKING:
    from ludus.config import RunConfig
    from ludus.explore.runners.language_runner import LanguageRunner
    from ludus.records import PolicyRef, Task

app = typer.Typer(
    help="Look closely at one part of a run.\n\nExample: ludus debug workflow my.yaml --task 3",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def root() -> None:
    """Look closely at one part of a run."""


@app.command()
def workflow(
    config: Annotated[Path, typer.Argument(help="YAML file of a run that has tasks.")],
    overrides: Overrides = None,
    task: Annotated[int, typer.Option(help="Which training task of the run.", min=0)] = 0,
    run: Annotated[
        Path | None, typer.Option(help="A run whose published policy is used. Default: the model as it is.")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="With --run: the version, such as main@12. Default: newest.")] = (
        None
    ),
    plugin: Plugins = None,
    greedy: Annotated[bool, typer.Option(help="Take the likeliest token instead of sampling.")] = False,
    every_token: Annotated[
        bool, typer.Option("--every-token", help="A line for each token, also for those that were not sampled.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Attempt one task as the run would, and show every turn, token, log-probability, mask and reward.

    \b
    Examples:
      ludus debug workflow my.yaml
      ludus debug workflow my.yaml --task 12 --plugin my_workflow.py
      ludus debug workflow my.yaml workflow.max_tokens=64 --run runs/mine --every-token
    """
    from ludus.config import load_config, resolve_stages
    from ludus.runtime.threads import compute_in_one_thread

    compute_in_one_thread()
    plugins = [str(file) for file in plugin or []]
    load_plugins(plugins)
    loaded = resolve_stages(load_config(config, overrides or []))[-1]
    runner, ref = _open(loaded, config, run, policy, plugins)
    try:
        shown = _attempt(runner, _find_task(loaded, task, ref, greedy=greedy))
    finally:
        runner.close()
    if as_json:
        typer.echo(json.dumps(shown, ensure_ascii=False, indent=2))
    else:
        from ludus.cli.debug_view import show_attempt

        show_attempt(shown, every_token=every_token)
    if shown["error"]:
        raise typer.Exit(1)


def _open(
    config: RunConfig, file: Path, run: Path | None, policy: str | None, plugins: list[str]
) -> tuple[LanguageRunner, PolicyRef]:
    """The runner, and the version that speaks."""
    from ludus.explore.messages import Setup
    from ludus.explore.runners.text_building import build_language_runner
    from ludus.inference.local.engine import LocalEngine
    from ludus.lm.language_models import LanguageModel
    from ludus.lm.language_shape import LanguageModelShape
    from ludus.policies import PolicyStore
    from ludus.policies.store import choose_policy
    from ludus.records import PolicyName, PolicyRef
    from ludus.runtime import Pulse

    if not config.tasks or config.policy.model is None:
        raise ConfigError(f"{file}: expected a run with tasks and a language model (policy.model)")
    if policy is not None and run is None:
        raise ConfigError("--policy names a version of a run; say which with --run")
    sets = tuple(taskset.game for taskset in config.tasks)
    shape = LanguageModelShape(model=config.policy.model, critic=False, games=sets)
    setup = Setup(run=config.name, config="", shape=shape.to_json(), slots=1, plugins=plugins)
    if run is not None:
        directory, trained = open_run(run)
        chosen = choose_policy(directory, trained, policy)
        store = PolicyStore(directory.policies)
        setup.shape = store.load(chosen).shape.to_json()
        return build_language_runner(setup, config, Pulse(), store), chosen
    ref = PolicyRef(name=PolicyName(config.policy.name))

    def base_alone(model: LanguageModel) -> LocalEngine:
        engine = LocalEngine(model)
        engine.add_version(ref, {})
        return engine

    return build_language_runner(setup, config, Pulse(), PolicyStore(Path()), engine_of=base_alone), ref


def _find_task(config: RunConfig, number: int, ref: PolicyRef, *, greedy: bool) -> Task:
    from ludus.orchestrator.check_parts import Playables, make_tasks
    from ludus.records import Seat
    from ludus.tasks import load_taskset

    seat = Seat(policy=ref, learns=True, greedy=greedy)
    tasks = make_tasks(config, Playables(tasksets=[load_taskset(taskset) for taskset in config.tasks]))
    task = tasks.training(number, 1, lambda task, game: (seat,))[0]
    if not task.is_attempt:
        raise ConfigError(f"--task {number}: it is a game of {task.game}; choose another number")
    return task


def _attempt(runner: LanguageRunner, task: Task) -> dict[str, Any]:
    from ludus.explore.runners.workflow_episode import trace

    runner.submit([task])
    while not runner.is_idle:
        runner.step()
    (finished,) = runner.take_finished()
    made, episode = finished.attempt, finished.episode
    if made is None:
        raise EnvError(f"{task.game} is no taskset")
    cause = None if made.failure is None else made.failure.__cause__
    return {**trace(made, episode), "traceback": "" if cause is None else plugin_trace(cause)}
