"""Everything that the two pages which this project started from promise, as Python.

Every name, default, field and example of those pages is exercised here through the public surface.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

import hardpoint
from hardpoint import (
    PROTECTED_TOOL_NAMES,
    ApprovalRequirement,
    JobContext,
    RateLimiter,
    Tool,
    ToolDefinition,
    ToolDomain,
    ToolError,
    ToolOutput,
    ToolRateLimitConfig,
    ToolRegistry,
    validate_tool_schema,
)


class EchoExample(Tool):
    """The example of the tool page, line by line."""

    name = "echo"
    description = "Echo back the input message"

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"message": {"type": "string", "description": "Message to echo"}},
            "required": ["message"],
        }

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        message = params.get("message")
        if not isinstance(message, str):
            raise ToolError.InvalidParameters("message must be a string")
        return ToolOutput.text(message, timedelta(milliseconds=1))


CONTEXT = JobContext(user_id="user_123")


# the tool trait --------------------------------------------------------------------------------


def test_tool_is_abstract() -> None:
    assert inspect.isabstract(Tool)


def test_defaults_of_a_tool() -> None:
    tool = EchoExample()

    assert tool.requires_approval({}) is ApprovalRequirement.NEVER
    assert tool.approval_requirement({}) is ApprovalRequirement.NEVER
    assert tool.domain() == ToolDomain.ORCHESTRATOR
    assert tool.rate_limit_config() is None
    assert tool.estimated_cost({}) is None
    assert tool.estimated_duration({}) is None
    assert tool.execution_timeout() == timedelta(seconds=60)
    assert tool.requires_sanitization() is True
    assert list(tool.sensitive_params()) == []
    assert tool.discovery_schema() == tool.parameters_schema()
    assert tool.discovery_summary() is None


def test_name_and_description_may_be_properties() -> None:
    class Named(EchoExample):
        @property
        def name(self) -> str:  # type: ignore[override]
            return "named"

        @property
        def description(self) -> str:  # type: ignore[override]
            return "Has properties"

    registry = ToolRegistry()
    registry.register(Named())

    assert registry.list() == ["named"]
    assert registry.schemas()[0].description == "Has properties"


async def test_the_echo_example_runs_unguarded() -> None:
    output = await EchoExample().execute({"message": "hi"}, CONTEXT)

    assert output.result == "hi"
    assert output.duration == timedelta(milliseconds=1)


async def test_the_echo_example_refuses_a_wrong_message() -> None:
    with pytest.raises(ToolError.InvalidParameters, match="message must be a string"):
        await EchoExample().execute({"message": 5}, CONTEXT)


@pytest.mark.parametrize("spelling", ["requires_approval", "approval_requirement"])
async def test_either_spelling_of_the_requirement_counts(spelling: str) -> None:
    class Deletes(EchoExample):
        name = "delete"

    setattr(Deletes, spelling, lambda self, params: ApprovalRequirement.ALWAYS)
    async with hardpoint.Runtime(tools=[Deletes()]) as rt:
        outcome = await rt.run("delete", {"message": "x"}, CONTEXT)

    assert isinstance(outcome.error, hardpoint.NotAuthorized)


async def test_the_strictest_of_both_spellings_counts() -> None:
    class Deletes(EchoExample):
        name = "delete"

        def requires_approval(self, params: Any) -> ApprovalRequirement:
            return ApprovalRequirement.UNLESS_AUTO_APPROVED

        def approval_requirement(self, params: Any) -> ApprovalRequirement:
            return ApprovalRequirement.ALWAYS

    context = JobContext(user_id="ana", auto_approve=True)
    async with hardpoint.Runtime(tools=[Deletes()]) as rt:
        outcome = await rt.run("delete", {"message": "x"}, context)

    assert isinstance(outcome.error, hardpoint.NotAuthorized)


# domains ---------------------------------------------------------------------------------------


def test_domains_have_their_names() -> None:
    assert ToolDomain.ORCHESTRATOR == "orchestrator"
    assert ToolDomain.CONTAINER == "container"
    assert ToolDomain.Orchestrator is ToolDomain.ORCHESTRATOR
    assert ToolDomain.Container is ToolDomain.CONTAINER


async def test_a_container_tool_without_its_domain_does_not_run() -> None:
    ran = []

    class Shell(EchoExample):
        name = "my_shell"

        def domain(self) -> ToolDomain:
            return ToolDomain.CONTAINER

        async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
            ran.append(params)
            return ToolOutput.text("ran")

    async with hardpoint.Runtime(tools=[Shell()]) as rt:
        outcome = await rt.run("my_shell", {"message": "x"}, CONTEXT)

    assert isinstance(outcome.error, hardpoint.DomainUnavailable)
    assert ran == []


async def test_the_body_of_a_container_tool_needs_a_sandbox() -> None:
    class Shell(EchoExample):
        async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
            result = await ctx.sandbox.exec(["true"])
            return ToolOutput.success(result.exit_code)

    with pytest.raises(hardpoint.DomainUnavailable):
        await Shell().execute({"message": "x"}, CONTEXT)


# the registry ----------------------------------------------------------------------------------


def test_the_registry_example() -> None:
    registry = ToolRegistry()
    registry.register(EchoExample())

    assert registry.list() == ["echo"]
    assert registry.get("echo") is not None
    assert registry.get("missing") is None
    assert registry.schemas() == registry.tool_definitions()
    definition = registry.schemas()[0]
    assert isinstance(definition, ToolDefinition)
    assert (definition.name, definition.description) == ("echo", "Echo back the input message")
    assert definition.parameters == EchoExample().parameters_schema()


async def test_the_registry_example_executes() -> None:
    registry = ToolRegistry()
    registry.register(EchoExample())

    tool = registry.get("echo")

    assert tool is not None
    assert (await tool.execute({"message": "hi"}, CONTEXT)).result == "hi"


def test_register_fails_if_the_name_exists() -> None:
    registry = ToolRegistry()
    registry.register(EchoExample())

    with pytest.raises(hardpoint.NameTaken) as refused:
        registry.register(EchoExample())

    assert refused.value.owner == "application"


def test_definitions_are_sorted() -> None:
    registry = ToolRegistry()
    for name in ("zeta", "alpha", "mid"):
        made = EchoExample()
        made.name = name
        registry.register(made)

    assert [definition.name for definition in registry.schemas()] == ["alpha", "mid", "zeta"]


def test_schemas_are_checked_at_registration() -> None:
    class Broken(EchoExample):
        def parameters_schema(self) -> dict[str, Any]:
            return {"type": "object", "properties": {}, "required": ["ghost"]}

    with pytest.raises(hardpoint.SchemaError, match="ghost"):
        ToolRegistry().register(Broken())


def test_a_registry_takes_the_optional_parts() -> None:
    limiter = RateLimiter()
    registry = ToolRegistry(
        secrets_store="store", credential_registry="credentials", rate_limiter=limiter
    )

    assert registry.secrets_store == "store"
    assert registry.credential_registry == "credentials"
    assert registry.rate_limiter() is limiter


def test_a_registry_is_safe_to_change_from_threads() -> None:
    registry = ToolRegistry()
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for index in range(50):
                made = EchoExample()
                made.name = f"t{number}_{index}"
                registry.register(made)
        except BaseException as error:
            failures.append(error)

    def read() -> None:
        try:
            for _ in range(200):
                for definition in registry.schemas():
                    assert registry.get(definition.name) is not None
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(5)]
    threads += [threading.Thread(target=read) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert registry.count() == 250


# protected names -------------------------------------------------------------------------------

SEED_NAMES = (
    "echo time json http shell read_file write_file list_dir apply_patch memory_search memory_write"
    " memory_read memory_tree create_job list_jobs job_status cancel_job build_software tool_search"
    " tool_install tool_auth web_fetch message"
).split()


@pytest.mark.parametrize("name", SEED_NAMES)
def test_first_party_names_are_protected(name: str) -> None:
    assert name in PROTECTED_TOOL_NAMES


def test_the_set_of_protected_names_cannot_be_changed() -> None:
    assert isinstance(PROTECTED_TOOL_NAMES, frozenset)


@pytest.mark.parametrize(
    "name", ["echo", "shell", "skill_list", "result_read", "read-file", "Http"]
)
def test_nobody_else_gets_a_protected_name_in_a_runtime(name: str) -> None:
    made = EchoExample()
    made.name = name

    with pytest.raises(hardpoint.ProtectedName):
        hardpoint.Runtime().registry.register(made)


# approval --------------------------------------------------------------------------------------


def test_requirements_have_their_names() -> None:
    assert [requirement.value for requirement in ApprovalRequirement] == [
        "never",
        "unless_auto_approved",
        "always",
    ]
    assert ApprovalRequirement.Never is ApprovalRequirement.NEVER
    assert ApprovalRequirement.UnlessAutoApproved is ApprovalRequirement.UNLESS_AUTO_APPROVED
    assert ApprovalRequirement.Always is ApprovalRequirement.ALWAYS


async def test_a_destructive_command_always_needs_approval() -> None:
    class ShellExample(EchoExample):
        name = "my_shell"

        def parameters_schema(self) -> dict[str, Any]:
            return {
                "type": "object",
                "properties": {"command": {"type": "string"}},
                "required": ["command"],
            }

        def requires_approval(self, params: Any) -> ApprovalRequirement:
            command = params.get("command", "")
            if command.startswith("rm "):
                return ApprovalRequirement.ALWAYS
            return ApprovalRequirement.UNLESS_AUTO_APPROVED

        async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
            return ToolOutput.text("ran")

    context = JobContext(user_id="ana", auto_approve=True)
    async with hardpoint.Runtime(tools=[ShellExample()]) as rt:
        harmless = await rt.run("my_shell", {"command": "ls"}, context)
        destructive = await rt.run("my_shell", {"command": "rm x"}, context)

    assert harmless.ok
    assert isinstance(destructive.error, hardpoint.NotAuthorized)


# rate limits -----------------------------------------------------------------------------------


def test_rate_limit_defaults_and_positions() -> None:
    assert ToolRateLimitConfig() == ToolRateLimitConfig(
        requests_per_minute=60, requests_per_hour=1000
    )
    config = ToolRateLimitConfig(30, 500)
    assert (config.requests_per_minute, config.requests_per_hour) == (30, 500)


def test_the_rate_limiter_example() -> None:
    limiter = RateLimiter()
    config = ToolRateLimitConfig(2, 100)

    assert limiter.check_and_increment("user_123", "http", config) is None
    assert limiter.check_and_record("user_123", "http", config) is None
    retry_after = limiter.check_and_increment("user_123", "http", config)

    assert isinstance(retry_after, timedelta)
    assert timedelta(0) < retry_after <= timedelta(seconds=60)
    error = ToolError.RateLimited(retry_after)
    assert error.retry_after == retry_after


def test_limits_are_per_user_and_per_tool() -> None:
    limiter = RateLimiter()
    config = ToolRateLimitConfig(1, 10)

    assert limiter.check_and_increment("ana", "http", config) is None
    assert limiter.check_and_increment("ben", "http", config) is None
    assert limiter.check_and_increment("ana", "json", config) is None
    assert limiter.check_and_increment("ana", "http", config) is not None


# output ----------------------------------------------------------------------------------------


def test_the_output_example() -> None:
    output = ToolOutput.text("Hello, world!", timedelta(milliseconds=5)).with_cost(Decimal("0.001"))

    assert output.result == "Hello, world!"
    assert output.duration == timedelta(milliseconds=5)
    assert output.cost == Decimal("0.001")
    assert output.raw is None


def test_success_carries_any_json() -> None:
    output = ToolOutput.success({"a": [1, None, True]})

    assert output.result == {"a": [1, None, True]}
    assert output.duration == timedelta(0)


def test_with_cost_and_with_raw_return_copies() -> None:
    output = ToolOutput.success(1)

    changed = output.with_cost(Decimal(2)).with_raw("raw text")

    assert (output.cost, output.raw) == (None, None)
    assert (changed.cost, changed.raw) == (Decimal(2), "raw text")


async def test_raw_reaches_no_model() -> None:
    class Raw(EchoExample):
        name = "raw"

        async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
            return ToolOutput.text("clean").with_raw("the raw page")

    async with hardpoint.Runtime(tools=[Raw()]) as rt:
        outcome = await rt.run("raw", {"message": "x"}, CONTEXT)

    assert "the raw page" not in outcome.to_model_text()
    assert "the raw page" not in str(outcome.to_json())


# errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "argument", "alias"),
    [
        ("InvalidParameters", "bad", "InvalidParameters"),
        ("ExecutionFailed", "bad", "ExecutionFailed"),
        ("Timeout", timedelta(seconds=5), "ToolTimeout"),
        ("NotAuthorized", "bad", "NotAuthorized"),
        ("RateLimited", timedelta(seconds=5), "RateLimited"),
        ("RateLimited", None, "RateLimited"),
        ("ExternalService", "bad", "ExternalService"),
        ("Sandbox", "bad", "SandboxError"),
    ],
)
def test_every_kind_of_error_takes_its_one_argument(name: str, argument: Any, alias: str) -> None:
    kind = getattr(ToolError, name)

    error = kind(argument)

    assert isinstance(error, ToolError)
    assert getattr(hardpoint, alias) is kind
    if isinstance(argument, str):
        assert str(error) == argument


# schema validation -----------------------------------------------------------------------------


def test_validate_tool_schema_with_parameters() -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "number"}},
        "required": ["name"],
    }

    assert validate_tool_schema(schema, {"name": "Alice", "age": 30}) is None
    with pytest.raises(ToolError.InvalidParameters):
        validate_tool_schema(schema, {"age": "thirty"})


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"properties": {}}, 'missing "type": "object"'),
        ({"type": "string"}, "expected type"),
        ({"type": "object"}, "properties"),
        ({"type": "object", "properties": {}, "required": ["k"]}, "not found in properties"),
        (
            {"type": "object", "properties": {"n": {"type": "object", "properties": 3}}},
            "properties",
        ),
        ({"type": "object", "properties": {"list": {"type": "array"}}}, 'missing "items"'),
    ],
)
def test_validate_tool_schema_lists_problems(schema: dict[str, Any], word: str) -> None:
    problems = validate_tool_schema(schema, "tool")

    assert any(word in problem for problem in problems)


def test_a_property_without_a_type_is_allowed() -> None:
    schema = {"type": "object", "properties": {"data": {"description": "anything"}}}

    assert validate_tool_schema(schema, "json") == []


# groups ----------------------------------------------------------------------------------------


def test_builtin_tools_register_as_a_group() -> None:
    pytest.importorskip("hardpoint_builtin")
    registry = ToolRegistry()

    registry.register_builtin_tools()

    assert {"echo", "time", "json", "http", "web_fetch"} <= set(registry.list())


def test_container_tools_register_as_a_group() -> None:
    pytest.importorskip("hardpoint_container")
    registry = ToolRegistry()

    registry.register_container_tools()

    assert {"shell", "read_file", "write_file", "list_dir", "apply_patch"} <= set(registry.list())


def test_public_classes_have_the_names_of_the_page() -> None:
    builtin = pytest.importorskip("hardpoint_builtin")

    for name in ("EchoTool", "TimeTool", "JsonTool", "HttpTool"):
        assert issubclass(getattr(builtin, name), Tool)


def test_container_classes_have_the_names_of_the_page() -> None:
    container = pytest.importorskip("hardpoint_container")

    assert container.ReadFileTool is container.FileReadTool
    assert container.WriteFileTool is container.FileWriteTool
    assert issubclass(container.ShellTool, Tool)


async def test_first_party_read_only_tools_have_no_rate_limit() -> None:
    pytest.importorskip("hardpoint_builtin")
    registry = ToolRegistry()
    registry.register_builtin_tools()

    for name in ("echo", "time", "json"):
        tool = registry.get(name)
        assert tool is not None
        assert tool.rate_limit_config() is None
    http = registry.get("http")
    assert http is not None
    assert http.rate_limit_config() == ToolRateLimitConfig(30, 500)


async def test_many_calls_at_once() -> None:
    async with hardpoint.Runtime(tools=[EchoExample2()]) as rt:
        outcomes = await asyncio.gather(
            *(rt.run("my_echo", {"message": str(n)}, CONTEXT) for n in range(1000))
        )

    assert [outcome.result for outcome in outcomes] == [str(n) for n in range(1000)]


class EchoExample2(EchoExample):
    name = "my_echo"
