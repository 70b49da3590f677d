"""Scan a stream of bytes as it comes in, and give on only what holds no secret.

The end of what has come in is held back until it is clear what it belongs to: a token may go on in
the next chunk, and a key block ends where its last line is.
"""

from __future__ import annotations

from hardpoint.output.detection import Finding
from hardpoint.output.leaks import LeakScanner

HELD = 8192
"""Longer than any token, and than what a detector looks at on either side of its needle."""
LONGEST = 65_536
"""A secret that is still not complete after so much is given on as replaced so far."""
STEP = 16_384
"""How much new text is waited for before the held text is scanned again."""
CONTEXT = 128


class StreamScanner:
    """Redacts a stream.

    Example:
        stream = StreamScanner(scanner)
        for chunk in chunks:
            out.write(stream.feed(chunk))
        out.write(stream.finish())
    """

    def __init__(self, scanner: LeakScanner) -> None:
        self._scanner = scanner
        # What was given on already, for detectors that look back; never given on again.
        self._context = b""
        self._held = b""
        self._scanned = 0
        self.findings: list[Finding] = []
        """What was replaced so far, by its place in the stream."""
        self._offset = 0

    def feed(self, chunk: bytes) -> bytes:
        """Take a chunk; what can be given on by now."""
        self._held += chunk
        if len(self._held) - self._scanned < STEP:
            return b""
        return self._give(len(self._held) - HELD)

    def finish(self) -> bytes:
        """The rest of the stream."""
        return self._give(len(self._held))

    def _give(self, until: int) -> bytes:
        """Give on the held text up to about `until`, never a part of a secret."""
        front = len(self._context)
        data = self._context + self._held
        found = [
            Finding(f.kind, f.action, max(0, f.start - front), f.end - front, name=f.name)
            for f in self._scanner.scan(data)
            if f.end > front
        ]
        last = until == len(self._held)
        for finding in sorted(found, key=lambda f: f.start, reverse=True):
            reaches_end = finding.end > len(self._held) - HELD and not last
            if finding.start < until and reaches_end and len(self._held) < LONGEST:
                until = finding.start
        done = [finding for finding in found if finding.start < until]
        until = max([until, *(finding.end for finding in done)])
        given = self._scanner.redact_bytes(self._held[:until], done)
        for f in done:
            place = self._offset + f.start, self._offset + f.end
            self.findings.append(Finding(f.kind, f.action, *place, name=f.name))
        self._offset += until
        self._context = (self._context + self._held[:until])[-CONTEXT:]
        self._held = self._held[until:]
        self._scanned = len(self._held)
        return given
