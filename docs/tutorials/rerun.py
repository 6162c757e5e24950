"""Run the tutorials: write the files that a page shows, run its commands, and put what they print back into the page.

    python docs/tutorials/rerun.py [PAGE]...      # make tutorials

A ```python or ```yaml block whose first line is `# name.ext` is that file; a ```console block has commands after `$ `
and below each what it printed. Pictures of a page are copied from the run. tests/docs/test_tutorials.py runs the
same commands, cut to seconds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
PAGES = ("text_game", "jsonl", "psro", "rounds")
MOST_LINES = 24
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"^!\[[^]]*\]\((\S+)\)<!-- from (\S+) -->$", re.MULTILINE)


def write_files(text: str, folder: Path) -> None:
    """The files of a page, as a reader would save them."""
    for language, block in BLOCK.findall(text):
        name = re.match(r"# ([\w.]+\.(?:py|yaml))\n", block)
        if language in ("python", "yaml") and name is not None:
            (folder / name[1]).write_text(block)


def commands(block: str) -> list[str]:
    """What a console block runs."""
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]


def run(command: str, folder: Path, more: str = "") -> str:
    """What a command prints; `more` goes behind every `ludus run` of it. Raises when it fails."""
    words = re.sub(r"(ludus run \S+)", rf"\1 {more}", command) if more else command
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100", "HF_HUB_OFFLINE": "1"}
    shell = ["bash", "-c", words]
    done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{words} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def rerun(page: str, folder: Path, more: Mapping[str, str] = {}) -> str:
    """Run a whole page in a folder; returns it with what its commands print now.

    `more` has what goes behind `ludus run FILE`, by file.
    """
    text = (HERE / f"{page}.md").read_text()
    write_files(text, folder)

    def again(found: re.Match[str]) -> str:
        if found[1] != "console":
            return found[0]
        parts = []
        for command in commands(found[2]):
            file = re.search(r"ludus run (\S+)", command)
            said = run(command, folder, more.get(file[1], "") if file else "").rstrip().splitlines()
            shown = said if len(said) <= MOST_LINES else [*said[:4], "...", *said[4 - MOST_LINES :]]
            parts.append("\n".join([f"$ {command}", *(line.rstrip() for line in shown)]))
        return "```console\n" + "\n".join(parts) + "\n```"

    return BLOCK.sub(again, text)


def main() -> None:
    """Run pages, and write them and their pictures."""
    for page in sys.argv[1:] or PAGES:
        with tempfile.TemporaryDirectory() as folder:
            text = rerun(page, Path(folder))
            for target, source in PICTURE.findall(text):
                shutil.copyfile(Path(folder) / source, HERE / target)
        (HERE / f"{page}.md").write_text(text)
        print(f"docs/tutorials/{page}.md")


if __name__ == "__main__":
    main()
