"""A server with everything that the official conformance suite asks a server for. Port as argument.

It stands behind the gateway in the conformance tests. Its texts and names are the suite's; what it
does in the middle of a call (log, progress, questions) it does in both protocol eras.
"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import mcp.types as types
from mcp import MCPDeprecationWarning
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

warnings.filterwarnings("ignore", category=MCPDeprecationWarning)

Context = ServerRequestContext[Any, Any]
Params = types.CallToolRequestParams
Handler = Callable[[Context, Params], Awaitable[Any]]

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAA"
    "AABJRU5ErkJggg=="
)
SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
STATIC = "This is the content of the static text resource."
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}

TOOLS: dict[str, tuple[types.Tool, Handler]] = {}
BUS = InMemorySubscriptionBus()


def tool(schema: dict[str, Any] = EMPTY) -> Callable[[Handler], Handler]:
    def add(handler: Handler) -> Handler:
        name = handler.__name__
        described = types.Tool(name=name, description=f"{name} of the suite", input_schema=schema)
        TOOLS[name] = (described, handler)
        return handler

    return add


def text(value: str, *, error: bool = False) -> types.CallToolResult:
    content = [types.TextContent(type="text", text=value)]
    return types.CallToolResult(content=content, is_error=error)


def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=PIXEL, mime_type="image/png")


def embedded(uri: str, mime_type: str, value: str) -> types.EmbeddedResource:
    resource = types.TextResourceContents(uri=uri, mime_type=mime_type, text=value)
    return types.EmbeddedResource(type="resource", resource=resource)


def is_modern(ctx: Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


# tools that answer at once ---------------------------------------------------------------------


@tool()
async def test_simple_text(ctx: Context, params: Params) -> Any:
    return text("This is a simple text response for testing.")


@tool()
async def test_image_content(ctx: Context, params: Params) -> Any:
    return types.CallToolResult(content=[image()])


@tool()
async def test_audio_content(ctx: Context, params: Params) -> Any:
    sound = types.AudioContent(type="audio", data=SOUND, mime_type="audio/wav")
    return types.CallToolResult(content=[sound])


@tool()
async def test_embedded_resource(ctx: Context, params: Params) -> Any:
    part = embedded(
        "test://embedded-resource", "text/plain", "This is an embedded resource content."
    )
    return types.CallToolResult(content=[part])


@tool()
async def test_multiple_content_types(ctx: Context, params: Params) -> Any:
    data = embedded(
        "test://mixed-content-resource", "application/json", '{"test": "data", "value": 123}'
    )
    first = types.TextContent(type="text", text="Multiple content types test:")
    return types.CallToolResult(content=[first, image(), data])


@tool()
async def test_error_handling(ctx: Context, params: Params) -> Any:
    return text("This tool intentionally returns an error for testing", error=True)


@tool(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
async def json_schema_2020_12_tool(ctx: Context, params: Params) -> Any:
    return text(json.dumps(params.arguments))


@tool(
    {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "query": {"type": "string"},
        },
        "required": ["region", "query"],
    }
)
async def test_custom_headers(ctx: Context, params: Params) -> Any:
    return text(json.dumps(params.arguments))


# tools that speak while they work --------------------------------------------------------------


async def log(ctx: Context, message: str) -> None:
    await ctx.session.send_log_message("info", message, related_request_id=ctx.request_id)


@tool()
async def test_tool_with_logging(ctx: Context, params: Params) -> Any:
    await log(ctx, "Tool execution started")
    await asyncio.sleep(0.05)
    await log(ctx, "Tool processing data")
    await asyncio.sleep(0.05)
    await log(ctx, "Tool execution completed")
    return text("Tool with logging executed successfully")


@tool()
async def test_logging_tool(ctx: Context, params: Params) -> Any:
    await log(ctx, "only for those who asked")
    return text("logged")


@tool()
async def test_tool_with_progress(ctx: Context, params: Params) -> Any:
    for step in (0, 50, 100):
        await ctx.session.report_progress(step, 100, f"Completed step {step} of 100")
        await asyncio.sleep(0.02)
    return text(str((ctx.meta or {}).get("progress_token", 0)))


@tool()
async def test_reconnection(ctx: Context, params: Params) -> Any:
    await log(ctx, "Before disconnect")
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    await asyncio.sleep(0.2)
    await log(ctx, "After reconnect")
    return text("Reconnection test completed")


@tool()
async def test_trigger_tool_change(ctx: Context, params: Params) -> Any:
    await BUS.publish(ToolsListChanged())
    return text("changed")


@tool()
async def test_trigger_prompt_change(ctx: Context, params: Params) -> Any:
    await BUS.publish(PromptsListChanged())
    return text("changed")


# tools that ask, the old way -------------------------------------------------------------------


def needs(ctx: Context, **capability: Any) -> None:
    """Refuse a client that did not declare what is needed."""
    if not ctx.session.check_client_capability(types.ClientCapabilities(**capability)):
        named = {name: {} for name in capability}
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"needs {', '.join(capability)}",
            {"requiredCapabilities": named},
        )


@tool({"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]})
async def test_sampling(ctx: Context, params: Params) -> Any:
    content = types.TextContent(type="text", text=(params.arguments or {})["prompt"])
    result = await ctx.session.create_message(
        [types.SamplingMessage(role="user", content=content)],
        max_tokens=100,
        related_request_id=ctx.request_id,
    )
    return text(f"LLM response: {getattr(result.content, 'text', '')}")


async def elicit(
    ctx: Context, message: str, properties: dict[str, Any], required: list[str]
) -> Any:
    schema = {"type": "object", "properties": properties, "required": required}
    result = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return f"action={result.action}, content={json.dumps(result.content or {})}"


@tool({"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]})
async def test_elicitation(ctx: Context, params: Params) -> Any:
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    answer = await elicit(ctx, (params.arguments or {})["message"], fields, list(fields))
    return text(f"User response: {answer}")


@tool()
async def test_elicitation_sep1034_defaults(ctx: Context, params: Params) -> Any:
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }
    return text(f"Elicitation completed: {await elicit(ctx, 'Please fill in', fields, [])}")


@tool()
async def test_elicitation_sep1330_enums(ctx: Context, params: Params) -> Any:
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
    fields = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return text(f"Elicitation completed: {await elicit(ctx, 'Please choose', fields, [])}")


# tools that ask, the new way -------------------------------------------------------------------


def form(message: str, **fields: str) -> dict[str, Any]:
    properties = {name: {"type": kind} for name, kind in fields.items()}
    schema = {"type": "object", "properties": properties, "required": list(fields)}
    return {
        "method": "elicitation/create",
        "params": {"message": message, "requestedSchema": schema},
    }


def sample(question: str, tokens: int) -> dict[str, Any]:
    message = {"role": "user", "content": {"type": "text", "text": question}}
    return {
        "method": "sampling/createMessage",
        "params": {"messages": [message], "maxTokens": tokens},
    }


ROOTS = {"method": "roots/list", "params": {}}


def ask(state: str | None = None, **questions: Any) -> dict[str, Any]:
    result: dict[str, Any] = {"resultType": "input_required", "inputRequests": questions}
    return result if state is None else result | {"requestState": state}


def answers(params: Any) -> dict[str, Any]:
    return {
        key: value.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, value in (params.input_responses or {}).items()
    }


@tool()
async def test_input_required_result_elicitation(ctx: Context, params: Params) -> Any:
    answer = answers(params).get("user_name", {})
    if answer.get("action") != "accept":
        return ask(user_name=form("What is your name?", name="string"))
    return text(f"Hello, {answer['content']['name']}!")


@tool()
async def test_input_required_result_sampling(ctx: Context, params: Params) -> Any:
    answer = answers(params).get("capital_question")
    if answer is None:
        return ask(capital_question=sample("What is the capital of France?", 100))
    return text(answer["content"]["text"])


@tool()
async def test_input_required_result_list_roots(ctx: Context, params: Params) -> Any:
    answer = answers(params).get("client_roots")
    if answer is None:
        return ask(client_roots=ROOTS)
    return text(", ".join(root["uri"] for root in answer["roots"]))


@tool()
async def test_input_required_result_request_state(ctx: Context, params: Params) -> Any:
    if params.request_state is None:
        return ask("waiting", confirm=form("Please confirm", ok="boolean"))
    return text("state-ok" if params.request_state == "waiting" else "state-wrong")


@tool()
async def test_input_required_result_multiple_inputs(ctx: Context, params: Params) -> Any:
    given = answers(params)
    if params.request_state != "all" or not {"user_name", "greeting", "client_roots"} <= set(given):
        return ask(
            "all",
            user_name=form("What is your name?", name="string"),
            greeting=sample("Generate a greeting", 50),
            client_roots=ROOTS,
        )
    return text("all answered")


@tool()
async def test_input_required_result_multi_round(ctx: Context, params: Params) -> Any:
    match params.request_state:
        case None:
            return ask("round-1", step1=form("Step 1: What is your name?", name="string"))
        case "round-1":
            return ask(
                "round-2", step2=form("Step 2: What is your favorite color?", color="string")
            )
    return text("both rounds answered")


@tool()
async def test_input_required_result_tampered_state(ctx: Context, params: Params) -> Any:
    if params.request_state is None:
        return ask("sealed", confirm=form("Please confirm", ok="boolean"))
    return text("untouched")


@tool()
async def test_input_required_result_capabilities(ctx: Context, params: Params) -> Any:
    offered = ctx.session.client_capabilities
    questions: dict[str, Any] = {}
    if offered is not None and offered.sampling is not None:
        questions["sampled"] = sample("Say something", 20)
    if offered is not None and offered.elicitation is not None:
        questions["asked"] = form("Say something", word="string")
    return ask(**questions) if questions and not params.input_responses else text("done")


@tool()
async def test_missing_capability(ctx: Context, params: Params) -> Any:
    needs(ctx, sampling=types.SamplingCapability())
    return text("the client can sample")


@tool()
async def test_streaming_elicitation(ctx: Context, params: Params) -> Any:
    await ctx.session.report_progress(1, 2, "asking")
    return ask(word=form("Say something", word="string"))


# lists -----------------------------------------------------------------------------------------

SCOPE: dict[str, Any] = {"ttl_ms": 1000, "cache_scope": "public"}
RESOURCES = {
    "test://static-text": ("text/plain", STATIC, None),
    "test://static-binary": ("image/png", None, PIXEL),
    "test://watched-resource": ("text/plain", "Watched resource content", None),
}


async def list_tools(ctx: Context, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[described for described, _ in TOOLS.values()], **SCOPE)


async def call_tool(ctx: Context, params: Params) -> Any:
    found = TOOLS.get(params.name)
    if found is None:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    return await found[1](ctx, params)


async def list_resources(ctx: Context, params: Any) -> types.ListResourcesResult:
    listed = [
        types.Resource(uri=uri, name=uri.rpartition("/")[2], mime_type=kind)
        for uri, (kind, _, _) in RESOURCES.items()
    ]
    return types.ListResourcesResult(resources=listed, **SCOPE)


async def list_templates(ctx: Context, params: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(
        uri_template="test://template/{id}/data", name="template", mime_type="application/json"
    )
    return types.ListResourceTemplatesResult(resource_templates=[template], **SCOPE)


async def read_resource(ctx: Context, params: Any) -> types.ReadResourceResult:
    uri = str(params.uri)
    contents: Any
    if uri in RESOURCES:
        kind, value, blob = RESOURCES[uri]
        if blob is not None:
            contents = types.BlobResourceContents(uri=uri, mime_type=kind, blob=blob)
        else:
            contents = types.TextResourceContents(uri=uri, mime_type=kind, text=value or "")
    elif uri.startswith("test://template/") and uri.endswith("/data"):
        name = uri.split("/")[3]
        body = json.dumps({"id": name, "templateTest": True, "data": f"Data for ID: {name}"})
        contents = types.TextResourceContents(uri=uri, mime_type="application/json", text=body)
    else:
        code = types.INVALID_PARAMS if is_modern(ctx) else -32002
        raise MCPError(code, "Resource not found", {"uri": uri})
    return types.ReadResourceResult(contents=[contents], **SCOPE)


PROMPTS = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


async def list_prompts(ctx: Context, params: Any) -> types.ListPromptsResult:
    listed = [
        types.Prompt(
            name=name,
            description=f"{name} of the suite",
            arguments=[types.PromptArgument(name=one, required=True) for one in arguments],
        )
        for name, arguments in PROMPTS.items()
    ]
    return types.ListPromptsResult(prompts=listed, **SCOPE)


def said(content: Any) -> types.PromptMessage:
    if isinstance(content, str):
        content = types.TextContent(type="text", text=content)
    return types.PromptMessage(role="user", content=content)


async def get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> Any:
    given = params.arguments or {}
    messages: list[types.PromptMessage]
    match params.name:
        case "test_simple_prompt":
            messages = [said("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            messages = [
                said(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")
            ]
        case "test_prompt_with_embedded_resource":
            part = embedded(
                given["resourceUri"], "text/plain", "Embedded resource content for testing."
            )
            messages = [said(part), said("Please process the embedded resource above.")]
        case "test_prompt_with_image":
            messages = [said(image()), said("Please analyze the image above.")]
        case "test_input_required_result_prompt":
            answer = answers(params).get("user_context")
            if answer is None:
                question = form("What context should the prompt use?", context="string")
                return ask(user_context=question)
            messages = [said(answer["content"]["context"])]
        case _:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
    return types.GetPromptResult(messages=messages)


async def complete(ctx: Context, params: Any) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=["test"], total=1))


async def done(ctx: Context, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


class Events(EventStore):
    """Keeps what was sent, so that a client can go on reading where it stopped."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self.kept.append((stream_id, message))
        return str(len(self.kept))

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        if not last_event_id.isdecimal() or not 0 < int(last_event_id) <= len(self.kept):
            return None
        stream = self.kept[int(last_event_id) - 1][0]
        for number, (of, message) in enumerate(self.kept, 1):
            if number > int(last_event_id) and of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def build() -> Server[Any]:
    server: Server[Any] = Server(
        "conformance-fixture",
        version="1.0.0",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=done,
        on_unsubscribe_resource=done,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_set_logging_level=done,
        on_subscriptions_listen=ListenHandler(BUS),
    )
    security = RequestStateSecurity.ephemeral()
    server.middleware.append(RequestStateBoundary(security, default_audience=server.name))
    return server


if __name__ == "__main__":
    import uvicorn

    app = build().streamable_http_app(event_store=Events(), retry_interval=100)
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        log_level="warning",
        timeout_graceful_shutdown=1,
    )
