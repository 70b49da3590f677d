"""How commands, file operations and starts in a sandbox end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, Self

import attrs

from hardpoint.interfaces import ExecResult


@attrs.frozen
class Execution(ExecResult):
    """How a command ended, with what only this domain knows."""

    cause: Literal["timeout", "cancelled", "output"] | None = None
    """Why the sandbox ended the command, when it did."""
    out_of_memory: bool = False
    memory_left: float = 1.0
    """The share of the sandbox's memory that the next command can have."""
    total_bytes: tuple[int, int] = (0, 0)
    """How much the command wrote to each stream, kept or not."""
    failed: str | None = None
    """The errno name when the command could not be started."""
    why: str = ""

    @classmethod
    def of(
        cls,
        end: Mapping[str, Any],
        heads: Mapping[int, Sequence[bytes]],
        tails: Mapping[int, bytes],
        oom_before: int,
    ) -> Self:
        """What the runner's last word about a command, and its output, amount to."""
        if "failed" in end:
            failed = "ECWD" if end["at"] == "cwd" else end["failed"]
            return cls(exit_code=None, failed=failed, why=end["why"])
        (stdout, cut), (stderr, cut_too) = (
            joined(b"".join(heads[stream]), tails.get(stream, b""), total)
            for stream, total in enumerate(end["bytes"], 1)
        )
        return cls(
            exit_code=end["exit"],
            signal=end["signal"],
            stdout=stdout,
            stderr=stderr,
            truncated=cut or cut_too,
            timed_out=end["cause"] == "timeout",
            cause=end["cause"],
            out_of_memory=end["oom"] > oom_before and end["exit"] != 0,
            memory_left=end["memory_left"],
            duration=timedelta(milliseconds=end["ms"]),
            total_bytes=(end["bytes"][0], end["bytes"][1]),
        )


def joined(head: bytes, tail: bytes, total: int) -> tuple[bytes, bool]:
    """The start and the end of an output of this length, and whether anything is missing."""
    dropped = total - len(head) - len(tail)
    if dropped <= 0:
        return head + tail, False
    return head + b"\n... [%d bytes dropped] ...\n" % dropped + tail, True


class FileRefused(Exception):
    """A file operation that was not done; `code` is one of the runner's words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class StartFailed(Exception):
    """The process that should hold a sandbox ended or stayed silent; the text is what it said."""
