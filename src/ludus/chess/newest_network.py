"""The newest version of a run, for a program that plays while the run learns.

Invariant: a version is loaded once, and its program is the one that the version before compiled.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from ludus.chess.evaluators import Evaluator, evaluator_of
from ludus.chess.network_source import NETWORK_FILES, open_network
from ludus.config import load_config
from ludus.errors import ConfigError
from ludus.policies import PolicyStore
from ludus.policies.store import CARD, choose_policy
from ludus.storage.checkpoints import MANIFEST
from ludus.storage.run_directory import RunDirectory, find_run

POLL_S = 1.0

Say = Callable[[str], None]


class NewestNetwork:
    """Call it for the evaluator of the newest version."""

    def __init__(self, folder: str, say: Say = lambda _: None) -> None:
        """Wait for the first version of the run, which may begin later; `say` is told of that and of each new version.

        Raises:
            ConfigError: it names a version or a file, which never change, or does not play chess.
        """
        path = Path(folder)
        is_one = folder.endswith(NETWORK_FILES) or ("@" in path.name and not path.exists())
        if is_one or (path / CARD).is_file() or (path / MANIFEST).is_file():
            raise ConfigError(f"--follow: {folder} never changes; name a run")
        self._say = say
        _wait_for_a_version(path, say)
        source = open_network(folder)
        self._run, self._config = find_run(path), load_config(find_run(path).config)
        self._newest = source.version
        self._evaluator = evaluator_of(source)

    @property
    def run_name(self) -> str:
        """The name of the run's directory, which no version changes."""
        return self._run.path.name

    def __call__(self) -> Evaluator:
        """The evaluator of the newest version."""
        newest = choose_policy(self._run, self._config, None)
        if str(newest) != self._newest:
            policy = PolicyStore(self._run.policies).load(newest)
            name = f"{self.run_name}-{newest.name}-{newest.version}"
            self._evaluator, self._newest = self._evaluator.with_weights(policy.weights, name=name), str(newest)
            self._say(f"now playing {newest}")
        return self._evaluator


def _wait_for_a_version(folder: Path, say: Say) -> None:
    has_said = False
    while not _has_version(find_run(folder)):
        if not has_said:
            say(f"waiting for the first version of {folder}")
            has_said = True
        time.sleep(POLL_S)


def _has_version(run: RunDirectory) -> bool:
    if not run.is_run():
        return False
    store = PolicyStore(run.policies)
    return bool(store.names())
