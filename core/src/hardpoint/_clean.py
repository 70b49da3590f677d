"""Clean an output: leak scan, then filters, then the cap. Patterns and cap live in `output`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

import attrs

from hardpoint.calls import ToolCall
from hardpoint.context import JobContext
from hardpoint.errors import ExecutionFailed, ToolError
from hardpoint.interfaces import OutputFilter
from hardpoint.parts import Part, Resource, Text, ToolOutput


class OneCall(Protocol):
    """What cleaning needs to know of a call."""

    @property
    def id(self) -> str: ...

    @property
    def request(self) -> ToolCall: ...

    @property
    def redacted(self) -> ToolCall: ...

    @property
    def context(self) -> JobContext: ...


@attrs.frozen
class Cleaned:
    """An output that may be shown."""

    output: ToolOutput
    notices: tuple[str, ...] = ()
    truncated: bool = False
    result_ref: str | None = None


class Cleaner:
    """Cleans what comes back from tools."""

    def __init__(
        self,
        leaks: Any,
        results: Any,
        filters: Sequence[tuple[str, OutputFilter]] = (),
        *,
        max_bytes: int = 100_000,
        scan: bool = True,
    ) -> None:
        self._leaks = leaks
        self._results = results
        self._filters = filters
        self._max_bytes = max_bytes
        self._scan = scan

    async def clean(self, output: ToolOutput, call: OneCall) -> Cleaned:
        """Scan, filter and cap the output of one call.

        Raises:
            ToolError: A filter refused it, or it is not JSON.
        """
        text = _as_json(output, call.request.tool)
        notices: list[str] = []
        if self._scan and (output.parts or self._leaks.scan(text)):
            output, found = self._redact(output)
            if found:
                notices.append(f"redacted: {', '.join(found)}")
                text = _as_json(output, call.request.tool)
        for name, output_filter in self._filters:
            output = await _filter(name, output_filter, output, call.redacted, call.context)
            text = _as_json(output, call.request.tool)
        if self._fits(text) and all(self._fits(_text_of(part)) for part in output.parts):
            return Cleaned(output, tuple(notices))
        # What the notice says stands in the shortened text itself, where a model reads it.
        capped = await self._results.cap(
            output, text, max_bytes=self._max_bytes, context=call.context, call_id=call.id
        )
        return Cleaned(capped.output, tuple(notices), truncated=True, result_ref=capped.result_ref)

    def _fits(self, text: str) -> bool:
        # No character takes more than four bytes; most texts are far from the cap.
        if len(text) * 4 <= self._max_bytes:
            return True
        return len(text.encode("utf-8", "surrogatepass")) <= self._max_bytes

    async def clean_partial(self, partial: ToolOutput) -> ToolOutput:
        """What a cut-short call gave out, scanned and cut to the cap."""
        redacted, _ = self._redact(partial)
        if isinstance(redacted.result, str) and len(redacted.result) > self._max_bytes:
            redacted = attrs.evolve(redacted, result=redacted.result[: self._max_bytes])
        return redacted

    def _redact(self, output: ToolOutput) -> tuple[ToolOutput, list[str]]:
        result, findings = self._leaks.redact_value(output.result)
        kinds = {finding.kind for finding in findings}
        parts: list[Part] = []
        for part in output.parts:
            cleaned, found = self._redact_part(part)
            kinds |= found
            parts.append(cleaned)
        if not kinds:
            return output, []
        return attrs.evolve(output, result=result, parts=tuple(parts)), sorted(kinds)

    def _redact_part(self, part: Part) -> tuple[Part, set[str]]:
        if not isinstance(part, Text | Resource) or not part.text:
            return part, set()
        kinds = {finding.kind for finding in self._leaks.scan(part.text)}
        if not kinds:
            return part, kinds
        return attrs.evolve(part, text=self._leaks.redact(part.text)), kinds


def _text_of(part: Part) -> str:
    return (part.text or "") if isinstance(part, Text | Resource) else ""


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _as_json(output: ToolOutput, tool: str) -> str:
    if isinstance(output.result, str):
        return output.result
    try:
        return _encode(output.result)
    except (TypeError, ValueError, RecursionError) as error:
        raise ExecutionFailed(f"{tool!r} returned a value that is not JSON: {error}") from error


async def _filter(
    name: str, output_filter: OutputFilter, output: ToolOutput, call: ToolCall, context: JobContext
) -> ToolOutput:
    try:
        filtered = await output_filter.apply(output, call, context)
    except ToolError:
        raise
    except Exception as error:
        # A filter is foreign code; an output that it could not look at is not shown.
        raise ExecutionFailed(
            f"output filter {name!r} failed, so the output is withheld: {error}"
        ) from error
    if not isinstance(filtered, ToolOutput):
        raise ExecutionFailed(f"output filter {name!r} returned no output")
    return filtered
