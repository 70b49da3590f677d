"""`hardpoint doctor`: try whether everything holds what it promises."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import attrs
import click

from hardpoint.cli import exits
from hardpoint.cli.catalogue import tools_in_words
from hardpoint.cli.render import say_json
from hardpoint.cli.state import State
from hardpoint.config import Config
from hardpoint.errors import ConfigError, HardpointError, NotAuthorized
from hardpoint.interfaces import CheckResult

MARKS: Final = {"ok": "ok", "warning": "??", "failed": "NO", "skipped": "--"}
Probe = Callable[[State], Awaitable[Sequence[CheckResult]]]


@click.command()
@click.argument("only", nargs=-1)
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def doctor(state: State, only: tuple[str, ...], as_json: bool) -> int:
    """Probe the configuration, the state, the guards and every plugin's domain. ONLY names some."""
    results = asyncio.run(_run(state, only))
    if only and not results:
        raise click.UsageError(
            f"no check is called {' or '.join(map(repr, only))};"
            f" there are {', '.join(sorted(PROBES))} and those of the active plugins"
        )
    if as_json:
        say_json([attrs.asdict(result) for result in results])
    else:
        for result in results:
            click.echo(f"{MARKS[result.status]}  {result.name}: {result.detail}")
            if result.hint and result.status != "ok":
                click.echo(f"    {result.hint}")
    failed = sum(result.status == "failed" for result in results)
    if not as_json:
        click.echo(_summary(results))
    return exits.FAILED if failed else exits.OK


def _summary(results: Sequence[CheckResult]) -> str:
    """How many of each kind, each behind its mark."""
    counts = Counter[str](result.status for result in results)
    said = [f"{counts['ok']} of {len(results)} checks hold (ok)"]
    for status, words in (("failed", "failed"), ("warning", "to look at"), ("skipped", "skipped")):
        if counts[status]:
            said.append(f"{counts[status]} {words} ({MARKS[status]})")
    return ", ".join(said)


async def _run(state: State, only: Sequence[str]) -> list[CheckResult]:
    results: list[CheckResult] = []
    for name, probe in PROBES.items():
        if not only or name in only:
            results += await _try(name, probe, state)
    if only and not set(only) - PROBES.keys():
        return results
    told = {result.detail for result in results}
    started = await _try("start", partial(_checks_of_plugins, only), state)
    return [*results, *(result for result in started if result.detail not in told)]


async def _checks_of_plugins(only: Sequence[str], state: State) -> Sequence[CheckResult]:
    results: list[CheckResult] = []
    async with state.runtime() as runtime:
        for name, check in runtime.services.extensions("check").items():
            if only and name not in only:
                continue
            try:
                results += await check.run()
            except Exception as error:  # a plugin's check is foreign code
                results.append(CheckResult(name, "failed", f"the check itself failed: {error!r}"))
    return results


async def _try(name: str, probe: Probe, state: State) -> Sequence[CheckResult]:
    try:
        return await probe(state)
    except HardpointError as error:
        return [CheckResult(name, "failed", error.message, error.hint)]
    except Exception as error:  # a probe meets whatever is wrong with a machine
        return [CheckResult(name, "failed", f"{type(error).__name__}: {error}")]


# probes ----------------------------------------------------------------------------------------


async def configuration(state: State) -> Sequence[CheckResult]:
    found = state.load_config()
    state.runtime(in_memory=True)  # holds the rules, and every name, against what is installed
    rules = len(found.policy.rules)
    results = [CheckResult("configuration", "ok", f"readable; {rules} rules, each can match")]
    results += [CheckResult("configuration", "warning", text) for text in found.warnings]
    results += [CheckResult("in effect", "warning", text) for text in _loosened(found)]
    return results


