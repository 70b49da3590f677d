"""`read_file`, `write_file`, `list_dir`: files of the workspace, opened inside the sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from hardpoint import ApprovalRequirement, Canonical, JobContext, ToolOutput, ToolRateLimitConfig
from hardpoint.errors import InvalidParameters
from hardpoint_container.paths import Operation
from hardpoint_container.tooling import (
    KIB,
    PathTool,
    boolean,
    cut_text,
    integer,
    sandbox_of,
    schema,
    shown_name,
    shown_size,
    string,
    workspace_of,
)

if TYPE_CHECKING:
    from hardpoint_container.sandbox import Found, Window

READ_LINES: Final = 2000
READ_BYTES: Final = 64 * KIB
BINARY: Final = 0.05
"""The share of NUL bytes from which a file is not text."""
WRITE_BYTES: Final = 5 * KIB * KIB
LIST_ENTRIES: Final = 500
MEMORY_NAMES: Final = frozenset(["HEARTBEAT.md", "MEMORY.md", "IDENTITY.md", "SOUL.md", "USER.md"])


class FileReadTool(PathTool):
    """Read some lines of a text file."""

    name = "read_file"
    subject_kind = "path"
    description = (
        "Read a text file of the workspace, with line numbers. Long files are read in windows:"
        f" at most {READ_LINES} lines and {READ_BYTES // KIB} KiB at once; next_offset says where"
        " to go on."
    )
    operation: ClassVar[Operation] = "read"

    def parameters_schema(self) -> dict[str, Any]:
        return schema(
            "path",
            path=string("Path of the file, relative to the workspace."),
            offset=integer("First line to read; 1 is the first of the file.", minimum=0, default=1),
            limit=integer(
                f"How many lines; 0 for as many as fit. Default {READ_LINES}.", minimum=0
            ),
            line_numbers=boolean("Put its number before each line.", default=True),
        )

    def output_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "content": {"type": "string"},
                "total_lines": {"type": ["integer", "null"]},
                "lines_shown": {"type": "integer"},
                "path": {"type": "string"},
                "truncated": {"type": "boolean"},
                "truncated_by": {"enum": ["lines", "bytes"]},
                "truncated_by_default": {"type": "boolean"},
                "next_offset": {"type": "integer"},
                "notice": {"type": "string"},
            },
            "required": ["content", "total_lines", "lines_shown", "path", "truncated"],
        }

    def requires_approval(self, params: Any) -> ApprovalRequirement:
        return ApprovalRequirement.UNLESS_AUTO_APPROVED

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        path, offset = params["path"], max(1, params.get("offset", 1))
        limit = params.get("limit", READ_LINES)
        window = await sandbox_of(ctx).lines(path, offset=offset, limit=limit, max_bytes=READ_BYTES)
        if window.nul_share > BINARY:
            raise InvalidParameters(
                f"{path!r} is not text ({shown_size(window.size)}); it cannot be read as lines",
                hint="look at it with shell: file, xxd, strings, or iconv -f UTF-16 for wide text",
            )
        return ToolOutput.success(
            _reading(path, offset, window, params.get("line_numbers", True), "limit" not in params)
        )


def _reading(
    path: str, offset: int, window: Window, numbered: bool, by_default: bool
) -> dict[str, Any]:
    text = cut_text(window.text) if window.cut_line else window.text.decode(errors="replace")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    notices = []
    if "�" in text:
        notices.append("bytes that are not UTF-8 are shown as �")
    if window.cut_line:
        notices.append(f"line {offset} is too long and was cut; shell can show the rest")
    if not lines and window.total_lines is not None and window.total_lines < offset:
        notices.append(f"the file has {window.total_lines} lines; there is no line {offset}")
    content = text
    if numbered:
        content = "\n".join(
            f"{number:>6}│ {line.removesuffix(chr(13))}"
            for number, line in enumerate(lines, offset)
        )
    answer: dict[str, Any] = {
        "content": content,
        "total_lines": window.total_lines,
        "lines_shown": len(lines),
        "path": path,
        "truncated": window.truncated_by is not None,
    }
    if window.truncated_by is not None:
        answer["truncated_by"] = window.truncated_by
        answer["truncated_by_default"] = by_default or window.truncated_by == "bytes"
        answer["next_offset"] = offset + len(lines)
    if notices:
        answer["notice"] = "; ".join(notices)
    return answer


class FileWriteTool(PathTool):
    """Write a whole file."""

    name = "write_file"
    subject_kind = "path"
    description = (
        "Write a text file of the workspace, replacing what it holds. Missing folders are made."
        " To change a part of a file use apply_patch."
    )
    operation: ClassVar[Operation] = "write"
    needs = frozenset({"write"})
    provenance = "trusted"

    def parameters_schema(self) -> dict[str, Any]:
        return schema(
            "path content",
            path=string("Path of the file, relative to the workspace."),
            content=string("The whole new content."),
        )

    def output_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "bytes_written": {"type": "integer"},
                "created": {"type": "boolean"},
                "success": {"type": "boolean"},
            },
            "required": ["path", "bytes_written", "success"],
        }

    def requires_approval(self, params: Any) -> ApprovalRequirement:
        return ApprovalRequirement.UNLESS_AUTO_APPROVED

    def rate_limit_config(self) -> ToolRateLimitConfig:
        return ToolRateLimitConfig(20, 200)

    def requires_sanitization(self) -> bool:
        return False

    async def canonicalise(self, params: dict[str, Any], context: JobContext) -> Canonical:
        canonical = await super().canonicalise(params, context)
        path = canonical.params["path"]
        if path in MEMORY_NAMES and not workspace_of(context).joinpath(path).exists():
            raise InvalidParameters(
                f"{path!r} belongs to the agent's memory, not to the workspace",
                hint="use memory_write",
            )
        return canonical

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        path, data = params["path"], encoded(params["content"], "content")
        if len(data) > WRITE_BYTES:
            raise InvalidParameters(
                f"{len(data)} bytes are more than the {WRITE_BYTES} that one call may write",
                hint="write it in parts with shell",
            )
        created = await sandbox_of(ctx).replace(path, data)
        return ToolOutput.success(
            {"path": path, "bytes_written": len(data), "created": created, "success": True}
        )


def encoded(text: str, what: str) -> bytes:
    """Text as UTF-8.

    Raises:
        InvalidParameters: It holds lone surrogates.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidParameters(
            f"{what} is not valid Unicode text at character {error.start}"
        ) from None


