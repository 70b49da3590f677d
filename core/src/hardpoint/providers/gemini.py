"""The form that Gemini asks for: one type per place, few keywords, no references.

What the form cannot say goes into the description. A value that it cannot describe (an object of
any fields, a recursive part) is asked for as JSON text, which `coercion` opens where the tool's
schema wants an object or an array.
"""

from __future__ import annotations

from typing import Any, Final

from hardpoint.providers.flat import Flat, Nodes, as_text, described, notes_of
from hardpoint.schema.graph import Graph
from hardpoint.schema.kinds import Types
from hardpoint.schema.nodes import Node

MAX_NODES: Final = 2000
_NULL: Final = {"type": "null"}
"""Stands for a variant that is null, until it becomes `nullable` of the others."""
_SPOKEN: Final = frozenset({"minimum", "maximum", "minItems", "maxItems"})


def gemini_form(graph: Graph) -> dict[str, Any] | None:
    """A schema as Gemini takes it; None for a tool without parameters."""
    flat = Flat((graph.root,), {})
    maker = _Maker()
    fields, required = maker.fields(flat)
    for union in flat.unions:
        fields, required = _joined(fields, required, [maker.fields(Flat((v,), {})) for v in union])
    if not fields:
        return None
    made: dict[str, Any] = {"type": "object", "properties": fields}
    needed = [name for name in required if name in fields]
    return {**made, "required": needed} if needed else made


Fields = tuple[dict[str, Any], list[str]]


def _joined(fields: dict[str, Any], required: list[str], variants: list[Fields]) -> Fields:
    """An object's fields with those of its variants; required is what every variant needs."""
    # Where every variant says more about a field, its own words add nothing.
    fields = {n: form for n, form in fields.items() if not all(n in more for more, _ in variants)}
    for more, _ in variants:
        for name, form in more.items():
            fields[name] = form if name not in fields else _either(fields[name], form)
    everywhere = [n for n in variants[0][1] if all(n in needs for _, needs in variants)]
    return fields, list(dict.fromkeys([*required, *everywhere]))


def _either(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    if one == other:
        return one
    if "enum" in one and "enum" in other:
        return {**one, "enum": list(dict.fromkeys([*one["enum"], *other["enum"]]))}
    variants = [*one.get("anyOf", [one]), *other.get("anyOf", [other])]
    return {"anyOf": [v for n, v in enumerate(variants) if v not in variants[:n]]}


class _Maker:
    """Makes one schema's form, each place once per way that leads to it."""

    def __init__(self) -> None:
        self._known: dict[Node, Types] = {}
        self._open: set[Nodes] = set()
        self._nodes = 0

    def fields(self, flat: Flat) -> Fields:
        made = {name: _any_of([self.make(nodes)]) for name, nodes in flat.properties.items()}
        return made, flat.required

    def make(self, nodes: Nodes) -> dict[str, Any]:
        flat = Flat(nodes, self._known)
        self._nodes += 1
        if flat.key in self._open or self._nodes > MAX_NODES:
            return _json_text(flat, flat.types)
        self._open.add(flat.key)
        made = self._union(flat) if flat.unions else self._plain(flat)
        self._open.discard(flat.key)
        return made

    def _union(self, flat: Flat) -> dict[str, Any]:
        if len(flat.unions) > 1 or flat.properties or flat.items:
            # Fields of an object together with those of its variants, as at the top level.
            fields, required = self.fields(flat)
            for union in flat.unions:
                more = [self.fields(Flat((variant,), self._known)) for variant in union]
                fields, required = _joined(fields, required, more)
            return self._object(flat, fields, required, [])
        variants = [self.make((variant,)) for variant in flat.unions[0]]
        return _any_of(variants, described(flat.description, notes_of(flat.limits)))

    def _plain(self, flat: Flat) -> dict[str, Any]:
        if flat.types == ["null"]:
            return dict(_NULL)
        types = [name for name in flat.types if name != "null"]
        made = [self._typed(flat, name) for name in types] or [_json_text(flat, flat.types)]
        if "null" in flat.types:
            made.append(dict(_NULL))
        return _any_of(made)

    def _typed(self, flat: Flat, name: str) -> dict[str, Any]:
        limits = flat.limits_of([name])
        spoken = {k: value for k, value in limits.items() if k in _SPOKEN}
        notes = notes_of({k: value for k, value in limits.items() if k not in _SPOKEN})
        default = flat.first("default")
        notes += [f"default {as_text(default)}"] if default is not None else []
        if name == "object":
            return self._object(flat, *self.fields(flat), notes)
        made: dict[str, Any] = {"type": name, **spoken}
        options = [option for option in flat.options or () if option not in ("", None)]
        if name == "string" and options and all(isinstance(o, str) for o in options):
            made["enum"] = options
        elif options:
            notes.append("one of " + ", ".join(map(as_text, options)))
        if name == "array":
            places: list[Nodes] = [(node,) for node in flat.first_items]
            notes += ["each place has its own type"] if places else []
            places += [flat.items] if flat.items else []
            items = [self.make(nodes) for nodes in places]
            made["items"] = _any_of(items) if items else _json_text(flat, [], "")
        return _with_description(made, described(flat.description, notes))

    def _object(
        self, flat: Flat, fields: dict[str, Any], required: list[str], notes: list[str]
    ) -> dict[str, Any]:
        if not fields:  # Gemini refuses an object without properties
            return _json_text(flat, ["object"])
        made: dict[str, Any] = {"type": "object", "properties": fields}
        if required:
            made["required"] = [name for name in required if name in fields]
        return _with_description(made, described(flat.description, notes))


def _json_text(flat: Flat, types: list[str], text: str | None = None) -> dict[str, Any]:
    wanted = " or ".join(name for name in types if name != "null") or "value of any type"
    text = flat.description if text is None else text
    return {"type": "string", "description": described(text, [f"as JSON text: {wanted}"])}


def _any_of(variants: list[dict[str, Any]], text: str = "") -> dict[str, Any]:
    """One form for several. Gemini takes nothing beside `anyOf`, so the text moves inside."""
    opened: list[dict[str, Any]] = []
    for variant in variants:
        for inner in variant.get("anyOf", [variant]):
            if inner != _NULL and inner not in opened:
                opened.append(inner)
    if text:
        opened = [{"description": text} | inner for inner in opened]
    if _NULL in variants:
        opened = [{**inner, "nullable": True} for inner in opened]
    if not opened:  # nothing but null
        return {"type": "string", "nullable": True}
    return opened[0] if len(opened) == 1 else {"anyOf": opened}


def _with_description(made: dict[str, Any], text: str) -> dict[str, Any]:
    return {**made, "description": text} if text else made
