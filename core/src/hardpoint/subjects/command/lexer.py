"""Read words and here-documents: where they end, and what is data in them.

How words form commands is decided in `parse`.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from hardpoint.subjects.command.cursor import (
    MAX_DEPTH,
    MAX_WORDS,
    Dialect,
    Piece,
    TooComplex,
    Unreadable,
)
from hardpoint.subjects.command.expansions import Expansions
from hardpoint.subjects.command.words import HOLE, Word, assigned_name, finish, hide

_PLAIN: Final = re.compile(r"[^ \t\n|&;()<>\\'\"$`]+")
_PLAIN_BODY: Final = re.compile(r"[^\\$`]+")
_SUBSCRIPT: Final = re.compile(r"[A-Za-z_]\w*\[", re.ASCII)


@attrs.define
class HereDocument:
    """A here-document whose body is read at the next line break."""

    delimiter: str
    expands: bool
    strips_tabs: bool
    body: Word = attrs.field(factory=lambda: Word(""))


class Lexer(Expansions):
    """Reads words, and the here-documents that begin on the way."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        super().__init__(text, dialect)
        self.pending: list[HereDocument] = []

    def words(self, extra: str = "", assigns: bool = False) -> list[Word]:
        """Read what stands here up to an unquoted blank or operator.

        Args:
            extra: Operators that are ordinary characters here, as in `[[ a =~ (b|c) ]]`.
            assigns: `NAME={a,b}` is an assignment here, in which braces mean nothing.

        Returns:
            One word, or several when braces make several, or none when braces make nothing.
        """
        self.word_count += 1
        if self.word_count > MAX_WORDS:
            raise TooComplex(f"more than {MAX_WORDS} words")
        start = self.pos
        piece = Piece()
        text, size = self.text, len(self.text)
        if assigns and self.dialect == "bash":
            self._subscript(piece)
        while self.pos < size:
            plain = _PLAIN.match(text, self.pos)
            if plain:
                piece.add(plain[0])
                self.pos = plain.end()
                continue
            char = text[self.pos]
            if char == "\\":
                self.backslash(piece)
            elif char == "'":
                self.single_quotes(piece)
            elif char == '"':
                self.double_quotes(piece)
            elif char == "$":
                self.dollar(piece, in_quotes=False)
            elif char == "`":
                self.backquotes(piece, in_quotes=False)
            elif self.dialect == "bash" and (self.starts("<(") or self.starts(">(")):
                self.take(char + "(")
                piece.substitutions.append(self.substitution(")", fed=char == ">"))
                piece.add(HOLE)
            elif char in extra:
                piece.add(hide(char))
                self.pos += 1
            else:
                break
        raw = text[start : self.pos].replace("\\\n", "")
        return finish(
            piece.text,
            raw,
            splits=piece.splits,
            quoted=piece.quoted,
            braces=self.dialect == "bash" and not (assigns and assigned_name(raw)),
            substitutions=piece.substitutions,
            variables=piece.variables,
        )

    def _subscript(self, piece: Piece) -> None:
        """Read `NAME[…]` where an assignment may stand: to Bash the inside is one text."""
        match = _SUBSCRIPT.match(self.text, self.pos)
        if match is None:
            return
        self.pos = match.end()
        piece.add(match[0])
        level = 1
        while level:
            if self.at_end:
                raise Unreadable("a subscript is not closed")
            char = self.text[self.pos]
            if char == "'":
                self.single_quotes(piece)
            elif char == '"':
                self.double_quotes(piece)
            elif char in "\\$`":
                self.expanding(piece, char, self.text[self.pos + 1 : self.pos + 2])
            else:
                level += (char == "[") - (char == "]")
                piece.add(char)
                self.pos += 1

    # here-documents ----------------------------------------------------------------------------

    def here_document(self, strips_tabs: bool) -> HereDocument:
        """Read the delimiter behind `<<`; the body comes with the next line break."""
        self.skip_blanks()
        start = self.pos
        delimiter = Piece()
        while not self.at_end:
            plain = _PLAIN.match(self.text, self.pos)
            char = self.text[self.pos]
            if plain:
                delimiter.add(plain[0])
                self.pos = plain.end()
            elif char == "\\":
                self.backslash(delimiter)
            elif char == "'":
                self.single_quotes(delimiter)
            elif char == '"':
                end = self.text.find('"', self.pos + 1)
                if end < 0:
                    raise Unreadable("a double quote is not closed")
                delimiter.add(self.text[self.pos + 1 : end])
                delimiter.quoted = True
                self.pos = end + 1
            elif char in "$`":
                self.doubts.append("the end of a here-document is an expansion")
                delimiter.add(char)
                self.pos += 1
            else:
                break
        if self.pos == start:
            raise Unreadable("a here-document has no end word")
        (word,) = finish(delimiter.text, "", quoted=True, braces=False)
        if len(self.pending) >= MAX_DEPTH:
            raise TooComplex(f"more than {MAX_DEPTH} here-documents in one line")
        document = HereDocument(word.text, not delimiter.quoted, strips_tabs)
        self.pending.append(document)
        return document

    def read_pending(self) -> None:
        """Read the bodies that start after the line break just passed."""
        while self.pending:
            document = self.pending.pop(0)
            start = self.pos
            lines: list[str] = []
            joined = ""
            while True:
                if self.at_end:
                    self.doubts.append("a here-document is not closed")
                    break
                end = self.text.find("\n", self.pos)
                end = len(self.text) if end < 0 else end
                line = self.text[self.pos : end]
                self.pos = min(end + 1, len(self.text))
                bare = line.lstrip("\t") if document.strips_tabs else line
                if bare == document.delimiter and not joined:
                    break
                if bare == document.delimiter or (joined and joined + bare == document.delimiter):
                    self.doubts.append("a line continuation at the end of a here-document")
                lines.append(bare)
                slashes = len(line) - len(line.rstrip("\\"))
                joined = joined + bare[:-1] if document.expands and slashes % 2 else ""
            if self.own_text:
                self.documents.append((start, self.pos))
            body = "".join(line + "\n" for line in lines)
            document.body = Word(body, body, quoted=True)
            if document.expands:
                self.inner_texts.append((start, self.pos))
                document.body = self._body(body)

    def _body(self, body: str) -> Word:
        """The body of a here-document in which expansions count."""
        outer_text, outer_pos = self.text, self.pos
        self.text, self.pos = body, 0
        inner = len(self.inner_texts)
        piece = Piece()
        while not self.at_end:
            plain = _PLAIN_BODY.match(body, self.pos)
            if plain:
                piece.add(hide(plain[0]))
                self.pos = plain.end()
            else:
                self.expanding(piece, body[self.pos], "$`\\")
        del self.inner_texts[inner:]
        self.text, self.pos = outer_text, outer_pos
        (word,) = finish(
            piece.text, body, quoted=True, braces=False, substitutions=piece.substitutions,
            variables=piece.variables,
        )  # fmt: skip
        return word
