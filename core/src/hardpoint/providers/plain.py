"""A schema for providers that take JSON Schema: 2020-12, and one plain object at the top.

OpenAI and Anthropic refuse combinators at the top level. They are opened into one object there:
its fields are those of all variants, required is what every variant requires, and the tool's
description names the variants. Arguments are held against the original all the same.
"""

from __future__ import annotations

from typing import Any, Final

from hardpoint.providers.flat import Flat, as_text, copy_json, every_node, modern_limits
from hardpoint.schema.graph import Graph
from hardpoint.schema.nodes import Node

_NOT_AT_THE_TOP: Final = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref")
_OPENED: Final = frozenset({"anyOf", "oneOf", "allOf"})


def plain_form(graph: Graph) -> tuple[dict[str, Any], str]:
    """The schema as one plain object, and a sentence on its variants where it had some."""
    made = _modern(graph.root)
    assert isinstance(made, dict)
    made.pop("$schema", None)
    if graph.root.get("type") == "object" and not any(k in made for k in _NOT_AT_THE_TOP):
        made.setdefault("properties", {})
        return made, ""
    flat = Flat((graph.root,), {})
    kept = {key: value for key, value in made.items() if key not in _NOT_AT_THE_TOP}
    if _is_referred_inside(graph):
        # Whatever leads into a part that is opened here would lead nowhere.
        return {**kept, "type": "object", "properties": {}}, "Arguments: " + as_text(made)
    fields = _fields(flat)
    required = list(flat.required)
    sentences: list[str] = []
    for union in flat.unions:
        variants = [Flat((variant,), {}) for variant in union]
        told = [_fields(variant) for variant in variants]
        # Where every variant says more about a field, its own words add nothing.
        fields = {n: forms for n, forms in fields.items() if not all(n in more for more in told)}
        for more in told:
            for name, forms in more.items():
                known = fields.setdefault(name, [])
                known += [form for form in forms if form not in known]
        everywhere = set.intersection(*(set(_needed(variant)) for variant in variants))
        required += [name for name in fields if name in everywhere]
        sentences.append("Give one of: " + "; ".join(map(_variant_text, variants)) + ".")
    kept |= {
        "type": "object",
        "properties": {name: _one_form(forms) for name, forms in fields.items()},
        "required": [name for name in dict.fromkeys(required) if name in fields],
    }
    kept.pop("additionalProperties", None)
    return kept, " ".join(sentences)


def _one_form(forms: list[Any]) -> Any:
    if len(forms) == 1:
        return forms[0]
    if all(isinstance(form, dict) and form.keys() & {"const", "enum"} for form in forms):
        options = [option for form in forms for option in form.get("enum", [form.get("const")])]
        return {"enum": [o for n, o in enumerate(options) if o not in options[:n]]}
    return {"anyOf": forms}


def _is_referred_inside(graph: Graph) -> bool:
    inside = {
        node
        for keyword in _OPENED
        for member in graph.root.many.get(keyword, ())
        for node in every_node(member)
    }
    return any(target in inside for node in graph.nodes for target in node.refs)


def _fields(flat: Flat) -> dict[str, list[Any]]:
    """Each field of an object with its forms, those of inner variants included."""
    fields: dict[str, list[Any]] = {}
    for name, nodes in flat.properties.items():
        fields[name] = [_modern(node) for node in nodes]
    for union in flat.unions if flat.nodes[0].keyword in _OPENED else ():
        for variant in union:
            if not variant.refs:
                for name, forms in _fields(Flat((variant,), {})).items():
                    fields.setdefault(name, []).extend(forms)
    return fields


def _needed(flat: Flat) -> list[str]:
    lists = (part.get("required") for part in flat.parts)
    return [name for names in lists if isinstance(names, list) for name in names]


def _variant_text(flat: Flat) -> str:
    names = list(dict.fromkeys([*_needed(flat), *flat.properties]))
    shown = [_field_text(flat, name) for name in names]
    return "(" + ", ".join(shown) + ")"


def _field_text(flat: Flat, name: str) -> str:
    nodes = flat.properties.get(name, ())
    options = Flat(nodes, {}).options if nodes else None
    if options is not None and len(options) == 1:
        return f"{name}={as_text(options[0])}"
    return name if name in _needed(flat) else f"{name} optional"


def _modern(node: Node) -> dict[str, Any] | bool:
    """A copy in the words of 2020-12, arrays with `items`."""
    if isinstance(node.raw, bool):
        return node.raw
    made: dict[str, Any] = {}
    for keyword, value in node.raw.items():
        if keyword in node.one:
            made[keyword] = _modern(node.one[keyword])
        elif keyword in node.many:
            made[keyword] = [_modern(member) for member in node.many[keyword]]
        elif keyword in node.named:
            made[keyword] = _modern_named(value, node.named[keyword])
        else:
            made[keyword] = copy_json(value)
    if isinstance(made.get("items"), list):  # a tuple before 2020-12
        made["prefixItems"] = made.pop("items")
        made["items"] = made.pop("additionalItems", {})
    if made.get("type") == "array" and "items" not in made:
        made["items"] = {}
    return modern_limits(made)


def _modern_named(value: Any, members: dict[str, Node]) -> dict[str, Any]:
    return {
        name: _modern(members[name]) if name in members else copy_json(member)
        for name, member in value.items()
    }
