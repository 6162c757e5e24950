"""Ray nodes that share a kernel and nothing else: each in network, mount and process namespaces of its own.

A *machine* has an address on a private bridge, a `/tmp` and a `/dev/shm` of its own, and does not see the folders that
are masked. The bridge lies in a namespace of its own, too: nothing is added to the machine that runs the tests. All of
it goes with the process that made it, however that ends, since the first process of a namespace takes the rest along.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from killing import command_line, descendants, is_gone

LEASH = Path(__file__).parents[2] / "src/ludus/runtime/leash.py"
SUBNET, PORT = "10.213.7", 6379
NODES_S = 120.0
STORE_BYTES = 100 * 2**20
OWN = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child=KILL", "--propagation=private")
SHELL = ("sh", "-euc")  # as the first process of a namespace it reaps what is left there
SWITCH = "ip link add bridge type bridge; ip link set bridge up; echo up; read end"
MACHINE = """
folder=$1 token=$2; shift 2
mkdir "$folder/tmp"; cp -p "$token" "$folder/token"
while [ "$1" != -- ]; do mount -t tmpfs -o size=1m,mode=755 masked "$1"; shift; done; shift
mount -t tmpfs -o size=512m shm /dev/shm
mount --bind "$folder/tmp" /tmp
echo up; read linked
ip link set lo up; ip link set eth0 up; ip route add default dev eth0
cd /tmp; export RAY_AUTH_TOKEN_PATH="$folder/token"
"$@" >"$folder/log" 2>&1 & wait
"""
BESIDE = 'mount --bind "$1/tmp/ray" /tmp/ray; mount --rbind "$2" /dev/shm; shift 2; exec "$@"'
AWAIT = """
import sys, time, ray
from ray._raylet import GcsClient
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    try:
        nodes = GcsClient(address=sys.argv[1]).get_all_node_info().values()
        if sum(node.state == 0 for node in nodes) == int(sys.argv[2]): sys.exit(0)
    except Exception as error: print(error, file=sys.stderr)
    time.sleep(0.2)
