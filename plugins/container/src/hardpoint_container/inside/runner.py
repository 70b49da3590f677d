"""PID 1 of a sandbox: start commands, carry their output, end them, leave nothing behind.

One frame on stdin or stdout is two big-endian 32-bit lengths, a JSON header and raw bytes.

    to us    {"op": "exec", "id", "argv", "env", "cwd", "timeout", "keep", "most"} + standard input
             {"op": "stop", "id"}   {"op": "file", "id", "call", …} + data   {"op": "ping", "id"}
    from us  {"ready": facts}   {"id", "s": 1 or 2} + output   {"id", "end": …}
             {"id", "ok": …} + data   {"id", "refused", "message"}

What may run, and with which limits, was decided outside. The end of stdin ends the sandbox.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import selectors
import signal
import struct
import subprocess
import sys
import time
from typing import Any, NoReturn

from hardpoint_container.inside import facts, files, forward
from hardpoint_container.inside.jobs import Job, Stream
from hardpoint_container.inside.opening import Refused

GRACE = 0.3  # seconds between SIGTERM and SIGKILL
REAPED_AT_ONCE = 64
PIECES_AFTER_END = 64  # of 64 KiB: more than a pipe holds
LARGEST_FRAME = 256 * 1024 * 1024
LENGTHS = struct.Struct(">II")


def become_untouchable() -> None:
    """Keep commands of the same user from tracing or reading this process.

    The default signal dispositions stay: the kernel drops every signal that is sent to PID 1 from
    inside, SIGKILL included. Ignoring them instead would be inherited by every command.
    """
    ctypes.CDLL(None, use_errno=True).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


class Runner:
    def __init__(self, into: int, out: int, workspace: str) -> None:
        self.into, self.out = into, out
        self.root = os.open(workspace, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.environment = dict(os.environ)
        self.jobs: dict[int, Job] = {}  # by pid
        self.pending = bytearray()
        self.selector = selectors.DefaultSelector()
        self.gate: forward.Gate | None = None
        self.null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        wake, self.wake = os.pipe()
        for fd in (wake, self.wake):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self.wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(wake, selectors.EVENT_READ, (self.on_wake, None))
        self.selector.register(into, selectors.EVENT_READ, (self.on_frames, None))

    # frames

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        head = json.dumps(header).encode()
        data = memoryview(LENGTHS.pack(len(head), len(body)) + head + body)
        while data:
            data = data[os.write(self.out, data) :]

    def on_frames(self, _fd: int, _job: None) -> None:
        data = os.read(self.into, 1 << 20)
        if not data:
            self.end()
        self.pending += data
        while len(self.pending) >= LENGTHS.size:
            head, body = LENGTHS.unpack_from(self.pending)
            if head + body > LARGEST_FRAME:
                self.end()
            whole = LENGTHS.size + head + body
            if len(self.pending) < whole:
                return
            frame = bytes(self.pending[LENGTHS.size : whole])
            del self.pending[:whole]
            self.on_call(json.loads(frame[:head]), frame[head:])

    def on_call(self, call: dict[str, Any], body: bytes) -> None:
        op = call["op"]
        if op == "exec":
            self.start(call, body)
        elif op == "file":
            try:
                answer, data = files.run(self.root, call, body)
            except Refused as error:
                self.send({"id": call["id"], "refused": error.code, "message": str(error)})
            else:
                self.send({"id": call["id"], "ok": answer}, data)
        elif op == "stop":
            for job in self.jobs.values():
                if job.id == call["id"]:
                    self.stop(job, "cancelled")
        elif op == "ping":
            self.send({"id": call["id"], "ok": {"jobs": len(self.jobs)}})

    # commands

    def start(self, call: dict[str, Any], stdin: bytes) -> None:
        pipes: list[tuple[int, int]] = []

        def pipe() -> tuple[int, int]:
            pipes.append(os.pipe())
            return pipes[-1]

        try:
            out_read, out_write = pipe()
            err_read, err_write = pipe()
            feed_read, feed_write = pipe() if stdin else (self.null, -1)
            # Popen starts by vfork: 2.5 ms against 12 for a fork of this interpreter.
            process = subprocess.Popen(
                call["argv"],
                stdin=feed_read,
                stdout=out_write,
                stderr=err_write,
                cwd=call["cwd"],
                env={**self.environment, **call["env"]},
                start_new_session=True,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            for pair in pipes:
                for fd in pair:
                    os.close(fd)
            code = errno.errorcode.get(getattr(error, "errno", None) or 0, "EINVAL")
            at = "cwd" if getattr(error, "filename", None) == call["cwd"] else "program"
            self.send(
                {"id": call["id"], "end": {"failed": code, "at": at, "why": str(error)[:300]}}
            )
            return
        process.returncode = 0  # reaping is ours
        try:
            # When memory runs out the kernel must take the command, never PID 1.
            with open(f"/proc/{process.pid}/oom_score_adj", "w") as file:
                file.write("1000")
        except OSError:
            pass  # it ended already
        os.close(out_write)
        os.close(err_write)
        if stdin:
            os.close(feed_read)
        streams = {out_read: Stream(1, call["keep"]), err_read: Stream(2, call["keep"])}
        job = Job(call, process.pid, streams, memoryview(stdin), feed_write if stdin else None)
        self.jobs[job.pid] = job
        for fd in streams:
            os.set_blocking(fd, False)
            self.selector.register(fd, selectors.EVENT_READ, (self.on_output, job))
        if stdin:
            os.set_blocking(feed_write, False)
            self.selector.register(feed_write, selectors.EVENT_WRITE, (self.on_feed, job))

    def on_feed(self, fd: int, job: Job) -> None:
        try:
            job.feed = job.feed[os.write(fd, job.feed[:65536]) :]
        except BlockingIOError:
            return
        except OSError:
            job.feed = job.feed[:0]  # the command does not read
        if not job.feed:
            self.close_feed(job)

    def close_feed(self, job: Job) -> None:
        if job.feed_fd is not None:
            self.selector.unregister(job.feed_fd)
            os.close(job.feed_fd)
            job.feed_fd = None

    def on_output(self, fd: int, job: Job) -> None:
        if fd in job.streams and not self.pump(job, fd):
            self.selector.unregister(fd)

    def pump(self, job: Job, fd: int) -> bool:
        """Carry one piece of output; False when there is none now or ever."""
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        stream = job.streams[fd]
        now = stream.take(data)
        if now:
            self.send({"id": job.id, "s": stream.number}, now)
        if sum(stream.total for stream in job.streams.values()) > job.most:
            self.stop(job, "output")
        return True

    def stop(self, job: Job, cause: str) -> None:
        """End a command: SIGTERM, and SIGKILL after a moment. Too much output is killed at once."""
        if job.cause is None:
            job.cause = cause
            job.deadline = time.monotonic() + GRACE
            self.signal(job, signal.SIGKILL if cause == "output" else signal.SIGTERM)

    def signal(self, job: Job, number: int) -> None:
        try:
            os.killpg(job.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def on_wake(self, fd: int, _job: None) -> None:
        try:
            os.read(fd, 4096)
        except BlockingIOError:
            pass

    def reap(self) -> bool:
        """Collect ended processes; PID 1 inherits those of others too. True when more may wait.

        A fork bomb ends processes faster than they can be collected: deadlines come first.
        """
        for _ in range(REAPED_AT_ONCE):
            try:
                # Look first, so that the group of an ended command can be killed before its
                # number is free to be used again.
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return False
            if found is None:
                return False
            job = self.jobs.get(found.si_pid)
            if job is not None:
                self.signal(job, signal.SIGKILL)
            _, status = os.waitpid(found.si_pid, 0)
            if job is not None:
                self.finish(job, status)
        return True

    def finish(self, job: Job, status: int) -> None:
        self.close_feed(job)
        for fd, stream in job.streams.items():
            for _ in range(PIECES_AFTER_END):  # what is left in the pipe; who else holds it is late
                before = stream.total
                if not self.pump(job, fd) or stream.total == before:
                    break
            try:
                self.selector.unregister(fd)
            except KeyError:
                pass
            os.close(fd)
        del self.jobs[job.pid]
        if not self.jobs:
            self.sweep()
        for stream in job.streams.values():
            if stream.tail:
                self.send({"id": job.id, "s": stream.number, "tail": True}, stream.tail)
        self.send(
            {
                "id": job.id,
                "end": {
                    "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
                    "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
                    "cause": job.cause,
                    "bytes": [stream.total for stream in job.streams.values()],
                    "ms": round(1000 * (time.monotonic() - job.started), 3),
                    "oom": facts.oom_kills(),
                    "memory_left": facts.memory_left(),
                },
            }
        )

    def sweep(self) -> None:
        """Kill all that outlived its command: background jobs, daemons, other sessions."""
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def on_time(self) -> float:
        """End what is late; the seconds until something else will be."""
        now, wait = time.monotonic(), 3600.0
        for job in self.jobs.values():
            if now < job.deadline:
                wait = min(wait, job.deadline - now)
            elif job.cause is None:
                self.stop(job, "timeout")
                wait = min(wait, GRACE)
            elif not job.killed:
                job.killed = True
                self.signal(job, signal.SIGKILL)
        return wait

    def end(self) -> NoReturn:
        self.sweep()
        os._exit(0)

    def run(self, expected: dict[str, Any]) -> NoReturn:
        if expected.get("gate"):
            self.gate = forward.Gate(self.selector, expected["gate"])
        self.send({"ready": facts.account(self.root)})
        ends = time.monotonic() + expected["max_life"]
        more = False
        while (left := ends - time.monotonic()) > 0:
            for key, _ in self.selector.select(0 if more else min(left, self.on_time())):
                handler, subject = key.data
                if key.fd in self.selector.get_map():  # an earlier handler may have closed it
                    handler(key.fd, subject)
            self.on_time()
            more = self.reap()
        self.end()


def main() -> None:
    become_untouchable()
    into, out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    expected = json.loads(sys.argv[1])
    Runner(into, out, expected["workspace"]).run(expected)


if __name__ == "__main__":
    main()
