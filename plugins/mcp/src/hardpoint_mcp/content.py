"""Results of a server as outputs of a tool, and back. Lossless where nothing was cleaned."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hardpoint import Audio, Blob, Image, Link, Part, Resource, Text, ToolOutput
from hardpoint.errors import ExecutionFailed

Raw = dict[str, Any]


class McpToolError(ExecutionFailed):
    """The server ran the tool and says that it failed."""

    def __init__(self, message: str, raw: Raw) -> None:
        super().__init__(message)
        self.raw = raw


# from the server -------------------------------------------------------------------------------


def to_output(raw: Raw, is_valid: Any = None) -> ToolOutput:
    """A result as output.

    Args:
        raw: The result of `tools/call`.
        is_valid: Tells whether structured content fits the tool's output schema.

    Raises:
        McpToolError: When the server says that the tool failed.
    """
    blocks = raw.get("content")
    blocks = blocks if isinstance(blocks, list) else []
    parts: list[Part] = [to_part(block) for block in blocks if isinstance(block, dict)]
    if raw.get("isError", raw.get("is_error")) is True:
        raise McpToolError(_as_text(parts) or "the server gives no reason", raw)
    meta: dict[str, Any] = {}
    structured = raw.get("structuredContent")
    if structured is not None:
        if is_valid is None or is_valid(structured):
            rest = [part for part in parts if not _repeats(part, structured)]
            return ToolOutput(result=structured).with_parts(*rest)
        meta["hardpoint/warning"] = "the structured content does not fit the tool's output schema"
        if not parts:
            return ToolOutput(result=structured, structured=False, meta=meta)
    texts = [part.text for part in parts if isinstance(part, Text)]
    if len(texts) == len(parts):
        return ToolOutput(result="\n".join(texts), structured=False, meta=meta)
    return ToolOutput(structured=False, meta=meta).with_parts(*parts)


def to_part(block: Mapping[str, Any]) -> Part:
    """One content block. What is broken or unknown becomes text that says so."""
    kind = block.get("type")
    media_type = block.get("mimeType", block.get("mime_type"))
    media_type = media_type if isinstance(media_type, str) else None
    try:
        match kind:
            case "text":
                return Text(str(block.get("text", "")))
            case "image":
                return Image(_decode(block.get("data")), media_type or "image/png")
            case "audio":
                return Audio(_decode(block.get("data")), media_type or "audio/wav")
            case "resource" if isinstance(block.get("resource"), Mapping):
                return _resource(block["resource"])
            case "resource_link":
                return Link(
                    str(block.get("uri", "")),
                    _text_or_none(block.get("title") or block.get("name")),
                    _text_or_none(block.get("description")),
                    media_type,
                )
    except ValueError as error:
        return Text(f"[{kind}: {error}]")
    return Text(json.dumps(dict(block), ensure_ascii=False))


def _resource(resource: Mapping[str, Any]) -> Resource:
    blob = resource.get("blob")
    return Resource(
        uri=str(resource.get("uri", "")),
        text=_text_or_none(resource.get("text")),
        data=None if blob is None else _decode(blob),
        media_type=_text_or_none(resource.get("mimeType", resource.get("mime_type"))),
    )


def _decode(data: Any) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise ValueError("its data is not base64") from None


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _as_text(parts: Sequence[Part]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text)).strip()


def _repeats(part: Part, structured: Any) -> bool:
    """Whether a text is only the structured content once more, for clients that read no other."""
    if not isinstance(part, Text):
        return False
    said = [structured]
    if isinstance(structured, Mapping) and structured.keys() == {"result"}:
        # How SDKs wrap what is no object; a list is told item by item.
        value = structured["result"]
        said += [value, *value] if isinstance(value, list) else [value]
    if part.text in [value for value in said if isinstance(value, str)]:
        return True
    try:
        return json.loads(part.text) in said
    except (ValueError, RecursionError):
        return False


# to a client -----------------------------------------------------------------------------------


def to_blocks(output: ToolOutput) -> list[Raw]:
    """An output as content blocks: its result as text, then its parts."""
    blocks: list[Raw] = []
    if output.result is not None or not output.parts:
        blocks.append({"type": "text", "text": as_text(output.result)})
    return blocks + [block for part in output.parts for block in from_part(part)]


def as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def from_part(part: Part) -> Iterator[Raw]:
    match part:
        case Text(text):
            yield {"type": "text", "text": text}
        case Image(data, media_type):
            yield {"type": "image", "data": _encode(data), "mimeType": media_type}
        case Audio(data, media_type):
            yield {"type": "audio", "data": _encode(data), "mimeType": media_type}
        case Blob(data, media_type, name):
            uri = f"blob:{name or 'data'}"
            yield {
                "type": "resource",
                "resource": {"uri": uri, "mimeType": media_type, "blob": _encode(data)},
            }
        case Resource(uri, text, data, media_type):
            resource = {"uri": uri, "mimeType": media_type, "text": text}
            if data is not None:
                resource["blob"] = _encode(data)
            yield {"type": "resource", "resource": _present(resource)}
        case Link(uri, name, description, media_type):
            yield _present(
                {
                    "type": "resource_link",
                    "uri": uri,
                    "name": name or uri,
                    "description": description,
                    "mimeType": media_type,
                }
            )


def _present(fields: Raw) -> Raw:
    return {key: value for key, value in fields.items() if value is not None}


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
