"""Programs whose purpose is to run another program: where that one starts among their words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import attrs

from hardpoint.subjects.command.args import read_args
from hardpoint.subjects.command.finding import ask
from hardpoint.subjects.command.opening import Code, Opened, Runs, joined
from hardpoint.subjects.command.tables import table
from hardpoint.subjects.command.words import HOLE, Word, assigned_name


@attrs.frozen
class Wrapper:
    """How one wrapper names the program that it runs."""

    valued: frozenset[str]
    skip: int = 0
    neutral: bool = False
    assigns: bool = False
    text: bool = False
    texts: bool = False
    text_options: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    """Runs something only behind one of these subcommands."""
    asks: str = ""


@lru_cache(maxsize=1)
def wrappers() -> dict[str, Wrapper]:
    """The table, by name of the program."""
    found = {}
    for line in table("wrappers"):
        names, valued, notes = (part.strip() for part in line.split("|"))
        notes, _, asks = notes.partition("ask:")
        marks = notes.split()
        texts = [mark.partition("=")[2] for mark in marks if mark.startswith("option=")]
        numbers = [int(mark[5:]) for mark in marks if mark.startswith("skip=")]
        only = [mark[5:].split(",") for mark in marks if mark.startswith("only=")]
        wrapper = Wrapper(
            valued=frozenset([*valued.split(), *texts]),
            skip=numbers[0] if numbers else 0,
            neutral="neutral" in marks,
            assigns="assigns" in marks,
            text="text" in marks,
            texts="texts" in marks,
            text_options=tuple(texts),
            only=tuple(only[0]) if only else (),
            asks=asks,
        )
        found.update(dict.fromkeys(names.split(), wrapper))
    return found


def open_wrapper(program: str, words: Sequence[Word]) -> Opened | None:
    """What a wrapper runs; None when the program is none of the table."""
    wrapper = wrappers().get(program)
    if wrapper is None:
        return None
    opened = Opened(neutral=wrapper.neutral)
    args = read_args(words[1:], wrapper.valued, stop=True, plus=False)
    if wrapper.asks:
        opened.find(ask(wrapper.asks))
    for name in wrapper.text_options:
        for value in args.values(name):
            opened.add(Code(value, program))
    rest = list(args.rest)
    if wrapper.only:
        if not rest or (rest[0].text not in wrapper.only and HOLE not in rest[0].text):
            return opened
        tail = read_args(rest[wrapper.skip :], wrapper.valued, stop=True)
        rest = list(tail.rest)
    elif program in ("command", "builtin") and args.has("-v", "-V"):
        return Opened()
    elif program in ("sudo", "doas") and args.has("-e", "--edit"):
        return opened
    else:
        rest = rest[wrapper.skip :]
        # Options may follow the operand, as in `flock FILE -c TEXT`.
        if wrapper.skip and wrapper.text_options:
            tail = read_args(rest, wrapper.valued, stop=True)
            for name in wrapper.text_options:
                for value in tail.values(name):
                    opened.add(Code(value, program))
            rest = list(tail.rest)
    if wrapper.texts:
        return opened.add(*(Code(word, program) for word in rest))
    if wrapper.text:
        return opened.add(Code(joined(rest), program)) if rest else opened
    while rest and rest[0].text == "!":
        rest = rest[1:]
    if wrapper.assigns:
        rest = take_assignments(rest, opened)
    if program == "coproc" and len(rest) > 1 and rest[1].text in ("{", "("):
        return opened.find(ask("runs a background process that cannot be told apart"))
    if rest:
        opened.add(Runs(rest, program, len(words) - len(rest)))
    return opened


def take_assignments(words: list[Word], opened: Opened) -> list[Word]:
    for index, word in enumerate(words):
        name = assigned_name(word.text)
        if name is None:
            return words[index:]
        opened.assignments.append((name[1], word.part(word.text[name.end() :])))
    return []


# wrappers with a grammar of their own -------------------------------------------------------------
