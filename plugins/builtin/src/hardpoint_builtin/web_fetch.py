"""`web_fetch`: read one web page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hardpoint import (
    Canonical,
    ExecutionFailed,
    JobContext,
    Subject,
    Tool,
    ToolOutput,
    ToolRateLimitConfig,
)
from hardpoint.net import parse_url
from hardpoint_builtin.http.answer import show
from hardpoint_builtin.http.tool import MAX_BODY, MAX_REDIRECTS, open_client, send
from hardpoint_builtin.pages import HTML_TYPES, Page, read_page

TIMEOUT = 30.0
_HEADERS = (
    # Some sites answer nothing but browsers; this says so without claiming to be one.
    ("User-Agent", "Mozilla/5.0 (compatible; Hardpoint)"),
    (
        "Accept",
        "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5",
    ),
    ("Accept-Language", "en, *;q=0.5"),
)


class WebFetchTool(Tool):
    """The main content of a web page as Markdown."""

    name = "web_fetch"
    subject_kind = "url"
    description = (
        "Read a public web page: its title and main content as Markdown. For APIs, other methods "
        "and files use http."
    )

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "url": {"type": "string", "description": "The whole URL, beginning with https://"}
            },
            "required": ["url"],
            "additionalProperties": False,
        }

    def output_schema(self) -> dict[str, Any]:
        text = {"type": "string"}
        return {
            "type": "object",
            "properties": {
                "url": text,
                "final_url": text,
                "status": {"type": "integer"},
                "title": text,
                "content": text,
                "word_count": {"type": "integer"},
                "truncated": {"type": "boolean"},
            },
            "required": ["url", "final_url", "status", "title", "content", "word_count"],
        }

    def rate_limit_config(self) -> ToolRateLimitConfig:
        return ToolRateLimitConfig(30, 500)

    def effects(self, params: Mapping[str, Any]) -> frozenset[Any]:
        return frozenset(("read", "network"))

    async def canonicalise(self, params: dict[str, Any], context: JobContext) -> Canonical:
        url = str(parse_url(params.get("url", "")))
        return Canonical({"url": url}, (Subject("url", url, operation="GET"),))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        url = str(parse_url(params.get("url", "")))
        async with open_client(ctx) as client:
            response = await send(
                client,
                "GET",
                url,
                headers=_HEADERS,
                timeout=TIMEOUT,
                max_bytes=MAX_BODY,
                follow=True,
                max_redirects=MAX_REDIRECTS,
            )
        page = await _page(response)
        result = {
            "url": url,
            "final_url": response.url,
            "status": response.status,
            "title": page.title,
            "content": page.markdown,
            "word_count": len(page.markdown.split()),
        }
        if response.truncated:
            result["truncated"] = True
        return ToolOutput.success(result)


async def _page(response: Any) -> Page:
    if response.media_type in HTML_TYPES:
        return await read_page(response)
    shown = await show(response)
    if shown.parts:
        raise ExecutionFailed(
            f"{response.url} is no page to read but {response.media_type or 'binary data'}",
            hint="get it with http, which attaches it",
        )
    return Page("", shown.body if isinstance(shown.body, str) else response.text)
