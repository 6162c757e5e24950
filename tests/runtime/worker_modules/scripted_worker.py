"""A worker that does what it is told: echo, die in various ways, hang, start slowly, or be idle."""

import json
import os
import signal
import sys
import time

import msgspec
import numpy as np

from ludus.runtime import connect


class Command(msgspec.Struct, tag="command"):
    what: str
    task: int = 0


class Echo(msgspec.Struct, tag="echo"):
    text: str
    pid: int = 0


def link(fd: str) -> str:
    path = f"/proc/self/fd/{fd}"
    return os.readlink(path) if os.path.lexists(path) else ""  # the listing itself had one that is closed


def describe() -> dict[str, object]:
    return {
        "server": os.getppid(),
        "group": os.getpgid(0),
        "directory": os.getcwd(),
        "threads": [os.environ[name] for name in ("OMP_NUM_THREADS", "PJRT_NPROC")],
        "note": os.environ.get("NOTE"),
        "random": np.random.random(),
        "descriptors": sorted(kind.partition(":")[0] for kind in map(link, os.listdir("/proc/self/fd")) if kind),
    }


def main() -> None:
    channel, pulse, _ = connect(Command)
    while True:
        pulse.set_busy(False)
        for command, blob in channel.wait(None):
            if command.what == "load":  # as an explorer that loads a model: ready after long, and a tick only later
                time.sleep(1.0)
                pulse.set_busy(True)
                channel.send(Echo(text="ready"))
                channel.drain(10.0)
                time.sleep(0.3)
                pulse.tick()
                channel.send(Echo(text="played"))
                continue
            if command.what == "take it and hang":
                time.sleep(3600)
            pulse.set_busy(True)
            pulse.working_on(command.task)
            pulse.tick()
            if command.what == "echo":
                channel.send(Echo(text=bytes(blob).decode(), pid=os.getpid()), bytes(blob))
                channel.drain(10.0)
            elif command.what == "describe":
                channel.send(Echo(text=json.dumps(describe())))
                channel.drain(10.0)
            elif command.what == "segfault":
                print("about to crash", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGSEGV)
            elif command.what == "exit":
                os._exit(0)
            elif command.what == "hang":
                time.sleep(3600)
            elif command.what == "hold the interpreter":
                sys.setswitchinterval(3600)  # as a call into native code that never lets another thread run
                end = time.process_time() + 2.0
                while time.process_time() < end:
                    pass
                channel.send(Echo(text="done"))
                channel.drain(10.0)
            elif command.what == "close and stay":
                channel.close()
                time.sleep(3600)
            elif command.what == "twice":
                frame = channel._sent
                for _ in range(2):
                    channel._sent = frame
                    channel.send(Echo(text="once"))
                channel.drain(10.0)
            elif command.what == "garbage":
                os.write(channel.fileno(), b"\xff" * 64)
            elif command.what == "stop":
                return


if __name__ == "__main__":
    main()
