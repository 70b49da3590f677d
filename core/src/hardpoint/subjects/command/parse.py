"""Read a command line into its simple commands, each with everything needed to judge it.

Every command at every depth ends in one flat list: both sides of operators, pipeline stages, bodies
of loops and functions, the inside of substitutions. What a command means is decided elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from hardpoint.subjects.command.cursor import TooComplex, Unreadable
from hardpoint.subjects.command.prefixes import Prefixes
from hardpoint.subjects.command.reading import UNKNOWN_FEED, Command, Reading, Redirect
from hardpoint.subjects.command.words import Span, Word, assigned_name

MAX_COMMANDS: Final = 2500
# Operators that Bash and a POSIX shell split into different commands, quotes that only one of them
# knows: such a line is read both ways.
_DIALECTS_DIFFER: Final = re.compile(r"\$'|\$\"|\$\[|\[\[|\(\(|&>|[<>]\(|[\w\]]\+?=\(|<<<|\w\[")
_REDIRECT: Final = re.compile(r"(\d+|\{\w+\})?(<<<|<<-|<<|<>|<&|>>|>&|>\||&>>|&>|<|>)")
_CLOSING: Final = frozenset({"then", "else", "elif", "fi", "do", "done", "esac", "}", "in", "]]"})


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


class Parser(Prefixes):
    """Recursive descent over the shell grammar."""

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
        self.reading.documents += self.documents
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
        self.prefixes()
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
            # Bash has no `!` here; a shell that has one runs what follows it.
            self.prefixes()
        self.feed = outer
        return unknown_test

    # commands ----------------------------------------------------------------------------------

    def command(self, number: int) -> None:
        self.skip_blanks()
        if self.compound():
            return
        word = self.reserved()
        if word in _CLOSING:
            raise Unreadable(f"unexpected {word!r}")
        self._simple(number)

    def _simple(self, number: int) -> None:
        start = self.pos
        words: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        redirects: list[Redirect] = []
        name_at = start
        while True:
            self.skip_blanks()
            redirect = self.redirect()
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
                name_at = name_at if words else before
                words += found
                if raw.endswith("=") and self.dialect == "bash" and assigned_name(raw):
                    # `declare a=(…)`
                    words += self._array()
        if not (words or assignments or redirects):
            if self.pos == start:
                raise Unreadable("a command is missing")
            # Braces made nothing of the only word.
            words = [Word("", self.text[start : self.pos], quoted=True)]
        self.emit(words, assignments, redirects, start, number, name_at)

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
        self.function_body(name.text)

    def redirect(self) -> Redirect | None:
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
            if self.own_text:
                self.documents.append((match.start(), self.pos))
            return Redirect(operator, Word("", quoted=True), document, descriptor)
        self.skip_blanks()
        before = self.pos
        found = [] if self.text.startswith("#", before) else self.words()
        if self.pos == before or not found:
            raise Unreadable(f"nothing follows {operator!r}")
        return Redirect(operator, found[0], None, descriptor)

    def emit(
        self,
        words: list[Word],
        assignments: list[tuple[str, Word]],
        redirects: list[Redirect],
        start: int,
        number: int = 0,
        name_at: int | None = None,
    ) -> None:
        if len(self.reading.commands) >= MAX_COMMANDS:
            raise TooComplex(f"more than {MAX_COMMANDS} commands")
        place = start if name_at is None else name_at
        self.reading.commands.append(
            Command(
                words, assignments, redirects, self.text[start : self.pos].strip(),
                place if self.own_text else -1, self.depth, self.context, self.feed, number,
                self.function,
            )
        )  # fmt: skip
