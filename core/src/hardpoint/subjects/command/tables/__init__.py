"""The tables of programs and options, one pattern a line; each explains itself at its top."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files


def table(name: str) -> Iterator[str]:
    """The lines of one table, without comments."""
    for line in files(__name__).joinpath(f"{name}.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line


def names_of(text: str) -> frozenset[str]:
    """The words of a text: names of programs or options."""
    return frozenset(text.split())
