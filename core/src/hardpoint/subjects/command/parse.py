"""Read a command line into its simple commands, each with everything needed to judge it.

Every command at every depth ends in one flat list: both sides of operators, pipeline stages, bodies
of loops and functions, the inside of substitutions. What a command means is decided elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from hardpoint.subjects.command.lexer import (
    Dialect,
    HereDocument,
    Lexer,
    Piece,
    TooComplex,
    Unreadable,
)
from hardpoint.subjects.command.words import Span, Word, assigned_name

UNKNOWN_FEED: Final = Span(-1, -1)
"""Something is written to a command, and nobody knows by which."""

MAX_COMMANDS: Final = 2500

# Operators that Bash and a POSIX shell split into different commands, quotes that only one of them
# knows: such a line is read both ways.
_DIALECTS_DIFFER: Final = re.compile(r"\$'|\$\"|\$\[|\[\[|\(\(|&>|[<>]\(|[\w\]]\+?=\(|<<<|\w\[")

_RUN: Final = re.compile(r"(?:[^ \t\n|&;()<>\\'\"$`]|\\\n)+")
_REDIRECT: Final = re.compile(r"(\d+|\{\w+\})?(<<<|<<-|<<|<>|<&|>>|>&|>\||&>>|&>|<|>)")
_TEST_END: Final = re.compile(r"\]\](?=[ \t\n;&|()<>]|$)")
_CLOSING: Final = frozenset({"then", "else", "elif", "fi", "do", "done", "esac", "}", "in", "]]"})
_COMPOUND: Final = frozenset(
    {"{", "if", "while", "until", "for", "case", "select", "function", "[["}
)
_NOT_POSIX: Final = frozenset({"[[", "select", "function"})


@attrs.define
class Redirect:
    """One redirection."""

    operator: str
    target: Word
    document: HereDocument | None = None
    descriptor: str = ""

    @property
    def reads(self) -> bool:
        return self.operator in ("<", "<<", "<<-", "<<<", "<>", "<&")

    @property
    def writes(self) -> bool:
        return self.operator in (">", ">>", ">|", "&>", "&>>", "<>") or (
            self.operator == ">&" and not re.fullmatch(r"\d+-?|-", self.target.text)
        )


@attrs.define
class Command:
    """One simple command, or the redirections of a compound one (then without words)."""

    words: list[Word]
    assignments: list[tuple[str, Word]]
    redirects: list[Redirect]
    source: str
    start: int
    """Where it starts in the line; -1 inside a text of its own."""
    depth: int
    context: str
    feed: Span | None
    """The commands whose output may be its standard input."""
    pipeline: int
    function: str | None
    """The function in whose body it stands."""
    outer: list[Redirect] = attrs.field(factory=list)
    """Redirections of the compound commands around it."""
    background: bool = False
    is_test: bool = False


@attrs.define
class Reading:
    """What one dialect makes of a line."""

    commands: list[Command] = attrs.field(factory=list)
    functions: set[str] = attrs.field(factory=set)
    doubts: list[str] = attrs.field(factory=list)
    failure: str | None = None
    """Why the line cannot be read to its end."""
    gave_up: bool = False
    """The failure is ours: a shell may well read on."""
    inner_texts: list[tuple[int, int]] = attrs.field(factory=list)


def read_line(text: str) -> list[Reading]:
    """Read a line the way each kind of shell does; one reading when they agree."""
    bash = Parser(text, "bash", Reading()).read()
    if not _DIALECTS_DIFFER.search(text):
        return [bash]
    posix = Parser(text, "posix", Reading()).read()
    # What comes before a syntax error has run by then, so its commands count all the same.
    if bash.failure is None and not posix.gave_up:
        posix.failure = None
    elif posix.failure is None and not bash.gave_up:
        bash.failure = None
    return [bash, posix]


class Parser(Lexer):
    """Recursive descent over the shell grammar."""

    def __init__(self, text: str, dialect: Dialect, reading: Reading) -> None:
        super().__init__(text, dialect)
        self.reading = reading
        self.context = "line"
        self.feed: Span | None = None
        self.function: str | None = None
        self.pipelines = 0
        self.own_text = True

    def read(self) -> Reading:
        try:
            self.commands_until(())
            if not self.at_end:
                raise Unreadable(f"unexpected {self.text[self.pos]!r}")
            if self.pending:
                self.doubts.append("a here-document is not closed")
        except Unreadable as reason:
            self.reading.failure = str(reason)
            self.reading.gave_up = isinstance(reason, TooComplex)
        self.reading.doubts += self.doubts
        self.reading.inner_texts += self.inner_texts
        return self.reading

    # substitutions -----------------------------------------------------------------------------

    def substitution(self, closer: str, fed: bool = False) -> Span:
        outer, self.pending = self.pending, []
        feed, self.feed = self.feed, UNKNOWN_FEED if fed else self.feed
        start_text = self.pos
        span = self._inside("substitution", lambda: self.commands_until((closer,)))
        if closer == "}":
            self.skip_space()
        if not self.take(closer):
            raise Unreadable(f"a substitution is not closed by {closer!r}")
        if self.pending or (outer and "\n" in self.text[start_text : self.pos]):
            self.doubts.append("a here-document that reaches over a substitution")
        self.pending, self.feed = outer, feed
        return span

    def nested(self, text: str) -> Span:
        def read() -> None:
            outer = self.text, self.pos, self.pending, self.own_text
            self.text, self.pos, self.pending, self.own_text = text, 0, [], False
            self.commands_until(())
            if not self.at_end:
                raise Unreadable(f"unexpected {text[self.pos]!r} in backquotes")
            self.text, self.pos, self.pending, self.own_text = outer

        return self._inside("substitution", read)

    def _body(self, body: str) -> Word:
        outer, self.own_text = self.own_text, False
        word = super()._body(body)
        self.own_text = outer
        return word

    def _inside(self, context: str, read: Callable[[], None]) -> Span:
        self.enter()
        outer, self.context = self.context, context
        start = len(self.reading.commands)
        read()
        self.context = outer
        self.depth -= 1
        return Span(start, len(self.reading.commands))

    # lists and pipelines -----------------------------------------------------------------------

    def skip_space(self) -> None:
        """Skip blanks, line breaks and comments; here-documents are read at line breaks."""
        while True:
            self.skip_blanks()
            if self.text.startswith("#", self.pos):
                end = self.text.find("\n", self.pos)
                self.pos = len(self.text) if end < 0 else end
            if not self.text.startswith("\n", self.pos):
                return
            self.pos += 1
            if self.pending:
                self.read_pending()

    def reserved(self) -> str:
        """The unquoted word that stands here, or nothing."""
        match = _RUN.match(self.text, self.pos)
        if not match or self.text[match.end() : match.end() + 1] in ("'", '"', "$", "`", "\\"):
            return ""
        return match[0].replace("\\\n", "")

    def expect(self, word: str) -> None:
        self.skip_space()
        if self.reserved() != word:
            raise Unreadable(f"{word!r} is missing")
        self._skip_run()

    def _skip_run(self) -> None:
        match = _RUN.match(self.text, self.pos)
        assert match is not None
        self.pos = match.end()

    def body_until(self, *closers: str) -> None:
        """Read the commands of a compound command, of which there must be some."""
        before = self.pos
        self.commands_until(closers)
        if not self.text[before : self.pos].strip(" \t\n"):
            raise Unreadable("a compound command is empty")

    def commands_until(self, closers: Sequence[str]) -> None:
        """Read commands until one of the closing words or characters, or the end."""
        while True:
            self.skip_space()
            if self.at_end:
                return
            char = self.text[self.pos]
            if char in closers or (closers and self.reserved() in closers):
                return
            redirects = self.dialect == "bash" and self.starts("&>")
            if (char in ")|&;" and not redirects) or self.reserved() in _CLOSING:
                if ";;" in closers and self.starts(";;"):
                    return
                raise Unreadable(f"unexpected {self.reserved() or char!r}")
            start = len(self.reading.commands)
            self.and_or()
            self.skip_blanks()
            if self.starts(";;") or self.starts(";&"):
                if ";;" in closers:
                    return
                raise Unreadable("unexpected ;;")
            if self.starts("&") and not self.starts("&&"):
                self.take("&")
                for command in self.reading.commands[start:]:
                    command.background = True
            elif not self.take(";"):
                self.skip_blanks()
                rest = self.text[self.pos : self.pos + 1]
                if rest and rest not in "\n#)" and not (closers and self.reserved() in closers):
                    raise Unreadable(f"unexpected {rest!r}")

    def and_or(self) -> None:
        test_failed = self.pipeline()
        while True:
            self.skip_blanks()
            if not self.starts("&&") and not self.starts("||"):
                return
            both = self.take("&&") or not self.take("||")
            self.skip_space()
            before = len(self.reading.commands)
            if self.pipeline():
                test_failed = True
            elif both and test_failed:
                # Outside Bash `[[` is no program: what follows its `&&` does not run, and what it
                # would read there as a command is part of the condition.
                del self.reading.commands[before:]
            else:
                test_failed = False

    def pipeline(self) -> bool:
        """Read one pipeline.

        Returns:
            Whether it is a `[[` that this dialect does not know.
        """
        self.skip_blanks()
        while self.reserved() == "!":
            self._skip_run()
            self.skip_blanks()
        if self.reserved() in ("time", "coproc"):
            self._keyword_before_compound()
        outer = self.feed
        self.pipelines += 1
        number = self.pipelines
        start = len(self.reading.commands)
        unknown_test = self.dialect == "posix" and self.reserved() == "[["
        while True:
            self.command(number)
            self.skip_blanks()
            if not self.starts("|") or self.starts("||"):
                break
            self.take("|&") if self.dialect == "bash" and self.starts("|&") else self.take("|")
            self.skip_space()
            known = outer is not None and outer is not UNKNOWN_FEED
            first = outer.start if outer is not None and known else start
            self.feed = Span(first, len(self.reading.commands))
        self.feed = outer
        return unknown_test

    def _keyword_before_compound(self) -> None:
        """Step over `time` or `coproc NAME` before a compound command; else they are wrappers."""
        start = self.pos
        words = 0
        while words < 3 and (word := self.reserved()):
            if word in _COMPOUND or word == "!":
                if word == "!":
                    self._skip_run()
                    self.skip_blanks()
                return
            self._skip_run()
            self.skip_blanks()
            words += 1
        if not self.text.startswith("(", self.pos):
            self.pos = start

    # commands ----------------------------------------------------------------------------------

    def command(self, number: int) -> None:
        self.skip_blanks()
        if self.starts("((") and self.dialect == "bash" and self._arithmetic_command():
            return
        if self.starts("("):
            self._compound(self._subshell)
            return
        word = self.reserved()
        known = word in _COMPOUND and not (self.dialect == "posix" and word in _NOT_POSIX)
        if known:
            reader = {
                "{": self._group, "if": self._if, "while": self._loop, "until": self._loop,
                "for": self._for, "select": self._for, "case": self._case,
                "function": self._function, "[[": self._test,
            }[word]  # fmt: skip
            self._compound(reader)
        elif word in _CLOSING:
            raise Unreadable(f"unexpected {word!r}")
        else:
            self._simple(number)

    def _compound(self, reader: Callable[[], None]) -> None:
        """Read a compound command and the redirections behind it."""
        self.enter()
        start, first = len(self.reading.commands), self.pos
        reader()
        self.depth -= 1
        redirects: list[Redirect] = []
        at = self.pos
        while (redirect := self._redirect()) is not None:
            redirects.append(redirect)
        if not redirects:
            self.skip_blanks()
            return
        for command in self.reading.commands[start:]:
            command.outer += redirects
        self._emit([], [], redirects, self.text[at : self.pos].strip(), first, 0)

    def _subshell(self) -> None:
        self.take("(")
        self.body_until(")")
        if not self.take(")"):
            raise Unreadable("a parenthesis is not closed")

    def _group(self) -> None:
        self._skip_run()
        self.body_until("}")
        self.expect("}")

    def _if(self) -> None:
        self._skip_run()
        self.body_until("then")
        self.expect("then")
        self.body_until("elif", "else", "fi")
        word = self.reserved()
        if word == "elif":
            self._if()
            return
        if word == "else":
            self._skip_run()
            self.body_until("fi")
        self.expect("fi")

    def _loop(self) -> None:
        self._skip_run()
        self.body_until("do")
        self._do_group()

    def _do_group(self) -> None:
        self.expect("do")
        self.body_until("done")
        self.expect("done")

    def _for(self) -> None:
        self._skip_run()
        self.skip_blanks()
        if self.dialect == "bash" and self.take("(("):
            for _ in range(2):
                self._arithmetic_up_to(";")
            self._arithmetic_up_to(")")
            if not self.take(")"):
                raise Unreadable("for (( is not closed")
        else:
            if not self.words():
                raise Unreadable("a loop has no variable")
            self.skip_space()
            if self.reserved() == "in":
                self._skip_run()
                self.skip_blanks()
                while not self.at_end and self.text[self.pos] not in ";\n":
                    before = self.pos
                    self.words()
                    if self.pos == before:
                        raise Unreadable(f"unexpected {self.text[before]!r}")
                    self.skip_blanks()
        self.skip_blanks()
        self.take(";")
        self.skip_space()
        if self.reserved() == "{":
            self._group()
        else:
            self._do_group()

    def _arithmetic_up_to(self, closer: str) -> None:
        self.arithmetic(Piece(), "[" if closer == ";" else "(", closer)

    def _arithmetic_command(self) -> bool:
        start, depth = self.pos, self.depth
        self.take("((")
        try:
            self.arithmetic(Piece(), "(", ")")
            if self.take(")"):
                return True
        except TooComplex:
            raise
        except Unreadable:
            pass
        self.back_to(start, depth)
        return False

    def _case(self) -> None:
        self._skip_run()
        self.skip_blanks()
        self.words()
        self.expect("in")
        while True:
            self.skip_space()
            if self.reserved() == "esac":
                break
            self.take("(")
            while True:
                self.skip_blanks()
                before = self.pos
                self.words()
                self.skip_blanks()
                if self.take(")"):
                    break
                if not self.take("|") or self.pos == before:
                    raise Unreadable("a pattern of `case` is not closed")
            self.commands_until((";;", "esac"))
            if not any(self.take(mark) for mark in (";;&", ";;", ";&")):
                break
        self.expect("esac")

    def _function(self) -> None:
        self._skip_run()
        self.skip_blanks()
        name = self.reserved()
        if not name:
            raise Unreadable("a function has no name")
        self._skip_run()
        self.skip_blanks()
        if self.take("("):
            self.skip_blanks()
            if not self.take(")"):
                raise Unreadable("a function has no body")
        self._function_body(name)

    def _function_body(self, name: str) -> None:
        self.skip_space()
        self.reading.functions.add(name)
        outer = self.function, self.context, self.feed
        self.function, self.context, self.feed = name, f"function {name}", None
        self.pipelines += 1
        self.enter()
        self.command(self.pipelines)
        self.depth -= 1
        self.function, self.context, self.feed = outer

    def _test(self) -> None:
        """Read `[[ … ]]`, in which operators are no command separators."""
        start = self.pos
        words: list[Word] = []
        while True:
            self.skip_space()
            before = self.pos
            if words and _TEST_END.match(self.text, before):
                self.pos += 2
                break
            words += self.words(extra="()<>|&")
            if self.pos == before:
                raise Unreadable("[[ is not closed")
        self._emit(words, [], [], self.text[start : self.pos], start, 0)
        self.reading.commands[-1].is_test = True

    # simple commands ---------------------------------------------------------------------------

    def _simple(self, number: int) -> None:
        start = self.pos
        words: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        redirects: list[Redirect] = []
        while True:
            self.skip_blanks()
            redirect = self._redirect()
            if redirect is not None:
                redirects.append(redirect)
                continue
            before = self.pos
            if self.at_end or self.text[before] == "#":
                break
            found = self.words(assigns=not words)
            raw = self.text[before : self.pos]
            if self.pos == before:
                if not (self.text[before] == "(" and words):
                    break
                if len(words) == 1 and not assignments and not redirects:
                    self._function_definition(words[0])
                    return
                raise Unreadable("unexpected '('")
            name = assigned_name(raw.replace("\\\n", "")) if not words else None
            if name and found:
                assignments.append((name[1], self._assigned(name[0], found[0])))
            else:
                words += found
                if raw.endswith("=") and self.dialect == "bash" and assigned_name(raw):
                    # `declare a=(…)`
                    words += self._array()
        if not (words or assignments or redirects):
            if self.pos == start:
                raise Unreadable("a command is missing")
            # Braces made nothing of the only word.
            words = [Word("", self.text[start : self.pos], quoted=True)]
        self._emit(
            words, assignments, redirects, self.text[start : self.pos].strip(), start, number
        )

    def _assigned(self, prefix: str, word: Word) -> Word:
        value = word.part(word.text[word.text.find("=") + 1 :])
        if value.text or self.dialect != "bash":
            return value
        return next(iter(self._array()), value)

    def _array(self) -> list[Word]:
        """Read `(a b c)` behind `NAME=` as one word, when it is there."""
        if not self.text.startswith("(", self.pos):
            return []
        self.pos += 1
        words: list[Word] = []
        while True:
            self.skip_space()
            before = self.pos
            words += self.words()
            if self.pos == before:
                break
        if not self.take(")"):
            raise Unreadable("an array is not closed")
        text = " ".join(word.text for word in words)
        spans = tuple(span for word in words for span in word.substitutions)
        return [Word(text, splits=True, substitutions=spans)]

    def _function_definition(self, name: Word) -> None:
        self.take("(")
        self.skip_blanks()
        if not self.take(")"):
            raise Unreadable("unexpected '('")
        self._function_body(name.text)

    def _redirect(self) -> Redirect | None:
        self.skip_blanks()
        match = _REDIRECT.match(self.text, self.pos)
        if match is None:
            return None
        descriptor, operator = match[1] or "", match[2]
        if self.dialect == "posix":
            if operator in ("&>", "&>>") or descriptor.startswith("{"):
                return None
            operator = "<<" if operator == "<<<" else operator
        following = self.text[match.end() : match.end() + 1]
        process = self.dialect == "bash" and operator in ("<", ">") and following == "("
        if process and not descriptor:
            return None
        self.pos = match.start() + len(descriptor) + len(operator)
        if operator in ("<<", "<<-"):
            document = self.here_document(operator == "<<-")
            return Redirect(operator, Word("", quoted=True), document, descriptor)
        self.skip_blanks()
        before = self.pos
        found = [] if self.text.startswith("#", before) else self.words()
        if self.pos == before or not found:
            raise Unreadable(f"nothing follows {operator!r}")
        return Redirect(operator, found[0], None, descriptor)

    def _emit(
        self,
        words: list[Word],
        assignments: list[tuple[str, Word]],
        redirects: list[Redirect],
        source: str,
        start: int,
        number: int,
    ) -> None:
        if len(self.reading.commands) >= MAX_COMMANDS:
            raise TooComplex(f"more than {MAX_COMMANDS} commands")
        self.reading.commands.append(
            Command(
                words, assignments, redirects, source, start if self.own_text else -1,
                self.depth, self.context, self.feed, number, self.function,
            )
        )  # fmt: skip
