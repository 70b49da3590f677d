"""Merge the layers of a configuration and check the whole. Where they come from is in `files`."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from hardpoint.config.model import (
    ApprovalConfig,
    AuditConfig,
    BudgetConfig,
    Config,
    JobsConfig,
    Level,
    LimitsConfig,
    NetworkConfig,
    OutputConfig,
    PluginsConfig,
    PolicyConfig,
    RuleEntry,
    SecretsConfig,
    Source,
    StoreConfig,
    TelemetryConfig,
    ToolConfig,
)
from hardpoint.errors import ConfigError

TABLES: Final[Mapping[str, type]] = {
    "plugins": PluginsConfig,
    "policy": PolicyConfig,
    "approval": ApprovalConfig,
    "limits": LimitsConfig,
    "budget": BudgetConfig,
    "store": StoreConfig,
    "audit": AuditConfig,
    "output": OutputConfig,
    "secrets": SecretsConfig,
    "network": NetworkConfig,
    "jobs": JobsConfig,
    "telemetry": TelemetryConfig,
}
"""The core's own tables; beside them stand `plugin`, `tools`, `mcp` and `workspace`."""

TOP_LEVEL: Final = frozenset({*TABLES, "plugin", "tools", "mcp", "workspace", "$schema"})
RULE_LISTS: Final = ("deny", "ask", "allow")
POLICY_KEYS: Final = frozenset(
    {*RULE_LISTS, *(field.name for field in attrs.fields(PolicyConfig))} - {"rules"}
)
JOINED: Final = frozenset({("plugins", "disabled"), ("plugins", "required")})
"""Lists that every layer adds to; any other value of a stronger layer replaces the weaker one."""


@attrs.frozen
class Layer:
    """One source of settings."""

    level: Level
    path: Path | None
    table: dict[str, Any]
    sources: Mapping[tuple[str | int, ...], Source] = attrs.field(factory=dict)
    trusted: bool = True
    """False for a project file that nobody looked at: only what restricts counts."""

    def source(self, *path: str | int) -> Source:
        for length in range(len(path), 0, -1):
            if path[:length] in self.sources:
                return self.sources[path[:length]]
        return Source(self.level, None if self.path is None else str(self.path))


def merge(layers: Sequence[Layer]) -> Config:
    """One configuration from layers, strongest first.

    Raises:
        ConfigError: Everything that is wrong in any of them.
    """
    problems: list[str] = []
    warnings: list[str] = []
    merged: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    rules: list[RuleEntry] = []
    # What an untrusted file restricts goes first: nothing that comes after can take it back.
    for layer in sorted(layers, key=lambda layer: layer.trusted):
        problems += _unknown(layer, (), TOP_LEVEL)
        problems += _unknown(layer, ("policy",), POLICY_KEYS)
        layer = _with_plugin_mcp(layer, problems)
        if not layer.trusted:
            layer = _restrictions_of(layer)
            warnings.append(
                f"{layer.path} is not trusted: only its deny rules, lower limits and switched-off"
                f" tools count; look at it, then run `hardpoint config trust {layer.path}`"
            )
        rules += _rules_of(layer, problems)
        _merge_into(merged, layer.table, layer, (), sources)
    # What is unknown is told already; the rest is judged all the same.
    merged = {key: value for key, value in merged.items() if key in TOP_LEVEL}
    if isinstance(merged.get("policy"), dict):
        merged["policy"] = {k: v for k, v in merged["policy"].items() if k in POLICY_KEYS}
    fields = _structured(merged, sources, problems)
    if problems:
        raise ConfigError(problems)
    _refuse_conflicts(layers)
    return _assembled(fields, rules, sources, warnings)


# reading one layer -----------------------------------------------------------------------------


def _unknown(layer: Layer, path: tuple[str, ...], known: Collection[str]) -> Iterator[str]:
    table: Mapping[str, Any] = layer.table
    for name in path:
        table = _table(table, name)
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            where = ".".join((*path, key))
            yield f"{layer.source(*path, key)}: unknown setting {where!r}{hint}"


def _with_plugin_mcp(layer: Layer, problems: list[str]) -> Layer:
    """`[mcp]` is another spelling of `[plugin.mcp]`."""
    if "mcp" not in layer.table:
        return layer
    if "mcp" in layer.table.get("plugin", {}):
        problems.append(
            f"{layer.source('mcp')}: [mcp] and [plugin.mcp] are the same table; keep one"
        )
        return layer
    table = dict(layer.table)
    table["plugin"] = {**table.get("plugin", {}), "mcp": table.pop("mcp")}
    moved = {
        ("plugin", *path) if path[:1] == ("mcp",) else path: source
        for path, source in layer.sources.items()
    }
    return attrs.evolve(layer, table=table, sources=moved)


def _restrictions_of(layer: Layer) -> Layer:
    """What of an untrusted layer counts: it can only take away."""
    table = layer.table
    kept: dict[str, Any] = {}
    deny = _table(table, "policy").get("deny")
    if deny:
        kept["policy"] = {"deny": _without_words(deny)}
    tools: dict[str, Any] = {}
    for name, settings in _table(table, "tools").items():
        if isinstance(settings, Mapping):
            few: dict[str, Any] = {}
            if "rate_limit" in settings:
                few["lower_rate_limit"] = settings["rate_limit"]
            if settings.get("enabled") is False:
                few["enabled"] = False
            if few:
                tools[name] = few
    if tools:
        kept["tools"] = tools
    return attrs.evolve(layer, table=kept)


