"""`hardpoint demo`: real calls through the whole pipeline, offline, on embedded defaults."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from hardpoint.cli import exits
from hardpoint.context import JobContext
from hardpoint.errors import MissingPlugin
from hardpoint.interfaces import ApprovalRequest, Approver, Decision

CONFIG: Final = """\
[tools.echo]
rate_limit = { requests_per_minute = 3, requests_per_hour = 100 }

[tools.demo_plugin_greet]
approval = "always"

[policy]
deny = [{ tool = "json", where = { operation = "stringify" }, reason = "this demo forbids it" }]
"""

THIRD_PARTY: Final = "demo-plugin"
"""A plugin that the template writes; `hardpoint new demo-plugin` gives the same."""


class Scripted(Approver):
    """Says yes, and shows that it was asked."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    async def decide(self, request: ApprovalRequest, context: JobContext) -> Decision:
        lines = [f"asked: {request.tool} {json.dumps(request.params)}"]
        lines += [f"because: {reason}" for reason in request.reasons]
        for line in [*lines, "answer: yes, once (by the script)"]:
            _say(f"      {line}", quiet=self._quiet)
        return Decision.once(by="the demo's script")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="The outcomes as JSON, one a line.")
def demo(as_json: bool) -> int:
    """Show a call that succeeds, and how calls are repaired, refused, asked and limited."""
    with tempfile.TemporaryDirectory(prefix="hardpoint-demo-") as folder:
        return asyncio.run(_run(Path(folder), as_json))


async def _run(folder: Path, as_json: bool) -> int:
    from hardpoint.runtime import Runtime

    began = time.perf_counter()
    config_file = folder / "config.toml"
    config_file.write_text(CONFIG + f'\n[audit]\npath = "{(folder / "audit").as_posix()}"\n')
    with _installed_plugin(folder):
        async with Runtime.from_config(
            config_file, approver=Scripted(quiet=as_json), origin="cli", in_memory=True
        ) as rt:
            if rt.registry.get("json") is None:
                raise MissingPlugin(
                    "builtin", "the demo calls its tools", hint="pip install hardpoint-builtin"
                )
            show = _Show(rt, as_json)
            await show.call("a call that succeeds", "echo", {"message": "hello"})
            await show.call(
                "arguments that a model got wrong, repaired by the schema",
                "json",
                '{"operation": "query", "data": "{\\"a\\": [1, 2]}", "path": "a[1]"}',
            )
            await show.call(
                "arguments beyond repair: every problem at once", "echo", {"mesage": "hi", "n": 1}
            )
            await show.call("a name that is nearly right", "ecko", {"message": "hi"})
            await show.call(
                "a call that a rule refuses; the rule is named",
                "json",
                {"operation": "stringify", "data": {"a": 1}},
            )
            await show.call(
                "a tool of a third-party plugin that asks for approval",
                "demo_plugin_greet",
                {"name": "Ada"},
            )
            for _ in range(3):
                last = await show.call(
                    "the fourth call within a minute, where three are allowed",
                    "echo",
                    {"message": "again"},
                    quiet_when_ok=True,
                )
            assert last is not None
        _show_audit(folder / "audit", as_json)
    _say(f"\n{show.count} real calls in {time.perf_counter() - began:.1f} s", quiet=as_json)
    return exits.OK


class _Show:
    """Runs a call and prints what became of it."""

    def __init__(self, runtime: Any, as_json: bool) -> None:
        self._runtime = runtime
        self._as_json = as_json
        self._context = JobContext(user_id="demo", session_id="demo")
        self.count = 0

    async def call(self, title: str, tool: str, params: Any, *, quiet_when_ok: bool = False) -> Any:
        if not self._as_json and not quiet_when_ok:
            self._announce(title, tool, params)
        outcome = await self._runtime.run(tool, params, self._context)
        self.count += 1
        if self._as_json:
            click.echo(json.dumps(outcome.to_json(), default=str))
        elif not (quiet_when_ok and outcome.ok):
            if quiet_when_ok:
                self._announce(title, tool, params)
            self._result(outcome)
        return outcome

    def _announce(self, title: str, tool: str, params: Any) -> None:
        _say(f"\n{title}")
        _say(f"  > {tool} {params if isinstance(params, str) else json.dumps(params)}")

    def _result(self, outcome: Any) -> None:
        if outcome.ok:
            _say(f"  < {json.dumps(outcome.result, ensure_ascii=False)}")
            return
        _say(f"  ✗ {outcome.error.kind}: {outcome.error.message}")
        if outcome.error.hint:
            _say(f"    {outcome.error.hint}")


def _show_audit(folder: Path, as_json: bool) -> None:
    if as_json:
        return
    _say("\nwhat the audit holds")
    for path in sorted(folder.glob("**/*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            record = json.loads(line)
            if record.get("kind") == "decided":
                why = (record.get("error") or {}).get("kind") or record.get("decision")
                _say(f"  {record['call_id']}  {record['tool']:<20} {why}")


def _say(text: str, *, quiet: bool = False) -> None:
    if not quiet:
        click.echo(text)


@contextlib.contextmanager
def _installed_plugin(folder: Path) -> Iterator[None]:
    """A plugin from the template, installed as pip would leave it, for the length of the demo."""
    from hardpoint.scaffold import new_plugin, template_variables

    project = folder / THIRD_PARTY
    new_plugin(THIRD_PARTY, project)
    package = template_variables(THIRD_PARTY)["package"]
    info = project / "src" / f"{package}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {THIRD_PARTY}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[hardpoint]\n{package} = {package}.plugin\n")
    sys.path.insert(0, str(project / "src"))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(project / "src"))
        for name in [n for n in sys.modules if n == package or n.startswith(package + ".")]:
            del sys.modules[name]
