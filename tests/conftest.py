"""What holds for every test: the CPU, one thread for each library, no network, no deadline on a busy machine.

Set here, before any test module is imported, because native libraries read it once when they are loaded. What JAX has
compiled is kept for the session, so that the many processes that tests start need not compile it again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_compiled = tempfile.mkdtemp(prefix="ludus-tests-compiled-")

for _name, _value in {
    "JAX_PLATFORMS": "cpu",
    "JAX_NUM_CPU_DEVICES": "2",
    "JAX_COMPILATION_CACHE_DIR": _compiled,
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "WANDB_MODE": "offline",
    "MPLBACKEND": "agg",
}.items():
    os.environ.setdefault(_name, _value)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # so that each module is compiled once, not in every process

settings.register_profile("ordinary", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("nightly", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ordinary"))


def pytest_configure(config: pytest.Config) -> None:
    # A process that is killed while it writes there leaves half an entry, which JAX passes over with a warning.
    config.addinivalue_line("filterwarnings", "ignore:Error (reading|writing) persistent compilation cache entry")


def pytest_unconfigure() -> None:
    shutil.rmtree(_compiled, ignore_errors=True)


@pytest.fixture
def compile_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes that the test starts compile for themselves, as a user's do."""
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")


@pytest.fixture(scope="session")
def check_promises() -> Callable[[str, Path], None]:
    """Holds the metrics of a run against the table that explains them."""
    sys.path.insert(0, str(Path(__file__).parent / "telemetry"))
    from promises import check_promises

    return check_promises


LANGUAGE = """
name: words
games: [open_spiel:tic_tac_toe]
policy: {model: {path: MODEL, lora: {rank: 4}}}
warm_start: {games: 20, minibatch: 8}
explore: {games_in_flight: 8, prompt: {template: bare, invalid_moves: 1}, sampling: {max_tokens: 4}}
experience: {final: [{kind: role_advantage}]}
train: {steps: 400, batch_episodes: 4, minibatch: 4, algorithm: {preset: ppo}}
league: {opponents: [{kind: mirror, weight: 2}, {kind: lagged}], snapshot_every: 200}
evaluate: {against: [random], games: 2, every: 200, final_games: 4}
telemetry: {tensorboard: false, every_s: 0}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageRun:
    """A run of a language model that nobody disturbed. Read only."""

    path: Path
    text: str
    """Its config."""

    @property
    def warmed_text(self) -> str:
        """The same run for a model that needs no warm start any more: this run's base."""
        before, _, after = self.text.partition("warm_start:")
        model = before.partition("path: ")[2].partition(",")[0]
        return (before + after.partition("\n")[2]).replace(model, str(self.path / "base"))


MakeOnce = Callable[[str, Callable[[Path], None]], Path]


@pytest.fixture(scope="session")
def make_once(tmp_path_factory: pytest.TempPathFactory) -> MakeOnce:
    """Makes a folder that all test processes share: `make` fills it for the first of them, others wait. Read only."""
    own = tmp_path_factory.getbasetemp()
    root = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def make_folder(name: str, make: Callable[[Path], None]) -> Path:
        folder, is_whole = root / name, root / f"{name}.whole"
        with (root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # given back when the process ends, however it ends
            if not is_whole.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                is_whole.touch()
        return folder

    return make_folder


@pytest.fixture(scope="session")
def language_run(make_once: MakeOnce) -> LanguageRun:
    """Made once for all tests that read it, or compare theirs with it."""
    folder = make_once("language", _train_language_model)
    return LanguageRun(path=folder / "run", text=(folder / "words.yaml").read_text())


def _train_language_model(folder: Path) -> None:
    from ludus import SingleRun, parse_config
    from ludus.lm.tiny_model import make_tiny_model

    model = make_tiny_model(folder / "tiny", layers=1, width=16, heads=2, kv_heads=1)
    text = LANGUAGE.replace("MODEL", str(model))
    status = SingleRun(parse_config(text, "words.yaml"), folder / "run").run_to_end()
    assert status.stage == "done", status.error
    (folder / "words.yaml").write_text(text)
