"""What becomes an entry of the registry, and why the rest cannot. The registry keeps them."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from hardpoint.errors import (
    ExternalService,
    HardpointError,
    NameTaken,
    ProtectedName,
    RegistrationError,
    SchemaError,
)
from hardpoint.interfaces.toolsets import Toolset
from hardpoint.protected import PROTECTED_OWNERS, canonical_name
from hardpoint.schema import lint
from hardpoint.tools import FunctionTool, Tool, ToolDefinition, ToolDomain, tool

logger = logging.getLogger(__name__)

# What MCP allows; providers with narrower rules get mapped names (see `providers`).
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


@attrs.frozen
class Entry:
    """One registered tool."""

    name: str
    owner: str
    definition: ToolDefinition
    toolset: Toolset | None = None
    _tool: Tool | None = None

    @property
    def tool(self) -> Tool:
        """The tool itself.

        Raises:
            ExternalService: The toolset lists it and does not have it.
        """
        if self._tool is not None:
            return self._tool
        assert self.toolset is not None
        try:
            return self.toolset.get_tool(self.name)
        except KeyError:
            raise ExternalService(
                f"toolset {self.toolset.name!r} lists {self.name!r} and does not have it"
            ) from None


@attrs.frozen
class Dropped:
    """A definition of a toolset that could not be registered."""

    toolset: str
    name: str
    reason: str


def as_tool(tool_or_function: Any) -> Tool:
    """A tool as it is, a function as a tool.

    Raises:
        HardpointError: It is neither.
    """
    if isinstance(tool_or_function, Tool):
        return tool_or_function
    if isinstance(tool_or_function, type) and issubclass(tool_or_function, Tool):
        raise HardpointError(
            f"{tool_or_function.__name__} is a class; register an instance",
            hint=f"registry.register({tool_or_function.__name__}())",
        )
    if callable(tool_or_function):
        return tool(tool_or_function)
    raise HardpointError(f"{tool_or_function!r} is neither a Tool nor a function")


def entry_of(made: Tool, *, owner: str, prefix: str = "", protect: bool = False) -> Entry:
    """The entry of a tool, whether its name is free or not.

    Raises:
        RegistrationError: The tool cannot be registered under any circumstances.
    """
    try:
        definition = made.definition()
    except RegistrationError:
        raise
    except Exception as error:  # a tool's own methods are foreign code
        raise RegistrationError(
            type(made).__name__,
            f"{type(made).__name__} cannot describe itself: {type(error).__name__}: {error}",
            owner=owner,
        ) from error
    name = prefix + definition.name
    _check(name, definition, owner, protect=protect)
    if definition.domain != ToolDomain.ORCHESTRATOR and _runs_here(made):
        raise RegistrationError(
            name,
            f"{name!r} is a plain function and would run in this process,"
            f" not in {definition.domain!r}",
            owner=owner,
            hint="write a Tool that works through context.sandbox",
        )
    original = definition.name if prefix else definition.original_name
    named = attrs.evolve(definition, name=name, owner=owner, original_name=original)
    return Entry(name, owner, named, tool=made)


def usable(
    definitions: Sequence[ToolDefinition],
    toolset: Toolset,
    owner: str,
    prefix: str,
    taken: Mapping[str, str],
    *,
    protect: bool,
) -> tuple[dict[str, Entry], Sequence[Dropped]]:
    """The entries of a toolset's definitions, and those that can have none, each with its reason.

    Args:
        definitions: What the toolset offers now.
        toolset: Where the tools come from.
        owner: Who brought the toolset.
        prefix: What every name must begin with.
        taken: Canonical names that others have, with their owners.
        protect: Whether protected names belong to their distributions.
    """
    taken = dict(taken)
    entries: dict[str, Entry] = {}
    dropped: list[Dropped] = []
    for definition in definitions:
        name = definition.name
        try:
            _check(name, definition, owner, protect=protect)
            if not name.startswith(prefix):
                raise RegistrationError(name, f"{name!r} lacks the prefix {prefix!r}")
            canonical = canonical_name(name)
            if canonical in taken:
                raise NameTaken(name, owner=taken[canonical], by=f"{owner} ({toolset.name})")
        except RegistrationError as error:
            logger.warning("toolset %s: %s", toolset.name, error)
            dropped.append(Dropped(toolset.name, str(name), error.message))
            continue
        named = attrs.evolve(definition, owner=definition.owner or owner)
        entries[name] = Entry(name, owner, named, toolset=toolset)
        taken[canonical] = f"{owner} ({toolset.name})"
    return entries, dropped


def _check(name: Any, definition: ToolDefinition, owner: str, *, protect: bool) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RegistrationError(
            str(name),
            f"{name!r} is not a tool name: 1 to 128 letters, digits, '_', '-' or '.'",
            owner=owner,
        )
    canonical = canonical_name(name)
    if protect and canonical in PROTECTED_OWNERS:
        provider = PROTECTED_OWNERS[canonical]
        if provider != owner or canonical != name:
            raise ProtectedName(name, owner=provider or "hardpoint", by=owner)
    problems = lint(definition.parameters)
    if problems:
        raise SchemaError(name, problems, owner=owner)


def _runs_here(made: Tool) -> bool:
    """Whether the tool is a function that could not even see a sandbox."""
    return isinstance(made, FunctionTool) and made.signature.context_parameter is None
