"""One function per case file: hands a case to the product's code and turns its answer into text.

An adapter only translates. It never looks at `id`, `kind` or `why`, and decides nothing itself.
"""

from __future__ import annotations

import functools
from typing import Any


def rate_limit(case: dict[str, Any]) -> list[str | float]:
    """`"allowed"` or the wait in seconds per event."""
    from hardpoint import RateLimiter
    from hardpoint.limits import ToolRateLimitConfig

    now = 0.0
    limiter = RateLimiter(clock=lambda: now)
    config = ToolRateLimitConfig(**case["config"])
    answers: list[str | float] = []
    for event in case["events"]:
        now = event["t"]
        wait = limiter.check_and_increment(event["user"], event["tool"], config)
        answers.append("allowed" if wait is None else wait.total_seconds())
    return answers


async def ssrf_urls(case: dict[str, Any]) -> str:
    """`"allowed"` or `"denied"` by the real client, with a fake resolver and a fake transport."""
    import httpx2

    from hardpoint.errors import HardpointError
    from hardpoint.net import PinnedClient

    hops = case.get("redirect_chain", [])
    asked: list[str] = []
    served: list[httpx2.Request] = []

    class FakeResolver:
        async def resolve(self, host: str, port: int) -> list[str]:
            asked.append(host)
            if len(asked) > 1 and "resolves_to_later" in case:
                return list(case["resolves_to_later"])
            return list((hops[len(served) - 1] if served else case).get("resolves_to", []))

    def serve(request: httpx2.Request) -> httpx2.Response:
        pinned = set(request.extensions["hardpoint.pinned"])
        assert not pinned & set(case.get("must_not_connect", [])), f"connected to {pinned}"
        served.append(request)
        if len(served) > len(hops):
            return httpx2.Response(200, text="ok")
        hop = hops[len(served) - 1]
        return httpx2.Response(
            hop["status"], headers=[(b"location", hop["location"].encode("utf-8", "surrogatepass"))]
        )

    client = PinnedClient(resolver=FakeResolver(), transport=httpx2.MockTransport(serve))
    try:
        await client.request("GET", case["url"], follow=True)
    except HardpointError:
        return "denied"
    return "allowed"


def allowlist(case: dict[str, Any]) -> tuple[str, str | None]:
    """The matcher that WASM tools, container egress and bindings share."""
    from hardpoint.net import AllowList

    request = case["request"]
    verdict = AllowList.from_json(case["patterns"]).judge(request["method"], request["url"])
    return ("allow", None) if verdict.allowed else ("deny", str(verdict.reason))


def leaks(case: dict[str, Any]) -> dict[str, Any]:
    """The findings and the text without them."""
    from hardpoint.output.leaks import LeakScanner

    scanner = LeakScanner(case["secrets"])
    findings = scanner.scan(case["text"])
    return {
        "findings": [{"kind": found.kind, "action": found.action} for found in findings],
        "redacted": scanner.redact(case["text"], findings),
    }


def schema_lint(case: dict[str, Any]) -> list[str]:
    """Every problem of the schema."""
    from hardpoint import schema

    return schema.validate_tool_schema(case["schema"])


async def file_paths(case: dict[str, Any]) -> str | tuple[str, str]:
    """The real tool in a real sandbox on the case's workspace."""
    from hardpoint import Config, JobContext, Runtime
    from hardpoint.errors import ExecutionFailed, InvalidParameters, NotAuthorized, SandboxError

    tool = {"read": "read_file", "write": "write_file", "list": "list_dir"}[case["op"]]
    params: dict[str, Any] = {"path": case["path"]}
    if case["op"] == "write":
        params["content"] = "new"
    if case["op"] == "read":
        params["line_numbers"] = False
    context = JobContext(user_id="u", workspace=case["workspace"], auto_approve=True)
    config = Config(load_only=frozenset({"container"}))
    async with Runtime(config, installed_plugins=True) as runtime:
        outcome = await runtime.run(tool, params, context)
    match outcome.error:
        case None:
            return ("ok", outcome.result["content"]) if case["op"] == "read" else "ok"
        case NotAuthorized() | SandboxError():
            return "denied"
        case InvalidParameters():
            return "invalid"
        case ExecutionFailed() as error if "no such file or folder" in error.message:
            return "not_found"
    raise outcome.error


def coercion(case: dict[str, Any]) -> dict[str, Any]:
    """The parameters as the tool would get them, or where they are wrong."""
    from hardpoint.coercion import make_coercer
    from hardpoint.errors import SchemaError
    from hardpoint.schema import compile_validator

    try:
        validator = compile_validator(case["schema"])
        coerce = make_coercer(case["schema"])
    except SchemaError:
        return {"schema_error": True}
    params = coerce(case["params"])
    issues = validator.validate(params)
    return {"errors": [issue.path for issue in issues]} if issues else {"params": params}


async def json_tool(case: dict[str, Any]) -> dict[str, Any]:
    """The `json` tool, called like any agent calls it."""
    outcome = await _guarded_call("json", case, ("operation", "data", "path"))
    if outcome.error is None:
        return {"value": outcome.output.result}
    place = {name: getattr(outcome.error, name, None) for name in ("line", "column")}
    return {**_error(outcome.error), **place}


async def time_tool(case: dict[str, Any]) -> dict[str, Any]:
    """The `time` tool, called like any agent calls it."""
    inputs = ("input", "timestamp", "timestamp2", "timezone", "from_timezone", "to_timezone")
    names = ("operation", *inputs, "format_string", "format")
    outcome = await _guarded_call("time", case, names)
    if outcome.error is None:
        return {"fields": outcome.output.result}
    return _error(outcome.error)


async def shell_policy(case: dict[str, Any]) -> str:
    """What the policy says about a call of the real `shell` tool; nothing runs."""
    from hardpoint import JobContext
    from hardpoint.config import PolicyConfig, RuleEntry, Source
    from hardpoint.errors import InvalidParameters

    rules = case.get("rules")
    entries = tuple(
        RuleEntry(decision, spec, Source("code", f"rules.{decision}"))
        for decision in ("deny", "ask", "allow")
        for spec in (rules or {}).get(decision, ())
    )
    params = case["arguments"] if "arguments" in case else {"command": case["command"]}
    runtime = _runtime().under_policy(PolicyConfig(rules=entries))
    try:
        verdict = await runtime.check("shell", params, JobContext(user_id="acceptance"))
    except InvalidParameters:
        return "invalid_parameters"
    if rules is None and verdict.decision != "deny":
        return str(verdict.requirement.value)
    return str(verdict.decision)


async def _guarded_call(tool: str, case: dict[str, Any], names: tuple[str, ...]) -> Any:
    from hardpoint import JobContext

    params = {name: case[name] for name in names if name in case}
    return await _runtime().run(tool, params, JobContext(user_id="acceptance"))


@functools.cache
def _runtime() -> Any:
    """A runtime with the installed plugins, for all cases of a run."""
    from hardpoint import Runtime

    return Runtime(installed_plugins=True)


def _error(error: Any) -> dict[str, str]:
    """The first issue's code is the tool's own reason; those of the schema say where and what."""
    codes = [issue.code for issue in getattr(error, "issues", ())]
    plain = {"missing_required", "type_mismatch", "unexpected_field", "invalid_value"}
    label = codes[0] if codes and codes[0] not in plain else error.kind
    return {"error": label, "message": str(error)}
