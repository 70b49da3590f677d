"""A runtime and a context for a test, in one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from hardpoint.config import Config, PolicyConfig, RuleEntry, Source
from hardpoint.context import JobContext
from hardpoint.runtime import Runtime


def make_context(user_id: str = "ana", **fields: Any) -> JobContext:
    """A caller."""
    return JobContext(user_id=user_id, **fields)


def make_runtime(
    *,
    tools: Sequence[Any] = (),
    plugins: Mapping[str, Any] | None = None,
    allow: Sequence[Any] = (),
    ask: Sequence[Any] = (),
    deny: Sequence[Any] = (),
    config: Config | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> Runtime:
    """A runtime in memory, with these tools, plugins and rules.

    Args:
        tools: Tools and functions.
        plugins: Plugin modules or objects by name.
        allow: Rules.
        ask: Rules.
        deny: Rules.
        config: A whole configuration to start from.
        settings: Settings as nested tables, as a TOML file would hold them.
        **options: As for `Runtime`.
    """
    made = config or Config()
    if settings is not None:
        from hardpoint.config.merge import Layer, merge

        made = merge([Layer("code", None, dict(settings))])
    rules = tuple(
        RuleEntry(decision, spec, Source("code", "test", number))  # type: ignore[arg-type]
        for decision, specs in (("deny", deny), ("ask", ask), ("allow", allow))
        for number, spec in enumerate(specs, 1)
    )
    if rules:
        policy: PolicyConfig = attrs.evolve(made.policy, rules=made.policy.rules + rules)
        made = attrs.evolve(made, policy=policy)
    return Runtime(made, tools=tools, plugins=plugins, **options)
