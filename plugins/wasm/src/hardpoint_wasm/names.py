"""What identifies a module: the digest of its bytes, and names: its own, its file's, its tool's."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from hardpoint.errors import RegistrationError

_USABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def digest(wasm: bytes) -> str:
    """The name of a module's content, as it is pinned at installation."""
    return "sha256:" + hashlib.sha256(wasm).hexdigest()


def check_name(name: str) -> str:
    """The name, if a tool can have it.

    Raises:
        RegistrationError: It cannot.
    """
    if not _USABLE.fullmatch(name):
        raise RegistrationError(
            name, f"{name[:80]!r} cannot be a tool's name", hint="use letters, digits, _ and -"
        )
    return name


def tool_name(path: Path) -> str:
    """The name that a module's file gives its tool."""
    return path.name.removesuffix(".wasm")


def own_name(wasm: bytes) -> str | None:
    """The module's or component's name, if it can be a tool's; never fails on broken bytes."""
    try:
        for name, content in _custom_sections(wasm):
            if name in (b"name", b"component-name"):
                found = _first_name(content)
                if found is not None:
                    return found
    except (IndexError, ValueError):
        pass  # a broken module says nothing here and is refused when it is compiled
    return None


def _custom_sections(wasm: bytes) -> list[tuple[bytes, bytes]]:
    sections, at = [], 8
    while at < len(wasm):
        kind, (size, start) = wasm[at], _number(wasm, at + 1)
        if kind == 0:
            length, text = _number(wasm, start)
            sections.append((wasm[text : text + length], wasm[text + length : start + size]))
        at = start + size
    return sections


def _first_name(content: bytes) -> str | None:
    """Subsection 0: the name of the whole."""
    if not content or content[0] != 0:
        return None
    _, start = _number(content, 1)
    length, text = _number(content, start)
    name = content[text : text + length].decode("utf-8")
    name = name.removesuffix(".wasm")
    return name if _USABLE.fullmatch(name) else None


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A LEB128 number of at most 32 bits, and where it ends."""
    value = 0
    for shift in range(0, 35, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("number too long")