def _loosened(config: Config) -> Iterator[str]:
    """Settings that take protection away, so that nobody forgets them."""
    if config.policy.mode == "auto":
        yield "[policy] mode = 'auto'"
    for rule in config.policy.rules:
        if rule.decision == "allow" and isinstance(rule.spec, str) and "(" not in rule.spec:
            yield f"{rule.source}: allow = {rule.spec!r}: every call of it that does not always ask"
    if config.network.allow_private:
        yield f"[network] allow_private = {[str(n) for n in config.network.allow_private]}"
    if config.network.allow_http:
        yield "[network] allow_http: plain http"
    if not config.audit.enabled:
        yield "[audit] enabled = false: nothing is written down"
    if not config.output.leak_scan:
        yield "[output] leak_scan = false: secrets in results are not noticed"


async def plugins(state: State) -> Sequence[CheckResult]:
    from hardpoint.cli.plugins import _load

    results: list[CheckResult] = []
    for record in _load(state).records.values():
        status: Any = {"active": "ok", "blocked": "skipped"}.get(record.status, "failed")
        detail = (
            record.reason
            or f"{record.owner} {record.version or ''}, {tools_in_words(len(record.tools))}"
        )
        results.append(CheckResult(f"plugin {record.name}", status, detail))
    return results


async def state_folder(state: State) -> Sequence[CheckResult]:
    """Write and read back in the real store."""
    store = state.store(state.load_config())
    table = store.namespace("doctor", ["CREATE TABLE doctor_probe (word TEXT NOT NULL)"])
    table.execute("INSERT INTO doctor_probe (word) VALUES (?)", ("probe",))
    found = table.query("SELECT word FROM doctor_probe LIMIT 1")[0]["word"]
    table.execute("DELETE FROM doctor_probe")
    if found != "probe":
        return [CheckResult("state", "failed", "what was written does not come back")]
    return [CheckResult("state", "ok", "written and read back")]


async def audit(state: State) -> Sequence[CheckResult]:
    """Write a chain into a scratch folder, break it, and see that the break is found."""
    from hardpoint.audit import AuditLog, verify

    with tempfile.TemporaryDirectory(prefix="hardpoint-doctor-") as folder:
        log = AuditLog(Path(folder))
        for number in range(3):
            log.write("probe", {"number": number}, batch=False)
        log.close()
        if not verify(Path(folder)).ok:
            return [CheckResult("audit", "failed", "a fresh chain does not verify")]
        file = next(Path(folder).glob("**/*.jsonl"))
        file.write_text(file.read_text("utf-8").replace('"number":1', '"number":7'), "utf-8")
        if verify(Path(folder)).ok:
            return [CheckResult("audit", "failed", "a changed record was not noticed")]
    from hardpoint.cli.audit import audit_folder

    report = verify(audit_folder(state))
    if not report.ok:
        shown = "; ".join(map(str, report.breaks[:3]))
        return [CheckResult("audit", "failed", shown, "hardpoint audit verify")]
    return [
        CheckResult(
            "audit", "ok", f"a changed record is noticed; {report.records} records are whole"
        )
    ]


async def rules(state: State) -> Sequence[CheckResult]:
    """Hold every rule, and the examples that it carries, against what is installed."""
    from hardpoint.policy.lint import lint_rules

    core = state.runtime(in_memory=True)._core
    findings = lint_rules(
        core.rules,
        core.registry,
        elsewhere=core.plugins.tools_elsewhere(),
        declared=core.config.policy.application_tools,
        domains=core.plugins.domains,
    )
    examples = sum(len(rule.match) + len(rule.not_match) for rule in core.rules)
    results = [
        CheckResult("rules", "failed" if finding.fatal else "warning", str(finding))
        for finding in findings
    ]
    if any(result.status == "failed" for result in results):
        return results
    return [
        CheckResult("rules", "ok", f"{len(core.rules)} rules, {examples} examples hold"),
        *results,
    ]


