"""What stands before a pipeline and runs nothing itself: `!`, `time`, `coproc`."""

from __future__ import annotations

import re
from typing import Final

from hardpoint.subjects.command.compound import COMPOUND, Compounds

_PARENTHESES: Final = re.compile(r"\([ \t]*\)")


class Prefixes(Compounds):
    """Steps over them."""

    def prefixes(self) -> None:
        """Step over each `!` and `time`, in any order, and `coproc` before a compound command."""
        self.skip_blanks()
        while self.reserved() == "!" or self._times():
            self.skip_run()
            self.skip_blanks()
        if self.reserved() == "coproc":
            self._coproc_before_compound()

    def _times(self) -> bool:
        """Whether `time` stands here as a word of the shell; its last word is left to step over.

        With any option but its own `-p`, and with nothing behind it, it is read as the program.
        """
        if self.reserved() != "time":
            return False
        start = last = self.pos
        self.skip_run()
        self.skip_blanks()
        for option in ("-p", "--"):
            if self.reserved() == option:
                last = self.pos
                self.skip_run()
                self.skip_blanks()
        following = self.text[self.pos : self.pos + 1]
        is_word = following not in ("", "-", *"\n;|&)")
        self.pos = last if is_word else start
        return is_word

    def _coproc_before_compound(self) -> None:
        """Step over `coproc NAME` before a compound command; else it is a wrapper."""
        start = name_at = self.pos
        words = 0
        while words < 2 and (word := self.reserved()):
            if word in COMPOUND:
                return
            name_at = self.pos
            self.skip_run()
            self.skip_blanks()
            words += 1
        if self.reserved() not in COMPOUND and not self.text.startswith("(", self.pos):
            self.pos = start
        elif words == 2 and _PARENTHESES.match(self.text, self.pos):
            self.pos = name_at  # no name of a coprocess: a function's
