"""Ask the person at the terminal. What is shown is what will run, with nothing hidden in it."""

from __future__ import annotations

import asyncio
import json
import sys
import unicodedata
from collections.abc import Mapping
from typing import Any, Final, TextIO

from hardpoint.context import JobContext
from hardpoint.interfaces import ApprovalRequest, Approver, Decision
from hardpoint.threads import run_blocking

MAX_SHOWN: Final = 4000
"""Characters of one value; a longer one is shown at both ends, with its length in between."""

_ANSWERS: Final[Mapping[str, str]] = {
    "y": "once",
    "yes": "once",
    "once": "once",
    "s": "session",
    "session": "session",
    "a": "always",
    "always": "always",
    "e": "edit",
    "edit": "edit",
    "n": "no",
    "no": "no",
    "": "no",
}
_PROMPTS: Final[Mapping[str, str]] = {
    "once": "[y]es, once",
    "session": "[s]ession",
    "always": "[a]lways",
    "edit": "[e]dit",
    "no": "[N]o",
}


def visible(text: str) -> str:
    """The text with everything that could deceive a reader made visible.

    Control and format characters, bidirectional marks, unusual blanks and lone surrogates become
    escapes; runs of blanks that could push text out of sight say how many there are.
    """
    shown = []
    for character in text:
        category = unicodedata.category(character)
        if character == "\n":
            shown.append("\n    ")
        elif category in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") or (
            category == "Zs" and character != " "
        ):
            shown.append(character.encode("unicode_escape", "surrogatepass").decode("ascii"))
        else:
            shown.append(character)
    line = "".join(shown)
    for run in sorted({len(r) for r in _runs_of_blanks(line)}, reverse=True):
        line = line.replace(" " * run, f" <{run} blanks> ")
    if len(line) > MAX_SHOWN:
        half = MAX_SHOWN // 2
        hidden = len(line) - 2 * half
        line = f"{line[:half]}\n    <{hidden} characters not shown>\n    {line[-half:]}"
    return line


def _runs_of_blanks(text: str) -> list[str]:
    import re

    return re.findall(r" {8,}", text)


def describe(request: ApprovalRequest) -> list[str]:
    """The lines that say what a person decides about."""
    lines = [f"{request.tool} wants to run in domain {request.domain!r} for {request.user_id}"]
    for subject in request.subjects:
        value = subject.value if isinstance(subject.value, str) else json.dumps(subject.value)
        word = f"{subject.kind} {subject.operation}".strip()
        lines.append(f"  {word}: {visible(value)}")
    for name, value in request.params.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"  {visible(str(name))} = {visible(text)}")
    if request.effects:
        lines.append(f"  effects: {', '.join(sorted(request.effects))}")
    lines += [f"  because: {visible(reason)}" for reason in request.reasons]
    if request.pattern is not None:
        lines.append(f"  session and always remember: {visible(request.pattern)}")
    return lines


class TerminalApprover(Approver):
    """Asks on stderr, reads from stdin. One question at a time; end of input means no."""

    def __init__(self, source: TextIO | None = None, sink: TextIO | None = None) -> None:
        self._source = source
        self._sink = sink
        self._turn = asyncio.Lock()

    async def decide(self, request: ApprovalRequest, context: JobContext) -> Decision:
        async with self._turn:
            answer: Decision = await run_blocking(lambda: self._ask(request))
            return answer

    def _ask(self, request: ApprovalRequest) -> Decision:
        source, sink = self._source or sys.stdin, self._sink or sys.stderr
        print("\n".join(describe(request)), file=sink)
        offered = [word for word in _PROMPTS if word in request.verdicts]
        prompt = ", ".join(_PROMPTS[word] for word in offered)
        while True:
            print(f"{prompt}? ", end="", file=sink, flush=True)
            line = source.readline()
            if not line:
                return Decision.no("no answer", by="the terminal")
            word = _ANSWERS.get(line.strip().lower())
            if word is None or word not in request.verdicts:
                print(f"answer one of: {', '.join(offered)}", file=sink)
                continue
            if word == "edit":
                edited = self._edit(request, source, sink)
                if edited is None:
                    continue
                return Decision.edit(edited, by="the terminal")
            if word == "no":
                print("why (empty for no reason)? ", end="", file=sink, flush=True)
                return Decision.no(source.readline().strip() or None, by="the terminal")
            return Decision(word, by="the terminal")  # type: ignore[arg-type]

    def _edit(
        self, request: ApprovalRequest, source: TextIO, sink: TextIO
    ) -> dict[str, Any] | None:
        print("the new arguments as one line of JSON: ", end="", file=sink, flush=True)
        try:
            edited = json.loads(source.readline())
        except ValueError as error:
            print(f"not JSON: {error}", file=sink)
            return None
        if not isinstance(edited, dict):
            print("not a JSON object", file=sink)
            return None
        return edited
