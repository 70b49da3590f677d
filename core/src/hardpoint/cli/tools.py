"""`hardpoint tools`: what there is."""

from __future__ import annotations

from typing import Any

import click

from hardpoint.cli.catalogue import first_line, first_sentence, listed, tool_rows
from hardpoint.cli.render import say_json, say_rows
from hardpoint.cli.state import State

FORMATS = ["openai", "openai-strict", "openai-responses", "anthropic", "gemini", "mcp"]


@click.group(invoke_without_command=True)
@click.pass_context
def tools(ctx: click.Context) -> Any:
    """List, inspect and search tools."""
    if ctx.invoked_subcommand is None:
        return ctx.invoke(list_tools)


@tools.command("list")
@click.option("--format", "provider", type=click.Choice(FORMATS), help="A provider's definitions.")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def list_tools(state: State, provider: str | None = None, as_json: bool = False) -> None:
    """Every tool that may be called, sorted by name."""
    shown = listed(state, provider)
    if as_json or provider is not None:
        say_json(shown)
        return
    say_rows(tool_rows(shown))


@tools.command("info")
@click.argument("name")
@click.option("--format", "provider", type=click.Choice(FORMATS))
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def info(state: State, name: str, provider: str | None, as_json: bool) -> None:
    """One tool: what it does, its parameters, where it runs, what it needs."""
    from hardpoint.errors import ToolNotFound

    runtime = state.runtime(in_memory=True)
    entry = runtime.registry.entry(name)
    if entry is None:
        raise ToolNotFound(name, suggestions=runtime.registry.close_names(name))
    if provider is not None:
        from hardpoint.providers import definitions_for

        say_json(definitions_for(provider, [entry.definition])[0])
        return
    limit = entry.tool.rate_limit_config()
    about = {
        **_short(entry.definition),
        "parameters": entry.definition.parameters,
        "output_schema": entry.definition.output_schema,
        "effects": sorted(entry.tool.effects({})),
        "rate_limit": None
        if limit is None
        else {
            "requests_per_minute": limit.requests_per_minute,
            "requests_per_hour": limit.requests_per_hour,
        },
        "timeout": entry.tool.execution_timeout().total_seconds(),
        "enabled": entry.name in {d.name for d in runtime.visible()},
    }
    if as_json:
        say_json(about)
        return
    click.echo(f"{entry.name}  ({entry.definition.domain}, from {entry.owner})")
    click.echo(entry.definition.description)
    required = entry.definition.parameters.get("required", [])
    for parameter, schema in entry.definition.parameters.get("properties", {}).items():
        facts = schema if isinstance(schema, dict) else {}
        star = "*" if parameter in required else ""
        kind = facts.get("type", "any")
        kind = " or ".join(kind) if isinstance(kind, list) else kind
        click.echo(
            f"  {parameter}{star}  {kind}  {first_line(facts.get('description', ''))}".rstrip()
        )


@tools.command("search")
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def search(state: State, query: tuple[str, ...], limit: int, as_json: bool) -> None:
    """The tools that fit some words best."""
    runtime = state.runtime(in_memory=True)
    visible = {definition.name for definition in runtime.visible()}
    found = [
        definition
        for definition, _ in runtime.registry.search(" ".join(query), limit=limit + len(visible))
        if definition.name in visible
    ][:limit]
    if as_json:
        say_json([_short(definition) for definition in found])
        return
    say_rows([[d.name, first_sentence(d.description)] for d in found])


def _short(definition: Any) -> dict[str, Any]:
    return {
        "name": definition.name,
        "description": definition.description,
        "domain": definition.domain,
        "owner": definition.owner,
    }
