"""A seccomp filter: the system calls that no program here has business with fail with EPERM.

Invariant: the filter is closed for other architectures and other numberings of the calls (a call by those kills the
process). On a machine whose numbers are not listed there is no filter, and `install` raises.

Add a call to a table under its name in `asm/unistd.h`, with its numbers.
"""

from __future__ import annotations

import errno
import os
import platform
import struct

from ludus.sandbox.inside.system_calls import set_filter

Numbers = dict[str, tuple[int, int]]
"""By the name of a call, its number on x86_64 and on aarch64; -1 where there is no such call."""

ALWAYS_DENIED: Numbers = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, -1),
    "iopl": (172, -1),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "modify_ldt": (154, -1),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "semget": (64, 190),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmget": (29, 194),
    "socket": (41, 198),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
"""What reaches the kernel's dark corners, other processes' memory, memory that no limit counts, or the network."""
DENIED_WITHOUT_NAMESPACES: Numbers = {
    "chmod": (90, -1),
    "chown": (92, -1),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "fork": (57, -1),
    "fremovexattr": (199, 16),
    "fsetxattr": (190, 7),
    "futimesat": (261, -1),
    "ioprio_set": (251, 30),
    "lchown": (94, -1),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "pidfd_send_signal": (424, 424),
    "process_mrelease": (448, 448),
    "removexattr": (197, 14),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "setpgid": (109, 154),
    "setpriority": (141, 140),
    "setsid": (112, 157),
    "setxattr": (188, 5),
    "tkill": (200, 130),
    "truncate": (76, 45),
    "utime": (132, -1),
    "utimensat": (280, 88),
    "utimes": (235, -1),
    "vfork": (58, -1),
}
"""What reaches other processes, or files in ways that Landlock does not see."""
BY_ARGUMENT: Numbers = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "kill": (62, 129),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "socketpair": (53, 199),
    "tgkill": (234, 131),
}
"""What is allowed with some arguments only, as `build` says."""
NUMBERS = ALWAYS_DENIED | DENIED_WITHOUT_NAMESPACES | BY_ARGUMENT
LIMITING = "prlimit64"
"""Only with this process, or 0, as the first argument: a program could take the keeper's descriptors away from it."""
SIGNALLING = ("kill", "tgkill")
"""The same, where there are no namespaces."""

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
CLONE_THREAD = 0x10000
NEW_NAMESPACES = 0x7E020080
AF_UNIX = 1
PR_SET_PDEATHSIG = 1
_OTHER_NUMBERING = 0x40000000
"""On x86_64 the x32 calls have this bit."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET, _FIRST_ARGUMENT_OFFSET = 0, 4, 16
_REFUSE = _ERROR | errno.EPERM

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, constant."""


def install(*, has_namespaces: bool) -> None:
    """Filter this process and all that it starts, for good. Raises OSError if that cannot be done on this machine."""
    if platform.machine() not in ARCHITECTURES:
        raise OSError(f"seccomp: the system calls of {platform.machine()} are not known here")
    instructions = build(platform.machine(), has_namespaces=has_namespaces, own_pid=os.getpid())
    set_filter(b"".join(struct.pack("<HBBI", *each) for each in instructions), len(instructions))


def build(machine: str, *, has_namespaces: bool, own_pid: int) -> list[Instruction]:
    """The filter as instructions."""
    column, architecture = ARCHITECTURES[machine]
    denied = ALWAYS_DENIED if has_namespaces else ALWAYS_DENIED | DENIED_WITHOUT_NAMESPACES
    numbers = [each[column] for each in denied.values() if each[column] >= 0]
    rules = [
        [(_LOAD, 0, 0, _ARCHITECTURE_OFFSET), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL)],
        [(_LOAD, 0, 0, _NUMBER_OFFSET), (_AT_LEAST, 0, 1, _OTHER_NUMBERING), (_RETURN, 0, 0, _KILL)],
        *([(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)] for number in numbers),
        # Its arguments are out of a filter's sight; without it, libraries use `clone`.
        [(_EQUAL, 0, 1, NUMBERS["clone3"][column]), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)],
        _refuse_bits(NUMBERS["clone"][column], NEW_NAMESPACES),
        _require_one_of(NUMBERS["socketpair"][column], (AF_UNIX,)),
        _require_one_of(NUMBERS[LIMITING][column], (own_pid, 0)),
    ]
    if not has_namespaces:
        rules += [_require_bit(NUMBERS["clone"][column], CLONE_THREAD)]
        rules += [_require_one_of(NUMBERS[name][column], (own_pid, 0)) for name in SIGNALLING]
        rules += [_refuse_value(NUMBERS["prctl"][column], PR_SET_PDEATHSIG)]
    return [*(instruction for rule in rules for instruction in rule), (_RETURN, 0, 0, _ALLOW)]


def _refuse_bits(number: int, bits: int) -> list[Instruction]:
    return _by_first_argument(number, [(_ANY_BIT, 0, 1, bits), (_RETURN, 0, 0, _REFUSE)])


def _require_bit(number: int, bit: int) -> list[Instruction]:
    return _by_first_argument(number, [(_ANY_BIT, 1, 0, bit), (_RETURN, 0, 0, _REFUSE)])


def _refuse_value(number: int, value: int) -> list[Instruction]:
    return _by_first_argument(number, [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _REFUSE)])


def _require_one_of(number: int, values: tuple[int, ...]) -> list[Instruction]:
    tests = [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return _by_first_argument(number, [*tests, (_RETURN, 0, 0, _REFUSE)])


def _by_first_argument(number: int, test: list[Instruction]) -> list[Instruction]:
    """Make the test on the low half of a call's first argument, then have the call's number at hand again."""
    body = [(_LOAD, 0, 0, _FIRST_ARGUMENT_OFFSET), *test, (_LOAD, 0, 0, _NUMBER_OFFSET)]
    return [(_EQUAL, 0, len(body), number), *body]
