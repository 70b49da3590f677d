"""What the tools here have in common: schemas, the workspace, how sizes and text are shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from hardpoint import Canonical, JobContext, Subject, Tool, ToolDomain
from hardpoint.errors import ExecutionFailed
from hardpoint_container.paths import Operation, resolve

if TYPE_CHECKING:
    from hardpoint import Effect
    from hardpoint_container.sandbox import ContainerSandbox

KIB = 1024


class ContainerTool(Tool):
    """A tool of the container domain."""

    needs: ClassVar[frozenset[Effect]] = frozenset({"read"})

    def domain(self) -> ToolDomain:
        return ToolDomain.CONTAINER

    def effects(self, params: Mapping[str, Any]) -> Collection[Effect]:
        return self.needs


class PathTool(ContainerTool):
    """A tool whose subject is one path of the workspace."""

    operation: ClassVar[Operation]

    async def canonicalise(self, params: dict[str, Any], context: JobContext) -> Canonical:
        found = resolve(workspace_of(context), params.get("path", "."), self.operation)
        judged = "read" if self.operation == "search" else self.operation
        return Canonical({**params, "path": found.path}, (Subject("path", found.path, judged),))


def workspace_of(context: JobContext) -> Path:
    """The host folder of a call.

    Raises:
        ExecutionFailed: The call has none.
    """
    if context.workspace is None:
        raise ExecutionFailed(
            "this call has no workspace", hint="give one: --workspace, or JobContext(workspace=…)"
        )
    return context.workspace


def sandbox_of(context: JobContext) -> ContainerSandbox:
    """The call's sandbox, which is one of this domain's.

    Raises:
        DomainUnavailable: The tool runs outside its domain.
    """
    return cast("ContainerSandbox", context.sandbox)


def schema(required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """A parameter schema; `required` lists names."""
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


def string(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def integer(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "description": description, **more}


def boolean(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "boolean", "description": description, **more}


def cut_text(data: bytes) -> str:
    """Bytes as text, without a character that was cut in two at the end."""
    for back in range(min(3, len(data) - 1) if data else 0):
        if data[-1 - back] & 0xC0 == 0xC0:
            whole = data[-1 - back]
            size = 2 if whole < 0xE0 else 3 if whole < 0xF0 else 4
            return (data[: -1 - back] if size > back + 1 else data).decode(errors="replace")
    return data.decode(errors="replace")


def shown_name(name: str) -> str:
    """A file name that any JSON reader can take: bytes that are no UTF-8 are replaced."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def shown_size(size: int) -> str:
    value = float(size)
    for unit in ("B", "KB", "MB", "GB"):
        if value < KIB or unit == "GB":
            return f"{value:.0f}{unit}" if unit == "B" else f"{value:.1f}{unit}"
        value /= KIB
    raise AssertionError("unreachable")
