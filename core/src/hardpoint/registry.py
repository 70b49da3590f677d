"""Names to tools, each with an owner. What a tool's schema may say is decided in `schema`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from hardpoint.entries import Dropped, Entry, as_tool, entry_of, usable
from hardpoint.errors import (
    NameTaken,
    ProtectedName,
    RegistrationError,
)
from hardpoint.interfaces.installers import WasmToolRegistration
from hardpoint.interfaces.toolsets import Toolset
from hardpoint.protected import PROTECTED_OWNERS, canonical_name
from hardpoint.search import ToolIndex
from hardpoint.seed_groups import group_function
from hardpoint.tools import Tool, ToolDefinition, ToolDomain

logger = logging.getLogger(__name__)

APPLICATION: Final = "application"
"""The owner of what the host program registers itself."""


@attrs.frozen
class RegistryChange:
    """What an event tells its listeners."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@attrs.frozen
class _OwnedToolset:
    toolset: Toolset
    owner: str
    prefix: str

    def is_same(self, other: _OwnedToolset) -> bool:
        return (
            self.owner == other.owner
            and self.prefix == other.prefix
            and goes_on(self.toolset, other.toolset)
        )


def goes_on(running: Any, made: Any) -> bool:
    """Whether a thing that runs already is what another configuration asks for: they are equal."""
    try:
        return running is made or (type(running) is type(made) and bool(running == made))
    except Exception:  # comparing is foreign code; what cannot be compared is not the same
        logger.exception("%s cannot be compared", type(running).__name__)
        return False


