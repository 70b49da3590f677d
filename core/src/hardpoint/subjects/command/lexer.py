"""Read words, expansions and here-documents, as a POSIX shell or Bash does.

Where a word ends, what is quoted and which text is run in a substitution. How words form commands
is decided in `parse`, which this module calls for the inside of a substitution.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import attrs

from hardpoint.subjects.command.words import (
    HOLE,
    Span,
    Word,
    assigned_name,
    decode_ansi_c,
    finish,
    hide,
)

Dialect = Literal["bash", "posix"]

MAX_DEPTH: Final = 40
MAX_WORDS: Final = 12_000
_MAX_RETRIES: Final = 64

_PLAIN: Final = re.compile(r"[^ \t\n|&;()<>\\'\"$`]+")
_PLAIN_QUOTED: Final = re.compile(r"[^\\\"$`]+")
_PLAIN_BODY: Final = re.compile(r"[^\\$`]+")
_NAME: Final = re.compile(r"[A-Za-z_]\w*|[0-9]|[@*#?$!-]", re.ASCII)
_SUBSCRIPT: Final = re.compile(r"[A-Za-z_]\w*\[", re.ASCII)
_BLANKS: Final = re.compile(r"(?:[ \t]|\\\n)*")
_CONTINUATION: Final = re.compile(r"(?:\\\n)+")
_PARAMETER: Final = re.compile(r"([!#]?)([A-Za-z_]\w*|[0-9]+|[@*#?$!-])?", re.ASCII)
# Variables that hold a number: they can be neither a program's name nor an option.
_NUMBERS: Final = frozenset("#?$!")


class Unreadable(Exception):
    """No shell of this dialect reads the line on beyond this place."""


class TooComplex(Unreadable):
    """Some shell may read on; nobody who has to answer soon does."""


@attrs.define
class HereDocument:
    """A here-document whose body is read at the next line break."""

    delimiter: str
    expands: bool
    strips_tabs: bool
    body: Word = attrs.field(factory=lambda: Word(""))


@attrs.define
class Piece:
    """What has been read of one word so far."""

    parts: list[str] = attrs.field(factory=list)
    splits: bool = False
    quoted: bool = False
    substitutions: list[Span] = attrs.field(factory=list)
    variables: list[str] = attrs.field(factory=list)

    def add(self, text: str) -> None:
        self.parts.append(text)

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def hole(self, in_quotes: bool) -> None:
        self.parts.append(HOLE)
        self.splits = self.splits or not in_quotes


class Lexer:
    """A place in a text, and what has been noticed on the way."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.text = text
        self.dialect = dialect
        self.pos = 0
        self.depth = 0
        self.retries = 0
        self.word_count = 0
        self.pending: list[HereDocument] = []
        self.doubts: list[str] = []
        """Places that shells read differently; each makes the line one that asks."""
        self.inner_texts: list[tuple[int, int]] = []
        """Stretches whose inside was read as a text of its own."""

    # what `parse` provides ---------------------------------------------------------------------

    def substitution(self, closer: str, fed: bool = False) -> Span:
        """Read commands up to `closer` and past it; `fed` when the line writes to them."""
        raise NotImplementedError

    def nested(self, text: str) -> Span:
        """Read a text of its own, such as the inside of backquotes."""
        raise NotImplementedError

    # characters --------------------------------------------------------------------------------

    def starts(self, token: str) -> bool:
        """Whether `token` stands here; a line continuation inside it does not matter."""
        if self.text.startswith(token, self.pos):
            return True
        return self.text.startswith(token[0] + "\\\n", self.pos) and bool(self._end_of(token))

    def take(self, token: str) -> bool:
        end = self._end_of(token)
        if end:
            self.pos = end
        return bool(end)

    def _end_of(self, token: str) -> int:
        at = self.pos
        for char in token:
            if self.text.startswith("\\\n", at) and at > self.pos:
                joined = _CONTINUATION.match(self.text, at)
                at = joined.end() if joined else at
            if not self.text.startswith(char, at):
                return 0
            at += 1
        return at

    def skip_blanks(self) -> None:
        match = _BLANKS.match(self.text, self.pos)
        assert match is not None
        self.pos = match.end()

    def back_to(self, pos: int, depth: int) -> None:
        """Read a stretch a second time, in another way."""
        self.pos, self.depth = pos, depth
        self.retries += 1
        if self.retries > _MAX_RETRIES:
            raise TooComplex("too many places that can be read in two ways")

    @property
    def at_end(self) -> bool:
        return self.pos >= len(self.text)

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooComplex(f"nested more than {MAX_DEPTH} levels deep")

    # words -------------------------------------------------------------------------------------

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
                self._backslash(piece)
            elif char == "'":
                self._single_quotes(piece)
            elif char == '"':
                self._double_quotes(piece)
            elif char == "$":
                self._dollar(piece, in_quotes=False)
            elif char == "`":
                self._backquotes(piece, in_quotes=False)
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
                self._single_quotes(piece)
            elif char == '"':
                self._double_quotes(piece)
            elif char in "\\$`":
                self._expanding(piece, char, self.text[self.pos + 1 : self.pos + 2])
            else:
                level += (char == "[") - (char == "]")
                piece.add(char)
                self.pos += 1

    def _backslash(self, piece: Piece) -> None:
        following = self.text[self.pos + 1 : self.pos + 2]
        self.pos += 2
        if following == "\n":
            return
        piece.quoted = True
        piece.add(hide(following or "\\"))

    def _single_quotes(self, piece: Piece) -> None:
        end = self.text.find("'", self.pos + 1)
        if end < 0:
            raise Unreadable("a single quote is not closed")
        piece.add(hide(self.text[self.pos + 1 : end]))
        piece.quoted = True
        self.pos = end + 1

    def _double_quotes(self, piece: Piece) -> None:
        self.pos += 1
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
            self._expanding(piece, char, '$`"\\')
        raise Unreadable("a double quote is not closed")

    def _expanding(self, piece: Piece, char: str, escapable: str) -> None:
        """One special character of a text in which only expansions and `\\` count."""
        if char == "\\":
            following = self.text[self.pos + 1 : self.pos + 2]
            self.pos += 2
            if following != "\n":
                escapes = following and following in escapable
                piece.add(hide(following if escapes else "\\" + following))
        elif char == "$":
            self._dollar(piece, in_quotes=True)
        else:
            self._backquotes(piece, in_quotes=True)

    # expansions --------------------------------------------------------------------------------

    def _dollar(self, piece: Piece, in_quotes: bool) -> None:
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
            joined = _CONTINUATION.match(text, self.pos)
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

    def _ansi_c(self, piece: Piece) -> None:
        at = self.pos + 2
        while at < len(self.text) and self.text[at] != "'":
            at += 2 if self.text[at] == "\\" else 1
        if at >= len(self.text):
            raise Unreadable("a quote that began with $' is not closed")
        piece.add(hide(decode_ansi_c(self.text[self.pos + 2 : at])))
        piece.quoted = True
        self.pos = at + 1

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
                self._expanding(scratch, char, '$`"\\')
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
                self._single_quotes(scratch)
                if in_quotes and re.search(r"[$`]", text[before : self.pos]):
                    self.doubts.append("single quotes inside a quoted ${…}")
            elif char == '"':
                self._double_quotes(scratch)
            elif quotes_count and self.dialect == "bash" and text.startswith("$'", self.pos):
                self._ansi_c(scratch)
            elif char in "\\$`":
                self._expanding(scratch, char, text[self.pos + 1 : self.pos + 2])
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

    def _backquotes(self, piece: Piece, in_quotes: bool) -> None:
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
                self._backslash(delimiter)
            elif char == "'":
                self._single_quotes(delimiter)
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
                self._expanding(piece, body[self.pos], "$`\\")
        del self.inner_texts[inner:]
        self.text, self.pos = outer_text, outer_pos
        (word,) = finish(
            piece.text, body, quoted=True, braces=False, substitutions=piece.substitutions,
            variables=piece.variables,
        )  # fmt: skip
        return word
