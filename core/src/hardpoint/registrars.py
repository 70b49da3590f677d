"""What registration hooks are handed: bound to one plugin, staging until all of it is in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import attrs

from hardpoint.entries import as_tool
from hardpoint.errors import NameTaken, RegistrationError
from hardpoint.interfaces import (
    Approver,
    AuditSink,
    Channel,
    Check,
    EmbeddingProvider,
    ExecutionDomain,
    Installer,
    JobExecutor,
    JobWorker,
    LlmProvider,
    OutputFilter,
    RateLimiterBackend,
    SecretStore,
    Toolset,
    Workspace,
)
from hardpoint.registry import ToolRegistry
from hardpoint.tools import Tool, ToolDomain

T = TypeVar("T")

EXTENSION_KINDS: Final[Mapping[str, type]] = {
    "secret_store": SecretStore,
    "output_filter": OutputFilter,
    "audit_sink": AuditSink,
    "llm_provider": LlmProvider,
    "embedding_provider": EmbeddingProvider,
    "channel": Channel,
    "job_executor": JobExecutor,
    "job_worker": JobWorker,
    "installer": Installer,
    "workspace": Workspace,
    "check": Check,
}

CORE_DOMAINS: Final = frozenset({ToolDomain.ORCHESTRATOR.value})


@attrs.frozen
class Owned(Generic[T]):
    """A registered thing and who brought it."""

    value: T
    owner: str


@attrs.frozen
class CommandRef:
    """A command line group that is imported when it is called."""

    target: str
    """`module:attribute`."""
    help: str


class ToolRegistrar:
    """Stages the tools and toolsets of one plugin."""

    def __init__(
        self, registry: ToolRegistry, owner: str, *, running: ToolRegistry | None = None
    ) -> None:
        """Args:
        registry: Where they are registered.
        owner: Of whom.
        running: Where toolsets find themselves later on, where that is another one.
        """
        self._registry = registry
        self._running = running or registry
        self._owner = owner
        self._staged: list[Callable[[], Any]] = []
        self._names: set[str] = set()
        self._undo: list[Callable[[], Any]] = []

    def register(self, tool: Tool | Callable[..., Any], *, prefix: str = "") -> Tool:
        """Add a tool, or a plain function as a tool.

        Raises:
            RegistrationError: The name or the schema cannot be used; the plugin is not loaded then.
        """
        made = as_tool(tool)
        name = self._registry.check(made, owner=self._owner, prefix=prefix).name
        if name in self._names:
            raise NameTaken(name, owner=self._owner, by=self._owner)
        self._names.add(name)
        self._staged.append(lambda: self._registry.register(made, owner=self._owner, prefix=prefix))
        self._undo.append(lambda: self._registry.unregister(name, owner=self._owner))
        return made

    def register_toolset(self, toolset: Toolset, *, prefix: str = "") -> None:
        """Add a toolset; its definitions may change later by `replace`."""
        self._staged.append(
            lambda: self._registry.register_toolset(toolset, owner=self._owner, prefix=prefix)
        )
        self._undo.append(lambda: self._registry.unregister_toolset(toolset))

    def replace(self, toolset: Toolset, definitions: Any) -> None:
        """Make these the tools of a registered toolset; for toolsets, at run time."""
        self._running.replace(toolset, definitions)

    def commit(self) -> None:
        for position, step in enumerate(self._staged):
            try:
                step()
            except Exception:
                for undo in reversed(self._undo[:position]):
                    undo()
                raise
        self._staged.clear()

    def rollback(self) -> None:
        for undo in reversed(self._undo):
            undo()


class NamedRegistrar(Generic[T]):
    """Stages named things of one type: domains, approvers, rate limiters."""

    def __init__(
        self,
        kind: str,
        expected: type,
        table: dict[str, Owned[T]],
        owner: str,
        *,
        reserved: frozenset[str] = frozenset(),
    ) -> None:
        self._kind = kind
        self._expected = expected
        self._table = table
        self._owner = owner
        self._reserved = reserved
        self._staged: dict[str, T] = {}

    def register(self, name: str, value: T) -> None:
        """Add a thing under a name.

        Raises:
            NameTaken: Another plugin, or the core, has the name.
            RegistrationError: It is not of the expected type.
        """
        if not isinstance(value, self._expected):
            raise RegistrationError(
                name,
                f"{self._kind} {name!r} must be a {self._expected.__name__},"
                f" not {type(value).__name__}",
                owner=self._owner,
            )
        self._refuse_taken(name)
        self._staged[name] = value

    def _refuse_taken(self, name: str) -> None:
        if name in self._reserved:
            raise NameTaken(name, owner="hardpoint", by=self._owner)
        if name in self._table:
            raise NameTaken(name, owner=self._table[name].owner, by=self._owner)
        if name in self._staged:
            raise NameTaken(name, owner=self._owner, by=self._owner)

    def commit(self) -> None:
        for name in self._staged:
            if name in self._table:
                raise NameTaken(name, owner=self._table[name].owner, by=self._owner)
        for name, value in self._staged.items():
            self._table[name] = Owned(value, self._owner)

    def rollback(self) -> None:
        for name, value in self._staged.items():
            if name in self._table and self._table[name].value is value:
                del self._table[name]


class ExtensionRegistrar:
    """Stages everything else, by kind and name."""

    def __init__(self, tables: dict[str, dict[str, Owned[Any]]], owner: str) -> None:
        self._parts = {
            kind: NamedRegistrar(kind, expected, tables.setdefault(kind, {}), owner)
            for kind, expected in EXTENSION_KINDS.items()
        }
        self._owner = owner

    def register(self, kind: str, name: str, value: Any) -> None:
        """Add an extension of one of the known kinds.

        Raises:
            RegistrationError: The kind is unknown, or the value is not of its type.
            NameTaken: The name is taken within its kind.
        """
        if kind not in self._parts:
            raise RegistrationError(
                name,
                f"unknown extension kind {kind!r}; known: {', '.join(sorted(self._parts))}",
                owner=self._owner,
            )
        self._parts[kind].register(name, value)

    def commit(self) -> None:
        for part in self._parts.values():
            part.commit()

    def rollback(self) -> None:
        for part in self._parts.values():
            part.rollback()


class CommandRegistrar:
    """Stages command line groups by name; they are imported when called."""

    def __init__(self, table: dict[str, Owned[CommandRef]], owner: str) -> None:
        self._inner: NamedRegistrar[CommandRef] = NamedRegistrar(
            "command", CommandRef, table, owner
        )

    def register(self, name: str, target: str, help: str = "") -> None:
        """Add a click command.

        Args:
            name: The word on the command line.
            target: `module:attribute` of the click command or group.
            help: One line for `hardpoint --help`.
        """
        self._inner.register(name, CommandRef(target, help))

    def commit(self) -> None:
        self._inner.commit()

    def rollback(self) -> None:
        self._inner.rollback()


DomainRegistrar = NamedRegistrar[ExecutionDomain]
ApproverRegistrar = NamedRegistrar[Approver]
RateLimiterRegistrar = NamedRegistrar[RateLimiterBackend]
