"""What a tool, a toolset or a domain may do with the core."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import hardpoint
from hardpoint import JobContext, tool
from hardpoint.errors import HardpointError
from hardpoint.interfaces import Workspace
from hardpoint.testing import make_context, make_runtime

ANA = make_context("ana")


@tool(effects=())
async def greet(name: str) -> str:
    """Greet a person."""
    return f"Hello {name}."


def using(body: Callable[[JobContext], Any]) -> Any:
    """A tool with this body."""

    async def use(context: JobContext) -> str:
        """Use the services."""
        return str(await body(context))

    return tool(use, name="use", effects=())


async def test_a_tool_calls_another_and_gets_output_or_outcome() -> None:
    async def body(context: JobContext) -> str:
        output = await context.services.call("greet", {"name": "Ada"})
        outcome = await context.services.run("greet", {"nme": "Ada"})
        return f"{output.result} {outcome.error.kind}"  # type: ignore[union-attr]

    async with make_runtime(tools=[greet, using(body)]) as rt:
        output = await rt.call("use", {}, ANA)

    assert output.result == "Hello Ada. invalid_parameters"


async def test_a_nested_call_is_judged_as_its_callers() -> None:
    async def body(context: JobContext) -> str:
        # Handing in somebody else's context changes nothing.
        outcome = await context.services.run("greet", {"name": "Ada"}, parent=make_context("root"))
        return outcome.error.kind  # type: ignore[union-attr]

    rule = {"tool": "greet", "when": {"user": "ana"}}
    async with make_runtime(tools=[greet, using(body)], deny=[rule]) as rt:
        output = await rt.call("use", {}, ANA)

    assert output.result == "not_authorized"


async def test_outside_a_call_a_caller_must_be_named() -> None:
    async with make_runtime(tools=[greet]) as rt:
        with pytest.raises(HardpointError, match="caller"):
            await rt.services.call("greet", {"name": "Ada"})
        with pytest.raises(HardpointError, match="inside a call"):
            rt.services.call_sync("greet", {"name": "Ada"})
        output = await rt.services.call("greet", {"name": "Ada"}, parent=ANA)

    assert output.result == "Hello Ada."


async def test_a_tool_has_tables_of_its_own() -> None:
    async def body(context: JobContext) -> int:
        tables = context.services.store("notes", ["CREATE TABLE notes_all (text TEXT NOT NULL)"])
        tables.execute("INSERT INTO notes_all (text) VALUES (?)", ("hello",))
        return len(tables.query("SELECT text FROM notes_all"))

    async with make_runtime(tools=[using(body)]) as rt:
        first = await rt.call("use", {}, ANA)
        second = await rt.call("use", {}, ANA)

    assert (first.result, second.result) == ("1", "2")


async def test_the_registry_the_clock_and_the_extensions_are_there() -> None:
    class Notes(Workspace):
        async def read(self, user_id: str, path: str) -> str | None:
            return None

        async def write(
            self, user_id: str, path: str, content: str, *, append: bool = False
        ) -> None: ...

        async def list(self, user_id: str, prefix: str = "") -> list[str]:
            return ["a note"]

        async def search(self, user_id: str, query: str, *, limit: int = 5) -> list[Any]:
            return []

    def register(registry: Any) -> None:
        registry.register("workspace", "notes", Notes())

    acme = SimpleNamespace(
        HARDPOINT_API=1,
        __name__="acme",
        hardpoint_register_extensions=hardpoint.hookimpl(register),
    )

    async def body(context: JobContext) -> list[Any]:
        services = context.services
        return [
            services.registry.has("use"),
            services.clock.now() > 0,
            list(services.extensions("workspace")),
            services.extensions("nothing"),
            await services.workspace.list("ana"),
        ]

    async with make_runtime(tools=[using(body)], plugins={"acme": acme}) as rt:
        output = await rt.call("use", {}, ANA)
        without = make_runtime().services.workspace

    assert output.result == "[True, True, ['notes'], {}, ['a note']]"
    assert without is None


async def test_the_client_refuses_private_addresses() -> None:
    async def body(context: JobContext) -> str:
        try:
            await context.services.http().request("GET", "https://127.0.0.1/")
        except HardpointError as error:
            return error.message
        return "reached"

    async with make_runtime(tools=[using(body)]) as rt:
        output = await rt.call("use", {}, ANA)

    assert "127.0.0.1" in output.result
    assert output.result != "reached"


async def test_the_client_sends_no_secret_out_of_the_arguments() -> None:
    token = "ghp_" + "x7Kq2mZp9Rt4Wv8Ys1" + "Lb6Nc3Fd5Gh0JkTuQa"

    settings = {"network": {"allow_private": ["127.0.0.0/8"]}}

    async def body(context: JobContext) -> str:
        try:
            await context.services.http().request("GET", f"https://127.0.0.1:9/?q={token}")
        except HardpointError as error:
            return error.message
        return "sent"

    async with make_runtime(tools=[using(body)], settings=settings) as rt:
        output = await rt.call("use", {}, ANA)

    assert "secret" in output.result
    assert token not in output.result


async def test_what_was_cut_is_read_on_by_its_owner_only() -> None:
    @tool(effects=())
    async def much() -> str:
        """Give much."""
        return "line\n" * 1000

    async with make_runtime(tools=[much], settings={"output": {"max_bytes": 1000}}) as rt:
        outcome = await rt.run("much", {}, ANA)
        params = {"result_ref": outcome.result_ref, "offset": 4000}
        mine = await rt.run("result_read", params, ANA)
        theirs = await rt.run("result_read", params, make_context("bo"))

    assert outcome.truncated
    assert "line" in str(mine.result)
    assert not theirs.ok


async def test_what_a_call_counts_inside_counts_for_its_own_user() -> None:
    limit = hardpoint.ToolRateLimitConfig(1, 10)

    async def body(context: JobContext) -> str:
        return str(await context.services.count("use:http", limit, user_id="root"))

    async with make_runtime(tools=[using(body)]) as rt:
        outputs = [await rt.call("use", {}, make_context(user)) for user in ("ana", "eve", "ana")]

    assert [output.result == "None" for output in outputs] == [True, True, False]


async def test_a_limiter_that_fails_counts_nothing_and_says_so() -> None:
    async def body(context: JobContext) -> str:
        await context.services.count("x", SimpleNamespace())  # type: ignore[arg-type]
        return "counted"

    async with make_runtime(tools=[using(body)]) as rt:
        await rt.run("use", {}, ANA)
        outcome = await rt.run("use", {}, ANA)

    assert outcome.error is not None
    assert "cannot be counted" in outcome.error.message
