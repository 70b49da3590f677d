"""The one place that talks to jsonschema-rs: no retrieval, bounded patterns, no formats."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote

from hardpoint.schema.nodes import Node
from hardpoint.schema.values import shorten

_SIZE_LIMIT: Final = 64 * 1024
"""Bytes that one compiled regular expression may take; matching costs time in proportion."""
_BACKTRACK_LIMIT: Final = 10_000
"""Steps back that a pattern with look-around may take; beyond them it does not match."""
_ADDRESS: Final = "hardpoint:/schema"


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched")


def _options(linear: bool) -> Any:
    import jsonschema_rs

    if linear:
        return jsonschema_rs.RegexOptions(size_limit=_SIZE_LIMIT)
    return jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT, size_limit=_SIZE_LIMIT)


def compile_native(schema: dict[str, Any], *, linear: bool = True) -> Any:
    """A native validator of a whole schema that was found safe before."""
    import jsonschema_rs

    return jsonschema_rs.validator_for(
        schema, retriever=_refuse, pattern_options=_options(linear), validate_formats=False
    )


class NativeParts:
    """Validators for single parts of one schema, each compiled when first asked for."""

    def __init__(self, schema: dict[str, Any], *, linear: bool) -> None:
        import jsonschema_rs

        self._kind = jsonschema_rs.validator_cls_for(schema)
        self._linear = linear
        self._registry = jsonschema_rs.Registry([(_ADDRESS, schema)], retriever=_refuse)
        self._whole: dict[str, Any] = {}
        self._own: dict[Node, Any] = {}

    def is_valid(self, node: Node, value: Any) -> bool:
        """Whether a value fits one part of the schema, references and all."""
        if isinstance(node.raw, bool):
            return node.raw
        validator = self._whole.get(node.pointer)
        if validator is None:
            validator = self._compile({"$ref": f"{_ADDRESS}#{quote(node.pointer)}"})
            self._whole[node.pointer] = validator
        return bool(validator.is_valid(value))

    def own_errors(self, node: Node, value: Any) -> list[Any]:
        """What keywords without schemas in them (`type`, `minimum` …) say about a value."""
        validator = self._own.get(node)
        if validator is None:
            validator = self._compile(_own_keywords(node))
            self._own[node] = validator
        return list(validator.iter_errors(value))

    def _compile(self, schema: dict[str, Any]) -> Any:
        return self._kind(
            schema,
            registry=self._registry,
            retriever=_refuse,
            pattern_options=_options(self._linear),
            validate_formats=False,
        )


_OWN: Final = frozenset({
    "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems",
    "minProperties", "maxProperties", "required", "dependentRequired",
})  # fmt: skip


def _own_keywords(node: Node) -> dict[str, Any]:
    assert isinstance(node.raw, dict)
    own = {keyword: value for keyword, value in node.raw.items() if keyword in _OWN}
    dependencies = node.raw.get("dependencies", {})
    lists = {key: value for key, value in dependencies.items() if isinstance(value, list)}
    return own | ({"dependencies": lists} if lists else {})


def name_matcher(pattern: str, *, linear: bool) -> Any:
    """A function that says whether a name matches a pattern, in bounded time."""
    return compile_native({"pattern": pattern}, linear=linear).is_valid


def pattern_is_linear(pattern: str) -> bool | None:
    """Whether a pattern runs in linear time; None when it does not compile at all."""
    if _has_doubled_quantifier(pattern):
        return None
    for linear in (True, False):
        try:
            compile_native({"pattern": pattern}, linear=linear)
        except ValueError:
            continue
        return linear
    return None


_TOKEN: Final = re.compile(
    r"\\.|\[(?:\\.|[^]\\])*\]|(?P<quantifier>(?:[*+?]|\{\d+(?:,\d*)?\})\??)|.", re.DOTALL
)


def _has_doubled_quantifier(pattern: str) -> bool:
    """Whether one quantifier follows another, as in `a**`: an error in most dialects, and read
    differently by the rest."""
    previous = False
    for token in _TOKEN.finditer(pattern):
        current = token["quantifier"] is not None
        if current and previous:
            return True
        previous = current
    return False


def meta_problems(schema: dict[str, Any]) -> list[str]:
    """What the schema of schemas says: everything else that a keyword can get wrong."""
    import jsonschema_rs

    try:
        jsonschema_rs.meta.validate(schema)
    except ValueError as error:  # its ValidationError is one; so is what it says of odd values
        path = ".".join(map(str, getattr(error, "instance_path", ())))
        text = shorten(str(getattr(error, "message", error)), 200)
        return [f"{path}: {text}" if path else text]
    return []
