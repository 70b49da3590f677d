"""`hardpoint mcp`: add and import servers, try them, log in, decide about changed tools."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from hardpoint import folder
from hardpoint.errors import ConfigError
from hardpoint_mcp import edit
from hardpoint_mcp.config import McpConfig, ServerConfig, check_server_name

T = TypeVar("T")

_json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")
_file_option = click.option(
    "--project", is_flag=True, help="Use the project's configuration, not the user's."
)


@click.group()
def mcp() -> None:
    """MCP servers: add, import, test and inspect them; point other programs at the gateway."""


# what is shared --------------------------------------------------------------------------------


def _target(state: Any, project: bool = False) -> Path:
    """The file that commands write to."""
    if state.config_file is not None:
        return Path(state.config_file)
    if project:
        return Path.cwd() / ".hardpoint" / "config.toml"
    return folder("config") / "config.toml"


def _runtime(state: Any) -> Any:
    return state.runtime()


def _configured(runtime: Any) -> McpConfig:
    if "mcp_server" not in runtime.services.extensions("installer"):
        raise ConfigError("the plugin 'mcp' is not active", hint="hardpoint plugins list")
    config: McpConfig = _servers_of(runtime).config
    return config


def _server(config: McpConfig, name: str) -> ServerConfig:
    if name not in config.servers:
        known = ", ".join(sorted(config.servers)) or "none"
        raise ConfigError(f"no server {name!r} is configured; there is {known}")
    return config.servers[name]


def _servers_of(runtime: Any) -> Any:
    return runtime.services.extensions("installer")["mcp_server"].servers


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def _say(text: str = "") -> None:
    """For people: everything but results goes to stderr."""
    click.echo(text, err=True)


def _out(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


# servers ---------------------------------------------------------------------------------------


@mcp.command("list")
@_json_option
@click.pass_obj
def list_servers(state: Any, as_json: bool) -> None:
    """List the configured servers, from memory: nothing is started."""
    runtime = _runtime(state)
    config = _configured(runtime)
    toolsets = _servers_of(runtime).toolsets
    rows = []
    for name, server in sorted(config.servers.items()):
        toolset = toolsets.get(name)
        known = None if toolset is None or toolset.remembered is None else toolset
        rows.append(
            {
                "name": name,
                "enabled": server.enabled,
                "where": server.url or " ".join([server.command or "", *server.args]),
                "trusted": server.trusted,
                "tools": None if known is None else len(known.definitions()),
                "description": server.description,
            }
        )
    if as_json:
        _out(rows)
        return
    for row in rows:
        tools = "not met yet" if row["tools"] is None else f"{row['tools']} tools"
        state_of = tools if row["enabled"] else "switched off"
        click.echo(f"{row['name']:<20} {state_of:<14} {row['where']}")
    if not rows:
        _say("no servers; add one with `hardpoint mcp add`, or see `hardpoint mcp discover`")


@mcp.command(context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", help="The address of an HTTP server, instead of a command.")
@click.option("--transport", type=click.Choice(["stdio", "http", "sse"]))
@click.option("--env", "env", multiple=True, metavar="NAME=VALUE", help="Its environment.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="Sent each time.")
@click.option("--cwd", help="The folder that it starts in.")
@click.option("--trusted", is_flag=True, help="Believe its annotations.")
@click.option("--force", is_flag=True, help="Replace a server of this name.")
@_file_option
@click.pass_obj
def add(
    state: Any,
    name: str,
    command: Sequence[str],
    url: str | None,
    transport: str | None,
    env: Sequence[str],
    headers: Sequence[str],
    cwd: str | None,
    trusted: bool,
    force: bool,
    project: bool,
) -> None:
    """Add a server: `hardpoint mcp add time -- uvx mcp-server-time`, or with --url."""
    words = [word for word in command if word != "--"] if command[:1] == ("--",) else list(command)
    settings: dict[str, Any] = {}
    if words:
        settings |= {"command": words[0], "args": words[1:]}
    settings |= {
        key: value
        for key, value in (
            ("url", url),
            ("transport", transport),
            ("env", _pairs(env, "--env")),
            ("headers", _pairs(headers, "--header")),
            ("cwd", cwd),
            ("trusted", trusted),
        )
        if value
    }
    _write_server(state, name, settings, project=project, force=force)
    _say(f"added; try it with: hardpoint mcp test {name}")


def _pairs(given: Sequence[str], option: str) -> dict[str, str]:
    pairs = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"{option} wants NAME=VALUE, not {pair!r}")
        pairs[name] = value
    return pairs


def _write_server(
    state: Any, name: str, settings: dict[str, Any], *, project: bool, force: bool
) -> None:
    try:
        check_server_name(name)
        ServerConfig(**settings)
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    path = _target(state, project)
    if name in edit.servers_in(path) and not force:
        raise ConfigError(f"{path} already has a server {name!r}", hint="use --force to replace it")
    if not settings.get("args", True):
        del settings["args"]
    edit.add_server(path, name, settings)
    _say(f"wrote [mcp.servers.{name}] to {path}")


@mcp.command()
@click.argument("name")
@_file_option
@click.pass_obj
def remove(state: Any, name: str, project: bool) -> None:
    """Remove a server, and what was remembered and approved of it."""
    path = _target(state, project)
    if not edit.remove_server(path, name):
        raise ConfigError(f"{path} holds no server {name!r}")
    from hardpoint_mcp.cache import Cache

    Cache(folder("cache") / "mcp").forget(name)

    async def forget() -> None:
        async with _runtime(state) as runtime:
            servers = _servers_of(runtime)
            if servers.pins is not None:
                servers.pins.remove(name)

    _run(forget())
    _say(f"removed {name} from {path}")


@mcp.command()
@click.argument("name")
@_file_option
@click.pass_obj
def enable(state: Any, name: str, project: bool) -> None:
    """Switch a server on."""
    edit.set_option(_target(state, project), name, "enabled", True)
    _say(f"{name} is on")


@mcp.command()
@click.argument("name")
@_file_option
@click.pass_obj
def disable(state: Any, name: str, project: bool) -> None:
    """Switch a server off; it stays configured."""
    edit.set_option(_target(state, project), name, "enabled", False)
    _say(f"{name} is off")


# trying ----------------------------------------------------------------------------------------


@mcp.command()
@click.argument("name")
@_json_option
@click.pass_obj
def test(state: Any, name: str, as_json: bool) -> None:
    """Start a server, list its tools, and say what is suspicious in them."""
    from hardpoint_mcp.catalogue import tools_hash
    from hardpoint_mcp.trust import scan

    async def work() -> dict[str, Any]:
        async with _runtime(state) as runtime:
            _server(_configured(runtime), name)
            toolset = _servers_of(runtime).toolsets.get(name)
            if toolset is None:
                raise ConfigError(
                    f"server {name!r} is switched off", hint=f"hardpoint mcp enable {name}"
                )
            catalogue = await toolset.refresh()
            session = await toolset.upstream.session()
            findings = [
                {"tool": f.tool, "where": f.where, "what": f.what, "excerpt": f.excerpt}
                for listed in catalogue.tools.values()
                for f in scan(listed)
            ]
            return {
                "name": name,
                "server": session.info,
                "protocol": session.version,
                "tools": list(catalogue.tools),
                "tools_sha256": tools_hash(catalogue),
                "warnings": list(catalogue.warnings),
                "findings": findings,
            }

    result = _run(work())
    if as_json:
        _out(result)
    else:
        about = result["server"]
        click.echo(f"{name}: {about.get('name', '?')} {about.get('version', '')}".rstrip())
        click.echo(f"protocol {result['protocol']}, {len(result['tools'])} tools")
        for tool in result["tools"]:
            click.echo(f"  {tool}")
        for warning in result["warnings"]:
            _say(f"warning: {warning}")
        for finding in result["findings"]:
            _say(
                f"suspicious: {finding['tool']} {finding['where']}: {finding['what']}:"
                f" {finding['excerpt']!r}"
            )
    if result["findings"]:
        sys.exit(1)


@mcp.command()
@click.argument("name", required=False)
@_json_option
@click.pass_obj
def tools(state: Any, name: str | None, as_json: bool) -> None:
    """List the tools of one server or of all, with what a call of each needs."""
    from hardpoint_mcp.trust import requirement

    async def work() -> list[dict[str, Any]]:
        async with _runtime(state) as runtime:
            config = _configured(runtime)
            if name is not None:
                _server(config, name)
            servers = _servers_of(runtime)
            rows = []
            for server, toolset in sorted(servers.toolsets.items()):
                if name not in (None, server):
                    continue
                for offered, listed in toolset.upstream.catalogue.tools.items():
                    drift = servers.pins.drift(server, listed) is not None
                    rows.append(
                        {
                            "name": offered,
                            "server": server,
                            "original": listed.original,
                            "approval": str(requirement(toolset.upstream.config, listed)),
                            "quarantined": drift,
                            "description": listed.definition.description,
                        }
                    )
            return rows

    rows = _run(work())
    if as_json:
        _out(rows)
        return
    for row in rows:
        note = "QUARANTINED " if row["quarantined"] else ""
        first = row["description"].partition("\n")[0][:60]
        click.echo(f"{row['name']:<40} {row['approval']:<20} {note}{first}")


# what changed ----------------------------------------------------------------------------------


@mcp.command()
@click.argument("name")
@click.argument("tool", required=False)
@click.pass_obj
def diff(state: Any, name: str, tool: str | None) -> None:
    """Show what a server changed in its tools since they were approved."""
    changed = _run(_changed(state, name, tool))
    for original, lines, _ in changed:
        click.echo(f"{name} {original}")
        for line in lines:
            click.echo(line)
    if not changed:
        _say("nothing changed")
    else:
        sys.exit(1)


async def _changed(state: Any, name: str, tool: str | None) -> list[tuple[str, Sequence[str], Any]]:
    from hardpoint_mcp.pins import diff as difference

    async with _runtime(state) as runtime:
        _server(_configured(runtime), name)
        servers = _servers_of(runtime)
        toolset = servers.toolsets[name]
        await toolset.refresh()
        found = []
        for listed in toolset.upstream.catalogue.tools.values():
            if tool not in (None, listed.original, listed.definition.name):
                continue
            pin = servers.pins.drift(name, listed)
            if pin is not None:
                lines = difference(pin.definition, listed.raw)
                found.append((listed.original, lines, listed.raw))
        return found


@mcp.command()
@click.argument("name")
@click.argument("tool", required=False)
@click.option("--yes", is_flag=True, help="Accept without asking; needs a terminal or the token.")
@click.pass_obj
def approve(state: Any, name: str, tool: str | None, yes: bool) -> None:
    """Accept the changed definitions of a server's tools, after showing them."""
    state.require_operator("mcp approve")
    changed = _run(_changed(state, name, tool))
    if not changed:
        _say("nothing changed")
        return
    for original, lines, _ in changed:
        _say(f"{name} {original}")
        for line in lines:
            _say(line)
    if not yes:
        click.confirm(f"Accept {len(changed)} changed definitions?", abort=True, err=True)

    async def accept() -> None:
        async with _runtime(state) as runtime:
            for original, _, raw in changed:
                _servers_of(runtime).pins.add(name, original, raw, replace=True)

    _run(accept())
    _say(f"accepted {len(changed)}")


