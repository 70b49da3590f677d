"""How far a server is believed: what its hints change, and what in its words is suspicious.

Nothing that a server says makes a call easier unless an operator trusts the server. Its words never
change a rule, a limit or an approval.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import attrs

from hardpoint import ALL_EFFECTS, ApprovalRequirement, Effect
from hardpoint_mcp.catalogue import Listed, invisible_characters
from hardpoint_mcp.config import ServerConfig


def is_read_only(config: ServerConfig, listed: Listed) -> bool:
    """Whether a tool is known to change nothing: an operator says so, or a trusted server does."""
    if any(fnmatch.fnmatchcase(listed.original, glob) for glob in config.read_only):
        return True
    return config.trusted and listed.definition.annotations.get("readOnlyHint") is True


def requirement(config: ServerConfig, listed: Listed) -> ApprovalRequirement:
    """What approval a call of this tool needs."""
    if is_read_only(config, listed):
        return ApprovalRequirement.NEVER
    harmless = listed.definition.annotations.get("destructiveHint") is False
    if config.trusted and harmless:
        return ApprovalRequirement.NEVER
    return ApprovalRequirement.UNLESS_AUTO_APPROVED


def effects(config: ServerConfig, listed: Listed) -> Collection[Effect]:
    """What a call of this tool can do to the world."""
    if not is_read_only(config, listed):
        return ALL_EFFECTS
    # Arguments leave for the server in any case, unless a trusted one says that they go no further.
    closed = config.trusted and listed.definition.annotations.get("openWorldHint") is False
    return frozenset({"read"}) if closed else frozenset({"read", "network"})


# words -----------------------------------------------------------------------------------------


@attrs.frozen
class Finding:
    """Something in a tool's definition that talks to the model, not about the tool."""

    tool: str
    where: str
    what: str
    excerpt: str


_SUSPICIOUS: Final = {
    "tells the model to disregard instructions": (
        r"\b(ignore|disregard|forget|override)\b.{0,40}\b(previous|prior|above|earlier|all|system|"
        r"other)\b.{0,40}\b(instruction|prompt|rule|message|direction|guideline)"
    ),
    "tells the model to hide something from the person": (
        r"\b(do not|don't|never|without)\b.{0,40}"
        r"\b(tell|mention|inform|show|reveal|notify|ask|alert)(ing)?\b.{0,40}"
        r"\b(user|human|person|anyone|them|him|her)\b"
    ),
    "gives orders about other tools": (
        r"\b(before|after|instead of|whenever|every time)\b.{0,60}"
        r"\b(using|calling|call|use|invok\w+)\b.{0,40}\b(any|other|another|this|every)\b.{0,20}\btools?\b.{0,80}\b(must|always|first|need)"
    ),
    "marks text as important for the model": (
        r"<\s*/?\s*(important|system|instructions?|secret|hidden|admin)\b[^>]*>"
    ),
    "takes the place of the system or the person": (
        r"(^|\n)\s*(system|assistant|user|human)\s*:\s|<\|[a-z_]+\|>|\[/?INST\]"
    ),
    "asks for credentials or private files": (
        r"\b(read|open|load|send|include|pass|attach|provide)\b.{0,60}(~?/\.ssh|id_rsa|\.env\b|"
        r"\.aws/|api[ _-]?keys?\b|private keys?\b|passwords?\b|credentials?\b|system prompt|"
        r"conversation history|mcp\.json)"
    ),
    "asks to send data elsewhere": (
        r"\b(send|post|upload|forward|exfiltrate|bcc|copy)\b.{0,60}\b(to|at)\b.{0,20}"
        r"(https?://|[\w.+-]+@[\w-]+\.\w)"
    ),
}
_PATTERNS: Final = {
    what: re.compile(pattern, re.IGNORECASE | re.DOTALL) for what, pattern in _SUSPICIOUS.items()
}
_LONGEST_SCANNED: Final = 20_000


def scan(listed: Listed) -> Sequence[Finding]:
    """What is suspicious in everything that a model reads of a tool."""
    findings: list[Finding] = []
    for where, text in _texts(listed.raw, ""):
        hidden = invisible_characters(text)
        if hidden:
            findings.append(
                Finding(listed.original, where, "holds characters that nobody sees", hidden[:120])
            )
        scanned = text[:_LONGEST_SCANNED]
        for what, pattern in _PATTERNS.items():
            match = pattern.search(scanned)
            if match is not None:
                excerpt = " ".join(match[0].split())[:120]
                findings.append(Finding(listed.original, where, what, excerpt))
    return findings


def _texts(node: Any, where: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every text of a definition with its place, keys included: a model reads those too."""
    if isinstance(node, str):
        yield where or "/", node
    elif depth < 40 and isinstance(node, dict):
        for key, value in node.items():
            if isinstance(key, str) and len(key) > 40:
                yield f"{where}/(key)", key
            yield from _texts(value, f"{where}/{str(key)[:60]}", depth + 1)
    elif depth < 40 and isinstance(node, list):
        for index, value in enumerate(node):
            yield from _texts(value, f"{where}/{index}", depth + 1)
