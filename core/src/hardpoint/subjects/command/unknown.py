"""What nobody can read before it runs: texts, scripts and input put together at run time."""

from __future__ import annotations

import re

from hardpoint.subjects.command.finding import Finding, ask, refuse
from hardpoint.subjects.command.opening import Code, Inner, Script, Stdin
from hardpoint.subjects.command.reading import Command
from hardpoint.subjects.command.sources import Frame, Sources, file_key, is_fed
from hardpoint.subjects.command.words import HOLE


class Unknown(Sources):
    """Says why what a command runs cannot be judged; remembers the files that are run."""

    def __init__(self) -> None:
        super().__init__()
        self.executed: list[tuple[str, bool]] = []
        """Files that the line runs, and whether a shell reads them."""
        self.input_replaced = False
        """`exec <…` has given every later command another standard input."""

    def unreadable(self, inner: Inner, command: Command, frame: Frame) -> list[Finding]:
        """What nobody can read before it runs."""
        if isinstance(inner, Code):
            if inner.text.literal is not None:
                return []
            if self.fetches(inner.text, frame):
                return [refuse("runs text from the network")]
            return [ask("the text that runs is known only at run time")]
        if isinstance(inner, Script):
            return self._script(inner, frame)
        if isinstance(inner, Stdin):
            return self._stdin(inner, command, frame)
        return []

    def _script(self, inner: Script, frame: Frame) -> list[Finding]:
        path = inner.path
        if path.substitutions:
            if self.fetches(path, frame):
                return [refuse("runs text from the network")]
            return [ask("the script is known only at run time")]
        if re.match(r"/dev/(?:fd/|tcp/|udp/|stdin)|/proc/.*/fd/", path.text):
            return [ask("the script is known only at run time")]
        if re.match(r"(?:https?|ftp)://", path.text):
            return [refuse("runs a script from the network")]
        if HOLE in path.text:
            known = set(path.variables) <= {"HOME", "PWD", "VIRTUAL_ENV", "OLDPWD", "GITHUB_ENV"}
            if path.text.count(HOLE) > 1 or not known or path.text == HOLE:
                return [ask("the script is known only at run time")]
        self.executed.append((file_key(path), inner.shell))
        return []

    def _stdin(self, inner: Stdin, command: Command, frame: Frame) -> list[Finding]:
        inputs = self.inputs_of(command)
        if inputs:
            last = inputs[-1]
            if self.fetches(last.target, frame) or (
                last.document and self.fetches(last.document.body, frame)
            ):
                return [refuse("runs text from the network")]
            if last.operator in ("<", "<>") and HOLE not in last.target.text:
                self.executed.append((file_key(last.target), inner.shell))
                if not re.match(r"/dev/|/proc/", last.target.text):
                    return []
            elif inner.shell and self.known_input(command, frame) is not None:
                return []
            return [ask("its input is run, and cannot be judged")]
        if command.feed is not None and is_fed(command):
            if self.any_fetch(frame, command.feed):
                return [refuse("runs a script from the network")]
            if inner.shell and self.known_input(command, frame) is not None:
                return []
            return [ask("its input is run, and cannot be judged")]
        if command.function is not None or self.input_replaced or inner.context in (".", "source"):
            return [ask("its input is run, and cannot be judged")]
        return [] if frame.outer is None else self._stdin(inner, *frame.outer)
