"""Runs what the README tells a new user to run, in a fresh clone, and prints how long each command took.

    python .ci/readme.py [--limit SECONDS] [--clone FOLDER] [WORD ...]     only commands that contain one of these words

Blocks without a language are commands; the Python block is a program. A command that waits for a person gets what a
person would type, in a terminal of its own. One that is not done within the limit is ended, with all that it started,
and fails; what it wrote last is printed. The clone goes at the end, unless `--clone` says where it stays.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
TYPED = {"ludus play": "4\n" * 21 + "q\n", "ludus chess uci": "quit\n", "ludus tui": "q", "ludus replay": "q\n"}
"""By what a command contains."""
STAND_INS = {"my.yaml": "examples/plugins/nim.yaml", "my_game.py": "examples/plugins/nim.py", "my_game": "nim"}
"""Files that the user would have written, then the game in them."""
LIMIT_S = 1800.0
"""For each command: several times what the longest takes on two busy cores."""
TAIL = 4000


def main() -> None:
    """Clone, run, report; exits with 1 if a command fails."""
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--limit", type=float, default=LIMIT_S)
    parser.add_argument("--clone", type=Path)
    asked = parser.parse_args()
    chosen, failed = asked.words, []
    with tempfile.TemporaryDirectory(prefix="ludus-readme-") as folder:
        clone = (asked.clone or Path(folder) / "ludus").absolute()
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        for command in commands((clone / "README.md").read_text()):
            if chosen and not any(word in command for word in chosen):
                continue
            start = time.monotonic()
            code, output = run(command, clone, limit_s=asked.limit)
            print(f"{'ok    ' if code == 0 else 'FAILED'} {time.monotonic() - start:7.1f} s  {command}", flush=True)
            if code != 0:
                failed.append(command)
                print(output[-TAIL:], flush=True)
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


def with_stand_ins(command: str) -> str:
    """The command with files that are there."""
    for name, stand_in in STAND_INS.items():
        command = command.replace(name, stand_in)
    return command


def run(command: str, folder: Path, *, limit_s: float = LIMIT_S) -> tuple[int, str]:
    """In a terminal, with the environment's own commands first on the path; -9 after the limit."""
    command = with_stand_ins(command)
    controller, terminal = pty.openpty()
    environment = {**os.environ, "PATH": f"{folder}/.venv/bin:{os.environ['PATH']}", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    typed = next((keys for part, keys in TYPED.items() if part in command), "")
    output, deadline = b"", time.monotonic() + limit_s
    while chunk := read(controller, deadline):
        output += chunk
        if typed:  # it has drawn something, so it reads
            os.write(controller, typed.encode())
            typed = ""
    if time.monotonic() >= deadline:
        output += f"\nnot done after {limit_s:,.0f} s, so it was ended\n".encode()
        os.killpg(process.pid, signal.SIGKILL)
    os.close(controller)
    return process.wait(), output.decode(errors="replace")


def read(controller: int, deadline: float) -> bytes:
    """What comes next; nothing when everybody has closed the terminal, or at the deadline."""
    if not select.select([controller], [], [], max(0.0, deadline - time.monotonic()))[0]:
        return b""
    try:
        return os.read(controller, 65536)
    except OSError:  # everybody has closed the terminal
        return b""


if __name__ == "__main__":
    main()