class ListDirTool(PathTool):
    """List a folder."""

    name = "list_dir"
    subject_kind = "path"
    description = (
        "List a folder of the workspace: folders first, then files with their sizes. Recursion"
        " leaves out folders of other people's code and of generated files."
    )
    operation: ClassVar[Operation] = "list"

    def parameters_schema(self) -> dict[str, Any]:
        return schema(
            "",
            path=string("Path of the folder, relative to the workspace.", default="."),
            recursive=boolean("Also what is in its folders.", default=False),
            max_depth=integer("How many levels, when recursive.", minimum=1, maximum=50, default=3),
        )

    def output_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "entries": {"type": "array", "items": {"type": "string"}},
                "count": {"type": "integer"},
                "truncated": {"type": "boolean"},
            },
            "required": ["path", "entries", "count", "truncated"],
        }

    def requires_sanitization(self) -> bool:
        return False

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        path = params.get("path", ".")
        depth = params.get("max_depth", 3) if params.get("recursive") else 1
        found, complete = await sandbox_of(ctx).walk(path, depth=depth)
        entries = _listed(found)
        return ToolOutput.success(
            {
                "path": path,
                "entries": entries[:LIST_ENTRIES],
                "count": len(entries),
                "truncated": not complete or len(entries) > LIST_ENTRIES,
            }
        )


def _listed(found: Sequence[Found]) -> list[str]:
    """Folders first; sorted before anything is cut off."""
    shown = {
        "folder": lambda entry: f"{shown_name(entry.path)}/",
        "file": lambda entry: f"{shown_name(entry.path)} ({shown_size(entry.size)})",
        "link": lambda entry: f"{shown_name(entry.path)} (link)",
        "other": lambda entry: f"{shown_name(entry.path)} (not a file)",
    }
    ordered = sorted(found, key=lambda entry: (entry.kind != "folder", entry.path))
    return [shown[entry.kind](entry) for entry in ordered]
