"""Show a response to a model: JSON as a value, pages as Markdown, text as text, bytes as a part."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import attrs

from hardpoint import Audio, Blob, Image, Part
from hardpoint.net import HttpResponse
from hardpoint_builtin.pages import HTML_TYPES, page_text, read_page

_TEXT_TYPES = re.compile(
    r"text/|application/(xml|javascript|ecmascript|yaml|x-yaml|toml|sql|graphql"
    r"|x-www-form-urlencoded|x-sh|x-ndjson|jsonl)\Z|.*\+(xml|yaml)\Z"
)
_JSON_TYPES = re.compile(r"(application|text)/(.*\+)?json\Z")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


@attrs.frozen
class Shown:
    """The body of a response as a tool result."""

    body: Any
    parts: tuple[Part, ...] = ()
    raw: str | None = None


async def show(response: HttpResponse) -> Shown:
    """The body in the form that a model reads best."""
    media_type, body = response.media_type, response.body
    if not body:
        return Shown("")
    if _JSON_TYPES.match(media_type) and not response.truncated:
        try:
            return Shown(_parse_json(body))
        except (ValueError, RecursionError):
            return Shown(response.text)
    if media_type in HTML_TYPES:
        page = await read_page(response)
        return Shown(page.markdown, raw=page_text(response))
    if _JSON_TYPES.match(media_type) or _TEXT_TYPES.match(media_type):
        return Shown(response.text)
    if not media_type and _is_text(body):
        return Shown(response.text)
    return _attached(media_type or "application/octet-stream", body)


def _attached(media_type: str, body: bytes) -> Shown:
    part: Part
    match media_type.partition("/")[0]:
        case "image":
            part = Image(body, media_type)
        case "audio":
            part = Audio(body, media_type)
        case _:
            part = Blob(body, media_type)
    return Shown(f"[{len(body)} bytes of {media_type}, attached]", (part,))


def _is_text(body: bytes) -> bool:
    try:
        return "\x00" not in body.decode()
    except UnicodeDecodeError:
        return False


def _parse_json(body: bytes) -> Any:
    value = json.loads(body, parse_constant=_no_constant, parse_float=_finite)
    if _SURROGATE.search(body):
        json.dumps(value, ensure_ascii=False).encode()  # half a character is no text
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large")
    return number
