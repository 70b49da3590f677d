"""OpenTelemetry spans and metrics of calls, by the conventions for generative AI.

Names come from the semantic conventions for GenAI spans: `execute_tool NAME`, `gen_ai.operation.name`,
`gen_ai.tool.name`, `gen_ai.tool.call.id`, `error.type`. What has no convention begins with
`hardpoint.`. No arguments and no results are recorded.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from hardpoint.calls import CallOutcome, ToolCall
from hardpoint.context import JobContext
from hardpoint.errors import ConfigError
from hardpoint.hookspecs import API_VERSION, hookimpl
from hardpoint.tools import ToolDefinition

MAX_OPEN: Final = 10_000


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
            "gen_ai.client.operation.duration", unit="s", description="How long a tool call took."
        )
        self._calls = meter.create_counter(
            "hardpoint.tool.calls", description="Calls by tool and how they ended."
        )
        self._open: OrderedDict[str, Any] = OrderedDict()

    @hookimpl
    def hardpoint_call_started(
        self, call: ToolCall, tool: ToolDefinition, context: JobContext
    ) -> None:
        span = self._tracer.start_span(
            f"execute_tool {call.tool}",
            kind=self._trace.SpanKind.INTERNAL,
            attributes={**_attributes(call, tool), "hardpoint.origin": context.origin},
        )
        self._open[call.id] = span
        # A cancelled call has no end that an observer hears of.
        while len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)[1].end()

    @hookimpl
    def hardpoint_call_finished(
        self, call: ToolCall, tool: ToolDefinition, outcome: CallOutcome
    ) -> None:
        attributes = _attributes(call, tool)
        if outcome.error is not None:
            attributes["error.type"] = outcome.error.kind
        span = self._open.pop(call.id, None)
        if span is None:
            # Refused before it ran: a span of its own, as long as the refusal took.
            span = self._tracer.start_span(f"execute_tool {call.tool}", attributes=attributes)
        if outcome.error is not None:
            span.set_attribute("error.type", outcome.error.kind)
            span.set_status(self._trace.StatusCode.ERROR, outcome.error.kind)
        span.set_attribute("hardpoint.truncated", outcome.truncated)
        span.set_attribute("hardpoint.provenance", outcome.provenance)
        span.end()
        measured = {k: v for k, v in attributes.items() if k != "gen_ai.tool.call.id"}
        self._duration.record(outcome.duration.total_seconds(), measured)
        self._calls.add(1, measured)


def _attributes(call: ToolCall, tool: ToolDefinition) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.call.id": call.id,
        "gen_ai.tool.type": "function",
        "hardpoint.domain": tool.domain,
        "hardpoint.owner": tool.owner or "",
    }
