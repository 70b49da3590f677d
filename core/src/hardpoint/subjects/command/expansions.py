"""Read quotes and expansions: what is data, and which text is run in a substitution."""

from __future__ import annotations

import re
from typing import Final

from hardpoint.subjects.command.cursor import CONTINUATION, Cursor, Piece, TooComplex, Unreadable
from hardpoint.subjects.command.words import QUOTES, decode_ansi_c, hide

_PLAIN_QUOTED: Final = re.compile(r"[^\\\"$`]+")
_NAME: Final = re.compile(r"[A-Za-z_]\w*|[0-9]|[@*#?$!-]", re.ASCII)
_PARAMETER: Final = re.compile(r"([!#]?)([A-Za-z_]\w*|[0-9]+|[@*#?$!-])?", re.ASCII)
# Variables that hold a number: they can be neither a program's name nor an option.
_NUMBERS: Final = frozenset("#?$!")


class Expansions(Cursor):
    """Adds what it reads to a piece of a word."""

    # quotes ------------------------------------------------------------------------------------

    def backslash(self, piece: Piece) -> None:
        following = self.text[self.pos + 1 : self.pos + 2]
        if not following:
            raise Unreadable("a backslash at the end escapes nothing")
        self.pos += 2
        if following == "\n":
            return
        piece.quoted = True
        piece.add(hide(following))

    def single_quotes(self, piece: Piece) -> None:
        end = self.text.find("'", self.pos + 1)
        if end < 0:
            raise Unreadable("a single quote is not closed")
        piece.add(QUOTES + hide(self.text[self.pos + 1 : end]))
        piece.quoted = True
        self.pos = end + 1

    def double_quotes(self, piece: Piece) -> None:
        self.pos += 1
        piece.add(QUOTES)
        piece.quoted = True
        text, size = self.text, len(self.text)
        while self.pos < size:
            plain = _PLAIN_QUOTED.match(text, self.pos)
            if plain:
                piece.add(hide(plain[0]))
                self.pos = plain.end()
                continue
            char = text[self.pos]
            if char == '"':
                self.pos += 1
                return
            self.expanding(piece, char, '$`"\\')
        raise Unreadable("a double quote is not closed")

    def _ansi_c(self, piece: Piece) -> None:
        at = self.pos + 2
        while at < len(self.text) and self.text[at] != "'":
            at += 2 if self.text[at] == "\\" else 1
        if at >= len(self.text):
            raise Unreadable("a quote that began with $' is not closed")
        piece.add(QUOTES + hide(decode_ansi_c(self.text[self.pos + 2 : at])))
        piece.quoted = True
        self.pos = at + 1

    def expanding(self, piece: Piece, char: str, escapable: str) -> None:
        """One special character of a text in which only expansions and `\\` count."""
        if char == "\\":
            following = self.text[self.pos + 1 : self.pos + 2]
            self.pos += 2
            if following != "\n":
                escapes = following and following in escapable
                piece.add(hide(following if escapes else "\\" + following))
        elif char == "$":
            self.dollar(piece, in_quotes=True)
        else:
            self.backquotes(piece, in_quotes=True)

    # expansions --------------------------------------------------------------------------------

    def dollar(self, piece: Piece, in_quotes: bool) -> None:
        text = self.text
        if self.starts("$("):
            self._substitution_or_arithmetic(piece, in_quotes)
        elif self.starts("${"):
            self.take("${")
            self._parameter(piece, in_quotes)
        elif self.dialect == "bash" and not in_quotes and text.startswith("$'", self.pos):
            self._ansi_c(piece)
        elif self.dialect == "bash" and not in_quotes and text.startswith('$"', self.pos):
            self.pos += 1
        elif self.dialect == "bash" and text.startswith("$[", self.pos):
            self.pos += 2
            self.arithmetic(piece, "[", "]")
            piece.hole(in_quotes)
        else:
            self.pos += 1
            joined = CONTINUATION.match(text, self.pos)
            at = joined.end() if joined else self.pos
            name = _NAME.match(text, at)
            if name is None:
                piece.add("$")
                return
            self.pos = name.end()
            piece.variables.append(name[0])
            if name[0] in ("@", "*"):
                # "$@" is several words even in quotes.
                piece.splits = True
            piece.hole(in_quotes or name[0] in _NUMBERS)

    def _substitution_or_arithmetic(self, piece: Piece, in_quotes: bool) -> None:
        if self.starts("$(("):
            start, depth = self.pos, self.depth
            self.take("$((")
            try:
                self.arithmetic(piece, "(", ")")
                if self.take(")"):
                    piece.hole(in_quotes)
                    return
            except TooComplex:
                raise
            except Unreadable:
                pass
            # `$((` may also be a substitution that starts with a subshell.
            self.back_to(start, depth)
        self.take("$(")
        piece.substitutions.append(self.substitution(")"))
        piece.hole(in_quotes)

    def arithmetic(self, piece: Piece, opener: str, closer: str) -> None:
        """Read up to the closing bracket; what it computes is only known at run time."""
        level = 0
        scratch = Piece()
        self.enter()
        while not self.at_end:
            char = self.text[self.pos]
            if char == closer:
                self.pos += 1
                if level == 0:
                    self.depth -= 1
                    piece.substitutions += scratch.substitutions
                    return
                level -= 1
            elif char == opener:
                level += 1
                self.pos += 1
            elif char in "\\$`":
                self.expanding(scratch, char, '$`"\\')
            elif char == ";" and opener == "(":
                raise Unreadable("this is no arithmetic")
            else:
                self.pos += 1
        raise Unreadable("an arithmetic expansion is not closed")

    def _parameter(self, piece: Piece, in_quotes: bool) -> None:
        """Read the rest of `${…}`."""
        text = self.text
        if self.dialect == "bash" and text[self.pos : self.pos + 1] in (" ", "\t", "\n", "|"):
            # Bash 5.3 runs `${ command; }` in the current shell.
            self.pos += 1
            piece.substitutions.append(self.substitution("}"))
            piece.hole(in_quotes)
            return
        self.enter()
        match = _PARAMETER.match(text, self.pos)
        assert match is not None
        self.pos = match.end()
        name = match[2] or match[1]
        piece.variables.append(name)
        operator = text[self.pos : self.pos + 2]
        if operator == "@P":
            self.doubts.append("${NAME@P} runs what the variable holds")
        scratch = Piece()
        # In double quotes a single quote is a plain character, except in patterns.
        quotes_count = not in_quotes or operator[:1] in ("#", "%", "/", "^", ",")
        while True:
            if self.at_end:
                raise Unreadable("${ is not closed")
            char = text[self.pos]
            if char == "}":
                self.pos += 1
                break
            if char == "'" and quotes_count:
                before = self.pos
                self.single_quotes(scratch)
                if in_quotes and re.search(r"[$`]", text[before : self.pos]):
                    self.doubts.append("single quotes inside a quoted ${…}")
            elif char == '"':
                self.double_quotes(scratch)
            elif quotes_count and self.dialect == "bash" and text.startswith("$'", self.pos):
                self._ansi_c(scratch)
            elif char in "\\$`":
                self.expanding(scratch, char, text[self.pos + 1 : self.pos + 2])
            elif (
                self.dialect == "bash"
                and not in_quotes
                and (text.startswith("<(", self.pos) or text.startswith(">(", self.pos))
            ):
                self.pos += 2
                scratch.substitutions.append(self.substitution(")"))
            else:
                self.pos += 1
        self.depth -= 1
        piece.substitutions += scratch.substitutions
        piece.variables += scratch.variables
        if name in ("@", "*") or text[match.end() : match.end() + 3] in ("[@]", "[*]"):
            piece.splits = True
        piece.hole(in_quotes or match[1] == "#")

    def backquotes(self, piece: Piece, in_quotes: bool) -> None:
        start = at = self.pos + 1
        text = self.text
        while at < len(text) and text[at] != "`":
            at += 2 if text[at] == "\\" else 1
        if at >= len(text):
            raise Unreadable("a backquote is not closed")
        self.inner_texts.append((start, at))
        inside = re.sub(r'\\([$`\\"])' if in_quotes else r"\\([$`\\])", r"\1", text[start:at])
        self.pos = at + 1
        piece.substitutions.append(self.nested(inside))
        piece.hole(in_quotes)