def _difference(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> RegistryChange:
    return RegistryChange(
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(
            name
            for name in sorted(after.keys() & before.keys())
            if after[name].definition != before[name].definition
        ),
    )


Listener = Callable[[RegistryChange], None]


class ToolRegistry:
    """The tools of one runtime. Safe to change from threads while calls run.

    A bare `ToolRegistry()` takes any free name. With `protect=True`, as in a `Runtime`, protected
    names belong to the distribution that provides them.
    """

    def __init__(
        self,
        *,
        protect: bool = False,
        secrets_store: Any = None,
        credential_registry: Any = None,
        rate_limiter: Any = None,
    ) -> None:
        self.protect = protect
        self.secrets_store = secrets_store
        self.credential_registry = credential_registry
        self.dropped: tuple[Dropped, ...] = ()
        self.version = 0
        """Goes up with every change."""
        self._rate_limiter = rate_limiter
        self._entries: dict[str, Entry] = {}
        self._canonical: dict[str, str] = {}
        self._toolsets: dict[str, _OwnedToolset] = {}
        self._lock = threading.RLock()
        self._listeners: list[Listener] = []
        self._sorted: tuple[int, list[str]] | None = None
        self._schemas: tuple[int, list[ToolDefinition]] | None = None
        self._index: tuple[int, ToolIndex] | None = None

    # reading -----------------------------------------------------------------------------------

    def get(self, name: str) -> Tool | None:
        """The tool of this name, or None."""
        entry = self._entries.get(name)
        return entry.tool if entry is not None else None

    def entry(self, name: str) -> Entry | None:
        """The tool with its owner and definition, or None."""
        return self._entries.get(name)

    def has(self, name: str) -> bool:
        return name in self._entries

    def count(self) -> int:
        return len(self._entries)

    def list(self) -> list[str]:
        """The names, sorted."""
        known = self._sorted
        if known is None or known[0] != self.version:
            with self._lock:
                known = (self.version, sorted(self._entries))
                self._sorted = known
        return known[1].copy()

    def all(self) -> Sequence[Tool]:
        """The tools, sorted by name.

        Raises:
            ExternalService: A toolset does not have what it lists.
        """
        return [entry.tool for entry in self.entries()]

    def entries(self) -> Sequence[Entry]:
        with self._lock:
            return [self._entries[name] for name in self.list()]

    def schemas(self) -> Sequence[ToolDefinition]:
        """The definitions, sorted by name so that a model's prompt stays the same."""
        known = self._schemas
        if known is None or known[0] != self.version:
            with self._lock:
                known = (self.version, [entry.definition for entry in self.entries()])
                self._schemas = known
        return known[1].copy()

    tool_definitions = schemas

    def tool_definitions_for(self, names: Iterable[str]) -> Sequence[ToolDefinition]:
        wanted = set(names)
        return [definition for definition in self.schemas() if definition.name in wanted]

    def tool_definitions_for_domain(self, domain: ToolDomain | str) -> Sequence[ToolDefinition]:
        return [definition for definition in self.schemas() if definition.domain == str(domain)]

    def tool_definitions_excluding(self, names: Iterable[str]) -> Sequence[ToolDefinition]:
        unwanted = set(names)
        return [definition for definition in self.schemas() if definition.name not in unwanted]

    def search(self, query: str, *, limit: int = 10) -> Sequence[tuple[ToolDefinition, float]]:
        """The tools that fit a query best, with their scores; the index is made once per change."""
        known = self._index
        if known is None or known[0] != self.version:
            known = (self.version, ToolIndex(self.schemas()))
            self._index = known
        return known[1].search(query, limit=limit)

    def close_names(self, name: str, *, limit: int = 3) -> tuple[str, ...]:
        """Registered names that look like this one."""
        import difflib

        by_canonical = self._canonical.copy()
        wanted = canonical_name(name)
        near = difflib.get_close_matches(wanted, by_canonical, n=limit, cutoff=0.6)
        if wanted in by_canonical:
            near = [wanted, *(other for other in near if other != wanted)]
        return tuple(by_canonical[match] for match in near[:limit])

    def rate_limiter(self) -> Any:
        """The limiter of this registry; made on first use when none was given."""
        if self._rate_limiter is None:
            from hardpoint.rate_limiter import RateLimiter

            self._rate_limiter = RateLimiter()
        return self._rate_limiter

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())

    # registering -------------------------------------------------------------------------------

    def register(
        self,
        tool_or_function: Tool | Callable[..., Any],
        *,
        owner: str = APPLICATION,
        prefix: str = "",
    ) -> Tool:
        """Add a tool, or a plain function as a tool.

        Args:
            tool_or_function: The tool; its schema is checked.
            owner: Who provides it.
            prefix: Put before the name as it stands, for example `acme__`.

        Raises:
            NameTaken: Another tool has the name, or one that is easily confused with it.
            ProtectedName: The name belongs to a first-party tool.
            SchemaError: The parameter schema cannot be used.
        """
        made = as_tool(tool_or_function)
        entry = self.check(made, owner=owner, prefix=prefix)
        with self._lock:
            self._refuse_taken(entry.name, owner)
            self._put(entry)
        self._tell(RegistryChange(added=(entry.name,)))
        return made

    register_sync = register

    def check(self, made: Tool, *, owner: str, prefix: str = "") -> Entry:
        """What `register` would add.

        Raises:
            RegistrationError: As for `register`, apart from names taken meanwhile.
        """
        entry = entry_of(made, owner=owner, prefix=prefix, protect=self.protect)
        self._refuse_taken(entry.name, owner)
        return entry

    def unregister(self, name: str, *, owner: str = APPLICATION) -> bool:
        """Remove a tool of this owner; False when there is none.

        Raises:
            ProtectedName: The tool belongs to another owner and its name is protected.
            RegistrationError: The tool belongs to another owner.
        """
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                return False
            if entry.owner != owner:
                if self.protect and canonical_name(name) in PROTECTED_OWNERS:
                    raise ProtectedName(name, owner=entry.owner, by=owner)
                raise RegistrationError(
                    name, f"{name!r} belongs to {entry.owner}, not to {owner}", owner=entry.owner
                )
            del self._entries[name]
            del self._canonical[canonical_name(name)]
            self.version += 1
        self._tell(RegistryChange(removed=(name,)))
        return True

    def retain_only(self, names: Collection[str]) -> None:
        """Keep these tools and remove the others; an empty collection changes nothing."""
        if not names:
            return
        with self._lock:
            gone = self._remove(lambda entry: entry.name not in names)
        if gone:
            self._tell(RegistryChange(removed=gone))

    # another configuration ---------------------------------------------------------------------

    def without(self, owners: Collection[str]) -> ToolRegistry:
        """A copy that lacks what these owners registered, to register their next things in."""
        return self._part(lambda owner: owner not in owners)

    def exchange(self, owners: Collection[str], staged: ToolRegistry) -> ToolRegistry:
        """Take what these owners have in another registry in place of what they have here.

        All at once, and the listeners are told the difference. A toolset that equals the one that
        is here stays out: the one that is here goes on, with the tools that it has.

        Returns:
            What they had here, to exchange it back.
        """
        with self._lock:
            before = self._entries
            former = self._part(lambda owner: owner in owners)
            rest, new = self.without(owners), staged._part(lambda owner: owner in owners)
            going_on = {
                name: here
                for name, owned in new._toolsets.items()
                if (here := former._toolsets.get(name)) is not None and here.is_same(owned)
            }
            rest._toolsets |= new._toolsets | going_on
            rest._entries |= {
                name: entry
                for name, entry in new._entries.items()
                if entry.toolset is None or entry.toolset.name not in going_on
            }
            rest.dropped += new.dropped
            rest._set_entries(rest._entries)
            for owned in going_on.values():
                rest.replace(owned.toolset, owned.toolset.definitions())
            self._toolsets, self.dropped = rest._toolsets, rest.dropped
            self._set_entries(rest._entries)
            change = _difference(before, self._entries)
        if change != RegistryChange():
            self._tell(change)
        return former

    def _part(self, belongs: Callable[[str], bool]) -> ToolRegistry:
        made = ToolRegistry(protect=self.protect)
        with self._lock:
            made._toolsets = {n: o for n, o in self._toolsets.items() if belongs(o.owner)}
            made._set_entries({n: e for n, e in self._entries.items() if belongs(e.owner)})
            made.dropped = tuple(d for d in self.dropped if d.toolset in made._toolsets)
        return made

    def touch(self) -> None:
        """Tell the listeners that what a caller may see could have changed."""
        with self._lock:
            self.version += 1
        self._tell(RegistryChange())

    # toolsets ----------------------------------------------------------------------------------

    def register_toolset(
        self, toolset: Toolset, *, owner: str = APPLICATION, prefix: str = ""
    ) -> None:
        """Add a toolset with the definitions that it knows now.

        Args:
            toolset: The source; `definitions()` already carry the names that are registered.
            owner: Who provides it.
            prefix: A prefix that every name of the toolset must have; empty for none.

        Raises:
            NameTaken: Another toolset has this name.
        """
        definitions = toolset.definitions()
        with self._lock:
            if toolset.name in self._toolsets:
                raise NameTaken(toolset.name, owner=self._toolsets[toolset.name].owner, by=owner)
            self._toolsets[toolset.name] = _OwnedToolset(toolset, owner, prefix)
        self.replace(toolset, definitions)

    def replace(self, toolset: Toolset, definitions: Sequence[ToolDefinition]) -> None:
        """Make these the tools of a toolset, all at once, and tell the listeners what changed.

        A definition that clashes or cannot be used drops only itself; see `dropped`.

        Raises:
            RegistrationError: The toolset is not registered here.
        """
        with self._lock:
            owned = self._toolsets.get(toolset.name)
            if owned is None or owned.toolset is not toolset:
                raise RegistrationError(
                    toolset.name, f"toolset {toolset.name!r} is not registered here"
                )
            before = {n: entry for n, entry in self._entries.items() if entry.toolset is toolset}
            others = {n: entry for n, entry in self._entries.items() if n not in before}
            taken = {canonical_name(name): entry.owner for name, entry in others.items()}
            after, dropped = usable(
                definitions, toolset, owned.owner, owned.prefix, taken, protect=self.protect
            )
            # Whoever reads without the lock sees all of the old tools or all of the new ones.
            self._set_entries(others | after)
            self.dropped = (*(d for d in self.dropped if d.toolset != toolset.name), *dropped)
            change = _difference(before, after)
        if change != RegistryChange():
            self._tell(change)

    def unregister_toolset(self, toolset: Toolset) -> None:
        """Remove a toolset and its tools; a running call keeps its tool."""
        with self._lock:
            owned = self._toolsets.get(toolset.name)
            if owned is None or owned.toolset is not toolset:
                return
            del self._toolsets[toolset.name]
            gone = self._remove(lambda entry: entry.toolset is toolset)
        self._tell(RegistryChange(removed=gone))

    def toolsets(self) -> Mapping[str, Toolset]:
        with self._lock:
            return {name: self._toolsets[name].toolset for name in sorted(self._toolsets)}

    # events ------------------------------------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after every change, on the thread that made it; returns the way out."""
        with self._lock:
            self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _tell(self, change: RegistryChange) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(change)
            except Exception:  # a listener is foreign code; it may not stop the others
                logger.exception("a listener of the tool registry failed")

    # groups of the installed plugins -----------------------------------------------------------

    def register_builtin_tools(self) -> None:
        """`echo`, `time`, `json`, `http`, `web_fetch` of hardpoint-builtin."""
        self._register_group("builtin")

    def register_container_tools(self) -> None:
        """`shell` and the file tools of hardpoint-container."""
        self._register_group("container")

    register_dev_tools = register_container_tools

    def register_memory_tools(self, workspace: Any = None) -> None:
        """The memory tools of hardpoint-builtin over this workspace."""
        self._register_group("memory", workspace)

    def register_job_tools(
        self, context_manager: Any = None, scheduler: Any = None, **options: Any
    ) -> None:
        """The job tools of hardpoint-builtin."""
        self._register_group("job", context_manager, scheduler, **options)

    async def register_wasm(self, registration: WasmToolRegistration) -> Tool:
        """Load a WebAssembly component as a tool, through hardpoint-wasm."""
        function, owner = group_function("wasm")
        made: Tool = await function(registration)
        return self.register(made, owner=owner)

    def _register_group(self, group: str, *args: Any, **options: Any) -> None:
        function, owner = group_function(group)
        for made in function(*args, **options):
            self.register(made, owner=owner)

    # inside ------------------------------------------------------------------------------------

    def _refuse_taken(self, name: str, by: str) -> None:
        taken = self._canonical.get(canonical_name(name))
        if taken is not None:
            raise NameTaken(taken, owner=self._entries[taken].owner, by=by)

    def _put(self, entry: Entry) -> None:
        self._entries[entry.name] = entry
        self._canonical[canonical_name(entry.name)] = entry.name
        self.version += 1

    def _remove(self, is_gone: Callable[[Entry], bool]) -> tuple[str, ...]:
        gone = sorted(name for name, entry in self._entries.items() if is_gone(entry))
        if gone:
            self._set_entries({n: e for n, e in self._entries.items() if not is_gone(e)})
        return tuple(gone)

    def _set_entries(self, entries: dict[str, Entry]) -> None:
        self._entries = entries
        self._canonical = {canonical_name(name): name for name in entries}
        self.version += 1
