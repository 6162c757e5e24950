"""`ludus check`: validate a config and print what follows from it, without doing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def check(
    config: Annotated[Path | None, typer.Argument(help="YAML file of the run. Without it: the demo's config.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY.PATH=VALUE]...", help="Values that replace those of the file.")
    ] = None,
    plugin: Annotated[list[Path] | None, typer.Option(help="Python file that registers your own parts.")] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of configs, for editors.")] = False,
) -> None:
    """Validate a config and print every derived value. All mistakes are shown at once, with exit code 2.

    Games, players, opponents and transforms are looked up, too: what passes here can run here.

    \b
    Examples:
      ludus check examples/connect_four.yaml
      ludus check my.yaml train.minibatch=512 league.opponents.0.weight=2
      ludus check my.yaml --plugin my_game.py
      ludus check --schema > ludus.schema.json
    """
    from ludus.cli.overrides import split_config
    from ludus.config import describe, json_schema, load_or_demo, resolve_stages, stage_folder
    from ludus.errors import ConfigError

    if schema:
        import json

        typer.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
        return
    from ludus.plugins import load_plugins
    from ludus.runs.staged import check_stages, make_run

    try:
        load_plugins([str(file) for file in plugin or []])
        loaded = load_or_demo(*split_config(config, overrides))
        stages = resolve_stages(loaded)
        check_stages(stages)
        if loaded.population is not None and loaded.population.oracle == "learned":
            make_run(loaded)  # what its learners are is found out by whoever runs them; nothing is written
    except ConfigError as error:
        for problem in error.problems:
            typer.echo(problem, err=True)
        raise typer.Exit(2) from None
    for number, stage in enumerate(stages):
        if loaded.stages:
            typer.echo(f"stage {number + 1} of {len(stages)}: {loaded.stages[number].name}")
        name = stage_folder(number, loaded.stages[number].name) if loaded.stages else ""
        rows = describe(stage, loaded.home / name)
        width = max(len(label) for label, _ in rows)
        for label, value in rows:
            typer.echo(f"{label:<{width}}  {value}")
