"""The names under which a server's tools are offered. The way back is a table, never parsing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from hardpoint_mcp.config import PrefixMode

LONGEST: Final = 128
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_.-]")


def clean(name: str) -> str:
    """The name in the letters that MCP allows."""
    return _FOREIGN.sub("_", name) or "_"


def prefix_for(server: str, mode: PrefixMode) -> str:
    """What stands before each tool name of a server."""
    if mode == "none":
        return ""
    return f"{clean(server)}__" if mode == "server" else f"mcp__{clean(server)}__"


def assign(
    server: str, mode: PrefixMode, originals: Iterable[str], rename: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The offered name of each tool: offered to original, in the given order.

    A name that does not fit, or that a reader would take for an earlier one, gets a short hash of
    the original at its end, so that it is the same in every run and whatever else is listed.
    """
    prefix = prefix_for(server, mode)
    wanted = {original: (rename or {}).get(original, original) for original in originals}
    # Names that need no change come first: they keep their spelling whatever stands beside them.
    offered: dict[str, str] = {}
    taken: set[str] = set()
    order = sorted(wanted, key=lambda original: clean(wanted[original]) != wanted[original])
    for original in order:
        name = prefix + clean(wanted[original])
        if len(name) > LONGEST or _confusable(name) in taken:
            mark = "_" + hashlib.sha256(f"{server}\0{original}".encode()).hexdigest()[:8]
            name = name[: LONGEST - len(mark)] + mark
        if _confusable(name) in taken:
            continue  # the server gave the same tool twice
        taken.add(_confusable(name))
        offered[name] = original
    position = {original: index for index, original in enumerate(wanted)}
    return dict(sorted(offered.items(), key=lambda item: position[item[1]]))


def _confusable(name: str) -> str:
    return name.replace("-", "_").casefold()
