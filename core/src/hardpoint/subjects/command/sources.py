"""Where the text that a command runs, or reads, comes from."""

from __future__ import annotations

import re
from typing import Final

import attrs

from hardpoint.subjects.command.finding import Input
from hardpoint.subjects.command.model import Segment
from hardpoint.subjects.command.reading import UNKNOWN_FEED, Command, Reading, Redirect
from hardpoint.subjects.command.tables import names_of
from hardpoint.subjects.command.words import Span, Word

FETCHERS: Final = names_of(
    "curl wget wget2 aria2c axel http https xh xhs fetch lwp-request get lynx w3m links elinks ftp"
    " tftp lftp nc ncat netcat socat telnet ssh scp sftp rsync gsutil s3cmd rclone ipfs dig"
    " nslookup host gh httpie aws invoke-webrequest iwr youtube-dl yt-dlp magic-wormhole"
)


@attrs.define
class Frame:
    """One reading of one text, while its commands are judged."""

    reading: Reading
    depth: int
    outer: tuple[Command, Frame] | None = None
    """The command whose standard input this text shares, and where that stands."""
    spans: list[Span] = attrs.field(factory=list)
    """The segments that each command gave."""


def printed_text(command: Command) -> str | None:
    """What a command prints, when the line itself says all of it."""
    if not command.words:
        return None
    name, *words = command.words
    texts = [word.literal for word in words]
    if any(text is None or word.glob for text, word in zip(texts, words, strict=True)):
        return None
    known = [text for text in texts if text is not None]
    if name.text == "cat" and not known:
        documents = [r.document.body.literal for r in command.redirects if r.document]
        return documents[-1] if documents else None
    if name.text == "echo":
        while known and re.fullmatch(r"-[neE]+", known[0]):
            known = known[1:]
        text = " ".join(known)
    elif name.text == "printf" and known and (len(known) == 1 or known[0] in ("%s", "%s\\n")):
        text = known[0] if len(known) == 1 else "\n".join(known[1:])
        text = re.sub(r"\\n$", "\n", text)
        if len(known) == 1 and "%" in text:
            return None
    else:
        return None
    # Shells differ in what a backslash prints.
    return None if "\\" in text else text


def is_fed(command: Command) -> bool:
    """Whether a pipe, or a process substitution, writes to a command."""
    feed = command.feed
    return feed is not None and (feed is UNKNOWN_FEED or feed.end > feed.start)


def base_name(word: Word) -> str:
    """The program's name without folder, in lower case; empty when it cannot be told."""
    if word.literal is None or word.glob:
        # `/bin/r?` may be anything; a `[` alone is a program.
        return "[" if word.text == "[" else ""
    return word.text.rpartition("/")[2].lower()


def file_key(word: Word) -> str:
    """How a written file and a run one are told to be the same: by name, wherever they are."""
    if word.text in ("/dev/null", ""):
        return ""
    return word.text.rstrip("/").rpartition("/")[2].lower()


class Sources:
    """The segments judged so far, and what they feed into each other."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []

    def input_of(self, command: Command, frame: Frame) -> Input:
        inputs = [redirect for redirect in command.redirects if redirect.reads]
        if not inputs and not is_fed(command):
            return Input()
        from_file = bool(inputs) and inputs[-1].operator in ("<", "<>")
        return Input(True, self.known_input(command, frame), from_file)

    def inputs_of(self, command: Command) -> list[Redirect]:
        own = [redirect for redirect in command.redirects if redirect.reads]
        return own or [redirect for redirect in command.outer if redirect.reads]

    def known_input(self, command: Command, frame: Frame) -> str | None:
        """The text on standard input, where the line itself holds all of it."""
        inputs = self.inputs_of(command)
        if inputs:
            last = inputs[-1]
            if last.document is not None:
                return last.document.body.literal
            if last.operator == "<<<":
                return last.target.literal
            return None
        feed = command.feed
        if feed is None or feed.end - feed.start != 1:
            if frame.outer is not None and not is_fed(command):
                return self.known_input(*frame.outer)
            return None
        return printed_text(frame.reading.commands[feed.start])

    def fetches(self, word: Word, frame: Frame) -> bool:
        return any(self.any_fetch(frame, span) for span in word.substitutions)

    def any_fetch(self, frame: Frame, commands: Span) -> bool:
        spans = frame.spans[commands.start : commands.end]
        return any(
            segment.program in FETCHERS
            for span in spans
            for segment in self.segments[span.start : span.end]
        )

    def prints_fetched(self, command: Command, frame: Frame) -> bool:
        """Whether what a command prints comes from the network."""
        if any(base_name(word) in FETCHERS for word in command.words):
            return True
        return command.feed is not None and self.any_fetch(frame, command.feed)
