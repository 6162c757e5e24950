"""Worker processes: launchers, a fork server, supervision, signs of life, and dying with the parent."""

from ludus.runtime.channel import Channel, Stop
from ludus.runtime.fork_launcher import ForkLauncher
from ludus.runtime.launcher import LaunchedProcess, Launcher, WorkerEnds, WorkerSpec
from ludus.runtime.node_files import NodeFiles
from ludus.runtime.process import WorkerProcess
from ludus.runtime.pulse import NO_TASK, Pulse
from ludus.runtime.readings import LoadMeter, NodeReading, WorkerReading, with_loads
from ludus.runtime.supervisor import Arrived, Lost, Supervisor
from ludus.runtime.threads import available_cores, limit_threads
from ludus.runtime.worker import connect, run_one_shot_worker, run_worker
from ludus.runtime.worker_server import warm_up

__all__ = [
    "NO_TASK",
    "Arrived",
    "Channel",
    "ForkLauncher",
    "LaunchedProcess",
    "Launcher",
    "LoadMeter",
    "Lost",
    "NodeFiles",
    "NodeReading",
    "Pulse",
    "Stop",
    "Supervisor",
    "WorkerEnds",
    "WorkerProcess",
    "WorkerReading",
    "WorkerSpec",
    "available_cores",
    "connect",
    "limit_threads",
    "run_one_shot_worker",
    "run_worker",
    "warm_up",
    "with_loads",
]
