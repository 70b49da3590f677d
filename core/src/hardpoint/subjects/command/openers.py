"""Find out what a command runs besides itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from hardpoint.subjects.command.git import open_git
from hardpoint.subjects.command.interpreters import (
    SHELLS,
    open_interpreter,
    open_shell,
    open_source,
)
from hardpoint.subjects.command.opening import Code, Opened
from hardpoint.subjects.command.programs import open_program
from hardpoint.subjects.command.runners import (
    open_busybox,
    open_env,
    open_fd,
    open_find,
    open_loader,
    open_parallel,
    open_script,
    open_ssh,
    open_su,
    open_xargs,
)
from hardpoint.subjects.command.words import Word, assigned_name
from hardpoint.subjects.command.wrappers import open_wrapper


def open_command(program: str, words: tuple[Word, ...]) -> Opened:
    """Find out what a program runs.

    Args:
        program: Its base name in lower case.
        words: The command, name included.
    """
    opener = _OPENERS.get(program)
    if opener is not None:
        return opener(words)
    if program in SHELLS:
        return open_shell(words)
    if re.fullmatch(r"ld(?:-linux[\w.-]*|-musl[\w.-]*|\.so[\d.]*)", program):
        return open_loader(words)
    found = open_wrapper(program, words) or open_interpreter(program, words) or Opened()
    more = open_program(program, words)
    found.inner += more.inner
    found.findings += more.findings
    return found


def _open_trap(words: Sequence[Word]) -> Opened:
    operands = [word for word in words[1:] if word.text not in ("--", "-l", "-p")]
    if len(operands) > 1 and operands[0].text not in ("-", ""):
        return Opened().add(Code(operands[0], "trap"))
    return Opened()


def _open_alias(words: Sequence[Word]) -> Opened:
    opened = Opened()
    for word in words[1:]:
        name, equals, value = word.text.partition("=")
        if equals:
            opened.add(Code(word.part(value), f"alias {name}"))
            opened.aliases.append(name)
    return opened


def _open_declaration(words: Sequence[Word]) -> Opened:
    opened = Opened()
    for word in words[1:]:
        name = assigned_name(word.text)
        if name is not None:
            opened.assignments.append((name[1], word.part(word.text[name.end() :])))
    return opened


_OPENERS: Final[dict[str, Callable[[Sequence[Word]], Opened]]] = {
    "env": open_env, "xargs": open_xargs, "gxargs": open_xargs, "genv": open_env,
    "parallel": open_parallel, "sem": open_parallel, "rush": open_parallel,
    "ssh": open_ssh, "autossh": open_ssh, "mosh": open_ssh, "dbclient": open_ssh,
    "slogin": open_ssh, "rsh": open_ssh,
    "su": open_su, "runuser": open_su, "sg": open_su, "script": open_script,
    "busybox": open_busybox, "toybox": open_busybox, "sbase-box": open_busybox,
    "find": open_find, "gfind": open_find, "bfs": open_find, "fd": open_fd, "fdfind": open_fd,
    "git": open_git, ".": open_source, "source": open_source,
    "trap": _open_trap, "alias": _open_alias,
    **dict.fromkeys(("export", "declare", "typeset", "local", "readonly"), _open_declaration),
}  # fmt: skip
