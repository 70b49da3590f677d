"""Options and program texts of everyday tools that make them run something else."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from hardpoint.subjects.command.args import SINGLE_DASH, read_args
from hardpoint.subjects.command.languages import LANGUAGES
from hardpoint.subjects.command.opening import Code, Opened
from hardpoint.subjects.command.option_table import option_table
from hardpoint.subjects.command.services import SERVICES
from hardpoint.subjects.command.words import Word


def open_program(program: str, words: Sequence[Word]) -> Opened:
    """What a program runs by its options or its own little language."""
    opened = Opened()
    runs, valued = option_table().get(program, ((), frozenset()))
    if runs:
        args = read_args(words[1:], valued, single_dash=program in SINGLE_DASH or program == "zip")
        for name in runs:
            for value in args.values(name):
                opened.add(Code(_command_part(program, name, value), f"{program} {name}"))
    special = _SPECIAL.get(program)
    if special is not None:
        special(words, opened)
    return opened


def _command_part(program: str, option: str, value: Word) -> Word:
    """The part of an option's value that is run."""
    if program in ("tar", "gtar") and option == "--checkpoint-action":
        action, _, command = value.text.partition("=")
        return value.part(command if action == "exec" else ":")
    if program == "fzf" and option == "--bind":
        inside = re.findall(r"(?:execute|become|reload|transform)[^(:+]*[(:]([^)]*)", value.text)
        return value.part("; ".join(inside) or ":")
    if program == "hg":
        key, _, command = value.text.partition("=")
        risky = re.match(r"alias|hooks|extensions|ui\.(?:editor|ssh|merge)|merge-tools", key)
        return value.part(command.removeprefix("!") if risky else ":")
    if option == "-wrapper":
        return value.part(value.text.replace(",", " "))
    if program == "rg" and not value.text:
        return value.part(":")
    return value


_SPECIAL: Final[dict[str, Callable[[Sequence[Word], Opened], None]]] = {**LANGUAGES, **SERVICES}
