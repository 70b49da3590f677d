"""`hardpoint wasm`: add tools and grant them permissions, look at them, run and build them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import attrs
import click

from hardpoint.errors import HardpointError
from hardpoint_wasm.cli_auth import auth, logout
from hardpoint_wasm.cli_webhooks import webhooks
from hardpoint_wasm.settings import config_of
from hardpoint_wasm.store import Record, Store

T = TypeVar("T")


@click.group()
def wasm() -> None:
    """WebAssembly tools: code from strangers in a sandbox, under what you grant."""


@wasm.command()
@click.argument("source")
@click.option("--name", help="The tool's name, instead of the file's.")
@click.option("--sha256", help="What the file must hash to.")
@click.option("--grant", "chosen", multiple=True, metavar="PERMISSION", help="Grant only these.")
@click.option("--grant-nothing", is_flag=True, help="Add it without any permission.")
@click.option("--yes", is_flag=True, help="Grant everything that it asks for, unasked.")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def add(
    state: Any,
    source: str,
    name: str | None,
    sha256: str | None,
    chosen: Sequence[str],
    grant_nothing: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Add a module from a file, a folder, a bundle or an https address.

    Shows what it asks for and asks you what to grant; pins the module's digest.
    """
    from hardpoint_wasm import sources
    from hardpoint_wasm.install import granted, inspect, make_runtime, make_store

    config = config_of(state)
    runtime = make_runtime(config)
    store = make_store(config)
    try:
        found = _run(
            sources.find(source, name=name, sha256=sha256, max_bytes=config.max_module_bytes)
        )
        for module in found:
            record = _run(inspect(module, config, runtime))
            before = {known.name: known for known in store.records()}.get(record.name)
            click.echo(_card(record, before), err=as_json)
            permissions = _decide(state, record, before, chosen, grant_nothing, yes)
            record = granted(record, permissions)
            _refuse_taken_names(record, store)
            store.add(record, module.wasm)
            _report(record, as_json)
    finally:
        runtime.close()


@wasm.command("list")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def list_tools(state: Any, as_json: bool) -> None:
    """The added tools and what was granted to each."""
    store = _store(state)
    records = [store.checked(record) for record in store.records()]
    if as_json:
        click.echo(json.dumps([_as_json(record) for record in records], indent=2))
        return
    if not records:
        click.echo("no tools were added; add one with: hardpoint wasm add FILE")
    for record in records:
        granted = ", ".join(record.granted) or "nothing"
        note = f"  {record.status.upper()}: {record.reason}" if record.reason else ""
        click.echo(f"{', '.join(record.interfaces)}  {record.kind}  granted: {granted}{note}")


@wasm.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def info(state: Any, name: str, as_json: bool) -> None:
    """Everything about one tool: digest, source, permissions, limits, arguments."""
    store = _store(state)
    record = store.checked(store.get(name))
    limits = config_of(state).limits(name)
    if as_json:
        about = _as_json(record) | {"limits": attrs.asdict(limits)}
        click.echo(json.dumps(about, indent=2))
        return
    click.echo(_card(record, record))
    for tool, interface in record.interfaces.items():
        click.echo(f"arguments of {tool}:")
        click.echo("  " + json.dumps(interface.parameters, ensure_ascii=False))
    shown = {key: value for key, value in attrs.asdict(limits).items() if value is not None}
    click.echo("limits: " + ", ".join(f"{key} {value}" for key, value in shown.items()))


