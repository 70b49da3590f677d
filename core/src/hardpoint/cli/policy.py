"""`hardpoint policy` and `hardpoint explain`: what the policy decides, and why."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import click

from hardpoint.cli import exits
from hardpoint.cli.arguments import read_params
from hardpoint.cli.operator import login_name
from hardpoint.cli.render import say_json, word
from hardpoint.cli.state import State
from hardpoint.config import Config, PolicyConfig, RuleEntry, Source
from hardpoint.context import JobContext
from hardpoint.errors import ConfigError, HardpointError, ToolError
from hardpoint.policy.showing import visible


@click.group()
def policy() -> None:
    """Say what the policy decides, and test it."""


@policy.command("check")
@click.argument("tool", required=False)
@click.argument("arguments", nargs=-1, metavar="[JSON | KEY=VALUE | COMMAND]...")
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

    For a tool that runs commands the line itself is enough: policy check shell 'git diff | wc'.

    With --batch each line of stdin is {"id", "tool", "params", "rules": {"allow", "ask", "deny"}};
    the rules replace the configured ones.
    """
    context = JobContext(user_id=user or login_name(), workspace=Path.cwd(), mode=mode)
    if batch:
        return asyncio.run(_batch(state, context))
    if tool is None:
        raise click.UsageError("name a tool, or use --batch")
    runtime = state.runtime(in_memory=True)
    params = _params_for(runtime, tool, arguments)
    verdict = asyncio.run(runtime.check(tool, params, context))
    if as_json:
        say_json(verdict.to_json(tool))
        return exits.OK
    click.echo(
        visible(f"{verdict.decision}  (without rules, approval: {verdict.requirement.value})")
    )
    for reason in verdict.reasons:
        click.echo(visible(f"  {reason}"))
    if verdict.parts:
        click.echo("parts of the line:")
    for part in verdict.parts:
        why = "; ".join(part.why) or "ordinary"
        click.echo(visible(f"  {part.segment}: {part.requirement}, {why}"))
    return exits.OK


_PAIR = re.compile(r"[A-Za-z_][\w-]*:?=")


def _params_for(runtime: Any, tool: str, arguments: tuple[str, ...]) -> Any:
    """The arguments; for a tool that runs command lines also just the line."""
    entry = runtime.registry.entry(tool)
    is_command = entry is not None and entry.tool.subject_kind == "command"
    first = arguments[0].lstrip() if arguments else ""
    if not is_command or not first or first.startswith("{") or _PAIR.match(first):
        return read_params(arguments)
    return {"command": arguments[0] if len(arguments) == 1 else shlex.join(arguments)}


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
    context = JobContext(user_id=user or login_name(), workspace=Path.cwd())
    runtime = state.runtime()
    found = asyncio.run(runtime.explain(tool, read_params(arguments), context))
    if as_json:
        say_json(found)
        return
    for key, value in found.items():
        for line in _lines(key, value):
            click.echo(visible(line))


def _lines(key: str, value: Any) -> list[str]:
    """One thing of an explanation for a person; nothing where there is nothing to say."""
    if value is None or value == [] or value == {}:
        return []
    if isinstance(value, Mapping):
        return [f"{key}:", *(f"  {name}: {word(each)}" for name, each in value.items())]
    if isinstance(value, list):
        return [f"{key}:", *(f"  {word(each)}" for each in value)]
    return [f"{key}: {word(value)}"]


@policy.command("test")
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def test(state: State, file: Any, as_json: bool) -> int:
    """Hold the policy against FILE: one {"tool", "params", "expect"} a line; 1 on a difference.

    The examples that rules carry themselves (match, not_match) are held against them at every load.
    """
    context = JobContext(user_id="policy-test", workspace=Path.cwd())
    runtime = state.runtime(in_memory=True)
    results = []
    for number, line in enumerate(file, 1):
        if line.strip():
            results.append(asyncio.run(_test_line(runtime, context, number, line)))
    failed = [result for result in results if result["got"] != result["expect"]]
    if as_json:
        say_json(results)
    else:
        for result in failed:
            click.echo(f"line {result['line']}: expected {result['expect']}, got {result['got']}"
                       f" ({'; '.join(result['why'])})")  # fmt: skip
        click.echo(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return exits.FAILED if failed else exits.OK


async def _test_line(runtime: Any, context: JobContext, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
        tool, expect = str(row["tool"]), row["expect"]
    except (ValueError, KeyError, TypeError) as error:
        raise click.UsageError(
            f'line {number} is not {{"tool", "params", "expect"}}: {error}'
        ) from error
    try:
        verdict = await runtime.check(tool, row.get("params", {}), context)
        got, why = verdict.decision, [str(reason) for reason in verdict.reasons]
    except ToolError as error:
        got, why = error.kind, [error.message]
    return {"line": number, "tool": tool, "expect": expect, "got": got, "why": why}


@policy.command("replay")
@click.option(
    "--under", type=click.Path(exists=True, dir_okay=False), help="A file with another [policy]."
)
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="Only the last hours.")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def replay(state: State, under: str | None, hours: float | None, as_json: bool) -> int:
    """Judge the audit's calls again, and list every verdict that changes. Exit 1 if any does."""
    from hardpoint import _build
    from hardpoint.audit import read
    from hardpoint.cli.audit import audit_folder, since
    from hardpoint.config.files import load_config
    from hardpoint.policy.replay import replay as judge_again

    config = load_config(path=under) if under else state.load_config()
    rules = _build.read_rules(config)
    registry = state.runtime(in_memory=True).registry
    records = read(audit_folder(state), since=since(hours), kind="decided")
    found = judge_again(records, rules, registry, mode=config.policy.mode)
    if as_json:
        say_json(
            {
                "judged": found.judged,
                "undecidable": found.undecidable,
                "changes": [
                    {**attrs.asdict(c), "reasons": [reason.to_json() for reason in c.reasons]}
                    for c in found.changes
                ],
            }
        )
    else:
        for change in found.changes:
            click.echo(
                f"{change.at} {change.call_id} {change.tool}: {change.before} → {change.now}"
            )
            for reason in change.reasons:
                click.echo(f"  {reason}")
        click.echo(
            f"{found.judged} calls judged, {len(found.changes)} change,"
            f" {found.undecidable} undecidable"
        )
    return exits.FAILED if found.changes else exits.OK


@policy.command("suggest")
@click.option("--least", default=1, show_default=True, type=click.IntRange(1), help="Calls a rule.")
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="Only the last hours.")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def suggest(state: State, least: int, hours: float | None, as_json: bool) -> None:
    """The smallest allow rules for what was asked about and approved. Look at them before use."""
    from hardpoint.audit import read
    from hardpoint.cli.audit import audit_folder, since
    from hardpoint.config.edit import to_toml
    from hardpoint.policy.replay import suggest as propose

    records = read(audit_folder(state), since=since(hours), kind="decided")
    found = propose(records, least=least)
    if as_json:
        say_json([attrs.asdict(each) for each in found])
        return
    click.echo("[policy]\nallow = [")
    for each in found:
        click.echo(f"  {to_toml(each.rule)},  # {each.calls} calls")
    click.echo("]")


@policy.command("import")
@click.argument("kind", type=click.Choice(["claude", "codex", "gemini", "inspect"]))
@click.argument("file", type=click.File(encoding="utf-8"))
def import_policy(kind: str, file: Any) -> None:
    """Print another program's permissions as a [policy] table; what has no meaning here is said."""
    from hardpoint.policy.importers import import_rules

    click.echo(import_rules(file.read(), kind).to_toml(), nl=False)
