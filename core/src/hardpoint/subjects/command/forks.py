"""Fork bombs: functions that start themselves more than once at a time."""

from __future__ import annotations

import re
from typing import Final

from hardpoint.subjects.command.finding import Finding, refuse
from hardpoint.subjects.command.reading import Reading

# For text that no grammar reads: NAME(){ … NAME | NAME & …
_FORK_BOMB: Final = re.compile(
    r"(?<![^\s(){}|&;])([^\s(){}|&;]{1,40})\s{0,9}\(\s{0,9}\)\s{0,9}\{[^}]{0,99}?"
    r"\1\s{0,9}(?:\|&?|&)\s{0,9}\1\s{0,9}[&;}]"
)


def fork_bombs(reading: Reading) -> list[Finding]:
    """Functions that start themselves more than once at a time."""
    calls: dict[str, set[str]] = {name: set() for name in reading.functions}
    forking: set[str] = set()
    pipelines: dict[tuple[str, int], int] = {}
    for command in reading.commands:
        if command.function is None or not command.words:
            continue
        called = command.words[0].text
        if called not in calls:
            continue
        calls.setdefault(command.function, set()).add(called)
        key = (command.function, command.pipeline)
        pipelines[key] = pipelines.get(key, 0) + 1
        if command.background or pipelines[key] > 1:
            forking.add(command.function)
    for name in forking:
        reached, open_names = set(), list(calls[name])
        while open_names:
            current = open_names.pop()
            if current not in reached:
                reached.add(current)
                open_names += calls.get(current, ())
        if name in reached:
            return [refuse("a function starts itself again and again")]
    return []


def unread_fork_bomb(text: str) -> list[Finding]:
    """The same in a text that cannot be read to its end, by its look."""
    if _FORK_BOMB.search(text):
        return [refuse("a function starts itself again and again")]
    return []
