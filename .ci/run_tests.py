"""Run the tests; then run what failed once more, alone, and name what then passes as FLAKY.

    python .ci/run_tests.py PYTEST_ARGUMENTS

The exit code is that of the second run, where there was one. A flaky test is a fault to mend, not a reason to lose a
change: hence the loud line, on stderr, as the last thing printed. Only failed tests have a second chance: whatever
else stops pytest (a broken collection, a wrong argument, Ctrl-C) ends this with pytest's own code.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

_SOME_FAILED = 1
"""Pytest's exit code for it."""


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="ludus-test-cache-") as cache:
        pytest = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *arguments]
        code = subprocess.run(pytest, check=False).returncode
        failed = _failed(Path(cache))
        if code != _SOME_FAILED or not failed:
            return code
        print(f"\n== {len(failed)} failed; once more, alone", file=sys.stderr, flush=True)
        again = [*pytest, "-n", "0", "--dist", "no", "--last-failed", "--last-failed-no-failures", "none"]
        code = subprocess.run(again, check=False).returncode
        _shout(failed - _failed(Path(cache)))
        return code


def _failed(cache: Path) -> set[str]:
    record = cache / "v/cache/lastfailed"
    return set(json.loads(record.read_text())) if record.exists() else set()


def _shout(flaky: set[str]) -> None:
    if not flaky:
        return
    bar = "!" * 100
    names = "\n".join(f"FLAKY  {name}" for name in sorted(flaky))
    print(f"\n{bar}\n{names}\n{len(flaky)} failed, and passed alone: mend them.\n{bar}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
