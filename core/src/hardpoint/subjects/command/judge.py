"""Judge a command line: every simple command at every depth, and everything that each of them runs.

The strictest part decides. What the rules of a policy say about the parts is in `decide`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import attrs

from hardpoint.subjects.command import places
from hardpoint.subjects.command.characters import suspicious
from hardpoint.subjects.command.checks import Input, check_program
from hardpoint.subjects.command.danger import table_findings
from hardpoint.subjects.command.environment import check_assignment, is_harmless
from hardpoint.subjects.command.finding import RANK, Finding, ask, refuse, strictest
from hardpoint.subjects.command.git import open_git
from hardpoint.subjects.command.interpreters import (
    SHELLS,
    open_interpreter,
    open_shell,
    open_source,
)
from hardpoint.subjects.command.model import CommandVerdict, Cover, Segment
from hardpoint.subjects.command.opening import Code, Inner, Opened, Runs, Script, Stdin
from hardpoint.subjects.command.parse import UNKNOWN_FEED, Command, Reading, Redirect, read_line
from hardpoint.subjects.command.programs import open_program
from hardpoint.subjects.command.second import second_reading
from hardpoint.subjects.command.tables import names_of
from hardpoint.subjects.command.words import HOLE, Span, Word, assigned_name
from hardpoint.subjects.command.wrappers import (
    open_busybox,
    open_env,
    open_fd,
    open_find,
    open_loader,
    open_parallel,
    open_script,
    open_ssh,
    open_su,
    open_wrapper,
    open_xargs,
)

# Linux hands a program no argument longer than this, so no shell ever sees such a line.
MAX_LENGTH: Final = 131_072
MAX_SEGMENTS: Final = 3_000
MAX_WORDS: Final = 3_000
_MAX_TEXT: Final = 2 * MAX_LENGTH
_MAX_NESTING: Final = 12
_MAX_DEPTH: Final = 80

# For text that no grammar reads: NAME(){ … NAME | NAME & …
_FORK_BOMB: Final = re.compile(
    r"(?<![^\s(){}|&;])([^\s(){}|&;]{1,40})\s{0,9}\(\s{0,9}\)\s{0,9}\{[^}]{0,99}?"
    r"\1\s{0,9}(?:\|&?|&)\s{0,9}\1\s{0,9}[&;}]"
)

_FETCHERS: Final = names_of(
    "curl wget wget2 aria2c axel http https xh xhs fetch lwp-request get lynx w3m links elinks ftp"
    " tftp lftp nc ncat netcat socat telnet ssh scp sftp rsync gsutil s3cmd rclone ipfs dig"
    " nslookup host gh httpie aws invoke-webrequest iwr youtube-dl yt-dlp magic-wormhole"
)

_OPENERS: Final = {
    "env": open_env, "xargs": open_xargs, "gxargs": open_xargs, "genv": open_env,
    "parallel": open_parallel, "sem": open_parallel, "rush": open_parallel,
    "ssh": open_ssh, "autossh": open_ssh, "mosh": open_ssh, "dbclient": open_ssh,
    "slogin": open_ssh, "rsh": open_ssh,
    "su": open_su, "runuser": open_su, "sg": open_su, "script": open_script,
    "busybox": open_busybox, "toybox": open_busybox, "sbase-box": open_busybox,
    "find": open_find, "gfind": open_find, "bfs": open_find, "fd": open_fd, "fdfind": open_fd,
    "git": open_git, ".": open_source, "source": open_source,
}  # fmt: skip


def judge_command(command: str | Sequence[str]) -> CommandVerdict:
    """Judge a command line, or a command given as a list of words.

    Args:
        command: A line for `sh -c`, or the program and its arguments.

    Returns:
        How strict to be: `unless_auto_approved` for an ordinary line, `always` for one that
        destroys, needs privileges, sends data away or cannot be told before it runs, `deny` for
        one that never runs.
    """
    line = command if isinstance(command, str) else shlex.join(command)
    return _judge_line(line)


@lru_cache(maxsize=256)
def _judge_line(line: str) -> CommandVerdict:
    judge = _Judge()
    try:
        judge.line(line)
    except RecursionError:
        # The limits on depth are meant to come first; where they do not, no answer means no.
        judge.notes.append(ask("nested too deep to judge"))
    requirement = strictest(
        [*(s.requirement for s in judge.segments), *(f.requirement for f in judge.notes)]
    )
    notes = tuple(
        dict.fromkeys(f.why for f in judge.notes if RANK[f.requirement] >= RANK[requirement])
    )
    reasons = [*notes, *(why for segment in judge.segments for why in segment.why)]
    return CommandVerdict(
        requirement, tuple(judge.segments), tuple(dict.fromkeys(reasons)), line, notes
    )


@attrs.define
class _Frame:
    """One reading of one text, while its commands are judged."""

    reading: Reading
    depth: int
    outer: tuple[Command, _Frame] | None = None
    """The command whose standard input this text shares, and where that stands."""
    spans: list[Span] = attrs.field(factory=list)
    """The segments that each command gave."""


@attrs.define
class _Written:
    """A file that the line itself writes."""

    path: str
    text: str | None
    fetched: bool


class _Judge:
    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.notes: list[Finding] = []
        self.functions: set[str] = set()
        self.aliases: set[str] = set()
        self.written: list[_Written] = []
        self.executed: list[tuple[str, bool]] = []
        self.seen: set[tuple[str, str]] = set()
        self.input_replaced = False
        """`exec <…` has given every later command another standard input."""
        self.read = 0
        """How much text has been read, what is inside other text counted again."""

    # texts -------------------------------------------------------------------------------------

    def line(self, line: str) -> None:
        if "\0" in line:
            self.notes.append(refuse("a command line cannot hold NUL"))
            return
        if not line.strip():
            self.notes.append(ask("there is no command"))
            return
        if len(line) > MAX_LENGTH or len(line.encode("utf-8", "replace")) > MAX_LENGTH:
            self.notes.append(ask(f"longer than {MAX_LENGTH} bytes"))
            return
        odd = suspicious(line)
        if odd:
            self.notes.append(ask(odd))
        self.text(line, 0, "line", None)
        self.staged()

    def text(
        self,
        text: str,
        depth: int,
        context: str,
        parent: int | None,
        outer: tuple[Command, _Frame] | None = None,
    ) -> None:
        """Judge text that a shell reads."""
        self.read += len(text)
        if depth > _MAX_NESTING or self.read > _MAX_TEXT:
            self.notes.append(ask("too much inside one line to judge"))
            return
        readings = read_line(text)
        for number, reading in enumerate(readings):
            if reading.failure:
                self.notes.append(ask(f"cannot be read to its end: {reading.failure}"))
                if _FORK_BOMB.search(text):
                    self.notes.append(refuse("a function starts itself again and again"))
            self.notes += [ask(doubt) for doubt in dict.fromkeys(reading.doubts)]
            self.functions |= reading.functions
            self.notes += _fork_bombs(reading)
            frame = _Frame(reading, depth, outer)
            for command in reading.commands:
                start = len(self.segments)
                # A second reading repeats most of the first.
                key = (command.source, command.context)
                if number == 0 or key not in self.seen or not command.words:
                    self.command(command, frame, context, parent)
                self.seen.add(key)
                frame.spans.append(Span(start, len(self.segments)))
        if not any(reading.failure for reading in readings):
            first = readings[0]
            starts = {command.start for command in first.commands}
            starts |= {command.start for reading in readings[1:] for command in reading.commands}
            doubt = second_reading(text, starts, first.inner_texts)
            if doubt:
                self.notes.append(ask(doubt))

    # commands ----------------------------------------------------------------------------------

    def command(self, command: Command, frame: _Frame, context: str, parent: int | None) -> None:
        """Judge one simple command of a text."""
        findings: list[Finding] = []
        opened = Opened()
        cover: Cover = "program"
        for redirect in command.redirects:
            findings += self._redirect(redirect, command, frame)
            if redirect.writes and not _discards(redirect):
                cover = "bare"
        for name, value in command.assignments:
            found, code = check_assignment(name, value)
            findings += found
            opened.inner += code
            if not is_harmless(name) and command.words:
                cover = "bare"
        if [word.text for word in command.words] == ["exec"] and any(
            redirect.reads for redirect in command.redirects
        ):
            self.input_replaced = True
        if command.is_test or not command.words:
            cover = "none" if cover == "program" else cover
        where = context if command.context == "line" else command.context
        self.simple(
            tuple(command.words), command, frame, frame.depth + command.depth, where, parent, None,
            findings, opened, cover,
        )  # fmt: skip

    def _redirect(self, redirect: Redirect, command: Command, frame: _Frame) -> list[Finding]:
        target = redirect.target
        if places.is_network_device(target):
            program = _base_name(command.words[0]) if command.words else ""
            if program in SHELLS:
                return [refuse("hands a shell to the network")]
            return [ask("opens a network connection")]
        if not redirect.writes:
            return []
        if not _discards(redirect):
            text = _printed(command)
            fetched = self._fetches_command(command, frame)
            self.written.append(_Written(_file_key(target), text, fetched))
        finding = places.writing(target)
        return [finding] if finding else []

    def simple(
        self,
        words: tuple[Word, ...],
        command: Command,
        frame: _Frame,
        depth: int,
        context: str,
        parent: int | None,
        at: int | None,
        findings: list[Finding],
        opened: Opened,
        cover: Cover,
    ) -> None:
        """Judge a program with its arguments, and then what it runs."""
        program = _base_name(words[0]) if words else ""
        if depth > _MAX_DEPTH or len(self.segments) >= MAX_SEGMENTS:
            self.notes.append(ask("too much inside one line to judge"))
            return
        if len(words) > MAX_WORDS:
            findings = [*findings, ask(f"more than {MAX_WORDS} words in one command")]
            words = words[:MAX_WORDS]
        if words:
            findings = findings + self._program_findings(program, words, command, frame)
        if program:
            opened = _open(program, words, opened)
            findings += opened.findings
            for name, value in opened.assignments:
                found, code = check_assignment(name, value)
                findings += found
                opened.inner += code
                runs = any(isinstance(inner, Runs) for inner in opened.inner)
                if runs and not is_harmless(name) and cover == "program":
                    cover = "bare"
            self.aliases.update(opened.aliases)
            self._remember_files(program, words, command, frame)
        if opened.neutral and opened.inner and cover == "program":
            cover = "none"
        for inner in opened.inner:
            findings += self._unreadable(inner, command, frame, program)
        requirement = strictest([finding.requirement for finding in findings])
        number = len(self.segments)
        self.segments.append(
            Segment(
                text=" ".join(word.shown for word in words) or command.source,
                words=words,
                source=command.source if at is None and parent is None else "",
                depth=depth,
                context=context,
                requirement=requirement,
                why=tuple(dict.fromkeys(f.why for f in findings if f.requirement == requirement)),
                cover="exact" if requirement == "always" else cover,
                program=program,
                extras=cover == "bare",
                parent=parent,
                at=at,
            )
        )
        for inner in opened.inner:
            self._inside(inner, command, frame, depth + 1, number)

    def _inside(
        self, inner: Inner, command: Command, frame: _Frame, depth: int, number: int
    ) -> None:
        """Judge what a command runs."""
        if isinstance(inner, Runs):
            findings = []
            if inner.deletes_matches and _base_name(inner.words[0]) in ("rm", "unlink", "shred"):
                findings.append(ask("deletes everything that a search finds"))
            self.simple(
                inner.words, command, frame, depth, inner.context, number, inner.at, findings,
                Opened(), "program",
            )  # fmt: skip
        elif isinstance(inner, Code):
            text = inner.text.text.replace(HOLE, '"${_}"')
            self.text(text, frame.depth + 1, inner.context, number, (command, frame))
        elif isinstance(inner, Stdin) and inner.shell:
            known = self._known_input(command, frame)
            if known is not None:
                self.text(known, frame.depth + 1, inner.context, number)

    def _program_findings(
        self, program: str, words: tuple[Word, ...], command: Command, frame: _Frame
    ) -> list[Finding]:
        first = words[0]
        if not program:
            if first.glob and HOLE not in first.text:
                return [ask("a wildcard decides which program runs")]
            if first.text == "" and first.quoted:
                return [ask("the program has no name")]
            return [ask("which program runs is known only at run time")]
        findings: list[Finding] = []
        if not first.text.isascii():
            findings.append(ask("the program's name holds characters that no program's name has"))
        if program in self.aliases:
            findings.append(ask("an alias of this line changes what the name runs"))
        if "\\" in first.text or re.match(r"[A-Za-z]:", first.text) or program.endswith(".exe"):
            findings.append(ask("a program of another system cannot be judged"))
        findings += check_program(program, words, self._input(command, frame))
        findings += table_findings(program, words)
        if (
            re.match(r"/etc/(?:init|rc)\.d/", first.text)
            and len(words) > 1
            and (words[1].text != "status")
        ):
            findings.append(ask("controls a service"))
        if first.text == "command_not_found_handle":
            findings.append(ask("runs for every unknown name"))
        return findings

    # standard input ----------------------------------------------------------------------------

    def _input(self, command: Command, frame: _Frame) -> Input:
        inputs = [redirect for redirect in command.redirects if redirect.reads]
        if not inputs and not _is_fed(command):
            return Input()
        from_file = bool(inputs) and inputs[-1].operator in ("<", "<>")
        return Input(True, self._known_input(command, frame), from_file)

    def _inputs(self, command: Command) -> list[Redirect]:
        own = [redirect for redirect in command.redirects if redirect.reads]
        return own or [redirect for redirect in command.outer if redirect.reads]

    def _known_input(self, command: Command, frame: _Frame) -> str | None:
        """The text on standard input, where the line itself holds all of it."""
        inputs = self._inputs(command)
        if inputs:
            last = inputs[-1]
            if last.document is not None:
                return last.document.body.literal
            if last.operator == "<<<":
                return last.target.literal
            return None
        feed = command.feed
        if feed is None or feed.end - feed.start != 1:
            if frame.outer is not None and not _is_fed(command):
                return self._known_input(*frame.outer)
            return None
        return _printed(frame.reading.commands[feed.start])

    def _unreadable(
        self, inner: Inner, command: Command, frame: _Frame, program: str
    ) -> list[Finding]:
        """What nobody can read before it runs."""
        if isinstance(inner, Code):
            if inner.text.literal is not None:
                return []
            if self._fetches(inner.text, frame):
                return [refuse("runs text from the network")]
            return [ask("the text that runs is known only at run time")]
        if isinstance(inner, Script):
            return self._script(inner, frame)
        if isinstance(inner, Stdin):
            return self._stdin(inner, command, frame)
        return []

    def _script(self, inner: Script, frame: _Frame) -> list[Finding]:
        path = inner.path
        if path.substitutions:
            if self._fetches(path, frame):
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
        self.executed.append((_file_key(path), inner.shell))
        return []

    def _stdin(self, inner: Stdin, command: Command, frame: _Frame) -> list[Finding]:
        inputs = self._inputs(command)
        if inputs:
            last = inputs[-1]
            if self._fetches(last.target, frame) or (
                last.document and self._fetches(last.document.body, frame)
            ):
                return [refuse("runs text from the network")]
            if last.operator in ("<", "<>") and HOLE not in last.target.text:
                self.executed.append((_file_key(last.target), inner.shell))
                if not re.match(r"/dev/|/proc/", last.target.text):
                    return []
            elif inner.shell and self._known_input(command, frame) is not None:
                return []
            return [ask("its input is run, and cannot be judged")]
        if command.feed is not None and _is_fed(command):
            if self._segments_fetch(frame, command.feed):
                return [refuse("runs a script from the network")]
            if inner.shell and self._known_input(command, frame) is not None:
                return []
            return [ask("its input is run, and cannot be judged")]
        if command.function is not None or self.input_replaced or inner.context in (".", "source"):
            return [ask("its input is run, and cannot be judged")]
        return [] if frame.outer is None else self._stdin(inner, *frame.outer)

    def _fetches(self, word: Word, frame: _Frame) -> bool:
        return any(self._segments_fetch(frame, span) for span in word.substitutions)

    def _segments_fetch(self, frame: _Frame, commands: Span) -> bool:
        spans = frame.spans[commands.start : commands.end]
        return any(
            segment.program in _FETCHERS
            for span in spans
            for segment in self.segments[span.start : span.end]
        )

    def _fetches_command(self, command: Command, frame: _Frame) -> bool:
        """Whether what a command prints comes from the network."""
        if any(_base_name(word) in _FETCHERS for word in command.words):
            return True
        return command.feed is not None and self._segments_fetch(frame, command.feed)

    # files that the line writes and runs ---------------------------------------------------------

    def _remember_files(
        self, program: str, words: tuple[Word, ...], command: Command, frame: _Frame
    ) -> None:
        if "/" in words[0].text:
            self.executed.append((_file_key(words[0]), True))
        texts = [word.text for word in words]
        if program in ("curl", "wget", "wget2", "aria2c", "http", "axel", "scp", "rsync", "ftp"):
            names = []
            for index, text in enumerate(texts[1:], start=1):
                match = re.match(r"--?(?:output|output-document|out)(?:=(.+))?$", text)
                short = re.match(r"-[A-Za-z]*[oO](.*)$", text)
                value = (match and match[1]) or (short and short[1])
                if (match or short) and not value and index + 1 < len(texts):
                    value = texts[index + 1]
                names += [value] if value else []
                if re.match(r"\w+://", text) or ":" in text:
                    names.append(re.sub(r"[?#].*", "", text))
            names += [text for text in texts[1:] if not text.startswith("-")]
            nameless = any(re.fullmatch(r"(?:\w+://)?[^/]*/?", n) and "." in n for n in names)
            if any(re.match(r"-[A-Za-z]*J|--remote-header|--content-disp", t) for t in texts) or (
                nameless and any(re.match(r"-[A-Za-z]*O|--remote-name", t) for t in texts)
            ):
                self.written.append(_Written("*", None, True))
            self.written += [_Written(_file_key(Word(name)), None, True) for name in names if name]
        elif program in ("tar", "bsdtar", "unzip", "7z", "cpio", "ar"):
            known = {written.path for written in self.written if written.fetched}
            if any(_file_key(word) in known for word in words[1:]) or (
                self._fetches_command(command, frame)
            ):
                self.written.append(_Written("*", None, True))
        elif program in ("tee", "dd", "base64", "cp", "mv", "install", "ln"):
            if program == "tee":
                printed = self._known_input(command, frame)
                fed = self._fetches_command(command, frame)
                self.written += [_Written(_file_key(w), printed, fed) for w in words[1:]]
            elif program == "dd":
                outs = [w.part(w.text[3:]) for w in words[1:] if w.text.startswith("of=")]
                self.written += [_Written(_file_key(w), None, False) for w in outs]
            elif any(w.path == _file_key(word) for word in words[1:] for w in self.written):
                self.written.append(_Written(_file_key(words[-1]), None, True))

    def staged(self) -> None:
        """Judge what the line first writes and then runs."""
        executed = {key: shell for key, shell in self.executed if key}
        if executed and any(written.path == "*" for written in self.written):
            self.notes.append(ask("may run a file that it fetches"))
        for written in self.written:
            if not written.path or written.path not in executed:
                continue
            if written.text is None:
                self.notes.append(
                    ask("runs a file that it fetches" if written.fetched
                        else "runs a file that it writes")
                )  # fmt: skip
            elif not executed[written.path] or re.match(r"#!(?!.*sh\b)", written.text):
                self.notes.append(ask("runs a file that it writes"))
            else:
                self.text(written.text, 1, "a file that the line writes", None)


def _is_fed(command: Command) -> bool:
    """Whether a pipe, or a process substitution, writes to a command."""
    feed = command.feed
    return feed is not None and (feed is UNKNOWN_FEED or feed.end > feed.start)


def _open(program: str, words: tuple[Word, ...], opened: Opened) -> Opened:
    """Find out what a program runs."""
    found: Opened | None = None
    opener = _OPENERS.get(program)
    if opener is not None:
        found = opener(words)
    elif program in SHELLS:
        found = open_shell(words)
    elif program == "trap":
        found = _open_trap(words)
    elif program == "alias":
        found = _open_alias(words)
    elif program in ("export", "declare", "typeset", "local", "readonly", "set"):
        found = _open_declaration(words)
    elif re.fullmatch(r"ld(?:-linux[\w.-]*|-musl[\w.-]*|\.so[\d.]*)", program):
        found = open_loader(words)
    if found is None:
        found = open_wrapper(program, words) or open_interpreter(program, words)
    if found is None:
        found = Opened()
    more = open_program(program, words) if opener is None else Opened()
    return Opened(
        inner=[*opened.inner, *found.inner, *more.inner],
        findings=[*opened.findings, *found.findings, *more.findings],
        neutral=found.neutral,
        assignments=found.assignments,
        aliases=found.aliases,
    )


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


def _base_name(word: Word) -> str:
    """The program's name without folder, in lower case; empty when it cannot be told."""
    if word.literal is None or word.glob:
        # `/bin/r?` may be anything; a `[` alone is a program.
        return "[" if word.text == "[" else ""
    return word.text.rpartition("/")[2].lower()


def _discards(redirect: Redirect) -> bool:
    return redirect.target.text in (
        "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2", "/dev/tty",
    )  # fmt: skip


def _printed(command: Command) -> str | None:
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


def _file_key(word: Word) -> str:
    """How a written file and a run one are told to be the same: by name, wherever they are."""
    if word.text in ("/dev/null", ""):
        return ""
    return word.text.rstrip("/").rpartition("/")[2].lower()


def _fork_bombs(reading: Reading) -> list[Finding]:
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
