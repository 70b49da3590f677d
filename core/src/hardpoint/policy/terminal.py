"""Ask the person at the terminal. What is shown is what will run, with nothing hidden in it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any, Final, TextIO, cast

from hardpoint.context import JobContext
from hardpoint.interfaces import ApprovalRequest, Approver, Decision, Verdict
from hardpoint.policy.showing import Line, describe
from hardpoint.threads import run_blocking

# What is typed, what it means, and how it is offered.
_ANSWERS: Final[Mapping[str, tuple[str, ...]]] = {
    "once": ("y", "yes", "once", "ok", "approve"),
    "session": ("s", "session"),
    "always": ("a", "always"),
    "edit": ("e", "edit"),
    "no": ("n", "no", "deny", "reject", ""),
    "never": ("d", "don't", "never"),
    "full": ("f", "full"),
}
_OFFERS: Final[Mapping[str, str]] = {
    "once": "[y]es, once",
    "session": "[s]ession",
    "always": "[a]lways",
    "edit": "[e]dit",
    "no": "[N]o",
    "never": "no, and [d]o not try again",
    "full": "[f]ull text",
}
_MEANING: Final = {typed: word for word, words in _ANSWERS.items() for typed in words}
_BY: Final = "the person at the terminal"


class TerminalApprover(Approver):
    """Asks on stderr, reads from stdin. One question at a time; end of input means no."""

    def __init__(self, source: TextIO | None = None, sink: TextIO | None = None) -> None:
        """Ask on given streams.

        Args:
            source: Where answers come from; stdin when absent, and then only a terminal: what a
                program writes there is no person's answer.
            sink: Where questions go; stderr when absent.
        """
        self._source = source
        self._sink = sink
        self._turn = asyncio.Lock()

    async def decide(self, request: ApprovalRequest, context: JobContext) -> Decision | None:
        if self._source is None and not sys.stdin.isatty():
            return None
        async with self._turn:
            answer: Decision = await run_blocking(lambda: self._ask(request))
            return answer

    def _ask(self, request: ApprovalRequest) -> Decision:
        source, sink = self._source or sys.stdin, self._sink or sys.stderr
        lines, is_cut = describe(request)
        show(lines, sink)
        offered = [*request.verdicts, "never", *(["full"] if is_cut else [])]
        prompt = ", ".join(text for word, text in _OFFERS.items() if word in offered)
        while True:
            print(f"{prompt}? ", end="", file=sink, flush=True)
            line = source.readline()
            if not line:
                return Decision.no("no answer", by=_BY)
            word = _MEANING.get(line.strip().lower())
            if word == "full" and is_cut:
                show(describe(request, full=True)[0], sink)
            elif word is None or word not in offered:
                print(f"answer one of: {prompt}", file=sink)
            elif word == "edit":
                edited = _read_arguments(source, sink)
                if edited is not None:
                    return Decision.edit(edited, by=_BY)
            elif word in ("no", "never"):
                print("why (empty for no reason)? ", end="", file=sink, flush=True)
                why = source.readline().strip() or None
                return Decision.no(why, by=_BY, retry=word == "no")
            else:
                return Decision(cast("Verdict", word), by=_BY)


def _read_arguments(source: TextIO, sink: TextIO) -> dict[str, Any] | None:
    print("the new arguments as one line of JSON: ", end="", file=sink, flush=True)
    try:
        edited = json.loads(source.readline())
    except (ValueError, RecursionError) as error:
        print(f"not JSON: {error}", file=sink)
        return None
    if not isinstance(edited, dict):
        print("not a JSON object", file=sink)
        return None
    return edited


def show(lines: list[Line], sink: TextIO) -> None:
    """Print what a person decides about; in colour where rich is installed and somebody looks."""
    if sink.isatty():
        try:
            _show_with_rich(lines, sink)
            return
        except ImportError:
            pass
    print("\n".join(line.text for line in lines), file=sink)


def _show_with_rich(lines: list[Line], sink: TextIO) -> None:
    from rich.console import Console
    from rich.text import Text

    styles = {"head": "bold", "subject": "bold yellow", "warning": "bold red", "plain": ""}
    console = Console(file=sink, highlight=False, markup=False, emoji=False, soft_wrap=True)
    for line in lines:
        console.print(Text(line.text, style=styles[line.style]))