def _without_words(rules: Any) -> Any:
    """Rules without the reasons that they carry: a stranger's words are not for a model to read."""
    if not isinstance(rules, list):
        return rules
    return [
        {key: value for key, value in rule.items() if key != "reason"}
        if isinstance(rule, Mapping)
        else rule
        for rule in rules
    ]


def _table(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = table.get(key)
    return value if isinstance(value, Mapping) else {}


def _rules_of(layer: Layer, problems: list[str]) -> Iterator[RuleEntry]:
    policy = _table(layer.table, "policy")
    for decision in RULE_LISTS:
        specs = policy.get(decision, [])
        if not isinstance(specs, list):
            where = layer.source("policy", decision)
            problems.append(f"{where}: policy.{decision} must be a list of rules")
            continue
        for index, spec in enumerate(specs):
            source = layer.source("policy", decision, index)
            if not isinstance(spec, str | Mapping):
                problems.append(f"{source}: policy.{decision}: a rule is text or a table")
                continue
            yield RuleEntry(decision, spec, source)


# merging ---------------------------------------------------------------------------------------


def _merge_into(
    merged: dict[str, Any],
    table: Mapping[str, Any],
    layer: Layer,
    path: tuple[str, ...],
    sources: dict[str, Source],
) -> None:
    for key, value in table.items():
        here = (*path, key)
        if path == ("policy",) and key in RULE_LISTS:
            continue
        known = merged.get(key)
        if isinstance(value, Mapping) and (known is None or isinstance(known, dict)):
            merged[key] = known if known is not None else {}
            sources.setdefault(".".join(here), layer.source(*here))
            _merge_into(merged[key], value, layer, here, sources)
        elif here in JOINED and isinstance(known, list) and isinstance(value, list):
            merged[key] = [*known, *value]
        elif key not in merged:
            merged[key] = value
            sources[".".join(here)] = layer.source(*here)


def _refuse_conflicts(layers: Sequence[Layer]) -> None:
    """What the administrator requires cannot be switched off, and what is disabled not required."""
    problems: list[str] = []
    for layer in layers:
        if layer.level != "managed":
            continue
        required = set(_table(layer.table, "plugins").get("required", []))
        disabled = set(_table(layer.table, "plugins").get("disabled", []))
        for other in layers:
            if other is layer:
                continue
            plugins = _table(other.table, "plugins")
            for key, mine in (("disabled", required), ("required", disabled)):
                for name in sorted(mine & set(plugins.get(key, []))):
                    word = "requires" if key == "disabled" else "disables"
                    problems.append(
                        f"{other.source('plugins', key)}: plugins.{key} names {name!r},"
                        f" but {layer.path} {word} it"
                    )
    if problems:
        raise ConfigError(problems, hint="the administrator's file is final")


# checking --------------------------------------------------------------------------------------


def _structured(
    merged: Mapping[str, Any], sources: Mapping[str, Source], problems: list[str]
) -> dict[str, Any]:
    """The fields of a `Config`, as far as they can be read."""
    from hardpoint.serde import structure

    fields: dict[str, Any] = {}

    def read(value: Any, type_: Any, where: str) -> Any:
        try:
            return structure(value, type_, where)
        except ConfigError as error:
            problems.extend(located(error.problems, sources))
            return None

    for name, type_ in TABLES.items():
        if name in merged:
            fields[name] = read(merged[name], type_, name)
    tools = merged.get("tools", {})
    if not isinstance(tools, dict):
        problems.append("tools must be a table of tables: [tools.NAME]")
        tools = {}
    fields["tools"] = {
        name: read(table, ToolConfig, f"tools.{name}") for name, table in tools.items()
    }
    plugin = merged.get("plugin", {})
    if not isinstance(plugin, dict) or not all(isinstance(t, dict) for t in plugin.values()):
        problems.append("plugin must be a table of tables: [plugin.NAME]")
    fields["plugin"] = plugin
    if "workspace" in merged:
        fields["workspace"] = read(merged["workspace"], Path, "workspace")
    return fields


def _assembled(
    fields: dict[str, Any],
    rules: Sequence[RuleEntry],
    sources: Mapping[str, Source],
    warnings: Sequence[str],
) -> Config:
    policy = fields.get("policy") or PolicyConfig()
    fields["policy"] = attrs.evolve(policy, rules=tuple(rules))
    plugins = fields.get("plugins") or PluginsConfig()
    both = sorted(plugins.disabled & plugins.required)
    if both:
        raise ConfigError(
            f"plugin {both[0]!r} is required ({sources.get('plugins.required')})"
            f" and disabled ({sources.get('plugins.disabled')})"
        )
    return Config(**fields, sources=sources, warnings=tuple(warnings))


def located(problems: Iterable[str], sources: Mapping[str, Source]) -> list[str]:
    """The problems, each with file and line in front as far as its dotted path is known."""
    return [_located(problem, sources) for problem in problems]


def _located(problem: str, sources: Mapping[str, Source]) -> str:
    """The problem with file and line in front, as far as its dotted path is known."""
    path = problem.split(":", 1)[0]
    while path:
        if path in sources:
            return f"{sources[path]}: {problem}"
        path = path.rpartition(".")[0]
    return problem
