"""Find secrets in text: the tokens of known providers, telling contexts, and every stored secret.

One pass of a multi-pattern automaton over the bytes finds where anything could begin; only there a
linear check looks closer. What follows from a finding is decided by the caller: `block` findings
stop a call that would send them away, `redact` findings are replaced and stop nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import attrs
from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from hardpoint.output.assignments import assignment_detectors
from hardpoint.output.contexts import context_detectors
from hardpoint.output.detection import Detector, Finding, at_boundary
from hardpoint.output.key_blocks import key_block_detectors
from hardpoint.output.stored import stored_detectors
from hardpoint.output.tokens import token_detectors

__all__ = ["Finding", "LeakScanner"]

# The hits of one window are in memory at a time, whatever the size of the text.
WINDOW = 1 << 20
# A table for every state and byte is quickest; beyond this it would take too much memory.
DFA_BYTES = 40_000


class LeakScanner:
    """Looks for secrets. Immutable, so it may be used from several threads at once.

    Example:
        scanner = LeakScanner({"billing_token": token})
        scanner.scan(text)      # (Finding(kind="stored_secret", action="block", start=4, …),)
        scanner.redact(text)    # "use [REDACTED:stored_secret] now"
    """

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        """Build the automaton.

        Args:
            secrets: Stored values by name. Values under four characters are not searched for.
        """
        self._secrets = dict(secrets or {})
        if not self._secrets:
            self._automaton, self._detectors, self._longest = _providers()
        else:
            detectors = list(_known())
            for name, value in sorted(self._secrets.items()):
                detectors += stored_detectors(name, value)
            self._automaton, self._detectors, self._longest = _build(detectors)

    def with_secrets(self, secrets: Mapping[str, str]) -> LeakScanner:
        """A scanner that looks for these values too."""
        return LeakScanner({**self._secrets, **secrets})

    def scan(self, text: str | bytes) -> tuple[Finding, ...]:
        """Every finding, by its place: in characters of a text, in bytes of bytes."""
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        findings = self._scan(data)
        if not findings:
            return ()
        findings.sort(key=lambda finding: (finding.start, -finding.end))
        if isinstance(text, str) and len(data) != len(text):
            return tuple(_in_characters(findings, data))
        return tuple(findings)

    def redact(self, text: str, findings: Sequence[Finding] | None = None) -> str:
        """The text with every finding replaced by `[REDACTED:kind]`."""
        if findings is None:
            findings = self.scan(text)
        if not findings:
            return text
        pieces, at = [], 0
        for start, end, kind in _merged(findings):
            pieces += [text[at:start], f"[REDACTED:{kind}]"]
            at = end
        return "".join([*pieces, text[at:]])

    def redact_bytes(self, data: bytes, findings: Sequence[Finding] | None = None) -> bytes:
        """`redact` for bytes."""
        if findings is None:
            findings = self.scan(data)
        pieces, at = [], 0
        for start, end, kind in _merged(findings):
            pieces += [data[at:start], f"[REDACTED:{kind}]".encode()]
            at = end
        return b"".join([*pieces, data[at:]]) if pieces else data

    def scan_value(self, value: Any) -> tuple[Finding, ...]:
        """The findings in a JSON value, by their place in its JSON text."""
        return self.scan(_to_json(value))

    def redact_value(self, value: Any) -> tuple[Any, tuple[Finding, ...]]:
        """A JSON value without its secrets, and what was found; the same object without any."""
        if isinstance(value, str):
            findings = self.scan(value)
            return (self.redact(value, findings) if findings else value), findings
        text = _to_json(value)
        findings = self.scan(text)
        if not findings:
            return value, ()
        try:
            return json.loads(self.redact(text, findings)), findings
        except ValueError:
            # A secret was no text, or reached over the end of one.
            return self._redact_leaves(value), findings

    def _redact_leaves(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            cleaned = {}
            for name, item in value.items():
                # With its name, because some values are secrets only beside it.
                inner = self._redact_leaves(item)
                pair = _to_json({str(name): inner})
                found = self.scan(pair)
                if found and not isinstance(inner, Mapping | list):
                    inner = f"[REDACTED:{found[0].kind}]"
                cleaned[self.redact(str(name))] = inner
            return cleaned
        if isinstance(value, list | tuple):
            return [self._redact_leaves(item) for item in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            text = json.dumps(value)
            redacted = self.redact(text)
            return value if redacted == text else redacted
        return value

    def _scan(self, data: bytes) -> list[Finding]:
        find = self._automaton.find_matches_as_indexes
        if len(data) <= WINDOW:
            hits = find(data, overlapping=True)
            return self._look(data, 0, hits, {}) if hits else []
        findings: list[Finding] = []
        known_until: dict[str, int] = {}
        view = memoryview(data)
        for offset in range(0, len(data), WINDOW):
            # Each window sees the beginning of the next; what begins there is the next one's.
            hits = find(view[offset : offset + WINDOW + self._longest - 1], overlapping=True)
            hits = [hit for hit in hits if hit[1] < WINDOW]
            findings += self._look(data, offset, hits, known_until)
        return findings

    def _look(
        self,
        data: bytes,
        offset: int,
        hits: Sequence[tuple[int, int, int]],
        known_until: dict[str, int],
    ) -> list[Finding]:
        findings = []
        for index, start, end in hits:
            detector = self._detectors[index]
            start += offset
            if detector.bounded and not at_boundary(data, start):
                continue
            # What lies in a finding of the same kind is not looked at again, so that the work stays
            # linear. Stored values may overlap each other.
            if start < known_until.get(detector.kind, 0):
                continue
            finding = detector.match(data, start, end + offset)
            if finding is not None:
                findings.append(finding)
                if finding.name is None:
                    known_until[detector.kind] = finding.end
        return findings


@cache
def _known() -> tuple[Detector, ...]:
    return (
        *token_detectors(),
        *key_block_detectors(),
        *context_detectors(),
        *assignment_detectors(),
    )


@cache
def _providers() -> tuple[BytesAhoCorasick, list[Detector], int]:
    return _build(_known())


def _build(detectors: Sequence[Detector]) -> tuple[BytesAhoCorasick, list[Detector], int]:
    """The automaton, the detector of each needle, and the length of the longest needle."""
    needles, owners = [], []
    for detector in detectors:
        for needle in detector.needles:
            needles.append(needle)
            owners.append(detector)
    small = sum(map(len, needles)) <= DFA_BYTES
    automaton = BytesAhoCorasick(
        needles,
        MatchKind.Standard,
        Implementation.DFA if small else Implementation.ContiguousNFA,
    )
    return automaton, owners, max(map(len, needles))


def _merged(findings: Sequence[Finding]) -> list[tuple[int, int, str]]:
    """Start, end and kind of every stretch to replace; overlapping findings make one."""
    merged: list[tuple[int, int, str]] = []
    for finding in sorted(findings, key=lambda f: (f.start, f.action, -f.end)):
        if merged and finding.start < merged[-1][1]:
            start, end, kind = merged[-1]
            merged[-1] = (start, max(end, finding.end), kind)
        else:
            merged.append((finding.start, finding.end, finding.kind))
    return merged


def _in_characters(findings: Sequence[Finding], data: bytes) -> list[Finding]:
    """The findings with their places counted in characters instead of bytes."""
    edges = sorted({edge for finding in findings for edge in (finding.start, finding.end)})
    places, count, at = {}, 0, 0
    for edge in edges:
        # Every byte but those that continue a character begins one.
        count += len(data[at:edge].decode("utf-8", "surrogatepass"))
        places[edge], at = count, edge
    return [attrs.evolve(f, start=places[f.start], end=places[f.end]) for f in findings]


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
