"""Spans and metrics, read back from a real OpenTelemetry SDK."""

from __future__ import annotations

from typing import Any

import pytest
from hardpoint.testing import make_context, make_runtime
from hardpoint.tools import tool

pytest.importorskip("opentelemetry.sdk")

from hardpoint.telemetry import Telemetry  # noqa: E402


@tool(sensitive=["token"])
async def send(to: str, token: str = "") -> str:
    """Send."""
    return f"to {to}"


async def test_a_call_is_a_span_and_a_measurement_without_its_arguments() -> None:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    telemetry = Telemetry(tracers, MeterProvider([reader]))

    async with make_runtime(tools=[send], plugins={"otel": telemetry}, deny=["send(to:eve)"]) as rt:
        await rt.run("send", {"to": "ben", "token": "t0p"}, make_context())
        await rt.run("send", {"to": "eve"}, make_context())

    fine, refused = spans.get_finished_spans()
    assert fine.name == refused.name == "execute_tool send"
    attributes: Any = fine.attributes
    assert attributes["gen_ai.operation.name"] == "execute_tool"
    assert attributes["gen_ai.tool.name"] == "send"
    assert refused.attributes is not None
    assert refused.attributes["error.type"] == "not_authorized"
    assert "ben" not in fine.to_json()
    assert "t0p" not in fine.to_json()
    data: Any = reader.get_metrics_data()
    metrics = {
        metric.name: metric for metric in data.resource_metrics[0].scope_metrics[0].metrics
    }
    assert set(metrics) == {"gen_ai.client.operation.duration", "hardpoint.tool.calls"}
    assert sum(point.value for point in metrics["hardpoint.tool.calls"].data.data_points) == 2


async def test_the_setting_switches_it_on() -> None:
    async with make_runtime(tools=[send], settings={"telemetry": {"otel": True}}) as rt:
        outcome = await rt.run("send", {"to": "ben"}, make_context())
        names = [record.name for record in rt.plugins()]

    assert outcome.ok
    assert names == ["otel"]
