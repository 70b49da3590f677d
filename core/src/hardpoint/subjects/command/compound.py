"""Compound commands: groups, branches, loops, functions and tests."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

from hardpoint.subjects.command.cursor import Dialect, Piece, TooComplex, Unreadable
from hardpoint.subjects.command.lexer import Lexer
from hardpoint.subjects.command.reading import Reading, Redirect
from hardpoint.subjects.command.words import Span, Word

_RUN: Final = re.compile(r"(?:[^ \t\n|&;()<>\\'\"$`]|\\\n)+")
_TEST_END: Final = re.compile(r"\]\](?=[ \t\n;&|()<>]|$)")
COMPOUND: Final = frozenset(
    {"{", "if", "while", "until", "for", "case", "select", "function", "[["}
)
_NOT_POSIX: Final = frozenset({"[[", "select", "function"})


class Compounds(Lexer):
    """Reads compound commands; the commands in them are read by `parse`."""

    def __init__(self, text: str, dialect: Dialect, reading: Reading) -> None:
        super().__init__(text, dialect)
        self.reading = reading
        self.context = "line"
        self.feed: Span | None = None
        self.function: str | None = None
        self.pipelines = 0

    # what `parse` provides ---------------------------------------------------------------------

    @abstractmethod
    def skip_space(self) -> None:
        """Skip blanks, line breaks and comments."""

    @abstractmethod
    def commands_until(self, closers: Sequence[str]) -> None:
        """Read commands until one of the closing words or characters, or the end."""

    @abstractmethod
    def command(self, number: int) -> None:
        """Read one command of the pipeline with this number."""

    @abstractmethod
    def redirect(self) -> Redirect | None:
        """Read a redirection, when one stands here."""

    @abstractmethod
    def emit(
        self,
        words: list[Word],
        assignments: list[tuple[str, Word]],
        redirects: list[Redirect],
        start: int,
        number: int = 0,
        name_at: int | None = None,
    ) -> None:
        """Add a command to the reading, which began at `start` and ends here."""

    # reserved words ----------------------------------------------------------------------------

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
        self.skip_run()

    def skip_run(self) -> None:
        match = _RUN.match(self.text, self.pos)
        assert match is not None
        self.pos = match.end()

    def body_until(self, *closers: str) -> None:
        """Read the commands of a compound command, of which there must be some."""
        before = self.pos
        self.commands_until(closers)
        if not self.text[before : self.pos].strip(" \t\n"):
            raise Unreadable("a compound command is empty")

    # compound commands -------------------------------------------------------------------------

    def compound(self) -> bool:
        """Read a compound command and the redirections behind it, when one begins here."""
        if self.starts("((") and self.dialect == "bash" and self._arithmetic_command():
            return True
        if self.starts("("):
            self._with_redirects(self._subshell)
            return True
        word = self.reserved()
        if word not in COMPOUND or (self.dialect == "posix" and word in _NOT_POSIX):
            return False
        self._with_redirects(self._readers()[word])
        return True

    def _readers(self) -> dict[str, Callable[[], None]]:
        return {
            "{": self._group, "if": self._if, "while": self._loop, "until": self._loop,
            "for": self._for, "select": self._for, "case": self._case,
            "function": self._function, "[[": self._test,
        }  # fmt: skip

    def _with_redirects(self, reader: Callable[[], None]) -> None:
        """Read a compound command and the redirections behind it."""
        self.enter()
        start = len(self.reading.commands)
        reader()
        self.depth -= 1
        redirects: list[Redirect] = []
        at = self.pos
        while (redirect := self.redirect()) is not None:
            redirects.append(redirect)
        if not redirects:
            self.skip_blanks()
            return
        for command in self.reading.commands[start:]:
            command.outer += redirects
        self.emit([], [], redirects, at)

    def _subshell(self) -> None:
        self.take("(")
        self.body_until(")")
        if not self.take(")"):
            raise Unreadable("a parenthesis is not closed")

    def _group(self) -> None:
        self.skip_run()
        self.body_until("}")
        self.expect("}")

    def _if(self) -> None:
        self.skip_run()
        self.body_until("then")
        self.expect("then")
        self.body_until("elif", "else", "fi")
        word = self.reserved()
        if word == "elif":
            self._if()
            return
        if word == "else":
            self.skip_run()
            self.body_until("fi")
        self.expect("fi")

    def _loop(self) -> None:
        self.skip_run()
        self.body_until("do")
        self._do_group()

    def _do_group(self) -> None:
        self.expect("do")
        self.body_until("done")
        self.expect("done")

    def _for(self) -> None:
        self.skip_run()
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
                self.skip_run()
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
        self.skip_run()
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
        self.skip_run()
        self.skip_blanks()
        name = self.reserved()
        if not name:
            raise Unreadable("a function has no name")
        self.skip_run()
        self.skip_blanks()
        if self.take("("):
            self.skip_blanks()
            if not self.take(")"):
                raise Unreadable("a function has no body")
        self.function_body(name)

    def function_body(self, name: str) -> None:
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
        self.emit(words, [], [], start)
        self.reading.commands[-1].is_test = True
