"""`http`: one HTTP request to a public host."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

from hardpoint import (
    ApprovalRequirement,
    Canonical,
    InvalidParameters,
    JobContext,
    NotAuthorized,
    Subject,
    Tool,
    ToolOutput,
    ToolRateLimitConfig,
    ToolTimeout,
)
from hardpoint.net import Binding, HttpResponse, PinnedClient, matching, parse_url
from hardpoint_builtin.http.answer import show
from hardpoint_builtin.http.arguments import (
    DEFAULT_TIMEOUT,
    MAX_TIMEOUT,
    METHODS,
    Arguments,
    read_arguments,
    read_headers,
    read_method,
)
from hardpoint_builtin.http.credentials import carries_credentials

MEGABYTE = 1024 * 1024
MAX_BODY = 5 * MEGABYTE
MAX_SAVED = 50 * MEGABYTE
MAX_REDIRECTS = 3
_ACCEPT = "text/markdown, text/html;q=0.9, application/json;q=0.9, */*;q=0.5"
_EFFECTS = {
    "GET": frozenset(("read", "network")),
    "DELETE": frozenset(("delete", "network", "send")),
}
_SENDS = frozenset(("write", "network", "send"))


class HttpTool(Tool):
    """One HTTP request; every address is judged, stored secrets are injected where they are bound.

    Args:
        bindings: Secrets that go into matching requests without the caller ever seeing them.
    """

    name = "http"
    subject_kind = "url"
    description = (
        "Make an HTTPS request to a public host. JSON comes back as a value, a web page as "
        "Markdown, other bytes as an attachment. A status of 400 or more is a result too: read it. "
        "Credentials of known services are added by themselves; do not write them into the call."
    )

    def __init__(self, bindings: Sequence[Binding] = ()) -> None:
        self.bindings = tuple(bindings)

    def parameters_schema(self) -> dict[str, Any]:
        return _schema(
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
                    "required": ["name", "value"],
                    "additionalProperties": False,
                },
                "description": "Request headers, for example "
                '[{"name": "Accept", "value": "text/plain"}].',
            }
        )

    def discovery_schema(self) -> dict[str, Any]:
        listed = self.parameters_schema()["properties"]["headers"]
        as_object = {
            "type": "object",
            "properties": {},
            "additionalProperties": {"type": ["string", "number"]},
            "description": "Header names with their values.",
        }
        return _schema({"anyOf": [listed, as_object], "description": listed["description"]})

    def requires_approval(self, params: Mapping[str, Any]) -> ApprovalRequirement:
        """A plain GET needs none; what changes something or carries a credential does."""
        if isinstance(params, str):
            params = _from_text(params)
        method, url = read_method(params), str(params.get("url", ""))
        if method != "GET" or self._is_bound(method, url):
            return ApprovalRequirement.UNLESS_AUTO_APPROVED
        try:
            headers = read_headers(params.get("headers"))
        except InvalidParameters:
            return ApprovalRequirement.UNLESS_AUTO_APPROVED
        if carries_credentials(url, headers):
            return ApprovalRequirement.UNLESS_AUTO_APPROVED
        return ApprovalRequirement.NEVER

    def rate_limit_config(self) -> ToolRateLimitConfig:
        return ToolRateLimitConfig(30, 500)

    def execution_timeout(self) -> timedelta:
        # The request has its own limit; this one only has to be longer.
        return timedelta(seconds=MAX_TIMEOUT + 10)

    def effects(self, params: Mapping[str, Any]) -> frozenset[Any]:
        effects = _EFFECTS.get(read_method(params), _SENDS)
        return effects if params.get("body") in (None, "") else effects | {"send"}

    async def canonicalise(self, params: dict[str, Any], context: JobContext) -> Canonical:
        arguments = read_arguments(params)
        subject = Subject("url", arguments.url, operation=arguments.method)
        return Canonical(arguments.to_params(), (subject,))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        arguments = read_arguments(params)
        headers, content = arguments.encoded()
        plain = arguments.is_plain and not self._is_bound(arguments.method, arguments.url)
        async with open_client(ctx, self.bindings) as client:
            response = await send(
                client,
                arguments.method,
                arguments.url,
                headers=[("Accept", _ACCEPT)] if plain else headers,
                body=content,
                timeout=arguments.timeout,
                max_bytes=MAX_BODY if arguments.save_to is None else MAX_SAVED,
                follow=plain,
                max_redirects=MAX_REDIRECTS,
            )
        if response.location is not None:
            raise _redirected(arguments.method, response)
        if arguments.save_to is not None:
            return await _saved(arguments, response, ctx)
        return await _shown(response)

    def secret_names(self, params: Mapping[str, Any]) -> list[str]:
        """The secrets that a request would carry; for `hardpoint explain`."""
        method, url = read_method(params), str(params.get("url", ""))
        try:
            return [binding.secret for binding in matching(self.bindings, method, parse_url(url))]
        except InvalidParameters:
            return []

    def _is_bound(self, method: str, url: str) -> bool:
        return bool(self.secret_names({"method": method, "url": url}))


def open_client(
    context: JobContext, bindings: Sequence[Binding] = ()
) -> AbstractAsyncContextManager[Any]:
    """The runtime's client; outside a call, where no secrets are to be had, one of its own."""
    if context.handle is not None:
        return context.services.http(bindings)
    return PinnedClient(bindings=bindings)


