"""Answer a listing from the cache, before the library of the command line is imported."""

from __future__ import annotations

import sys

from hardpoint.cli.catalogue import kept, plugin_rows, tool_rows
from hardpoint.cli.render import as_json, as_rows, without_reader
from hardpoint.cli.state import State

LISTINGS = {
    "tools": ("short", tool_rows),
    "tools list": ("short", tool_rows),
    "tools list --json": ("short", None),
    "plugins": ("plugins", plugin_rows),
    "plugins list": ("plugins", plugin_rows),
    "plugins list --json": ("plugins", None),
}


def answer(arguments: list[str]) -> bool:
    """Print a listing that is kept; False when it is not, or something else is asked."""
    asked = LISTINGS.get(" ".join(arguments))
    if asked is None:
        return False
    shape, rows_of = asked
    found = kept(State(), shape)
    if found is None:
        return False
    try:
        print(as_json(found) if rows_of is None else as_rows(rows_of(found)))
        sys.stdout.flush()
    except UnicodeEncodeError:
        return False  # for a terminal that cannot show it there is another way
    except BrokenPipeError:
        without_reader()
    return True
