"""`hardpoint policy` and `hardpoint explain`: what the policy decides, and why."""

from __future__ import annotations

import asyncio
import getpass
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import click

from hardpoint.cli import exits
from hardpoint.cli.call import read_arguments
from hardpoint.cli.render import say_json
from hardpoint.cli.state import State
from hardpoint.config import Config, PolicyConfig, RuleEntry, Source
from hardpoint.context import JobContext
from hardpoint.errors import ConfigError, HardpointError, ToolError


@click.group()
def policy() -> None:
    """Say what the policy decides, and test it."""


@policy.command("check")
@click.argument("tool", required=False)
@click.argument("arguments", nargs=-1, metavar="[JSON | KEY=VALUE]...")
@click.option("--batch", is_flag=True, help="One JSON object a line, in and out.")
@click.option("--user", default=None)
@click.option("--mode", type=click.Choice(["default", "plan", "auto", "locked"]), default="default")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def check(
    state: State,
    tool: str | None,
    arguments: tuple[str, ...],
    batch: bool,
    user: str | None,
    mode: Any,
    as_json: bool,
) -> int:
    """What would be decided about a call of TOOL. Nothing runs and nothing is counted.

    With --batch each line of stdin is {"id", "tool", "params", "rules": {"allow", "ask", "deny"}};
    the rules replace the configured ones.
    """
    context = JobContext(user_id=user or getpass.getuser(), workspace=Path.cwd(), mode=mode)
    if batch:
        return asyncio.run(_batch(state, context))
    if tool is None:
        raise click.UsageError("name a tool, or use --batch")
    runtime = state.runtime(in_memory=True)
    verdict = asyncio.run(runtime.check(tool, read_params(arguments), context))
    if as_json:
        say_json(verdict.to_json(tool))
    else:
        click.echo(f"{verdict.decision}  (requirement {verdict.requirement.value})")
        for reason in verdict.reasons:
            click.echo(f"  {reason}")
    return exits.OK


def read_params(arguments: tuple[str, ...]) -> Any:
    """Arguments given as one JSON object or as KEY=VALUE."""
    if len(arguments) == 1 and arguments[0].lstrip().startswith("{"):
        return read_arguments((), arguments[0])
    return read_arguments(arguments, None)


async def _batch(state: State, context: JobContext) -> int:
    runtimes: dict[str, Any] = {}
    config = state.load_config()
    for number, line in enumerate(sys.stdin, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict) or not isinstance(row.get("tool"), str):
                raise ValueError('it needs {"tool": NAME, "params": {…}}')
        except (ValueError, RecursionError) as error:
            answer = {"id": None, "error": {"kind": "usage", "message": f"line {number}: {error}"}}
            click.echo(json.dumps(answer))
            continue
        answer = {"id": row.get("id")}
        try:
            runtime = _runtime_for(state, config, row.get("rules"), runtimes)
            verdict = await runtime.check(row["tool"], row.get("params", {}), context)
            answer |= verdict.to_json(row["tool"])
        except ToolError as error:
            from hardpoint.calls import error_to_json

            answer |= {"tool": row["tool"], "error": error_to_json(error)}
        except HardpointError as error:
            answer |= {"tool": row["tool"], "error": {"kind": "config", "message": error.message}}
        click.echo(json.dumps(answer, ensure_ascii=True))
    return exits.OK


def _runtime_for(state: State, config: Config, rules: Any, known: dict[str, Any]) -> Any:
    """The runtime under the row's own rules; one per distinct set of rules."""
    key = json.dumps(rules, sort_keys=True)
    if key not in known:
        from hardpoint.runtime import Runtime

        if rules is not None:
            config = attrs.evolve(config, policy=with_rules(config.policy, rules))
        if known:
            known[key] = next(iter(known.values())).under_policy(config.policy)
        else:
            known[key] = Runtime(config, origin="cli", installed_plugins=True)
    return known[key]


def with_rules(policy_config: PolicyConfig, rules: Any) -> PolicyConfig:
    """The policy with these rules in place of its own.

    Raises:
        ConfigError: They are not lists of rules.
    """
    if not isinstance(rules, Mapping) or set(rules) - {"allow", "ask", "deny"}:
        raise ConfigError('rules must be {"allow": […], "ask": […], "deny": […]}')
    entries = [
        RuleEntry(decision, spec, Source("code", f"rules.{decision}[{index}]"))
        for decision in ("deny", "ask", "allow")
        for index, spec in enumerate(rules.get(decision) or ())
    ]
    return attrs.evolve(policy_config, rules=tuple(entries))


@click.command()
@click.argument("tool")
@click.argument("arguments", nargs=-1, metavar="[JSON | KEY=VALUE]...")
@click.option("--user", default=None)
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def explain(
    state: State, tool: str, arguments: tuple[str, ...], user: str | None, as_json: bool
) -> None:
    """Which rule, file and line, plugin, domain, limit and secret a call of TOOL would meet."""
    context = JobContext(user_id=user or getpass.getuser(), workspace=Path.cwd())
    runtime = state.runtime()
    found = asyncio.run(runtime.explain(tool, read_params(arguments), context))
    if as_json:
        say_json(found)
        return
    for key, value in found.items():
        if isinstance(value, list):
            click.echo(f"{key}:")
            for each in value:
                click.echo(f"  {each}")
        elif value is not None:
            click.echo(f"{key}: {value}")
