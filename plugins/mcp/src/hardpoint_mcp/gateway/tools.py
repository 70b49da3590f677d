"""Tools as the gateway lists them, and outcomes as it answers them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from hardpoint import CallOutcome, JobContext, Runtime, Tool, ToolDefinition, ToolOutput
from hardpoint.errors import ApprovalRequired, InvalidParameters, RateLimited, ToolError
from hardpoint_mcp.config import ServeConfig
from hardpoint_mcp.content import McpToolError, to_blocks
from hardpoint_mcp.front import Front
from hardpoint_mcp.gateway.clients import Client
from hardpoint_mcp.gateway.index import Index
from hardpoint_mcp.tool import McpTool
from hardpoint_mcp.wire.channel import Message
from hardpoint_mcp.wire.versions import SERVER_KEY

FIND: Final = "find_tools"
CALL: Final = "call_tool"
_FOUND_AT_MOST: Final = 10
_CLIENTS_KEPT: Final = 1000

# What only the hop between us and a server can mean.
_NOT_PASSED_ON: Final = ("execution",)


class ToolShelf:
    """The tools of a runtime as MCP lists them; made anew when something changed."""

    def __init__(self, runtime: Runtime, config: Callable[[], ServeConfig]) -> None:
        self._runtime = runtime
        self._config = config
        self._index: Index | None = None
        self._made_for: tuple[int, int] | None = None
        self._tools: dict[str, Message] = {}
        self._of_client: dict[Client, dict[str, Message]] = {}
        self._pages: dict[Client, tuple[Message, ...]] = {}

    def _refresh(self) -> None:
        registry = self._runtime.registry
        version = (registry.version, id(self._runtime.config))
        if version == self._made_for:
            return
        self._tools = {
            definition.name: describe(definition, registry.get(definition.name))
            for definition in self._runtime.visible()
        }
        self._of_client.clear()
        self._pages.clear()
        self._index = None
        self._made_for = version

    def _seen_by(self, client: Client) -> dict[str, Message]:
        """The tools that the rules and the client's own globs leave it."""
        self._refresh()
        known = self._of_client.get(client)
        if known is None:
            if len(self._of_client) > _CLIENTS_KEPT:
                self._of_client.clear()
            context = JobContext(user_id=client.user, session_id=client.session)
            known = self._of_client[client] = {
                definition.name: self._tools[definition.name]
                for definition in self._runtime.visible(context)
                if client.may_see(definition.name)
            }
        return known

    def for_client(self, client: Client) -> tuple[Message, ...]:
        """What a client is shown: its tools by name, or the two that find and call them."""
        seen = self._seen_by(client)
        pages = self._pages.get(client)
        if pages is None:
            if len(self._pages) > _CLIENTS_KEPT:
                self._pages.clear()
            pages = tuple(SEARCH_TOOLS if self._searches(len(seen)) else seen.values())
            self._pages[client] = pages
        return pages

    def _searches(self, count: int) -> bool:
        config = self._config()
        return count > config.search_above if config.search is None else config.search

    def searches_for(self, client: Client) -> bool:
        return self.for_client(client) == tuple(SEARCH_TOOLS)

    def get(self, name: str, client: Client) -> Message | None:
        """One tool, where this client may call it."""
        return self._seen_by(client).get(name)

    def find(self, query: str, client: Client) -> Sequence[Message]:
        """The tools that a query is about, best first."""
        seen = self._seen_by(client)
        if self._index is None:
            self._index = Index(self._tools)
        names = [name for name in self._index.search(query) if name in seen]
        return [seen[name] for name in names[:_FOUND_AT_MOST]]


def describe(definition: ToolDefinition, tool: Tool | None) -> Message:
    """A definition in MCP's form. What a server said of its tool stays, apart from its name."""
    if isinstance(tool, McpTool):
        listed = tool.listed
        made = {k: v for k, v in listed.raw.items() if k not in _NOT_PASSED_ON}
        made |= {
            "name": definition.name,
            "description": definition.description,
            "inputSchema": definition.parameters,
        }
        made.pop("outputSchema", None)
        if definition.output_schema is not None:
            made["outputSchema"] = definition.output_schema
        meta = made.get("_meta")
        made["_meta"] = (meta if isinstance(meta, dict) else {}) | {
            "hardpoint/server": tool.upstream.name,
            "hardpoint/tool": listed.original,
        }
        return made
    made = {
        "name": definition.name,
        "description": definition.description,
        "inputSchema": definition.parameters,
    }
    if definition.title is not None:
        made["title"] = definition.title
    # Before 2026-07-28 an output schema must be an object's.
    if definition.output_schema is not None and definition.output_schema.get("type") == "object":
        made["outputSchema"] = definition.output_schema
    if definition.annotations:
        made["annotations"] = dict(definition.annotations)
    return made


SEARCH_TOOLS: Final[Sequence[Message]] = (
    {
        "name": FIND,
        "description": "Find tools by what they do. Gives their names, descriptions and parameters;"
        f" call one with {CALL}.",
        "inputSchema": {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "What you want to do."}},
            "required": ["query"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": CALL,
        "description": f"Call a tool that {FIND} found.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The tool's name."},
                "arguments": {"type": "object", "properties": {}, "description": "Its arguments."},
            },
            "required": ["name"],
        },
    },
)


# outcomes --------------------------------------------------------------------------------------


