"""The backend under whole calls."""

from __future__ import annotations

from typing import Any

import pytest

import hardpoint
from hardpoint.testing import check_plugin, make_context, make_runtime
from hardpoint_redis import plugin
from hardpoint_redis.check import RedisCheck
from hardpoint_redis.config import RedisConfig

calls: list[str] = []


@hardpoint.tool(rate_limit=hardpoint.ToolRateLimitConfig(2, 2))
async def hit() -> str:
    """Be called."""
    calls.append("hit")
    return "hit"


def runtime(config: RedisConfig) -> Any:
    settings = {
        "plugin": {"redis": {"url": config.url, "timeout": config.timeout}},
        "limits": {"backend": "redis"},
    }
    return make_runtime(tools=[hit], plugins={"redis": plugin}, settings=settings)


def test_the_plugin_loads_alone() -> None:
    assert check_plugin("redis", plugin).status == "active"


async def test_two_runtimes_share_a_limit(server: Any) -> None:
    async with runtime(server.config) as one, runtime(server.config) as other:
        outcomes = [await rt.run("hit", {}, make_context("ana")) for rt in (one, other, one, other)]

    assert [outcome.ok for outcome in outcomes] == [True, True, False, False]
    assert isinstance(outcomes[2].error, hardpoint.RateLimited)
    assert outcomes[2].error.retry_after is not None


async def test_what_a_call_counts_inside_is_shared_too(server: Any) -> None:
    """As the requests of one tool: `services.count` uses the backend of the calls."""
    limit = hardpoint.ToolRateLimitConfig(2, 2)

    @hardpoint.tool
    async def ask(context: hardpoint.JobContext) -> str:
        """Count one request."""
        return str(await context.services.count("ask:http", limit) is None)

    answers = []
    async with runtime(server.config) as one, runtime(server.config) as other:
        for rt in (one, other):
            rt.registry.register(ask)
        for rt in (one, other, one):
            answers.append((await rt.call("ask", {}, make_context("ana"))).result)
        eve = await other.call("ask", {}, make_context("eve"))

    assert answers == ["True", "True", "False"]
    assert eve.result == "True"


async def test_without_its_server_a_call_is_denied_and_does_not_run(own_server: Any) -> None:
    own_server.start()
    async with runtime(own_server.config) as rt:
        before = await rt.run("hit", {}, make_context("ana"))
        own_server.stop()
        calls.clear()
        after = await rt.run("hit", {}, make_context("ana"))

    assert before.ok
    assert after.error is not None
    assert after.error.kind == "external_service"
    assert calls == []


async def test_what_was_counted_can_be_seen_and_forgotten(server: Any) -> None:
    async with runtime(server.config) as rt:
        await rt.call("hit", {}, make_context("ana"))
        assert rt.counted() == [("ana", "hit", 1, 1)]
        assert rt.clear_limit("ana", "hit")
        assert rt.counted() == []


async def test_the_doctor_counts_on_the_real_server(server: Any, own_server: Any) -> None:
    (good,) = await RedisCheck(server.config).run()
    (away,) = await RedisCheck(own_server.config).run()

    assert good.status == "ok"
    assert away.status == "failed"
    assert server.command("KEYS", "*") == []


@pytest.mark.parametrize("settings", [{"url": "http://x"}, {"timeout": 0}, {"urls": "redis://x"}])
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(hardpoint.HardpointError):
        check_plugin("redis", plugin, settings=settings)
