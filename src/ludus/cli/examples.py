"""`ludus examples`: the configs and plugins that come with ludus."""

from __future__ import annotations

import json
import re
import shutil
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

import ludus
from ludus.cli.arguments import AsJson
from ludus.errors import ConfigError

SUFFIXES = (".yaml", ".py", ".csv")


def examples(
    name: Annotated[
        str, typer.Argument(help="An example, such as llm/tictactoe.yaml, or a folder of them.", show_default=False)
    ] = "",
    copy: Annotated[
        Path | None, typer.Option("--copy", help="Copy it into this directory instead, or all without a name.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List, show or copy the examples.

    \b
    Examples:
      ludus examples
      ludus examples kuhn_poker.yaml
      ludus examples plugins --copy .
    """
    home = example_folder()
    found = [path for path in _files(home) if _is_named(path.relative_to(home), name)]
    if not found:
        raise ConfigError(f"there is no example {name!r}{_nearest(home, name)}; `ludus examples` lists them")
    if copy is not None:
        _copy(found, home, copy)
    elif as_json:
        titles = {path.relative_to(home).as_posix(): title(path) for path in found}
        typer.echo(json.dumps({"folder": str(home), "examples": titles}, indent=2))
    elif name and len(found) == 1:
        typer.echo(found[0].read_text(encoding="utf-8"), nl=False)
    else:
        width = max(len(path.relative_to(home).as_posix()) for path in found)
        for path in found:
            typer.echo(f"{path.relative_to(home).as_posix():{width}}  {title(path)}")
        typer.echo("\nShow one: ludus examples NAME. Take one: ludus examples NAME --copy DIRECTORY.")


def example_folder() -> Path:
    """Inside the package when it was installed from a wheel; at the root of a checkout."""
    package = Path(ludus.__file__).parent
    for folder in (package / "_examples", package.parents[1] / "examples"):
        if folder.is_dir():
            return folder
    raise ConfigError("this installation of ludus has no examples; install it from a wheel or a checkout")


def title(path: Path) -> str:
    """The first sentence of its first comment or docstring."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".csv":
        return f"Data: {len(lines) - 1:,} rows."
    text = " ".join(line.strip(' #"') for line in lines[:4])
    return re.split(r"[.:?]( |$)", text, maxsplit=1)[0] + "."


def _files(home: Path) -> list[Path]:
    paths = [path for path in home.rglob("*") if path.suffix in SUFFIXES]
    return sorted(paths, key=lambda path: (len(path.relative_to(home).parts), path))


def _is_named(path: Path, name: str) -> bool:
    folders = [folder.as_posix() for folder in path.parents]
    return not name or name.rstrip("/") in (path.as_posix(), path.with_suffix("").as_posix(), *folders)


def _nearest(home: Path, name: str) -> str:
    """The examples and folders that may have been meant: by their whole name, or without folder and suffix."""
    names: dict[str, str] = {}
    for path in (path.relative_to(home) for path in _files(home)):
        names |= {path.as_posix(): path.as_posix(), path.stem: path.as_posix()}
        names |= {folder.as_posix(): folder.as_posix() for folder in path.parents if folder.name}
    found = get_close_matches(name, names, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(dict.fromkeys(names[near] for near in found))}?" if found else ""


def _copy(files: list[Path], home: Path, directory: Path) -> None:
    """Nothing of the user's is overwritten."""
    targets = {path: directory / path.relative_to(home) for path in files}
    if taken := [str(target) for target in targets.values() if target.exists()]:
        raise ConfigError(f"{', '.join(taken)}: there already; nothing was copied")
    for path, target in targets.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        typer.echo(str(target))
