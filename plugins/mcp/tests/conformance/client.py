"""Hardpoint's client under the official conformance suite: one scenario, named by the environment.

The suite starts this program with the address of its server as last argument and judges what
arrives there. What a scenario wants done is the table at the end; the rest is the client as it is.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hardpoint.errors import HardpointError
from hardpoint_mcp.client import McpClient
from hardpoint_mcp.config import OAuthConfig, ServerConfig
from hardpoint_mcp.oauth import LoginAuth, MemoryLogins
from hardpoint_mcp.upstream import Surroundings, Upstream
from hardpoint_mcp.wire.session import Call

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
REDIRECT = "http://localhost:3000/callback"


class Person:
    """Accepts every form with its default values, and every request to sample or to list roots."""

    capabilities: Mapping[str, Any] = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
    owner = "person"
    era = "modern"

    async def ask(self, questions: Mapping[str, Any]) -> Mapping[str, Any]:
        return {key: self.answer(**question) for key, question in questions.items()}

    def answer(self, method: str, params: Any = None) -> dict[str, Any]:
        if method == "roots/list":
            return {"roots": [{"uri": "file:///example"}]}
        if method == "sampling/createMessage":
            content = {"type": "text", "text": "an answer"}
            return {"role": "assistant", "content": content, "model": "test"}
        properties = params.get("requestedSchema", {}).get("properties", {})
        content = {key: field["default"] for key, field in properties.items() if "default" in field}
        if SCENARIO.startswith("sep-2322"):
            content = dict.fromkeys(properties, True)
        return {"action": "accept", "content": content}


async def authorize(url: str) -> tuple[str, str | None, str | None]:
    """The browser: the suite's authorization server redirects at once."""
    import httpx2

    async with httpx2.AsyncClient(trust_env=False) as browser:
        response = await browser.get(url, follow_redirects=False)
    query = parse_qs(urlsplit(response.headers["location"]).query)
    return query["code"][0], query.get("state", [None])[0], query.get("iss", [None])[0]


async def secret(name: str) -> str:
    return str(CONTEXT["client_secret"])


LOGINS = MemoryLogins()


def auth(url: str, config: ServerConfig) -> LoginAuth:
    return LoginAuth(
        "suite",
        url,
        LOGINS,
        OAuthConfig(
            client_id=CONTEXT.get("client_id"),
            client_secret="secret:suite" if "client_secret" in CONTEXT else None,
            client_metadata_url="https://conformance-test.local/client-metadata.json",
        ),
        authorize=authorize,
        redirect_uri=REDIRECT,
        secrets=secret,
    )


async def call(upstream: Upstream, name: str, arguments: dict[str, Any] | None = None) -> Any:
    params = {"name": name, "arguments": arguments or {}}
    return await upstream.request("tools/call", params, Call(30, asker=Person()))


def stub(schema: Mapping[str, Any]) -> dict[str, Any]:
    blank = {"string": "x", "integer": 0, "number": 0, "boolean": False, "object": {}, "array": []}
    properties = schema.get("properties", {})
    return {
        name: blank.get(properties.get(name, {}).get("type"), "x")
        for name in schema.get("required", [])
    }


async def every_tool(upstream: Upstream) -> None:
    for listed in upstream.catalogue.tools.values():
        await tolerated(call(upstream, listed.original, stub(listed.definition.parameters)))


async def tolerated(work: Any) -> Any:
    """Some scenarios answer with errors on purpose."""
    try:
        return await work
    except HardpointError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return None


async def run(url: str) -> None:
    config = ServerConfig(url=url, transport="http", startup_timeout=60)
    surroundings = Surroundings(auth=auth if SCENARIO.startswith("auth/") else lambda u, c: None)
    upstream = Upstream("suite", config, prefix="none", surroundings=surroundings)
    person = Person()
    try:
        await upstream.refresh(person)
        tools = {listed.original for listed in upstream.catalogue.tools.values()} | {
            listed.original for listed in (await upstream.refresh(person)).tools.values()
        }
        match SCENARIO:
            case "sse-retry":
                await call(upstream, "test_reconnection")
            case "elicitation-sep1034-client-defaults":
                await call(upstream, "test_client_elicitation_defaults")
            case "sep-2322-client-request-state":
                for name in ("echo_state", "unrelated", "no_state", "no_result_type"):
                    await tolerated(call(upstream, f"test_mrtr_{name}"))
            case "http-custom-headers":
                for wanted in CONTEXT.get("toolCalls", []):
                    if wanted["name"] in tools:
                        await tolerated(call(upstream, wanted["name"], wanted.get("arguments")))
            case "http-invalid-tool-headers":
                await every_tool(upstream)
            case "json-schema-2020-12-preservation":
                catalogue = await upstream.refresh()
                listed = catalogue.tools["json_schema_2020_12_tool"]
                await call(upstream, "json_schema_echo", {"schema": listed.definition.parameters})
            case "initialize":
                pass
            case _ if "add_numbers" in tools:
                await call(upstream, "add_numbers", {"a": 5, "b": 3})
            case _ if SCENARIO.startswith("auth/"):
                for name in sorted(tools):
                    await tolerated(call(upstream, name))
    finally:
        await upstream.aclose()


if __name__ == "__main__":
    assert McpClient
    asyncio.run(asyncio.wait_for(run(sys.argv[-1]), 150))
