"""Files that one line first writes and then runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import attrs

from hardpoint.subjects.command.finding import Finding, ask
from hardpoint.subjects.command.reading import Command
from hardpoint.subjects.command.sources import Frame, file_key
from hardpoint.subjects.command.tables import names_of
from hardpoint.subjects.command.unknown import Unknown
from hardpoint.subjects.command.words import Word

_DOWNLOADERS: Final = names_of("curl wget wget2 aria2c http axel scp rsync ftp")
_UNPACKERS: Final = names_of("tar bsdtar unzip 7z cpio ar")
_COPIERS: Final = names_of("base64 cp mv install ln")
_ANY: Final = "*"
"""In place of a name that only the server knows."""


@attrs.define
class Written:
    """A file that the line itself writes."""

    path: str
    text: str | None
    fetched: bool


class Staging(Unknown):
    """Remembers what a line writes, fetches and runs."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Written] = []

    def remember_files(
        self, program: str, words: tuple[Word, ...], command: Command, frame: Frame
    ) -> None:
        if "/" in words[0].text:
            self.executed.append((file_key(words[0]), True))
        texts = [word.text for word in words]
        if program in _DOWNLOADERS:
            self.written += [Written(name, None, True) for name in _downloads(texts)]
        elif program in _UNPACKERS:
            known = {written.path for written in self.written if written.fetched}
            from_file = any(file_key(word) in known for word in words[1:])
            if from_file or self.prints_fetched(command, frame):
                self.written.append(Written(_ANY, None, True))
        elif program == "tee":
            printed = self.known_input(command, frame)
            fetched = self.prints_fetched(command, frame)
            self.written += [Written(file_key(word), printed, fetched) for word in words[1:]]
        elif program == "dd":
            outs = [text[3:] for text in texts if text.startswith("of=")]
            self.written += [Written(file_key(Word(name)), None, False) for name in outs]
        elif program in _COPIERS:
            known = {written.path for written in self.written}
            if any(file_key(word) in known for word in words[1:]):
                self.written.append(Written(file_key(words[-1]), None, True))

    def staged(self) -> tuple[list[Finding], list[str]]:
        """What is wrong with running what the line itself wrote, and the texts that it runs."""
        executed = {key: shell for key, shell in self.executed if key}
        findings: list[Finding] = []
        texts: list[str] = []
        if executed and any(written.path == _ANY for written in self.written):
            findings.append(ask("may run a file that it fetches"))
        for written in self.written:
            if not written.path or written.path not in executed:
                continue
            if written.text is None:
                how = "fetches" if written.fetched else "writes"
                findings.append(ask(f"runs a file that it {how}"))
            elif not executed[written.path] or re.match(r"#!(?!.*sh\b)", written.text):
                findings.append(ask("runs a file that it writes"))
            else:
                texts.append(written.text)
        return findings, texts


def _downloads(texts: Sequence[str]) -> list[str]:
    """The names under which a download may be saved."""
    names = [re.sub(r"[?#].*", "", text) for text in texts[1:] if not text.startswith("-")]
    for index, text in enumerate(texts):
        option = re.match(r"--?(?:output|output-document|out)(?:=(.+))?$|-[A-Za-z]*[oO](.*)$", text)
        if option:
            names += [option[1] or option[2] or "".join(texts[index + 1 : index + 2])]
    by_server = any(re.match(r"-[A-Za-z]*J|--remote-header|--content-disp", t) for t in texts)
    by_address = any(re.match(r"-[A-Za-z]*O|--remote-name", t) for t in texts)
    nameless = any(re.fullmatch(r"(?:\w+://)?[^/]*\.[^/]*/?", name) for name in names)
    found = [file_key(Word(name)) for name in names]
    return [*found, _ANY] if by_server or (by_address and nameless) else found