async def limits(state: State) -> Sequence[CheckResult]:
    """Count one call with the real backend, and want the second one refused."""
    from hardpoint.interfaces import LimitRequest
    from hardpoint.limits import ToolRateLimitConfig

    runtime = state.runtime()
    limiter = runtime._core.limiter
    request = [LimitRequest(f"doctor-{token_hex(8)}", "probe", ToolRateLimitConfig(1, 1))]
    try:
        first, second = await limiter.acquire(request), await limiter.acquire(request)
        runtime.clear_limit(request[0].user_id, "probe")
    finally:
        await limiter.aclose()
    if first is not None or second is None:
        return [CheckResult("limits", "failed", f"{type(limiter).__name__} lets too much through")]
    return [CheckResult("limits", "ok", f"{type(limiter).__name__} refuses the call too many")]


async def leaks(state: State) -> Sequence[CheckResult]:
    """A planted token must be found, also in another spelling."""
    from base64 import b64encode

    from hardpoint._leaks import Leaks

    planted = f"planted-{token_hex(16)}"
    scanner = Leaks({"planted": planted})
    missed = [
        text
        for text in (planted, b64encode(planted.encode()).decode(), planted.encode().hex())
        if not scanner.scan(f"before {text} after")
    ]
    if missed:
        return [CheckResult("leaks", "failed", f"{len(missed)} spellings of a secret are missed")]
    if not state.load_config().output.leak_scan:
        return [CheckResult("leaks", "warning", "[output] leak_scan is off")]
    return [CheckResult("leaks", "ok", "a planted secret is found in every spelling")]


async def network_guard(state: State) -> Sequence[CheckResult]:
    """Ask for addresses that must never be contacted."""
    from hardpoint.net import UrlGuard

    guard = UrlGuard(allow_private=state.load_config().network.allow_private)
    open_doors = []
    for url in ("https://169.254.169.254/", "https://[::ffff:127.0.0.1]/", "https://2130706433/"):
        try:
            guard.check(url)
        except HardpointError:
            continue
        open_doors.append(url)
    if open_doors:
        return [CheckResult("network guard", "failed", f"lets through: {', '.join(open_doors)}")]
    return [CheckResult("network guard", "ok", "metadata, loopback and odd spellings are refused")]


async def approvals(state: State) -> Sequence[CheckResult]:
    """A call that must ask, with nobody to ask, must not run."""
    from hardpoint.context import JobContext
    from hardpoint.runtime import Runtime
    from hardpoint.tools import tool

    ran: list[bool] = []

    def probe() -> None:
        ran.append(True)

    async with Runtime(tools=[tool(probe, approval="always")]) as rt:
        outcome = await rt.run("probe", {}, JobContext(user_id="doctor"))
    if ran or not isinstance(outcome.error, NotAuthorized):
        return [CheckResult("approvals", "failed", "a call that must ask ran without an answer")]
    return [CheckResult("approvals", "ok", "no answer means no")]


async def secrets(state: State) -> Sequence[CheckResult]:
    """Every secret that the configuration refers to must be there."""
    from hardpoint.secrets import references_in

    runtime = state.runtime()
    references = references_in(list(runtime.plugin_settings().values()))
    missing = await runtime.services.secrets.missing(references)
    if missing:
        name = missing[0].removeprefix("system:")
        raise ConfigError(
            f"not set: {', '.join(missing)}", hint=f"hardpoint secrets set {name} --system"
        )
    # Every value that can be read without a person must be readable.
    await runtime.services.secrets.learn_all()
    stores = ", ".join(state.load_config().secrets.stores)
    return [CheckResult("secrets", "ok", f"all that is referred to is set; asked: {stores}")]


async def interpreter(state: State) -> Sequence[CheckResult]:
    version = ".".join(map(str, sys.version_info[:3]))
    return [CheckResult("python", "ok", f"{version} in {sys.prefix}")]


PROBES: Final[dict[str, Probe]] = {
    "python": interpreter,
    "configuration": configuration,
    "plugins": plugins,
    "state": state_folder,
    "audit": audit,
    "rules": rules,
    "limits": limits,
    "leaks": leaks,
    "network": network_guard,
    "approvals": approvals,
    "secrets": secrets,
}
