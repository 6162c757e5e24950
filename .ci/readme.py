"""Runs what the README tells a new user to run, in a fresh clone, and prints how long each command took.

    python .ci/readme.py [COMMAND ...]      only commands that contain one of these words

Blocks without a language are commands; the Python block is a program. A command that waits for a person gets what a
person would type, in a terminal of its own.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
TYPED = {"ludus play": "4\n" * 21 + "q\n", "ludus tui": "q", "ludus replay": "q"}
"""By what a command contains."""
STAND_INS = {"my.yaml": "examples/plugins/nim.yaml", "my_game.py": "examples/plugins/nim.py"}
"""Files that the user would have written."""


def main() -> None:
    """Clone, run, report; exits with 1 if a command fails."""
    chosen, failed = sys.argv[1:], []
    with tempfile.TemporaryDirectory(prefix="ludus-readme-") as folder:
        clone = Path(folder) / "ludus"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        for command in commands((clone / "README.md").read_text()):
            if chosen and not any(word in command for word in chosen):
                continue
            start = time.monotonic()
            code, output = run(command, clone)
            print(f"{'ok    ' if code == 0 else 'FAILED'} {time.monotonic() - start:7.1f} s  {command}", flush=True)
            if code != 0:
                failed.append(command)
                print(output[-2000:], flush=True)
    sys.exit(1 if failed else 0)


def commands(readme: str) -> list[str]:
    """Each command of the README, and its Python programs."""
    found = []
    for language, block in re.findall(r"^```([a-z]*)\n(.*?)^```", readme, re.MULTILINE | re.DOTALL):
        if language == "python":
            found.append(f".venv/bin/python -c {quoted(block)}")
        elif not language:
            lines = (re.sub(r"\s+#.*", "", line).strip() for line in block.splitlines())
            found += [line for line in lines if re.match(r"(make|ludus|\.venv/bin/ludus) ", line)]
    return found


def quoted(text: str) -> str:
    """For a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def run(command: str, folder: Path) -> tuple[int, str]:
    """In a terminal, with the environment's own commands first on the path."""
    for name, stand_in in STAND_INS.items():
        command = command.replace(name, stand_in)
    controller, terminal = pty.openpty()
    environment = {**os.environ, "PATH": f"{folder}/.venv/bin:{os.environ['PATH']}", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=environment, stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    typed = next((keys for part, keys in TYPED.items() if part in command), "")
    output = b""
    while True:
        try:
            output += (chunk := os.read(controller, 65536))
        except OSError:  # everybody has closed the terminal
            break
        if not chunk:
            break
        if typed:  # it has drawn something, so it reads
            os.write(controller, typed.encode())
            typed = ""
    os.close(controller)
    return process.wait(), output.decode(errors="replace")


if __name__ == "__main__":
    main()