async def send(client: PinnedClient, method: str, url: str, **options: Any) -> HttpResponse:
    """Send a request; what had come when the time ran out stays readable."""
    try:
        return await client.request(method, url, **options)
    except ToolTimeout as error:
        if isinstance(error.partial, bytes):
            error.partial = ToolOutput.text(error.partial.decode("utf-8", "replace"))
        raise


def _schema(headers: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "method": {
                "type": "string",
                "enum": [*METHODS],
                "description": "The HTTP method; GET when absent.",
            },
            "url": {"type": "string", "description": "The whole URL, beginning with https://"},
            "headers": headers,
            # Without a type on purpose: text is sent as it is, any other value as JSON.
            "body": {"description": "The request body: text as it is, any other value as JSON."},
            "timeout_secs": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_TIMEOUT,
                "description": f"Seconds for everything together; {DEFAULT_TIMEOUT} when absent.",
            },
            "save_to": {
                "type": "string",
                "description": "Keep a large body under this name, up to 50 MB, and get a "
                "reference for result_read in place of the body.",
            },
        },
        "required": ["url"],
    }


def _from_text(params: str) -> Mapping[str, Any]:
    try:
        parsed = json.loads(params)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _redirected(method: str, response: HttpResponse) -> NotAuthorized:
    done = (
        "" if method == "GET" else f" The {method} itself has been carried out; do not repeat it."
    )
    return NotAuthorized(
        f"the request was answered with a redirect ({response.status}) to {response.location!r},"
        f" which is not followed because the request carries more than a plain GET.{done}",
        hint="request that address itself, if it is where you mean to go",
    )


async def _shown(response: HttpResponse) -> ToolOutput:
    shown = await show(response)
    result = {**_head(response), "body": shown.body}
    if response.truncated:
        result["truncated"] = True
        result["note"] = (
            f"only the first {len(response.body)} bytes are here; call http again with save_to to"
            " keep up to 50 MB, and page through it with result_read"
        )
    output = ToolOutput.success(result).with_parts(*shown.parts)
    return output if shown.raw is None else output.with_raw(shown.raw)


async def _saved(arguments: Arguments, response: HttpResponse, ctx: JobContext) -> ToolOutput:
    results = ctx.services.results
    reference = await results.save(
        response.body,
        name=arguments.save_to,
        media_type=response.media_type or "application/octet-stream",
        context=ctx,
    )
    # The operator may keep less than this tool may read.
    kept = (await results.read(reference, max_bytes=4, user=ctx.user_id))["size"]
    result = {**_head(response), "saved_to": reference, "size_bytes": kept}
    if response.truncated or kept < len(response.body):
        result["truncated"] = True
    return ToolOutput.success(result)


def _head(response: HttpResponse) -> dict[str, Any]:
    headers: dict[str, str] = {}
    for name, value in response.headers:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    head: dict[str, Any] = {"status": response.status, "headers": headers}
    if response.redirects:
        head["url"] = response.url
    return head
