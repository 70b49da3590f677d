"""Keep one server process, and leave nothing behind. Runs as a process of its own, without imports.

    python -I -S keeper.py LIFE_FD GRACE_SECONDS COMMAND [ARGUMENT …]

The parent holds the other end of the pipe LIFE_FD and never writes to it. When that end closes,
because the parent closed it or because the parent was killed, the server has GRACE_SECONDS to end
by itself, as long again after SIGTERM, and is killed then. So is whatever the server started: the
keeper is the reaper of its descendants, so that one that left the process group stays in reach.
The keeper's exit code is the server's, or 128 plus the signal's number.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def prctl(option: int, value: int) -> None:
    """Do nothing where there is no prctl: the process group is the only reach then."""
    if not sys.platform.startswith("linux"):
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass


def descendants() -> list[int]:
    """Every living process below this one, from /proc; without /proc only the direct children."""
    parents: dict[int, int] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The command name may hold blanks and parentheses; the fields follow the last one.
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state != b"Z":
            parents[int(name)] = int(parent)
    found: list[int] = []
    ring = {os.getpid()}
    while ring:
        ring = {pid for pid, parent in parents.items() if parent in ring}
        found += ring
    return found


def signal_all(server: int, number: int) -> None:
    for pid in descendants():
        try:
            os.kill(pid, number)
        except OSError:
            pass
    try:
        os.killpg(server, number)
    except OSError:
        pass


def main() -> int:
    life, grace, command = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

    server = os.fork()
    if server == 0:
        os.setpgid(0, 0)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        for number in (
            signal.SIGINT,
            signal.SIGTERM,
            signal.SIGHUP,
            signal.SIGCHLD,
            signal.SIGPIPE,
        ):
            signal.signal(number, signal.SIG_DFL)
        os.closerange(3, max(life, woken, wake) + 1)
        try:
            os.execvp(command[0], command)  # noqa: S606  # what a keeper is for
        except OSError as error:
            os.write(2, f"cannot start {command[0]!r}: {error.strerror}\n".encode())
            os._exit(127)

    # The server alone holds the pipes now, so that the other side sees when it is gone.
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)

    status: int | None = None
    steps = [(grace, signal.SIGTERM), (grace, signal.SIGKILL)]
    deadline: float | None = None
    watched = [life, woken]
    while True:
        status = reap(server, status)
        if status is not None:
            # A server that ended leaves nobody; whoever stays gets the remaining time, all at once.
            signal_all(server, signal.SIGKILL)
            if not descendants():
                break
            time.sleep(0.01)
            continue
        wait = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select(watched, [], [], wait)
        if woken in ready:
            os.read(woken, 512)
        if life in ready:
            watched = [woken]
            deadline = time.monotonic() + steps[0][0]
        if deadline is not None and time.monotonic() >= deadline:
            signal_all(server, steps[0][1])
            if len(steps) > 1:
                steps.pop(0)
            deadline = time.monotonic() + steps[0][0]
    return status


def reap(server: int, status: int | None) -> int | None:
    """Collect every ended child; the server's exit code once it is known."""
    while True:
        try:
            pid, raw = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == server:
            code = os.waitstatus_to_exitcode(raw)
            status = code if code >= 0 else 128 - code


if __name__ == "__main__":
    os._exit(main())
