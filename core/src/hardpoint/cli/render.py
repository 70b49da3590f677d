"""Print results for people or as JSON: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from hardpoint.errors import HardpointError


def as_json(value: Any) -> str:
    """One JSON document."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def as_rows(rows: Sequence[Sequence[str]]) -> str:
    """A table without borders: columns aligned, nothing cut."""
    if not rows:
        return ""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def without_reader() -> int:
    """Whoever read our output has gone, which is no error of ours; the exit code."""
    # Python would complain once more while it closes stdout.
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:
        pass  # stdout is no file
    return 0


def say_json(value: Any) -> None:
    """One JSON document on stdout."""
    import click

    click.echo(as_json(value))


def say_result(value: Any) -> None:
    """A tool's result for a person: text as it is, values as JSON."""
    if isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    import click

    click.echo(printable(text))


def word(value: Any) -> str:
    """One value of a line for people: text as it is, yes or no, else JSON."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def printable(text: str) -> str:
    """Text without lone surrogates and, on a terminal, with control characters made visible."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if not sys.stdout.isatty():
        return text
    return "".join(
        c if c in "\n\t" or c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


def say_error(error: HardpointError) -> None:
    """An error on stderr: what happened, every problem, what to do next."""
    from hardpoint.errors import ConfigError, InvalidParameters

    lines: list[str]
    if isinstance(error, ConfigError) and len(error.problems) > 1:
        lines = ["error: the configuration cannot be used:"]
        lines += [f"  {problem}" for problem in error.problems]
    elif isinstance(error, InvalidParameters) and error.issues:
        lines = [f"error: {error.message.partition(': ')[0]}:"]
        lines += [f"  {issue}" for issue in error.issues]
    else:
        lines = [f"error: {error.message}"]
    if error.hint:
        lines.append(f"hint: {error.hint}")
    import click

    click.echo(printable("\n".join(lines)), err=True)


def say_rows(rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout."""
    import click

    if rows:
        click.echo(as_rows(rows))
