"""Find the description of a function and of each parameter in its docstring.

Reads Google (`Args:`), NumPy (`Parameters` underlined) and reST or Epytext (`:param x:`,
`@param x:`) sections. Everything before the first section is the description of the tool.
"""

from __future__ import annotations

import inspect
import re

import attrs

_PARAMETER_SECTIONS = frozenset(
    [
        "args",
        "arguments",
        "parameters",
        "params",
        "attributes",
        "fields",
        "other_parameters",
        "keyword_args",
    ]
)
_SECTIONS = _PARAMETER_SECTIONS | frozenset(
    [
        "returns",
        "return",
        "yields",
        "yield",
        "raises",
        "raise",
        "except",
        "exceptions",
        "warns",
        "warnings",
        "warning",
        "note",
        "notes",
        "example",
        "examples",
        "see_also",
        "references",
        "todo",
        "hint",
        "tip",
        "receives",
        "usage",
    ]
)

_FIELD = re.compile(r"[:@](\w+)(?:[ \t]+([^:\n]+?))?[ \t]*:(?!\w+:`)[ \t]*(.*)")
_FIELD_NAMES = frozenset(
    [
        "param",
        "parameter",
        "arg",
        "argument",
        "key",
        "keyword",
        "kwarg",
        "type",
        "rtype",
        "return",
        "returns",
        "raise",
        "raises",
        "except",
        "exception",
        "var",
        "ivar",
        "cvar",
        "yield",
        "yields",
        "meta",
    ]
)
_PARAMETER_FIELDS = frozenset(
    ["param", "parameter", "arg", "argument", "key", "keyword", "kwarg", "var", "ivar", "cvar"]
)
_GOOGLE_ITEM = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?:\(.*?\))?\s*:(?:\s+(.*)|$)")
_NUMPY_ITEM = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")


@attrs.frozen
class Docstring:
    """What a docstring says."""

    description: str
    parameters: dict[str, str]


def parse(text: str | None) -> Docstring:
    """Split a docstring into its description and the descriptions of the parameters."""
    if not text:
        return Docstring("", {})
    lines = inspect.cleandoc(text).splitlines()
    description: list[str] = []
    parameters: dict[str, str] = {}
    started = False
    at = 0
    while at < len(lines):
        if field := _field_at(lines, at):
            names, first = field
            end = _end_of_block(lines, at + 1)
            started = True
            _add(parameters, names, [first, *lines[at + 1 : end]])
            at = end
            continue
        section, body = _section_at(lines, at)
        if section is None:
            if not started:
                description.append(lines[at])
            at += 1
            continue
        started = True
        numpy = body == at + 2
        end = _end_of_section(lines, body, numpy)
        if section in _PARAMETER_SECTIONS:
            _read_items(lines[body:end], _NUMPY_ITEM if numpy else _GOOGLE_ITEM, parameters)
        at = end
    return Docstring("\n".join(description).strip(), parameters)


def _section_at(lines: list[str], at: int) -> tuple[str | None, int]:
    """The section that starts on this line, and the line its content starts on."""
    line = lines[at].rstrip()
    name = line.rstrip(":").lower().replace(" ", "_")
    if not line or line[0].isspace() or name not in _SECTIONS:
        return None, at
    following = lines[at + 1].strip() if at + 1 < len(lines) else ""
    if len(following) >= 3 and set(following) <= {"-", "="}:
        return name, at + 2
    return (name, at + 1) if line.endswith(":") else (None, at)


def _end_of_section(lines: list[str], at: int, numpy: bool) -> int:
    while at < len(lines):
        if _section_at(lines, at)[0] or _field_at(lines, at):
            break
        # A Google section ends where the text returns to the margin; a NumPy one has items there.
        if not numpy and lines[at].strip() and not lines[at][0].isspace():
            break
        at += 1
    return at


def _field_at(lines: list[str], at: int) -> tuple[list[str], str] | None:
    match = _FIELD.match(lines[at])
    if not match or match[1] not in _FIELD_NAMES:
        return None
    if match[1] not in _PARAMETER_FIELDS or not match[2]:
        return [], ""
    # `:param int count: …` names the type first.
    return [match[2].split()[-1]], match[3]


def _end_of_block(lines: list[str], at: int) -> int:
    while at < len(lines) and (lines[at][:1].isspace() and lines[at].strip()):
        at += 1
    return at


def _read_items(lines: list[str], item: re.Pattern[str], found: dict[str, str]) -> None:
    margin = min((_indent(line) for line in lines if line.strip()), default=0)
    names: list[str] = []
    content: list[str] = []
    for line in lines:
        match = item.match(line.strip()) if line.strip() and _indent(line) == margin else None
        if match:
            _add(found, names, content)
            names = [name.strip().lstrip("*") for name in match[1].split(",")]
            content = [match[2] or ""] if item is _GOOGLE_ITEM else []
        else:
            content.append(line)
    _add(found, names, content)


def _add(found: dict[str, str], names: list[str], lines: list[str]) -> None:
    text = " ".join(" ".join(lines).split())
    for name in names:
        if text:
            found.setdefault(name.lstrip("*"), text)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
