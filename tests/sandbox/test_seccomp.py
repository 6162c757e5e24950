"""The filter's numbers are the kernel's, and the filter says what its lists say."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from ludus.sandbox.inside import seccomp

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
ALLOW, KILL = 0x7FFF0000, 0x80000000
REFUSE, UNKNOWN = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS


@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    if not HEADERS[machine].is_file():
        pytest.skip("the kernel's headers are not installed")
    known = {
        name: int(number)
        for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text())
    }
    column = seccomp.ARCHITECTURES[machine][0]
    listed = {name: numbers[column] for name, numbers in seccomp.NUMBERS.items() if numbers[column] >= 0}
    assert {name: number for name, number in listed.items() if known.get(name, number) != number} == {}
    unknown = [name for name, numbers in seccomp.NUMBERS.items() if numbers[column] < 0 and name in known]
    assert unknown == []


def decide(filter: list[seccomp.Instruction], machine: str, name: str | int, first_argument: int = 0) -> int:
    """What the kernel would do: run the filter on one call."""
    column, architecture = seccomp.ARCHITECTURES[machine]
    number = name if isinstance(name, int) else seccomp.NUMBERS[name][column]
    call = struct.pack("<IIQ6Q", number, architecture, 0, first_argument, 0, 0, 0, 0, 0)
    place = loaded = 0
    while True:
        code, if_true, if_false, constant = filter[place]
        place += 1
        if code == 0x20:
            loaded = struct.unpack_from("<I", call, constant)[0]
        elif code == 0x06:
            return constant
        else:
            is_true = {0x15: loaded == constant, 0x35: loaded >= constant, 0x45: bool(loaded & constant)}[code]
            place += if_true if is_true else if_false


@pytest.mark.parametrize("machine", HEADERS)
@pytest.mark.parametrize("has_namespaces", [True, False])
def test_the_filter_says_what_its_lists_say(machine: str, has_namespaces: bool) -> None:
    filter = seccomp.build(machine, has_namespaces=has_namespaces, own_pid=77)
    column = seccomp.ARCHITECTURES[machine][0]
    for name in seccomp.NUMBERS:
        if seccomp.NUMBERS[name][column] < 0:
            continue
        if name in seccomp.ALWAYS_DENIED:
            assert decide(filter, machine, name) == REFUSE, name
        if name in seccomp.DENIED_WITHOUT_NAMESPACES:
            assert decide(filter, machine, name) == (ALLOW if has_namespaces else REFUSE), name
    assert decide(filter, machine, "clone3") == UNKNOWN
    assert decide(filter, machine, "clone", seccomp.CLONE_THREAD) == ALLOW
    assert decide(filter, machine, "clone", 17) == (ALLOW if has_namespaces else REFUSE)
    assert decide(filter, machine, "clone", 0x10000000 | 17) == REFUSE
    assert decide(filter, machine, "kill", 77) == ALLOW
    assert decide(filter, machine, "kill", 78) == (ALLOW if has_namespaces else REFUSE)
    assert [decide(filter, machine, "prlimit64", pid) for pid in (0, 77, 1)] == [ALLOW, ALLOW, REFUSE]
    assert decide(filter, machine, "prctl", 1) == (ALLOW if has_namespaces else REFUSE)
    assert decide(filter, machine, "prctl", 15) == ALLOW
    assert decide(filter, machine, "socketpair", 1) == ALLOW
    assert decide(filter, machine, "socketpair", 2) == REFUSE
    assert decide(filter, machine, 500) == ALLOW
    assert decide(filter, machine, 0x40000000) == KILL


def test_another_architecture_is_killed() -> None:
    filter = seccomp.build("x86_64", has_namespaces=True, own_pid=1)
    assert decide([(c, t, f, k if k != 0xC000003E else 0x40000003) for c, t, f, k in filter], "x86_64", 0) == KILL


def test_every_listed_call_has_a_number() -> None:
    used = {*seccomp.ALWAYS_DENIED, *seccomp.DENIED_WITHOUT_NAMESPACES, *seccomp.SIGNALLING, seccomp.LIMITING}
    assert used | {"clone", "clone3", "prctl", "socketpair"} == set(seccomp.NUMBERS)