def to_result(outcome: CallOutcome, front: Front, tool: Message | None, leaks: Any) -> Message:
    """An outcome as the result of `tools/call`."""
    meta: dict[str, Any] = {
        "hardpoint/call": outcome.call_id,
        "hardpoint/provenance": outcome.provenance,
    }
    if outcome.warnings:
        meta["hardpoint/warnings"] = list(outcome.warnings)
    if outcome.result_ref is not None:
        meta["hardpoint/result_ref"] = outcome.result_ref
    if outcome.error is not None:
        return _with_meta(_error(outcome, leaks, meta), meta)
    output = outcome.output
    assert output is not None
    meta |= output.meta
    if front.raw is not None and _is_untouched(output, front):
        return _with_meta(_faithful(front.raw, output, leaks), meta)
    result: Message = {"content": to_blocks(output)}
    declares = tool is not None and "outputSchema" in tool
    if output.structured and (isinstance(output.result, dict) or declares):
        result["structuredContent"] = output.result
    for warning in outcome.warnings:
        result["content"].append({"type": "text", "text": f"[{warning}]"})
    return _with_meta(result, meta)


def _is_untouched(output: ToolOutput, front: Front) -> bool:
    """Whether what the tool made of the server's answer came through the pipeline as it was."""
    made = front.output
    return made is output or (
        made is not None
        and made.result == output.result
        and made.parts == output.parts
        and made.structured == output.structured
    )


def _faithful(raw: Message, output: ToolOutput, leaks: Any) -> Message:
    """The server's own answer, without what was for this hop.

    Structured content that does not fit its schema stays: a client may take it all the same. What
    the pipeline did not see, because no output has a place for it, is scanned here.
    """
    result = {key: value for key, value in raw.items() if key not in ("_meta", "isError")}
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    result["content"] = [_scanned(block, leaks) for block in blocks]
    if "structuredContent" in result and not output.structured:
        result["structuredContent"], _ = leaks.redact_value(result["structuredContent"])
    if isinstance(raw.get("_meta"), dict):
        passed = {key: value for key, value in raw["_meta"].items() if key != SERVER_KEY}
        result["_meta"], _ = leaks.redact_value(passed)
    return result


_PLAIN: Final = frozenset(("type", "text"))
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=\s]*")


def _scanned(block: Any, leaks: Any) -> Any:
    """A block, redacted where it holds more than the pipeline has seen."""
    if not isinstance(block, dict) or (block.get("type") == "text" and block.keys() <= _PLAIN):
        return block
    data = block.get("data")
    if isinstance(data, str) and _BASE64.fullmatch(data):
        extras, findings = leaks.redact_value({k: v for k, v in block.items() if k != "data"})
        return {**extras, "data": data} if findings else block
    return leaks.redact_value(block)[0]


def _error(outcome: CallOutcome, leaks: Any, meta: dict[str, Any]) -> Message:
    error = outcome.error
    assert error is not None
    if isinstance(error, McpToolError):
        content, _ = leaks.redact_value(error.raw.get("content"))
        blocks = content if isinstance(content, list) else []
        meta["hardpoint/error"] = {"kind": error.kind}
        return {"content": blocks or [_text(error.message)], "isError": True}
    meta["hardpoint/error"] = about(error)
    lines = [error.message]
    if isinstance(error, InvalidParameters):
        lines += [f"- {issue}" for issue in error.issues if str(issue) not in error.message]
    if error.hint:
        lines.append(error.hint)
    if isinstance(error, ApprovalRequired) and error.approval_id is not None:
        lines.append(f"Approval id: {error.approval_id}")
    blocks = [_text("\n".join(lines))]
    if outcome.partial is not None:
        blocks += to_blocks(outcome.partial)
    return {"content": blocks, "isError": True}


def about(error: ToolError) -> Message:
    """An error for programs."""
    found: Message = {"kind": error.kind}
    if isinstance(error, ApprovalRequired):
        found["approval_id"] = error.approval_id
    if isinstance(error, RateLimited) and error.retry_after is not None:
        found["retry_after"] = error.retry_after.total_seconds()
    return found


def _text(text: str) -> Message:
    return {"type": "text", "text": text}


def _with_meta(result: Message, meta: Mapping[str, Any]) -> Message:
    return result | {"_meta": {**(result.get("_meta") or {}), **meta}}


@attrs.frozen
class Page:
    """One page of a list."""

    items: Sequence[Message]
    next: str | None = None


def page_of(items: Sequence[Message], cursor: str | None, size: int, key: str) -> Page:
    """A page after a cursor. The cursor is the last item's name: a list that changes loses none.

    Raises:
        ValueError: The cursor was not made here.
    """
    import base64
    import binascii

    start = 0
    if cursor is not None:
        try:
            last = base64.urlsafe_b64decode(cursor.encode()).decode()
        except (binascii.Error, UnicodeError) as error:
            raise ValueError("not a cursor") from error
        if not last.startswith(f"{key}:"):
            raise ValueError("not a cursor")
        position, _, name = last.removeprefix(f"{key}:").partition(":")
        if not position.isdecimal():
            raise ValueError("not a cursor")
        found = [i for i, item in enumerate(items) if str(item.get(key)) == name]
        start = (found[0] + 1) if found else min(int(position), len(items))
    page = items[start : start + size]
    if start + size >= len(items):
        return Page(page)
    mark = f"{key}:{start + size}:{page[-1].get(key)}"
    return Page(page, base64.urlsafe_b64encode(mark.encode()).decode())
