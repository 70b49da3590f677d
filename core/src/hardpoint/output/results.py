"""Keep what was cut from outputs, or saved by a tool, for its owner to read page by page.

A reference cannot be guessed, and is of use only to the user whose call made it. What is kept goes
when it is too old, and the oldest first when all together is too much.
"""

from __future__ import annotations

import re
import secrets
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

import attrs

from hardpoint.context import JobContext
from hardpoint.errors import ConfigError, InvalidParameters
from hardpoint.output.cap import boundary, cut
from hardpoint.output.shelf import FolderShelf, Kept, MemoryShelf, Shelf, StoreShelf
from hardpoint.parts import Part, Resource, Text, ToolOutput
from hardpoint.store import Namespace, StoreError

P = ParamSpec("P")
T = TypeVar("T")

REFERENCE = re.compile(r"r_[A-Za-z0-9_-]{22}\Z")


@attrs.frozen
class Capped:
    """An output that fits, and where the rest is."""

    output: ToolOutput
    notice: str
    result_ref: str | None


class Scanner(Protocol):
    """The part of the leak scanner that saved content goes through."""

    def redact_bytes(self, data: bytes) -> bytes: ...


class Results:
    """Kept results."""

    def __init__(
        self,
        place: Path | Namespace | None = None,
        *,
        keep_bytes: int = 200_000_000,
        keep_seconds: float = 86_400.0,
        clock: Callable[[], float] = time.time,
        scanner: Scanner | None = None,
    ) -> None:
        """Describe where results are kept; nothing is made before the first one.

        Args:
            place: A folder of its own, tables made with `shelf.MIGRATIONS`, or None to keep
                results in memory.
            keep_bytes: The size of all results together.
            keep_seconds: How long a result is kept.
            clock: Gives unix time.
            scanner: Replaces secrets in saved text. May be set later, as `results.scanner`.
        """
        self.scanner = scanner
        self._shelf = _shelf(place)
        self._keep_bytes = keep_bytes
        self._keep_seconds = keep_seconds
        self._clock = clock

    async def cap(
        self, output: ToolOutput, text: str, *, max_bytes: int, context: JobContext, call_id: str
    ) -> Capped:
        """Cut an output to `max_bytes` and keep all of it.

        Args:
            output: The output, scanned already.
            text: Its result as text.
            max_bytes: The cap, for the result and for each text part.
            context: Whose call it was.
            call_id: Which call it was.
        """
        references: list[str] = []
        notices: list[str] = []

        async def shorten(long: str, what: str) -> str:
            shortened = cut(long, max_bytes)
            if shortened is None:
                return long
            try:
                ref = await self.save(long, context=context, call_id=call_id)
            except (OSError, ConfigError, StoreError) as error:
                notice = f"{what} was too long; the rest could not be kept: {error}"
            else:
                references.append(ref)
                notice = (
                    f"{what} is {shortened.total} bytes; {shortened.left_out} were left out here. "
                    f'Read on with result_read(result_ref="{ref}", offset={shortened.head_bytes})'
                )
            notices.append(notice)
            return shortened.with_notice(notice)

        shown = await shorten(text, "the result")
        if shown is not text:
            meta = output.meta
            if output.structured and not isinstance(output.result, str):
                # Half of a JSON document is none. The text says what is there.
                meta = {**meta, "structured_dropped": True}
                notices.append("the structured result was dropped, its JSON text is given instead")
            output = attrs.evolve(output, result=shown, structured=False, meta=meta)
        parts: list[Part] = []
        for part in output.parts:
            if isinstance(part, Text | Resource) and part.text is not None:
                part = attrs.evolve(part, text=await shorten(part.text, "a text part"))
            parts.append(part)
        return Capped(
            attrs.evolve(output, parts=tuple(parts)),
            "; ".join(notices),
            references[0] if references else None,
        )

    async def save(
        self,
        data: bytes | str,
        *,
        context: JobContext,
        name: str | None = None,
        media_type: str = "text/plain",
        call_id: str | None = None,
    ) -> str:
        """Keep something for the user of a call.

        Returns:
            The reference that `read` takes.
        """
        if isinstance(data, str):
            data = data.encode("utf-8", "surrogatepass")
        elif self.scanner is not None and _is_text(data):
            data = self.scanner.redact_bytes(data)
        kept = Kept(
            ref=f"r_{secrets.token_urlsafe(16)}",
            user=context.user_id,
            created=self._clock(),
            size=min(len(data), self._keep_bytes),
            name=name[:200] if name else None,
            media_type=media_type[:200],
            call_id=call_id,
            complete=len(data) <= self._keep_bytes,
        )
        await self._run(self._put, kept, data[: self._keep_bytes])
        return kept.ref

    async def read(
        self, ref: str, offset: int = 0, max_bytes: int = 24_576, *, user: str
    ) -> dict[str, Any]:
        """One page of a result.

        Args:
            ref: The reference.
            offset: The byte to begin at; the beginning of a character that it is inside of.
            max_bytes: How much to read at most.
            user: Who reads; only the owner may.

        Returns:
            `text` (or `base64` for what is no text), `offset`, `next_offset` (None at the end),
            `size`, and `next`, the call that reads on.

        Raises:
            InvalidParameters: There is no such result for this user, or nothing at that offset.
        """
        return await self._run(self._read, ref, offset, max(4, max_bytes), user)

    async def delete(self, *, user: str) -> int:
        """Forget every result of one user; how many there were."""
        return await self._run(self._delete, user)

    async def prune(self) -> int:
        """Delete what is too old or too much; how many. Also done whenever something is kept."""
        return await self._run(self._prune, 0)

    async def owned(self, *, user: str) -> list[Kept]:
        """What is kept for one user, the oldest first."""
        kept = await self._run(lambda: [kept for kept in self._shelf.all() if kept.user == user])
        return sorted(kept, key=lambda kept: kept.created)

    async def _run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if isinstance(self._shelf, MemoryShelf):
            return function(*args, **kwargs)
        if isinstance(self._shelf, StoreShelf):
            return await self._shelf.tables.run(function, *args, **kwargs)
        import asyncio

        return await asyncio.to_thread(function, *args, **kwargs)

    def _put(self, kept: Kept, data: bytes) -> None:
        self._prune(len(data))
        self._shelf.put(kept, data)

    def _prune(self, coming: int) -> int:
        everything = sorted(self._shelf.all(), key=lambda kept: kept.created)
        excess = sum(kept.size for kept in everything) + coming - self._keep_bytes
        oldest = self._clock() - self._keep_seconds
        deleted = 0
        for kept in everything:
            if kept.created >= oldest and excess <= 0:
                break
            self._shelf.delete(kept.ref)
            excess -= kept.size
            deleted += 1
        return deleted

    def _delete(self, user: str) -> int:
        owned = [kept for kept in self._shelf.all() if kept.user == user]
        for kept in owned:
            self._shelf.delete(kept.ref)
        return len(owned)

    def _read(self, ref: str, offset: int, max_bytes: int, user: str) -> dict[str, Any]:
        kept = self._shelf.find(ref) if REFERENCE.match(ref) else None
        expired = kept is not None and self._clock() - kept.created > self._keep_seconds
        # Somebody else's result is as good as none.
        if kept is None or expired or kept.user != user:
            raise InvalidParameters(
                f"there is no result {ref!r}",
                hint="results are kept for a limited time; call the tool again",
            )
        if offset < 0 or offset > kept.size:
            raise InvalidParameters(
                f"offset {offset} is outside of the result, which has {kept.size} bytes"
            )
        # A little more on both sides, to find where characters begin.
        first = max(0, offset - 3)
        data = self._shelf.slice(ref, first, offset - first + max_bytes + 4)
        start = boundary(data, offset - first)
        end = boundary(data, min(len(data), start + max_bytes))
        if end <= start:
            end = min(len(data), start + max_bytes)
        page: dict[str, Any] = {"result_ref": ref, "offset": first + start, "size": kept.size}
        try:
            page["text"] = data[start:end].decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            start, end = offset - first, min(len(data), offset - first + max_bytes)
            page |= {"offset": offset, "base64": b64encode(data[start:end]).decode("ascii")}
        following = first + end
        page["next_offset"] = following if following < kept.size else None
        if following < kept.size:
            page["next"] = f'result_read(result_ref="{ref}", offset={following})'
        if kept.name is not None:
            page["name"] = kept.name
        if not kept.complete:
            page["incomplete"] = "only the beginning was kept"
        return page


def _shelf(place: Path | Namespace | None) -> Shelf:
    if place is None:
        return MemoryShelf()
    return FolderShelf(place) if isinstance(place, Path) else StoreShelf(place)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
