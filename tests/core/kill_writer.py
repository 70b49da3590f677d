"""Fork writers, kill each at a random point, and report what each said was written.

Run by `test_kill.py`: `python kill_writer.py FOLDER KIND TIMES SEED`. Prints every reported id.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import hardpoint.audit.log
from hardpoint.audit import AuditLog
from hardpoint.interfaces import ApprovalRequest, SystemClock
from hardpoint.policy.grants import StoredGrants
from hardpoint.secrets import file as secret_file
from hardpoint.store import Store
from hardpoint.tools import ApprovalRequirement

assert hardpoint.audit.log  # imported once, before the forks


def request(name: str) -> ApprovalRequest:
    return ApprovalRequest(
        id=name,
        digest=name,
        tool="pay",
        params={"to": name, "note": "x" * 500},
        requirement=ApprovalRequirement.UNLESS_AUTO_APPROVED,
        user_id="ana",
        session_id="s",
        verdicts=("once", "session", "always", "no"),
        pattern=f"pay({name})",
        definition_hash="d",
    )


def grants(folder: Path, child: int) -> Iterator[str]:
    kept = StoredGrants(Store(folder), SystemClock())
    number = 0
    while True:
        number += 1
        yield kept.remember("always", request(f"{child}.{number}"))


def answers(folder: Path, child: int) -> Iterator[str]:
    kept = StoredGrants(Store(folder), SystemClock())
    number = 0
    while True:
        number += 1
        name = f"ap_{child}.{number}"
        kept.park(request(name))
        kept.answer(name, True, by="ben")
        yield name


def records(folder: Path, child: int) -> Iterator[str]:
    log = AuditLog(folder / "audit", max_bytes=20_000)
    number = 0
    while True:
        number += 1
        name = f"call_{child}.{number}"
        log.record("decided", call_id=name, tool="pay", note="x" * random.randrange(2000))
        yield name


def secrets(folder: Path, child: int) -> Iterator[str]:
    import asyncio

    secret_file._SCRYPT = {"n": 2**4, "r": 8, "p": 1}  # type: ignore[misc]
    environ = {"HARDPOINT_PASSPHRASE": "correct horse"}
    store = secret_file.EncryptedFileStore(
        folder / "secrets.json", key="passphrase", environ=environ
    )
    number = 0
    while True:
        number += 1
        name = f"key.{child}.{number}"
        asyncio.run(store.set("ana", name, f"value of {name}"))
        yield name


KINDS: dict[str, Callable[[Path, int], Iterator[str]]] = {
    "grants": grants, "answers": answers, "records": records, "secrets": secrets,
}  # fmt: skip


def child(folder: Path, kind: str, number: int, out: int) -> None:
    for name in KINDS[kind](folder, number):
        os.write(out, f"{name}\n".encode())


def run_one(folder: Path, kind: str, number: int) -> list[str]:
    """Let a child write and kill it somewhere; what it reported."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            child(folder, kind, number, writing)
        finally:
            os._exit(1)
    os.close(writing)
    said = b""
    wanted = random.randrange(0, 8)
    deadline = time.monotonic() + 20
    while said.count(b"\n") < wanted and time.monotonic() < deadline:
        said += os.read(reading, 65_536)
    select.select([], [], [], random.random() * 0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while rest := os.read(reading, 65_536):
        said += rest
    os.close(reading)
    return said.decode().rpartition("\n")[0].split("\n")


def main() -> None:
    folder, kind, times = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    random.seed(int(sys.argv[4]))
    for number in range(times):
        for name in run_one(folder, kind, number):
            if name:
                print(name)


main()