sys.exit("it has not " + sys.argv[2] + " nodes")
"""


@cache
def why_not() -> str:
    """Why no namespaces can be made here; empty if they can."""
    if sys.platform != "linux" or os.geteuid():
        return "namespaces of the network need Linux and root"
    if missing := [tool for tool in ("ip", "unshare", "nsenter", "mount") if shutil.which(tool) is None]:
        return f"namespaces of the network need {', '.join(missing)}"
    tried = subprocess.run(
        [*OWN, *SHELL, "ip link add bridge type bridge"], capture_output=True, text=True, check=False
    )
    return f"no namespaces can be made here: {tried.stderr.strip()}" if tried.returncode else ""


class Machine:
    """Processes in namespaces of their own. The first of them ends with this process, and all others with the first."""

    def __init__(self, name: str, script: str, *arguments: str, environment: Mapping[str, str] = {}) -> None:
        self.name = name
        leash = [sys.executable, "-P", str(LEASH), str(os.getpid())]
        self._process = subprocess.Popen(
            [*leash, *OWN, *SHELL, script, name, *arguments],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "up\n", f"{name} did not come up"
        self.first = descendants(self._process.pid)[0]

    @property
    def network(self) -> list[str]:
        """How a command begins that is to run in its network."""
        return ["nsenter", f"--net=/proc/{self.first}/ns/net"]

    def run(self, *command: str) -> str:
        """Run a command in its network, with the files of this process."""
        return subprocess.run([*self.network, *command], capture_output=True, text=True, check=True).stdout

    def go_on(self) -> None:
        """Let it go on: its link is there."""
        assert self._process.stdin is not None
        self._process.stdin.write("linked\n")
        self._process.stdin.flush()

    def processes(self, module: str) -> list[int]:
        """Its live processes that run a module, by their numbers outside of its namespace."""
        found = descendants(self._process.pid)
        return [pid for pid in found if not is_gone(pid) and module.encode() in command_line(pid)]

    @property
    def is_on(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def end(self) -> None:
        """Power off: nothing in it gets to say a word."""
        with suppress(ProcessLookupError):
            os.kill(self.first, signal.SIGKILL)
        self._process.communicate(timeout=30)


class Network:
    """A Ray head without cores and some nodes, each on a machine; loops run beside the head. Use as a context."""

    def __init__(
        self, nodes: int, *, masked: Sequence[Path] = (), settings: Mapping[str, str] = {}, cpus: int = 2
    ) -> None:
        """Machines do not see what is `masked`. `settings` are variables of Ray's."""
        self._count, self._masked, self._settings, self._cpus = nodes, masked, dict(settings), cpus
        self._folder = Path(tempfile.mkdtemp(prefix="ludus-network-", dir="/var/tmp"))
        self._last, self._heads = 1, 0
        self.token = self._folder / "token"
        self.address = f"{SUBNET}.1:{PORT}"
        self.nodes: list[Machine] = []
        self._forsaken: list[Machine] = []
        self.settings = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token), **settings}
        """What a loop must have in its environment."""

    def __enter__(self) -> "Network":
        self.token.touch(0o600)
        self.token.write_text("0123456789abcdef" * 4)
        try:
            self._switch = Machine("switch", SWITCH)
            self.start_head()
            for number in range(self._count):  # one by one: several at once start no sooner on few cores
                self.add_node()
                self.await_nodes(number + 1)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *reason: object) -> None:
        self._end()

    @property
    def beside_head(self) -> list[str]:
        """How a command begins that is to run on the head's machine, with the files of this process."""
        own = ["unshare", "--mount", "--propagation=private", *SHELL, BESIDE, "beside"]
        environment = ["env", *(f"{name}={value}" for name, value in self.settings.items())]
        return [
            *environment,
            *self.head.network,
            *own,
            str(self._folder_of(self.head)),
            f"/proc/{self.head.first}/root/dev/shm",
        ]

    def start_head(self) -> None:
        """Start the head, or one in its place, and wait until it serves."""
        Path("/tmp/ray").mkdir(exist_ok=True)  # where the head's files are shown to loops
        self._heads += 1
        self.head = self._start(
            f"head{self._heads}", 1, ["--head", f"--port={PORT}", "--num-cpus=0", "--include-dashboard=false"]
        )
        self.await_nodes(0)

    def add_node(self) -> Machine:
        """Start one more node; `await_nodes` waits for it."""
        self._last += 1
        node = self._start(f"n{self._last}", self._last, [f"--address={self.address}", f"--num-cpus={self._cpus}"])
        self.nodes.append(node)
        return node

    def await_nodes(self, count: int) -> None:
        """Wait until the cluster has so many nodes beside the head."""
        arguments = [sys.executable, "-c", AWAIT, self.address, str(count + 1), str(NODES_S)]
        command = [*self.head.network, *arguments]
        waited = subprocess.run(
            command, env={**os.environ, **self.settings}, capture_output=True, text=True, check=False
        )
        logs = [(self._folder_of(machine) / "log").read_text()[-1000:] for machine in (self.head, *self.nodes)]
        assert waited.returncode == 0, f"{waited.stderr[-2000:]}\n" + "\n".join(logs)

    def remove(self, node: Machine) -> None:
        """Power a node off."""
        self.nodes.remove(node)
        node.end()

    def forsake(self, node: Machine) -> None:
        """Count a node no more that the cluster has given up; it stays on."""
        self.nodes.remove(node)
        self._forsaken.append(node)

    def renew_nodes(self, count: int) -> None:
        """Power all nodes off, and have fresh ones join."""
        while self.nodes:
            self.remove(self.nodes[0])
        for number in range(count):
            self.add_node()
            self.await_nodes(number + 1)

    def cut(self, node: Machine) -> None:
        """Let nothing pass to a node or from it."""
        self._switch.run("ip", "link", "set", node.name, "down")

    def mend(self, node: Machine) -> None:
        """Let everything pass again."""
        self._switch.run("ip", "link", "set", node.name, "up")

    def files(self, node: Machine) -> Path:
        """What is `/tmp` on a node."""
        return self._folder_of(node) / "tmp"

    def _folder_of(self, machine: Machine) -> Path:
        return self._folder / f"{machine.name}-{machine.first}"

    def _start(self, name: str, number: int, arguments: Sequence[str]) -> Machine:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._folder))
        ray = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--disable-usage-stats", *arguments]
        ray += [f"--node-ip-address={SUBNET}.{number}", f"--object-store-memory={STORE_BYTES}"]
        masked = [str(path) for path in self._masked if path.is_dir()]
        quiet = {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}
        environment = {**quiet, **self._settings, "RAY_AUTH_MODE": "token"}
        made = Machine(name, MACHINE, str(folder), str(self.token), *masked, "--", *ray, environment=environment)
        self._folder_of(made).symlink_to(folder)
        self._switch.run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(made.first))
        self._switch.run("ip", "link", "set", name, "master", "bridge", "up")
        made.run("ip", "address", "add", f"{SUBNET}.{number}/24", "dev", "eth0")
        made.go_on()
        return made

    def _end(self) -> None:
        for machine in [*self.nodes, *self._forsaken, *([self.head] if hasattr(self, "head") else []), self._switch]:
            machine.end()
        shutil.rmtree(self._folder, ignore_errors=True)
