"""`memory_search`, `memory_read`, `memory_write`, `memory_tree`: thin, over any `Workspace`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from hardpoint import (
    Effect,
    ExecutionFailed,
    InvalidParameters,
    JobContext,
    Tool,
    ToolOutput,
    ToolRateLimitConfig,
)
from hardpoint.errors import Issue
from hardpoint.interfaces import Provenance, Workspace
from hardpoint_builtin.memory.paths import (
    TARGETS,
    clean_path,
    clean_prefix,
    refuse_identity,
    resolve_target,
)

MAX_RESULTS: Final = 20
MAX_DEPTH: Final = 10


class _MemoryTool(Tool):
    """What the four share: a workspace, given or the one that is registered."""

    # A user's own notes, and whatever was once copied into them.
    provenance: Provenance = "private"

    def __init__(self, workspace: Workspace | None = None) -> None:
        self._workspace = workspace

    def workspace(self, ctx: JobContext) -> Workspace:
        """The workspace of this tool.

        Raises:
            ExecutionFailed: None was given, and no plugin registered one.
        """
        found = self._workspace or ctx.services.workspace
        if not isinstance(found, Workspace):
            raise ExecutionFailed(
                "there is no memory: no workspace is registered",
                hint="make the tool with a workspace, or enable the plugin 'builtin'",
            )
        return found

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("read",))


class MemorySearchTool(_MemoryTool):
    """Search what was remembered."""

    name = "memory_search"
    description = (
        "Recall: search the memory of earlier work, of decisions and facts. Use it before "
        "answering questions about anything that came up before. Finds passages by words and, with "
        'a model, by meaning; "…" finds a phrase, begin* all words that begin so.'
    )

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for"},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_RESULTS,
                    "default": 5,
                    "description": "How many passages",
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        }

    def output_schema(self) -> dict[str, Any]:
        passage = {
            "content": {"type": "string"},
            "score": {"type": "number"},
            "path": {"type": "string"},
            "document_id": {"type": "string"},
            "chunk": {"type": "integer"},
            "is_hybrid_match": {"type": "boolean"},
        }
        results = {"type": "array", "items": {"type": "object", "properties": passage}}
        return {
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "results": results,
                "result_count": {"type": "integer"},
            },
            "required": ["query", "results", "result_count"],
        }

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        query = params["query"]
        if not query.strip():
            raise _wrong("query", "some words to look for", "the query is empty")
        found = await self.workspace(ctx).search(ctx.user_id, query, limit=params.get("limit", 5))
        results = [dict(each) for each in found]
        return ToolOutput.success(
            {"query": query, "results": results, "result_count": len(results)}
        )


class MemoryWriteTool(_MemoryTool):
    """Remember something."""

    name = "memory_write"
    description = (
        "Remember something: write to memory, which outlives this conversation. target: 'memory' "
        "for lasting facts and decisions, 'daily_log' for what happened today, 'heartbeat' for "
        "things to look after regularly, 'bootstrap' to clear the first-run notes once they are "
        "done, or a path such as 'projects/alpha/notes.md'. Not for files of the workspace: use "
        "write_file there."
    )

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "content": {"type": "string", "description": "Markdown to write"},
                "target": {
                    "type": "string",
                    "default": "daily_log",
                    "description": f"{', '.join(TARGETS)}, or a path",
                },
                "append": {
                    "type": "boolean",
                    "default": True,
                    "description": "false replaces the whole document",
                },
            },
            "required": ["content"],
            "additionalProperties": False,
        }

    def output_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "status": {"enum": ["written", "cleared"], "type": "string"},
                "path": {"type": "string"},
                "append": {"type": "boolean"},
                "content_length": {"type": "integer"},
            },
            "required": ["status", "path"],
        }

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("write",))

    def rate_limit_config(self) -> ToolRateLimitConfig:
        return ToolRateLimitConfig(20, 200)

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        workspace = self.workspace(ctx)
        target = params.get("target", "").strip() or "daily_log"
        now = _local_time(ctx)
        path = resolve_target(target, now)
        refuse_identity(path)
        if target.casefold() == "bootstrap":
            await workspace.write(ctx.user_id, path, "")
            return ToolOutput.success(
                {"status": "cleared", "path": path, "message": "the first-run notes are done"}
            )
        content = params["content"]
        if not content.strip():
            raise _wrong("content", "some text", "the content is empty; memory keeps only text")
        append = params.get("append", True)
        written = content
        if target.casefold() == "daily_log" and append:
            written = f"[{now:%H:%M:%S}] {content}"
        await workspace.write(ctx.user_id, path, written, append=append)
        return ToolOutput.success(
            {"status": "written", "path": path, "append": append, "content_length": len(content)}
        )


class MemoryReadTool(_MemoryTool):
    """Read one document."""

    name = "memory_read"
    description = (
        "Read one document of memory as a whole, by its path from memory_search or memory_tree. "
        "Not for files of the workspace: use read_file there."
    )

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "For example 'MEMORY.md'"},
                "version": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "An earlier version of the document; the newest when absent",
                },
            },
            "required": ["path"],
            "additionalProperties": False,
        }

    def output_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "content": {"type": "string"},
                "word_count": {"type": "integer"},
                "updated_at": {"type": ["string", "null"]},
                "version": {"type": ["integer", "null"]},
            },
            "required": ["path", "content", "word_count", "updated_at"],
        }

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        workspace = self.workspace(ctx)
        path = clean_path(params["path"])
        version = params.get("version")
        facts: Mapping[str, Any] = {}
        content = None
        if version is not None:
            content, facts = await _earlier(workspace, ctx.user_id, path, version)
        if content is None:
            content = await workspace.read(ctx.user_id, path)
            facts = await workspace.describe(ctx.user_id, path)
        if content is None:
            raise await _not_there(workspace, ctx.user_id, path)
        updated = facts.get("updated")
        result = {
            "path": path,
            "content": content,
            "word_count": len(content.split()),
            "updated_at": None if updated is None else _iso(updated),
        }
        if facts.get("version") is not None:
            result["version"] = facts["version"]
        return ToolOutput.success(result)


async def _earlier(
    workspace: Workspace, user_id: str, path: str, version: int
) -> tuple[str | None, Mapping[str, Any]]:
    """An earlier version, where the workspace keeps a history.

    Raises:
        InvalidParameters: It does not, or not this version.
    """
    from hardpoint_builtin.memory.workspace import MemoryWorkspace

    if not isinstance(workspace, MemoryWorkspace):
        raise _wrong("version", "no version", "this workspace keeps no history; leave version out")
    document = await workspace.document(user_id, path, version)
    if document is not None:
        return document.content, {"updated": document.updated, "version": document.version}
    kept = [each.version for each in await workspace.versions(user_id, path)]
    if not kept:
        return None, {}
    known = f"versions {kept[0]} to {kept[-1]}"
    raise _wrong("version", known, f"version {version} of {path!r} is not kept; there are {known}")


class MemoryTreeTool(_MemoryTool):
    """List the documents."""

    name = "memory_tree"
    description = "List the documents of memory as a tree; folders end in '/'."

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "default": "",
                    "description": "A folder; everything when empty",
                },
                "depth": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_DEPTH,
                    "default": 1,
                    "description": "How many levels to open",
                },
            },
            "required": [],
            "additionalProperties": False,
        }

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        prefix = clean_prefix(params.get("path", ""))
        paths = await self.workspace(ctx).list(ctx.user_id, prefix)
        start = len(prefix) + 1 if prefix else 0
        inside = [path[start:].split("/") for path in paths]
        return ToolOutput.success(_tree(inside, params.get("depth", 1)))


def _tree(paths: Sequence[Sequence[str]], depth: int) -> list[Any]:
    """Documents and folders by name; a folder that is not opened is only its name."""
    folders: dict[str, list[Sequence[str]]] = {}
    entries: dict[str, Any] = {}
    for path in paths:
        if len(path) == 1:
            entries[path[0]] = path[0]
        else:
            folders.setdefault(f"{path[0]}/", []).append(path[1:])
    for name, inside in folders.items():
        entries[name] = name if depth <= 1 else {name: _tree(inside, depth - 1)}
    return [entries[name] for name in sorted(entries)]


async def _not_there(workspace: Workspace, user_id: str, path: str) -> InvalidParameters:
    known = await workspace.list(user_id)
    near = difflib.get_close_matches(path, known, n=3, cutoff=0.5)
    hint = "did you mean " + " or ".join(map(repr, near)) + "?" if near else "memory_tree shows all"
    return _wrong("path", "a document that exists", f"memory has no document {path!r}; {hint}")


def _wrong(parameter: str, expected: str, message: str) -> InvalidParameters:
    issue = Issue(f"/{parameter}", "invalid_value", expected, "something else")
    return InvalidParameters(message, issues=[issue])


def _local_time(ctx: JobContext) -> datetime:
    """Now, as the user's clock shows it."""
    seconds = ctx.services.clock.now()
    if not ctx.user_timezone:
        return datetime.fromtimestamp(seconds, UTC)
    from hardpoint_builtin.zones import find_zone

    return datetime.fromtimestamp(seconds, find_zone(ctx.user_timezone, "user_timezone"))


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
