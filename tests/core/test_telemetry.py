"""Spans and metrics, read back from a real OpenTelemetry SDK."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import pytest

from hardpoint import ExternalService, JobContext, tool
from hardpoint.errors import ConfigError
from hardpoint.telemetry import BOUNDARIES, Telemetry
from hardpoint.testing import make_context, make_runtime

pytest.importorskip("opentelemetry.sdk")


@attrs.frozen
class Seen:
    """What was exported."""

    telemetry: Telemetry
    tracer: Any
    spans: Any
    reader: Any

    def span(self, name: str) -> Any:
        (found,) = [span for span in self.spans.get_finished_spans() if span.name == name]
        return found

    def metrics(self) -> dict[str, Any]:
        data = self.reader.get_metrics_data()
        return {m.name: m for m in data.resource_metrics[0].scope_metrics[0].metrics}


@pytest.fixture
def seen() -> Seen:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    telemetry = Telemetry(tracers, MeterProvider([reader]))
    return Seen(telemetry, tracers.get_tracer("test"), spans, reader)


def runtime(seen: Seen, *tools: Any, **options: Any) -> Any:
    made = make_runtime(tools=tools, plugins={"otel": seen.telemetry}, **options)
    made._core.around = seen.telemetry.around
    return made


@tool(sensitive=["token"])
async def send(to: str, token: str = "") -> str:
    """Send."""
    if to == "nobody":
        raise ExternalService("the post is closed")
    return f"to {to}"


async def test_a_call_is_a_span_and_a_measurement_without_its_arguments(seen: Seen) -> None:
    async with runtime(seen, send, deny=["send(to:eve)"]) as rt:
        await rt.run("send", {"to": "ben", "token": "t0p"}, make_context(conversation_id="c7"))
        await rt.run("send", {"to": "eve"}, make_context())
        await rt.run("send", {"to": "nobody"}, make_context())

    fine, refused, failed = seen.spans.get_finished_spans()
    assert {span.name for span in (fine, refused, failed)} == {"execute_tool send"}
    assert fine.attributes["gen_ai.operation.name"] == "execute_tool"
    assert fine.attributes["gen_ai.tool.name"] == "send"
    assert fine.attributes["gen_ai.tool.type"] == "function"
    assert fine.attributes["gen_ai.conversation.id"] == "c7"
    assert fine.attributes["hardpoint.owner"] == "application"
    assert fine.status.is_ok or fine.status.is_unset
    assert refused.attributes["error.type"] == "not_authorized"
    assert refused.attributes["hardpoint.decision"] == "deny"
    assert failed.attributes["error.type"] == "external_service"
    assert not failed.status.is_ok
    for span in (fine, refused, failed):
        for secret in ("ben", "t0p", "eve", "nobody", "the post is closed"):
            assert secret not in str(dict(span.attributes)) + str(span.status.description)


async def test_measurements_do_not_grow_with_the_number_of_calls(seen: Seen) -> None:
    async with runtime(seen, send) as rt:
        for number in range(30):
            await rt.run("send", {"to": f"friend {number}"}, make_context(f"user {number}"))

    metrics = seen.metrics()
    assert set(metrics) == {"gen_ai.execute_tool.duration", "hardpoint.tool.calls"}
    (duration,) = metrics["gen_ai.execute_tool.duration"].data.data_points
    (calls,) = metrics["hardpoint.tool.calls"].data.data_points
    assert metrics["gen_ai.execute_tool.duration"].unit == "s"
    assert duration.explicit_bounds == BOUNDARIES
    assert (duration.count, calls.value) == (30, 30)


@tool
async def inner(ctx: JobContext) -> str:
    """Be called."""
    return "inner"


@tool
async def outer(ctx: JobContext) -> str:
    """Call on."""
    await ctx.services.call("inner", {})
    return "outer"


@tool
def outer_sync(ctx: JobContext) -> str:
    """Call on from a thread."""
    ctx.services.call_sync("inner", {})
    return "outer"


@pytest.mark.parametrize("name", ["outer", "outer_sync"])
async def test_a_nested_call_hangs_below_its_caller_and_that_below_the_program(
    seen: Seen, name: str
) -> None:
    async with runtime(seen, inner, outer, outer_sync) as rt:
        with seen.tracer.start_as_current_span("the program"):
            await rt.call(name, {}, make_context())

    program, above, below = (
        seen.span(n) for n in ("the program", f"execute_tool {name}", "execute_tool inner")
    )
    assert above.parent.span_id == program.context.span_id
    assert below.parent.span_id == above.context.span_id


async def test_what_a_tool_does_hangs_below_its_call(seen: Seen) -> None:
    @tool
    async def fetch() -> str:
        """Do something that is instrumented."""
        with seen.tracer.start_as_current_span("GET"):
            return "got"

    async with runtime(seen, fetch) as rt:
        await rt.call("fetch", {}, make_context())

    assert seen.span("GET").parent.span_id == seen.span("execute_tool fetch").context.span_id


async def test_a_cancelled_call_ends_its_span(seen: Seen) -> None:
    running = asyncio.Event()

    @tool
    async def slow() -> str:
        """Never end."""
        running.set()
        await asyncio.Event().wait()
        return ""

    async with runtime(seen, slow) as rt:
        task = asyncio.ensure_future(rt.run("slow", {}, make_context()))
        await running.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    span = seen.span("execute_tool slow")
    assert span.attributes["error.type"] == "cancelled"
    assert seen.telemetry._open == {}


async def test_the_setting_switches_it_on() -> None:
    async with make_runtime(tools=[send], settings={"telemetry": {"otel": True}}) as rt:
        outcome = await rt.run("send", {"to": "ben"}, make_context())
        names = [record.name for record in rt.plugins()]

    assert outcome.ok
    assert names == ["otel"]


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)

    with pytest.raises(ConfigError) as refused:
        make_runtime(settings={"telemetry": {"otel": True}})

    assert "hardpoint[otel]" in str(refused.value.hint)
