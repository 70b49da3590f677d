"""Read a schema from a stranger into nodes that are safe to walk, or say why not.

Decides: what a schema is made of, where its references lead, and whether it stays within bounds of
size, depth and work. Nothing is fetched, ever. What a good tool schema looks like is decided in
`lint`; whether arguments fit in `validator`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote, urljoin

from hardpoint.errors import SchemaError
from hardpoint.schema.native import meta_problems, pattern_is_linear
from hardpoint.schema.nodes import DATA, MANY, NAMED, ONE, REFERENCES, Node, Resource
from hardpoint.schema.values import describe, is_small_json, shorten, unusable
from hardpoint.schema.work import Work

MAX_SCHEMA_BYTES: Final = 64 * 1024
MAX_SCHEMA_DEPTH: Final = 16
MAX_PROBLEMS: Final = 50
MAX_PLACE_WORK: Final = 20_000
"""Most evaluations that one place of the arguments may cost, all references opened."""

_AT_MOST: Final = f"at most {MAX_SCHEMA_BYTES} bytes (64 KB)"
_CONTAINERS: Final = frozenset({dict, list})
_DIALECT: Final = re.compile(
    r"https?://json-schema\.org/(?:draft-0[467]|draft/20(?:19-09|20-12))/schema#?"
)


def read_schema(schema: Any, name: str = "parameters") -> Graph:
    """A schema as a graph that may be compiled and walked.

    Raises:
        SchemaError: The schema cannot be used safely; `problems` says why.
    """
    graph = Graph(schema)
    problems = graph.problems or meta_problems(graph.schema)
    if problems:
        raise SchemaError(name, problems)
    return graph


class Graph:
    """A schema as nodes, and the `problems` that keep it from being used safely."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.problems: list[str] = []
        self.nodes: list[Node] = []
        self._by_raw: dict[int, Node] = {}
        self._resources: dict[str, Resource] = {}
        self._pending: list[Node] = []
        self.patterns: dict[str, Node] = {}
        """Regular expressions and the schema where each stands first."""
        self.linear = True
        """Whether every pattern runs in linear time; otherwise texts must be short."""
        self.readable = self._check_bounds()
        """Whether `root` and `nodes` are there and can be walked, problems or not."""
        if self.readable:
            self.root = self._read(Node(schema, self._resource("", schema)))
            self._resolve_references()
            self._check_patterns()
            self._check_endless()
            self._check_work()

    def problem(self, path: str, text: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{path}: {text}" if path else text)

    # bounds ----------------------------------------------------------------------------------

    def _check_bounds(self) -> bool:
        if not isinstance(self.schema, dict):
            self.problem("", f"a schema must be an object, got {describe(self.schema)}")
            return False
        if not is_small_json(self.schema, MAX_SCHEMA_BYTES):
            self._say_what_is_unusable()
            return False
        try:
            text = json.dumps(self.schema, ensure_ascii=False, separators=(",", ":"))
            size = len(text.encode())
        except (ValueError, RecursionError):  # lone surrogates, huge numbers; deeply nested data
            self._say_what_is_unusable()
            return False
        if size > MAX_SCHEMA_BYTES:
            self.problem("", f"the schema is too large: {size} bytes, {_AT_MOST}")
            return False
        dialect = self.schema.get("$schema")
        if dialect is not None and not (isinstance(dialect, str) and _DIALECT.fullmatch(dialect)):
            known = "known are draft 4, 6, 7, 2019-09 and 2020-12"
            self.problem("", f"unknown dialect $schema {_show(dialect)}; {known}")
            return False
        return True

    def _say_what_is_unusable(self) -> None:
        # A schema of 16 levels takes at most three containers a level; data in it may add some.
        depth = 4 * MAX_SCHEMA_DEPTH
        for path, expected, received in unusable(
            self.schema, max_depth=depth, max_values=MAX_SCHEMA_BYTES
        ):
            if "nesting" in expected:
                self.problem("", f"schema nesting exceeds maximum depth of {MAX_SCHEMA_DEPTH}")
            elif "values" in expected:
                self.problem("", f"the schema is too large: {_AT_MOST}")
            else:
                where = shorten(".".join(map(str, path)))
                self.problem(where, f"expected {expected}, got {received}")
        if not self.problems:
            self.problem("", f"schema nesting exceeds maximum depth of {MAX_SCHEMA_DEPTH}")

    # reading ---------------------------------------------------------------------------------

    def _read(self, node: Node) -> Node:
        raw = node.raw
        self.nodes.append(node)
        if isinstance(raw, bool):
            return node
        self._by_raw.setdefault(id(raw), node)
        if node.resource.root is None:
            node.resource.root = node
        elif "$id" in raw and _is_address(raw["$id"]):
            node.resource = self._resource(node.resource.uri, raw)
            node.resource.root = node
        if node.depth > MAX_SCHEMA_DEPTH:
            where = shorten(node.path)
            self.problem(
                "", f"schema nesting exceeds maximum depth of {MAX_SCHEMA_DEPTH} at {where}"
            )
            return node
        for keyword, value in raw.items():
            reader = _READERS.get(keyword)
            if reader is not None:
                reader(self, node, keyword, value)
            elif value.__class__ in _CONTAINERS and keyword not in DATA:
                self._refuse_hidden_references(value, node, keyword)
        return node

    def _child(self, parent: Node, raw: Any, label: str, *steps: str | int) -> Node:
        return self._read(
            Node(raw, parent.resource, parent, label=label, steps=steps, depth=parent.depth + 1)
        )

    def _read_one(self, node: Node, keyword: str, value: Any) -> None:
        if keyword == "items" and isinstance(value, list):  # tuples before 2020-12
            self._read_many(node, keyword, value)
        elif isinstance(value, (dict, bool)):
            node.one[keyword] = self._child(node, value, keyword, keyword)
        else:
            self.problem(node.path, f"{keyword} must be a schema, got {describe(value)}")

    def _read_many(self, node: Node, keyword: str, value: Any) -> None:
        if not isinstance(value, list) or not value:
            got = describe(value)
            self.problem(node.path, f"{keyword} must be a list of at least one schema, got {got}")
            return
        members: list[Node] = []
        for index, member in enumerate(value):
            if isinstance(member, (dict, bool)):
                members.append(self._child(node, member, f"{keyword}[{index}]", keyword, index))
            else:
                place = f"{keyword}[{index}]"
                self.problem(node.path, f"{place} must be a schema, got {describe(member)}")
        node.many[keyword] = members

    def _read_named(self, node: Node, keyword: str, value: Any) -> None:
        if not isinstance(value, dict):
            got = describe(value)
            self.problem(
                node.path, f'missing or non-object "{keyword}": expected an object, got {got}'
            )
            return
        members: dict[str, Node] = {}
        for name, member in value.items():
            label = name if keyword == "properties" else f"{keyword}.{name}"
            if isinstance(member, (dict, bool)):
                members[name] = self._child(node, member, label, keyword, name)
            elif keyword != "dependencies" or not isinstance(member, list):
                self.problem(node.path, f"{label} must be a schema, got {describe(member)}")
            if keyword == "patternProperties":
                self.patterns.setdefault(name, node)
        node.named[keyword] = members

    def _read_reference(self, node: Node, keyword: str, value: Any) -> None:
        if isinstance(value, str):
            self._pending.append(node)
        else:
            self.problem(node.path, f"{keyword} must be text, got {describe(value)}")

    def _read_pattern(self, node: Node, keyword: str, value: Any) -> None:
        if isinstance(value, str):
            self.patterns.setdefault(value, node)
        else:
            self.problem(node.path, f"pattern must be a regular expression, got {describe(value)}")

    def _read_anchor(self, node: Node, keyword: str, value: Any) -> None:
        if isinstance(value, str):
            node.resource.anchors.setdefault(value.removeprefix("#"), node)

    def _read_identifier(self, node: Node, keyword: str, value: Any) -> None:
        if isinstance(value, str) and value.startswith("#"):  # how drafts 6 and 7 spell an anchor
            node.resource.anchors.setdefault(value[1:], node)

    def _resource(self, base: str, raw: dict[str, Any]) -> Resource:
        identifier = raw.get("$id", "")
        uri = _address(base, identifier) if isinstance(identifier, str) else ""
        resource = Resource(uri or "")
        if uri is not None:
            self._resources.setdefault(uri, resource)
        return resource

    def _refuse_hidden_references(self, value: Any, node: Node, keyword: str) -> None:
        # What no keyword claims is data; but a reader with other keywords might follow it.
        waiting = [value]
        while waiting:
            item = waiting.pop()
            if isinstance(item, dict):
                for reference in REFERENCES:
                    target = item.get(reference)
                    if isinstance(target, str) and not target.startswith("#"):
                        self._refuse_remote(node, f"{keyword}: {reference}", target)
            members = item.values() if isinstance(item, dict) else item
            waiting += [member for member in members if member.__class__ in _CONTAINERS]

    def _refuse_remote(self, node: Node, keyword: str, target: str) -> None:
        self.problem(
            node.path,
            f"{keyword} {_show(target)} leaves the schema; only references inside it are followed",
        )

    # references ------------------------------------------------------------------------------

    def _resolve_references(self) -> None:
        while (
            self._pending and len(self.problems) < MAX_PROBLEMS
        ):  # a target may be read on the way
            node = self._pending.pop()
            for keyword in REFERENCES:
                target = node.get(keyword)
                if isinstance(target, str):
                    self._resolve(node, keyword, target)

    def _resolve(self, node: Node, keyword: str, target: str) -> None:
        base, _, fragment = target.partition("#")
        resource = node.resource
        if base:
            uri = _address(resource.uri, base)
            if uri is None or uri not in self._resources:
                self._refuse_remote(node, keyword, target)
                return
            resource = self._resources[uri]
        found = self._find(resource, unquote(fragment))
        if found is None:
            self.problem(node.path, f"{keyword} {_show(target)} leads nowhere")
        else:
            node.refs.append(found)

    def _find(self, resource: Resource, fragment: str) -> Node | None:
        root = resource.root
        if root is None or not fragment:
            return root
        if not fragment.startswith("/"):
            return resource.anchors.get(fragment)
        raw: Any = root.raw
        for step in fragment[1:].split("/"):
            step = _unescape(step)
            if isinstance(raw, dict) and step in raw:
                raw = raw[step]
            elif isinstance(raw, list) and step.isdecimal() and int(step) < len(raw):
                raw = raw[int(step)]
            else:
                return None
        if not isinstance(raw, dict | bool):
            return None
        known = self._by_raw.get(id(raw)) if isinstance(raw, dict) else None
        if known is not None:
            return known
        label = ".".join(fragment[1:].split("/"))
        steps = tuple(_unescape(step) for step in fragment[1:].split("/"))
        return self._read(Node(raw, resource, root, label=label, steps=steps, depth=1))

    def _check_endless(self) -> None:
        """Refuse references that come back to themselves without going into the value."""
        if not self.has_references:
            return
        done: set[Node] = set()
        for start in self.nodes:
            trail: list[tuple[Node, Iterator[Node]]] = [(start, start.same_place())]
            open_nodes = {start}
            while trail and start not in done:
                node, following = trail[-1]
                step = next(following, None)
                if step is None:
                    trail.pop()
                    open_nodes.discard(node)
                    done.add(node)
                elif step in open_nodes:
                    self.readable = False
                    self.problem(node.path, "$ref never ends: it leads back to itself")
                    return
                elif step not in done:
                    open_nodes.add(step)
                    trail.append((step, step.same_place()))

    # meaning ---------------------------------------------------------------------------------

    def _check_patterns(self) -> None:
        if not self.patterns:
            return
        for pattern, node in self.patterns.items():
            linear = pattern_is_linear(pattern)
            if linear is None:
                text = f"pattern {_show(pattern)} is no regular expression, or too large a one"
                self.problem(node.path, text)
            elif not linear:
                self.linear = False

    def _check_work(self) -> None:
        endless = not self.readable
        if self.has_references and not endless and self.work.at_one_place > MAX_PLACE_WORK:
            self.problem("", "the schema is too complex: its $ref multiply each other")

    @property
    def references_stand_alone(self) -> bool:
        """Up to draft 7 whatever stands beside a `$ref` does not count."""
        return "/draft-0" in str(self.schema.get("$schema", ""))

    @cached_property
    def has_references(self) -> bool:
        return any(node.refs for node in self.nodes)

    @cached_property
    def work(self) -> Work:
        return Work(self.root, self.nodes)


def _unescape(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")


def _show(value: Any) -> str:
    return shorten(json.dumps(value, ensure_ascii=False))


def _is_address(identifier: Any) -> bool:
    return isinstance(identifier, str) and not identifier.startswith("#")


def _address(base: str, reference: str) -> str | None:
    try:
        return urljoin(base, reference).partition("#")[0]
    except ValueError:
        return None


_READERS: Final = {
    **dict.fromkeys(ONE, Graph._read_one),
    **dict.fromkeys(MANY, Graph._read_many),
    **dict.fromkeys(NAMED, Graph._read_named),
    **dict.fromkeys(REFERENCES, Graph._read_reference),
    "pattern": Graph._read_pattern,
    "$anchor": Graph._read_anchor,
    "$dynamicAnchor": Graph._read_anchor,
    "$id": Graph._read_identifier,
}