@wasm.command()
@click.argument("name")
@click.argument("permissions", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Grant everything that it asks for.")
@click.pass_obj
def grant(state: Any, name: str, permissions: Sequence[str], everything: bool) -> None:
    """Grant permissions that a tool asks for, for example "http:api.example.com/v1 GET"."""
    state.require_operator("wasm grant")
    record = _store(state).get(name)
    if not permissions and not everything:
        raise click.UsageError(f"say what to grant; it asks for {', '.join(record.missing)}")
    wanted = {*record.granted, *(record.missing if everything else permissions)}
    _change(state, record, wanted)


@wasm.command()
@click.argument("name")
@click.argument("permissions", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Take back everything.")
@click.pass_obj
def revoke(state: Any, name: str, permissions: Sequence[str], everything: bool) -> None:
    """Take back permissions of a tool."""
    record = _store(state).get(name)
    if not permissions and not everything:
        raise click.UsageError(f"say what to revoke; it has {', '.join(record.granted)}")
    unknown = sorted(set(permissions) - set(record.granted))
    if unknown:
        raise HardpointError(f"{name} does not have the permission {unknown[0]!r}")
    _change(state, record, set() if everything else {*record.granted} - {*permissions})


@wasm.command()
@click.argument("name")
@click.pass_obj
def remove(state: Any, name: str) -> None:
    """Forget a tool and delete its module."""
    _store(state).remove(name)
    click.echo(f"removed {name}")


@wasm.command()
@click.argument("source")
@click.argument("params", default="{}")
@click.option("--tool", help="Which tool of the module, when it has several.")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def run(state: Any, source: str, params: str, tool: str | None, as_json: bool) -> None:
    """Run a module once by itself, without any permission: a look at a stranger's file.

    An added tool under its grant is called with: hardpoint call NAME.
    """
    from hardpoint_wasm.authoring import run_once

    try:
        arguments = json.loads(params)
    except ValueError as error:
        raise click.UsageError(f"PARAMS is not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise click.UsageError("PARAMS must be a JSON object")
    output = _run(run_once(source, arguments, config_of(state), tool=tool))
    if as_json or not isinstance(output.result, str):
        click.echo(json.dumps(output.result, ensure_ascii=False))
    else:
        click.echo(output.result)


@wasm.command()
@click.argument("name")
@click.option(
    "--lang",
    type=click.Choice(["wat", "python", "js", "c", "rust", "zig"]),
    default="wat",
    show_default=True,
)
def new(name: str, lang: str) -> None:
    """Start a tool: source, WIT, capabilities and a test, in a new folder NAME."""
    from hardpoint_wasm.authoring import create

    folder = create(name, lang)
    click.echo(f"made {folder}; next: cd {folder} && hardpoint wasm build && hardpoint wasm test")


@wasm.command()
@click.argument("folder", default=".")
def build(folder: str) -> None:
    """Build the tool in a folder made by `new`."""
    from hardpoint_wasm.authoring import build as build_project

    path = build_project(folder)
    click.echo(f"built {path} ({path.stat().st_size} bytes)")


@wasm.command()
@click.argument("folder", default=".")
@click.pass_obj
def test(state: Any, folder: str) -> int:
    """Run the examples of a tool's tests.json against a host that answers from that file."""
    from hardpoint_wasm.authoring import check

    results = _run(check(folder, config_of(state)))
    for result in results:
        click.echo(f"{'ok    ' if result.passed else 'FAILED'} {result.name}")
        if not result.passed:
            click.echo(f"       {result.detail}")
    failed = sum(not result.passed for result in results)
    click.echo(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed or not results else 0


@wasm.command()
def schema() -> None:
    """Print the JSON Schema of capabilities files."""
    from hardpoint_wasm.capability_file import schema as load_schema

    click.echo(json.dumps(load_schema(), indent=2))


wasm.add_command(auth)
wasm.add_command(logout)
wasm.add_command(webhooks)


# inside ----------------------------------------------------------------------------------------


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def _store(state: Any) -> Store:
    from hardpoint_wasm.install import make_store

    return make_store(config_of(state))


def _decide(
    state: Any,
    record: Record,
    before: Record | None,
    chosen: Sequence[str],
    nothing: bool,
    yes: bool,
) -> Sequence[str]:
    """What the person grants; whatever was granted before is the suggestion."""
    if nothing or not record.missing:
        return ()
    state.require_operator("wasm add (without --grant-nothing)")
    if chosen:
        return chosen
    if yes:
        return record.missing
    kept = [
        permission
        for permission in record.missing
        if click.confirm(
            f"grant {permission!r}?",
            default=before is not None and permission in before.granted,
            err=True,
        )
    ]
    return kept


def _refuse_taken_names(record: Record, store: Store) -> None:
    from hardpoint import PROTECTED_TOOL_NAMES

    hint = "add it under another name with --name"
    own = {_folded(name): name for name in record.interfaces}
    protected = sorted(own.keys() & {_folded(name) for name in PROTECTED_TOOL_NAMES})
    if protected:
        raise HardpointError(
            f"{own[protected[0]]!r} is the name of a tool that comes with Hardpoint", hint=hint
        )
    for other in store.records():
        known = {_folded(name): name for name in other.interfaces}
        taken = sorted(own.keys() & known.keys())
        if other.name != record.name and taken:
            raise HardpointError(
                f"the tool {known[taken[0]]!r} comes from {other.name!r} already", hint=hint
            )


def _folded(name: str) -> str:
    """Names that the registry takes for one: `my-tool` and `My_Tool`."""
    return name.replace("-", "_").lower()


def _change(state: Any, record: Record, wanted: set[str]) -> None:
    from hardpoint_wasm.install import granted

    changed = granted(record, wanted)
    _store(state).add(changed)
    _report(changed, False)


def _report(record: Record, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_as_json(record), indent=2))
        return
    click.echo(f"{record.name} may now use: {', '.join(record.granted) or 'nothing'}")
    for permission in record.missing:
        click.echo(f"  not granted: {permission}")
    if _needs_login(record):
        auth = record.capabilities.auth
        needs = "may be given" if auth is not None and auth.optional else "needs"
        click.echo(f"it {needs} a login or a secret: hardpoint wasm auth {record.name}")


def _needs_login(record: Record) -> bool:
    capabilities = record.capabilities
    return capabilities.auth is not None or capabilities.setup is not None


def _card(record: Record, before: Record | None) -> str:
    """A tool as a person should see it before deciding."""
    from hardpoint_wasm.capabilities import Capabilities

    capabilities = Capabilities.from_json(record.asked)
    lines = [f"{record.name}: {record.kind}, {record.digest}", f"  from {record.source}"]
    if before is not None and before.digest != record.digest:
        lines.append(f"  REPLACES {before.digest}")
    if before is not None and before.status == "quarantined":
        lines.append(f"  QUARANTINED: {before.reason}")
    for name, interface in record.interfaces.items():
        about = " ".join(interface.description.split())[:200]
        lines.append(f"  tool {name}: {_plain(about)}")
    asked = (*record.granted, *record.missing)
    lines.append("  asks for:" if asked else "  asks for nothing")
    for permission in capabilities.permissions:
        mark = "granted" if permission in record.granted else "-"
        lines.append(f"    {_plain(permission)}  [{mark}]")
    lines += [f"  note: {_plain(warning)}" for warning in capabilities.warnings]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """A stranger's text without characters that could redraw the terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _as_json(record: Record) -> dict[str, Any]:
    return {
        "name": record.name,
        "tools": list(record.interfaces),
        "kind": record.kind,
        "digest": record.digest,
        "source": record.source,
        "status": record.status,
        "reason": record.reason,
        "granted": list(record.granted),
        "not_granted": list(record.missing),
        "auth": f"hardpoint wasm auth {record.name}" if _needs_login(record) else None,
    }