# other programs --------------------------------------------------------------------------------


@mcp.command()
@_json_option
def discover(as_json: bool) -> None:
    """List the servers that other programs on this machine are configured with."""
    from hardpoint_mcp.foreign import discover as look

    found = look()
    if as_json:
        _out(
            [
                {
                    "source": one.source,
                    "path": str(one.path),
                    "name": one.name,
                    # Names alone: values may be secrets.
                    "settings": _without_values(one.settings),
                    "notes": list(one.notes),
                    "problem": one.problem,
                }
                for one in found
            ]
        )
        return
    for one in found:
        where = one.settings.get("url") or one.settings.get("command") or ""
        click.echo(f"{one.qualified:<36} {one.problem or where}")
        for note in one.notes:
            _say(f"  {note}")
    if not found:
        _say("no program here has any")


def _without_values(settings: Any) -> Any:
    return {
        key: sorted(value) if key in ("env", "headers") else value
        for key, value in settings.items()
    }


@mcp.command("import")
@click.argument("names", nargs=-1)
@click.option("--file", "file", type=click.Path(path_type=Path), help="Read this file alone.")
@click.option("--all", "everything", is_flag=True, help="Every server that can be used.")
@click.option("--force", is_flag=True, help="Replace servers of the same name.")
@_file_option
@click.pass_obj
def import_(
    state: Any,
    names: Sequence[str],
    file: Path | None,
    everything: bool,
    force: bool,
    project: bool,
) -> None:
    """Take over servers of other programs, by NAME or SOURCE:NAME. Their files stay as they are."""
    from hardpoint_mcp.foreign import choose, read_file
    from hardpoint_mcp.foreign import discover as look

    found = look() if file is None else read_file(file)
    if everything:
        chosen: dict[str, Any] = {}
        for one in found:
            if one.problem is not None:
                _say(f"left out: {one.qualified}: {one.problem}")
            else:
                chosen[one.name] = choose(found, one.qualified)
    elif names:
        chosen = {one.name: one for one in (choose(found, name) for name in names)}
    else:
        raise click.UsageError("say which servers, or --all; see `hardpoint mcp discover`")
    path = _target(state, project)
    for name, one in chosen.items():
        if name in edit.servers_in(path) and not force:
            _say(f"left out: {name} is configured already; use --force to replace it")
            continue
        _write_server(state, name, dict(one.settings), project=project, force=True)
        for note in one.notes:
            _say(f"  {note}")
        exposed = sorted(k for k, v in one.settings.get("env", {}).items() if _looks_secret(k, v))
        if exposed:
            _say(
                f"  {', '.join(exposed)} stands there in plain text; store it with"
                " `hardpoint secrets set`, and write secret:NAME in its place"
            )


