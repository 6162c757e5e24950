"""The daemon over a directory of chunks: networks come out and are uploaded, and SIGKILL at any moment changes nothing."""

import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("chess")
pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from tests.chess.chunk_arrivals import CONFIG, arrive, networks, weights
from tests.policies.upload_server import Server, serving

from ludus.daemon.driver import Driver
from ludus.errors import LudusError
from ludus.storage.checkpoints import CheckpointStore

BOUND_S = 900.0
UPDATES = 2
"""Of a round."""


@dataclass
class Script:
    """One run under a daemon, and what happens around it."""

    where: Path
    server: Server
    rounds: int
    kills: list[tuple[int, str]] = field(default_factory=list)
    """After which update whom to kill: the daemon, which is the loop's process, or the trainer."""
    seed: int = 0
    done: list[str] = field(default_factory=list)
    is_done: bool = False

    def __post_init__(self) -> None:
        (self.where / "chunks").mkdir(parents=True)
        upload = f", upload: {{url: '{self.server.url}', token_env: null, pause_s: 0.05}}"
        text = CONFIG.format(directory=self.where / "chunks", updates=UPDATES * self.rounds, upload=upload)
        (self.where / "chess.yaml").write_text(text)
        self._random = random.Random(self.seed)

    @property
    def run(self) -> Path:
        return self.where / "runs/chess"

    def play(self) -> None:
        """Until the run is over, whatever is killed."""
        end = time.monotonic() + BOUND_S
        while not self.is_done:
            with Driver(log=self.where / "daemon.log", folder=self.where, patience_s=BOUND_S) as daemon:
                daemon.send("start_training", "start", config="chess.yaml")
                while daemon.process.poll() is None and not self._is_over(daemon):
                    assert time.monotonic() < end, f"after {self.done}: {daemon._state()}"
                    self._arrive()
                    if self.kills and self._update() >= self.kills[0][0]:
                        self._kill(daemon, self.kills[0][1])

    def _is_over(self, daemon: Driver) -> bool:
        """Whether the daemon, or its run, has ended; otherwise a moment has gone by."""
        try:
            status = daemon.wait_for(lambda message: message["type"] in ("status", "error"))
        except LudusError:
            return True
        assert status["type"] == "status", status
        assert status["payload"]["stage"] != "ERROR", status["payload"]["error"]
        self.is_done = status["payload"]["stage"] == "DONE"
        return self.is_done

    def _update(self) -> int:
        return max((int(path.name) for path in self.run.glob("checkpoints/[0-9]*")), default=0)

    def _arrive(self) -> None:
        """The chunks of a round come when the network of the round before it is on the server; the last, after all
        kills."""
        for number in range(min(len(self.server.taken) + 1, self.rounds - bool(self.kills))):
            arrive(self.where / "chunks", number, is_hostile=number == 1)

    def _kill(self, daemon: Driver, who: str) -> None:
        time.sleep(self._random.uniform(0.0, 1.5))
        if who == "daemon":
            daemon.process.kill()
            daemon.process.wait()
        elif not kill_trainer(daemon.process.pid):
            return  # it is not there yet, and is killed later
        self.kills.pop(0)
        self.done.append(f"{who}@{self._update()}")


def kill_trainer(daemon: int) -> bool:
    """Whether there was one."""
    for child in psutil.Process(daemon).children(recursive=True):
        try:
            if any("train.worker" in word for word in child.cmdline()):
                child.kill()
                return True
        except psutil.Error:  # it has ended by itself
            continue
    return False


def counted(run: Path) -> dict[str, Any]:
    """What the last checkpoint says of rounds, without times."""
    saved = CheckpointStore(run / "checkpoints", keep=3).latest()
    assert saved is not None
    cycle = {name: value for name, value in saved.state["cycle"].items() if not name.endswith("_s")}
    return {"rounds": saved.state["loader_rounds"], "cycle": cycle}


def check(script: Script, unbroken: Script) -> None:
    assert networks(script.run) == networks(unbroken.run)
    assert len(networks(script.run)) == script.rounds
    assert weights(script.run) == weights(unbroken.run)
    assert counted(script.run) == counted(unbroken.run)
    assert counted(script.run)["cycle"]["rounds"] == script.rounds
    # The server has each network once, under one key; a request whose answer was lost came again with that key.
    uploaded = [name for name, _ in script.server.files()]
    assert sorted(uploaded) == sorted(networks(script.run))
    assert dict(script.server.files()) == networks(script.run)


def random_kills(count: int, updates: int, seed: int) -> list[tuple[int, str]]:
    draw = random.Random(seed)
    return sorted((draw.randrange(updates), draw.choice(("daemon", "trainer"))) for _ in range(count))


def compare(where: Path, *, rounds: int, kills: list[tuple[int, str]], seed: int) -> Script:
    with serving() as plain, serving(500, "drop") as server:
        unbroken = Script(where / "unbroken", plain, rounds)
        unbroken.play()
        script = Script(where / "killed", server, rounds, kills, seed)
        script.play()
        check(script, unbroken)
    return script


@pytest.mark.slow
def test_a_killed_daemon_and_trainer_publish_the_same_networks_once(tmp_path: Path) -> None:
    script = compare(tmp_path, rounds=2, kills=[(1, "trainer"), (2, "daemon")], seed=1)
    assert len(script.done) == 2


@pytest.mark.slow
@pytest.mark.timeout(2 * BOUND_S)
@pytest.mark.parametrize("seed", [1, 2])
def test_twenty_kills_at_random_moments_change_nothing(tmp_path: Path, seed: int) -> None:
    script = compare(tmp_path, rounds=6, kills=random_kills(20, 10, seed), seed=seed)
    assert len(script.done) == 20, script.done
