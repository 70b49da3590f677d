"""OpenTelemetry spans and metrics of calls, by the conventions for generative AI.

Names come from the semantic conventions for tool execution: the span `execute_tool NAME`, the
metric `gen_ai.execute_tool.duration`, `gen_ai.tool.name`, `gen_ai.tool.call.id`, `error.type`. What
has no convention begins with `hardpoint.`. No arguments and no results are recorded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from hardpoint.calls import CallOutcome, ToolCall
from hardpoint.context import JobContext
from hardpoint.errors import ConfigError
from hardpoint.hookspecs import API_VERSION, hookimpl
from hardpoint.tools import ToolDefinition

MAX_OPEN: Final = 10_000
# Seconds, each twice the one before, as the conventions have them.
BOUNDARIES: Final = tuple(0.01 * 2**power for power in range(14))


class Telemetry:
    """Observes calls as a plugin does."""

    HARDPOINT_API = API_VERSION

    def __init__(self, tracer_provider: Any = None, meter_provider: Any = None) -> None:
        """Take a tracer and a meter.

        Args:
            tracer_provider: The global one when absent.
            meter_provider: The global one when absent.

        Raises:
            ConfigError: The OpenTelemetry API is not installed.
        """
        try:
            from opentelemetry import metrics, trace
        except ImportError as error:
            raise ConfigError(
                "[telemetry] otel = true needs the OpenTelemetry API",
                hint="pip install 'hardpoint[otel]'",
            ) from error
        self._trace = trace
        self._tracer = trace.get_tracer("hardpoint", tracer_provider=tracer_provider)
        meter = metrics.get_meter("hardpoint", meter_provider=meter_provider)
        self._duration = meter.create_histogram(
            "gen_ai.execute_tool.duration",
            unit="s",
            description="How long a tool call took.",
            explicit_bucket_boundaries_advisory=BOUNDARIES,
        )
        self._calls = meter.create_counter(
            "hardpoint.tool.calls", unit="{call}", description="Calls, and how they ended."
        )
        self._open: OrderedDict[str, Any] = OrderedDict()

    @hookimpl
    def hardpoint_call_started(
        self, call: ToolCall, tool: ToolDefinition, context: JobContext
    ) -> None:
        attributes = {**_attributes(call, tool), "hardpoint.origin": context.origin}
        if context.conversation_id is not None:
            attributes["gen_ai.conversation.id"] = context.conversation_id
        self._open[call.id] = self._start(call, attributes, context)
        # The end of a call that was lost is never heard of.
        while len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)[1].end()

    def _start(
        self, call: ToolCall, attributes: dict[str, Any], context: JobContext | None = None
    ) -> Any:
        # A synchronous tool calls from a thread, which does not know what the current span is.
        handle = None if context is None else context.handle
        while handle is not None and handle.call_id not in self._open:
            handle = handle.parent
        above = None
        if handle is not None and handle.call_id != call.id:
            above = self._trace.set_span_in_context(self._open[handle.call_id])
        return self._tracer.start_span(
            f"execute_tool {call.tool}",
            context=above,
            kind=self._trace.SpanKind.INTERNAL,
            attributes=attributes,
        )

    @contextmanager
    def around(self, call_id: str) -> Iterator[None]:
        """Make the call's span the current one while its tool runs: what it does hangs below it."""
        span = self._open.get(call_id)
        if span is None:
            yield
            return
        try:
            with self._trace.use_span(
                span, end_on_exit=False, record_exception=False, set_status_on_exception=False
            ):
                yield
        except Exception:
            raise  # the call ends in its own way, and says how
        except BaseException:
            # Nobody will say how a cancelled call ended.
            self._open.pop(call_id, None)
            self._fail(span, "cancelled")
            span.end()
            raise

    @hookimpl
    def hardpoint_call_finished(
        self, call: ToolCall, tool: ToolDefinition, outcome: CallOutcome
    ) -> None:
        attributes = _attributes(call, tool)
        # Refused before it ran: a span of its own.
        span = self._open.pop(call.id, None) or self._start(call, attributes)
        if outcome.error is not None:
            attributes["error.type"] = outcome.error.kind
            self._fail(span, outcome.error.kind)
        span.set_attribute("hardpoint.truncated", outcome.truncated)
        span.set_attribute("hardpoint.provenance", outcome.provenance)
        if outcome.decision is not None:
            span.set_attribute("hardpoint.decision", outcome.decision["decision"])
        span.end()
        del attributes["gen_ai.tool.call.id"]  # one series of measurements for each call otherwise
        self._duration.record(outcome.duration.total_seconds(), attributes)
        self._calls.add(1, attributes)

    def _fail(self, span: Any, kind: str) -> None:
        span.set_attribute("error.type", kind)
        span.set_status(self._trace.StatusCode.ERROR, kind)


def _attributes(call: ToolCall, tool: ToolDefinition) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.call.id": call.id,
        "gen_ai.tool.type": "function",
        "hardpoint.domain": tool.domain,
        "hardpoint.owner": tool.owner or "",
    }