def _looks_secret(name: str, value: str) -> bool:
    words = ("token", "secret", "password", "passwd", "apikey", "api_key", "credential")
    plain = not value.startswith(("${", "secret:"))
    return plain and bool(value) and any(word in name.lower() for word in words)


@mcp.command()
@click.argument("program", metavar="CLIENT")
@click.option("--undo", is_flag=True, help="Take the gateway out again.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def install(state: Any, program: str, undo: bool, dry_run: bool, yes: bool) -> None:
    """Point a program at the gateway: its configuration gets one entry, and keeps a backup."""
    from hardpoint_mcp import clients

    known = clients.programs(Path.cwd())
    if program not in known:
        import difflib

        near = difflib.get_close_matches(program, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise click.UsageError(f"unknown client {program!r}{hint} Known: {', '.join(known)}")
    if undo:
        change = clients.uninstall(known[program])
    else:
        change = clients.install(known[program], *clients.gateway_command(state.config_file))
    if change.before == change.after:
        _say(f"{change.path}: nothing to change")
        return
    for line in change.diff:
        click.echo(line)
    if dry_run:
        return
    if not yes:
        click.confirm(f"Write {change.path}?", abort=True, err=True)
    backup = change.write()
    _say(f"wrote {change.path}" + (f"; the former file is {backup}" if backup else ""))
    if not undo:
        _say(f"restart {program}; undo with: hardpoint mcp install {program} --undo")


# logging in ------------------------------------------------------------------------------------


@mcp.command()
@click.argument("name")
@click.option("--device", is_flag=True, help="Enter a code on another device.")
@click.option("--no-browser", is_flag=True, help="Show the address instead of opening it.")
@click.pass_obj
def auth(state: Any, name: str, device: bool, no_browser: bool) -> None:
    """Log in to an HTTP server; the tokens go to the secret store."""
    state.require_operator("mcp auth")

    async def work() -> None:
        from hardpoint.net.login import open_browser, stdin_lines
        from hardpoint_mcp import login

        async with _runtime(state) as runtime:
            config = _server(_configured(runtime), name)
            if config.url is None:
                raise ConfigError(f"{name} is a program; it needs no login of ours")
            store = _login_store(runtime, name)
            if device:
                await login.by_device(name, config, store, say=_say)
                return

            async def secret(named: str) -> str:
                value: str = await runtime.services.secrets.reveal(named, "system", f"login {name}")
                return value

            async with stdin_lines() as ask:
                await login.by_browser(
                    name,
                    config,
                    store,
                    say=_say,
                    open_browser=None if no_browser else open_browser,
                    ask=ask if sys.stdin.isatty() else None,
                    secrets=secret,
                )

    _run(work())
    _say(f"logged in to {name}")


@mcp.command()
@click.argument("name")
@click.pass_obj
def logout(state: Any, name: str) -> None:
    """Forget the tokens of a server."""

    async def work() -> None:
        async with _runtime(state) as runtime:
            _server(_configured(runtime), name)
            await _login_store(runtime, name).forget()

    _run(work())
    _say(f"logged out of {name}")


def _login_store(runtime: Any, name: str) -> Any:
    from hardpoint_mcp.logins import login_store

    return login_store(name, runtime.services, folder("data") / "mcp")
