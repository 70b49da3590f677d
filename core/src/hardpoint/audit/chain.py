"""One audit line: how it is sealed to the one before, and how the seal is checked.

A line is a JSON object whose last member, `hash`, is the SHA-256 of everything before it. `prev` is
the hash of the line before, also across files of one process.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import attrs

START = "0" * 64
"""What stands before the first line of a process."""

_SEAL = b',"hash":"'
_encode = json.JSONEncoder(separators=(",", ":"), default=str, check_circular=False).encode


@attrs.frozen
class Line:
    """A line that is what its hash says."""

    record: dict[str, Any]
    hash: str

    @property
    def number(self) -> int:
        return int(self.record["seq"])


def encode(value: Any) -> str:
    """JSON as the audit writes it: ASCII, no blanks."""
    return _encode(value)


def seal(head: str, fields: str, prev: str) -> tuple[bytes, str]:
    """One line and its hash.

    Args:
        head: The JSON of the first members, an object.
        fields: The JSON of the others, an object.
        prev: The hash of the line before.
    """
    rest = "" if fields == "{}" else "," + fields[1:-1]
    body = f'{head[:-1]}{rest},"prev":"{prev}"'.encode()
    digest = hashlib.sha256(body).hexdigest()
    return b'%s%s%s"}\n' % (body, _SEAL, digest.encode()), digest


def unseal(line: bytes) -> Line:
    """Read a line.

    Raises:
        ValueError: It is not what its hash says, or no audit line; the message says which.
    """
    body, seal_mark, rest = line.rstrip(b"\n").rpartition(_SEAL)
    if not seal_mark or not rest.endswith(b'"}') or len(rest) != 66:
        raise ValueError("is no audit record")
    digest = rest[:-2].decode("ascii", "replace")
    if hashlib.sha256(body).hexdigest() != digest:
        raise ValueError("was changed")
    try:
        record = json.loads(body + b"}")
    except (ValueError, RecursionError) as error:
        raise ValueError("is no JSON object") from error
    if not isinstance(record, dict) or not isinstance(record.get("seq"), int):
        raise ValueError("is no audit record")
    return Line(record, digest)
