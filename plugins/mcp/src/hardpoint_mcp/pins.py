"""What each tool said of itself when it was first allowed to run. What says otherwise waits."""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from hardpoint.errors import NotAuthorized
from hardpoint_mcp.catalogue import Listed, fingerprint
from hardpoint_mcp.wire.channel import Message

MIGRATIONS: Final = (
    "CREATE TABLE mcp_pins (server TEXT NOT NULL, tool TEXT NOT NULL, hash TEXT NOT NULL,"
    " definition TEXT NOT NULL, pinned_at REAL NOT NULL, PRIMARY KEY (server, tool))",
)

_KEEP: Final = (
    "INSERT INTO mcp_pins (server, tool, hash, definition, pinned_at) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (server, tool) DO NOTHING"
)
_REPLACE: Final = (
    "INSERT INTO mcp_pins (server, tool, hash, definition, pinned_at) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (server, tool) DO UPDATE SET hash = excluded.hash,"
    " definition = excluded.definition, pinned_at = excluded.pinned_at"
)


@attrs.frozen
class Pin:
    """The approved definition of one tool."""

    server: str
    tool: str
    hash: str
    definition: Message = attrs.field(repr=False)
    pinned_at: float = 0.0


class Pins:
    """The approved definitions, in the store of the data folder."""

    def __init__(self, namespace: Any) -> None:
        self._namespace = namespace
        self._known: dict[tuple[str, str], Pin] = {}
        self._loaded = False

    def get(self, server: str, tool: str) -> Pin | None:
        if not self._loaded:
            self.reload()
        return self._known.get((server, tool))

    def of(self, server: str) -> Sequence[Pin]:
        self.reload()
        return [pin for (owner, _), pin in sorted(self._known.items()) if owner == server]

    def reload(self) -> None:
        """Read again: another process may have approved something."""
        rows = self._namespace.query(
            "SELECT server, tool, hash, definition, pinned_at FROM mcp_pins"
        )
        pins = [
            Pin(
                row["server"],
                row["tool"],
                row["hash"],
                json.loads(row["definition"]),
                row["pinned_at"],
            )
            for row in rows
        ]
        self._known = {(pin.server, pin.tool): pin for pin in pins}
        self._loaded = True

    def add(self, server: str, tool: str, definition: Message, *, replace: bool = False) -> None:
        """Keep this definition as the approved one."""
        pin = Pin(server, tool, fingerprint(definition), definition, time.time())
        changed = self._namespace.execute(
            _REPLACE if replace else _KEEP,
            (server, tool, pin.hash, json.dumps(definition), pin.pinned_at),
        )
        if changed:
            self._known[server, tool] = pin
        else:
            self.reload()

    def remove(self, server: str, tool: str | None = None) -> int:
        """Forget the approved definitions of a server, or of one tool of it."""
        sql, params = "DELETE FROM mcp_pins WHERE server = ?", (server,)
        if tool is not None:
            sql, params = sql + " AND tool = ?", (server, tool)  # type: ignore[assignment]
        removed: int = self._namespace.execute(sql, params)
        self.reload()
        return removed

    # deciding ----------------------------------------------------------------------------------

    def drift(self, server: str, listed: Listed) -> Pin | None:
        """The approved definition, where the tool no longer is what was approved."""
        pin = self.get(server, listed.original)
        if pin is None or pin.hash == listed.hash:
            return None
        self.reload()
        pin = self.get(server, listed.original)
        return None if pin is None or pin.hash == listed.hash else pin

    def check(self, server: str, listed: Listed) -> None:
        """Let a tool run that is what was approved; the first time, what it is now is approved.

        Raises:
            NotAuthorized: It changed since; the message says what.
        """
        pin = self.drift(server, listed)
        if pin is not None:
            what = ", ".join(changed_fields(pin.definition, listed.raw))
            raise NotAuthorized(
                f"{listed.definition.name!r} is quarantined: its server changed its definition"
                f" ({what}) after it was approved",
                hint=f"see the difference with `hardpoint mcp diff {server} {listed.original}`,"
                f" accept it with `hardpoint mcp approve {server} {listed.original}`",
            )
        if self.get(server, listed.original) is None:
            self.add(server, listed.original, listed.raw)


def changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[str]:
    """The top-level fields that differ."""
    return [
        field
        for field in sorted(before.keys() | after.keys())
        if before.get(field) != after.get(field)
    ]


def diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[str]:
    """Both definitions as a line by line difference; what nobody sees is written out."""

    def lines(definition: Mapping[str, Any]) -> list[str]:
        # ASCII makes invisible and look-alike characters visible.
        text = json.dumps(definition, indent=2, sort_keys=True, ensure_ascii=True)
        return text.replace("\\n", "\\n\n").splitlines()

    return list(difflib.unified_diff(lines(before), lines(after), "approved", "now", lineterm=""))
