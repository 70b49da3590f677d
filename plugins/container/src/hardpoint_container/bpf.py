"""A system call filter as a BPF program, for engines that take none by name: a list of refusals.

Weaker than the allow-list that Podman gets (`seccomp`): what is not named here is allowed.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterator
from typing import Final

from hardpoint_container.seccomp import (
    AF_INET,
    AF_INET6,
    AF_UNIX,
    EAFNOSUPPORT,
    ENOSYS,
    NEW_NAMESPACES,
    TIOCSTI,
)

EPERM: Final = 1
X32: Final = 0x40000000
"""From here on x86-64 numbers mean the calls of another ABI."""

# name: number on x86-64, number on aarch64
_REFUSED: Final = {
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "quotactl": (179, 60),
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
}
_SOCKET: Final = (41, 198)
_CLONE: Final = (56, 220)
_CLONE3: Final = (435, 435)
_IOCTL: Final = (16, 29)
_ARCHITECTURES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

# Offsets in the data that a filter sees, and the instructions used here.
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_AT_LEAST = 0x15, 0x35
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000

Instruction = tuple[int, int, int, int]


def refusal_filter() -> bytes | None:
    """The program for this machine; None where the numbers are not known."""
    found = _ARCHITECTURES.get(platform.machine())
    if found is None:
        return None
    column, audit = found
    lines = [*_head(audit, x86=column == 0)]
    for numbers in _REFUSED.values():
        lines += _refuse_number(numbers[column], EPERM)
    lines += _refuse_number(_CLONE3[column], ENOSYS)
    lines += _socket(_SOCKET[column])
    lines += _clone(_CLONE[column])
    lines += _ioctl(_IOCTL[column])
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _head(audit: int, *, x86: bool) -> Iterator[Instruction]:
    yield (_LOAD, 0, 0, _ARCHITECTURE)
    yield (_IF_EQUAL, 1, 0, audit)
    yield (_RETURN, 0, 0, _KILL)
    yield (_LOAD, 0, 0, _NUMBER)
    if x86:
        yield (_IF_AT_LEAST, 0, 1, X32)
        yield (_RETURN, 0, 0, _ERRNO | ENOSYS)


def _refuse_number(number: int, errno: int) -> Iterator[Instruction]:
    yield (_IF_EQUAL, 0, 1, number)
    yield (_RETURN, 0, 0, _ERRNO | errno)


def _socket(number: int) -> Iterator[Instruction]:
    yield (_IF_EQUAL, 0, 6, number)
    yield (_LOAD, 0, 0, _FIRST)
    yield (_IF_EQUAL, 3, 0, AF_UNIX)
    yield (_IF_EQUAL, 2, 0, AF_INET)
    yield (_IF_EQUAL, 1, 0, AF_INET6)
    yield (_RETURN, 0, 0, _ERRNO | EAFNOSUPPORT)
    yield (_RETURN, 0, 0, _ALLOW)


def _clone(number: int) -> Iterator[Instruction]:
    yield (_IF_EQUAL, 0, 5, number)
    yield (_LOAD, 0, 0, _FIRST)
    yield (_AND, 0, 0, NEW_NAMESPACES)
    yield (_IF_EQUAL, 1, 0, 0)
    yield (_RETURN, 0, 0, _ERRNO | EPERM)
    yield (_RETURN, 0, 0, _ALLOW)


def _ioctl(number: int) -> Iterator[Instruction]:
    yield (_IF_EQUAL, 0, 4, number)
    yield (_LOAD, 0, 0, _SECOND)
    yield (_IF_EQUAL, 0, 1, TIOCSTI)
    yield (_RETURN, 0, 0, _ERRNO | EPERM)
    yield (_RETURN, 0, 0, _ALLOW)
