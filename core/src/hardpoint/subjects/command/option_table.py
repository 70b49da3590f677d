"""Which options of everyday programs run their value, and which others take one."""

from __future__ import annotations

from functools import lru_cache

from hardpoint.subjects.command.tables import table


@lru_cache(maxsize=1)
def option_table() -> dict[str, tuple[tuple[str, ...], frozenset[str]]]:
    """By program: the options whose value is run, and all that take a value."""
    found = {}
    for line in table("options"):
        names, runs, valued = (part.split() for part in line.split("|"))
        for name in names:
            found[name] = (tuple(runs), frozenset([*runs, *valued]))
    return found


def valued_options(program: str) -> frozenset[str]:
    """The options of a program that take a value, as far as this table knows."""
    return option_table().get(program, ((), frozenset()))[1]
