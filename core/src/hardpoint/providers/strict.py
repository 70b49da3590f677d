"""The form that OpenAI's strict mode asks for, where a schema has one.

Every object is closed and requires all of its fields; an optional field may be null instead, which
`coercion` reads as absent. What strict mode cannot say in its own words (a length, a format it does
not know) goes into the description, and is checked when the call comes. A schema that would lose
its meaning (maps, tuples, values of any type, conditions) is not forced: `NotStrict` says why.
"""

from __future__ import annotations

from typing import Any, Final

from hardpoint.providers.flat import Flat, Nodes, as_text, described, notes_of
from hardpoint.schema.graph import Graph
from hardpoint.schema.kinds import Types
from hardpoint.schema.native import pattern_is_linear
from hardpoint.schema.nodes import Node

MAX_NODES: Final = 2000
MAX_LEVELS: Final = 10
MAX_PROPERTIES: Final = 5000
MAX_OPTIONS: Final = 1000
MAX_CHARACTERS: Final = 120_000

_SPOKEN: Final = frozenset({
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems",
    "maxItems",
})  # fmt: skip
_FORMATS: Final = frozenset({
    "date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid",
})  # fmt: skip
_NULL: Final = {"type": "null"}


class NotStrict(ValueError):
    """The schema has no strict form that means the same."""


def strict_form(graph: Graph) -> dict[str, Any]:
    """A schema in strict form.

    Raises:
        NotStrict: It has none.
    """
    made = _Maker().make((graph.root,), "", 0)
    if made.get("type") != "object":
        raise NotStrict("the arguments are not plainly one object")
    if len(as_text(made)) > MAX_CHARACTERS:
        raise NotStrict("it is too long")
    return made


class _Maker:
    """Makes one schema's strict form and counts what strict mode limits."""

    def __init__(self) -> None:
        self._known: dict[Node, Types] = {}
        self._names: dict[Nodes, str] = {}
        """The definitions of places that references lead to, and of all on the way down."""
        self._referred: set[str] = set()
        self._definitions: dict[str, Any] = {}
        self._nodes = self._properties = self._options = 0

    def make(self, nodes: Nodes, path: str, level: int) -> dict[str, Any]:
        flat = Flat(nodes, self._known)
        if flat.key in self._names:
            return self._refer(flat, self._names[flat.key])
        self._nodes += 1
        if self._nodes > MAX_NODES or level > MAX_LEVELS:
            raise NotStrict("it is too large or too deeply nested")
        name = self._names[flat.key] = f"r{self._nodes}" if path else ""
        build = self._union if flat.unions else self._plain
        # A definition is made for itself: what stands beside the reference stays there.
        made = build(
            Flat(flat.key, self._known) if flat.is_reference and path else flat, path, level
        )
        if path and (flat.is_reference or name in self._referred):
            self._definitions[name] = made
            return self._refer(flat, name)
        if path:
            del self._names[flat.key]
        elif self._definitions:
            made["$defs"] = self._definitions
        return made

    def _refer(self, flat: Flat, name: str) -> dict[str, Any]:
        self._referred.add(name)
        made: dict[str, Any] = {"$ref": f"#/$defs/{name}" if name else "#"}
        own = Flat(flat.key, self._known).description
        if flat.description and flat.description != own:  # nothing may stand beside a reference
            return {"anyOf": [made], "description": flat.description}
        return made

    def _union(self, flat: Flat, path: str, level: int) -> dict[str, Any]:
        if not path:
            raise NotStrict("its top level is a union")
        beside = flat.properties or flat.limits or flat.conditions or flat.options is not None
        if len(flat.unions) > 1 or beside or flat.items:
            raise NotStrict(f"{path} has rules beside a union")
        variants = [self.make((variant,), path, level) for variant in flat.unions[0]]
        return _with_description({"anyOf": variants}, flat.description)

    def _plain(self, flat: Flat, path: str, level: int) -> dict[str, Any]:
        place = path or "the top level"
        if flat.conditions:
            raise NotStrict(f"{place} has {', '.join(flat.conditions)}")
        if not flat.types:
            raise NotStrict(f"{place} may have any type")
        scalars = [name for name in flat.types if name not in ("array", "object")]
        groups = [[name] for name in flat.types if name not in scalars]
        groups += [scalars] if scalars else []
        variants = [self._typed(flat, types, path, level) for types in groups]
        made = variants[0] if len(variants) == 1 else {"anyOf": variants}
        return _with_description(made, described(flat.description, self._unspoken(flat)))

    def _typed(self, flat: Flat, types: list[str], path: str, level: int) -> dict[str, Any]:
        place = path or "the top level"
        made: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
        for keyword, value in flat.limits_of(types).items():
            if _is_spoken(keyword, value):
                made[keyword] = value
        if flat.options is not None:
            self._options += len(flat.options)
            if self._options > MAX_OPTIONS:
                raise NotStrict("it lists too many values")
            if any(isinstance(option, dict | list) for option in flat.options):
                raise NotStrict(f"{place} lists objects or arrays")
            made["enum"] = list(flat.options)
        if types == ["object"]:
            self._object(flat, made, path, level)
        elif types == ["array"]:
            if flat.first_items or not flat.items:
                raise NotStrict(f"{place} does not have items of one type")
            made["items"] = self.make(flat.items, f"{path}.items", level)
        return made

    def _unspoken(self, flat: Flat) -> list[str]:
        limits = flat.limits_of(flat.types)
        return notes_of({k: value for k, value in limits.items() if not _is_spoken(k, value)})

    def _object(self, flat: Flat, made: dict[str, Any], path: str, level: int) -> None:
        if flat.is_map and (path or flat.properties):
            # Fields beside the properties: closing the object would forbid what the tool allows.
            raise NotStrict(f"{path or 'the top level'} takes fields of any name")
        self._properties += len(flat.properties)
        if self._properties > MAX_PROPERTIES:
            raise NotStrict("it has too many properties")
        properties: dict[str, Any] = {}
        for name, nodes in flat.properties.items():
            inner = self.make(nodes, f"{path}.{name}".lstrip("."), level + 1)
            if name not in flat.required:
                inner = _nullable(inner, Flat(nodes, self._known).first("default"))
            properties[name] = inner
        made["properties"] = properties
        made["required"] = list(properties)
        made["additionalProperties"] = False


def _is_spoken(keyword: str, value: Any) -> bool:
    """Whether strict mode has its own words for a limit."""
    if keyword == "pattern":
        return pattern_is_linear(value) is True
    return value in _FORMATS if keyword == "format" else keyword in _SPOKEN


def _with_description(made: dict[str, Any], text: str) -> dict[str, Any]:
    return {**made, "description": text} if text else made


def _nullable(made: dict[str, Any], default: Any) -> dict[str, Any]:
    """The same, or null for a field that is left out."""
    text = made.get("description", "")
    if default is not None:
        text = described(text, [f"null for the default {as_text(default)}"])
    if "anyOf" in made:
        variants = made["anyOf"]
        made = {**made, "anyOf": variants if _NULL in variants else [*variants, dict(_NULL)]}
    elif "$ref" in made or made["type"] in ("object", "array"):
        made.pop("description", None)
        made = {"anyOf": [made, dict(_NULL)]}
    else:
        types = made["type"] if isinstance(made["type"], list) else [made["type"]]
        if "null" not in types:
            made = {**made, "type": [*types, "null"]}
        if "enum" in made and None not in made["enum"]:
            made["enum"] = [*made["enum"], None]
    return _with_description(made, text)
