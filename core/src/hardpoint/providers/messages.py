"""The results of tool calls as the messages that a provider wants appended to the conversation."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from hardpoint.parts import Audio, Blob, Image, Link, Part, Resource, Text
from hardpoint.providers.calls import ProviderCall
from hardpoint.providers.definitions import family_of


class Outcome(Protocol):
    """What is needed of a `CallOutcome`."""

    @property
    def ok(self) -> bool: ...
    @property
    def output(self) -> Any: ...
    def to_model_text(self) -> str: ...


Answered = Sequence[tuple[ProviderCall, Outcome]]


def result_messages(provider: str, answered: Answered) -> list[dict[str, Any]]:
    """The messages to append: every call with its result, in the order of the calls.

    Args:
        provider: As for `definitions_for`.
        answered: Each call of `parse_calls` with its outcome.

    Returns:
        OpenAI: one message for each call. Anthropic and Gemini: one message that holds all results.
        MCP: one result for each call, as a response where the call came as a request.
    """
    return _WRITERS[family_of(provider)](answered) if answered else []


def _images(outcome: Outcome) -> list[Image]:
    parts = getattr(outcome.output, "parts", ()) if outcome.ok else ()
    return [part for part in parts if isinstance(part, Image)]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _openai(answered: Answered) -> list[dict[str, Any]]:
    return [_openai_one(call, outcome) for call, outcome in answered]


def _openai_one(call: ProviderCall, outcome: Outcome) -> dict[str, Any]:
    text = outcome.to_model_text()
    if call.form != "responses":
        return {"role": "tool", "tool_call_id": call.id, "content": text}
    output: Any = text
    if images := _images(outcome):
        output = [{"type": "input_text", "text": text}]
        for image in images:
            url = f"data:{image.media_type};base64,{_base64(image.data)}"
            output.append({"type": "input_image", "image_url": url})
    return {"type": "function_call_output", "call_id": call.id, "output": output}


def _anthropic(answered: Answered) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [_anthropic_one(c, outcome) for c, outcome in answered]}]


def _anthropic_one(call: ProviderCall, outcome: Outcome) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": outcome.to_model_text()}]
    for image in _images(outcome):
        source = {"type": "base64", "media_type": image.media_type, "data": _base64(image.data)}
        content.append({"type": "image", "source": source})
    block = {"type": "tool_result", "tool_use_id": call.id, "content": content}
    return block if outcome.ok else {**block, "is_error": True}


def _gemini(answered: Answered) -> list[dict[str, Any]]:
    return [{"role": "user", "parts": [_gemini_one(call, outcome) for call, outcome in answered]}]


def _gemini_one(call: ProviderCall, outcome: Outcome) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "name": call.wire_name or call.name,
        "response": {"output" if outcome.ok else "error": outcome.to_model_text()},
    }
    if call.id:
        answer["id"] = call.id
    return {"functionResponse": answer}


def _mcp(answered: Answered) -> list[dict[str, Any]]:
    return [_mcp_one(call, outcome) for call, outcome in answered]


def _mcp_one(call: ProviderCall, outcome: Outcome) -> dict[str, Any]:
    result = mcp_result(outcome)
    if not call.form:
        return result
    identifier = int(call.id) if call.form == "jsonrpc-number" else call.id
    return {"jsonrpc": "2.0", "id": identifier, "result": result}


def mcp_result(outcome: Outcome) -> dict[str, Any]:
    """An outcome as the result of `tools/call`."""
    if not outcome.ok:
        text = outcome.to_model_text()
        return {"content": [{"type": "text", "text": text}], "isError": True}
    output = outcome.output
    parts = tuple(getattr(output, "parts", ()))
    content = [_mcp_part(part) for part in parts]
    if output.result is not None or not parts:
        content.insert(0, {"type": "text", "text": outcome.to_model_text()})
    result: dict[str, Any] = {"content": content, "isError": False}
    if isinstance(output.result, dict) and getattr(output, "structured", False):
        result["structuredContent"] = output.result
    return result


def _mcp_part(part: Part) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Image(data, media_type):
            return {"type": "image", "data": _base64(data), "mimeType": media_type}
        case Audio(data, media_type):
            return {"type": "audio", "data": _base64(data), "mimeType": media_type}
        case Blob(data, media_type, name):
            uri = f"attachment:{name or 'data'}"
            resource = {"uri": uri, "blob": _base64(data), "mimeType": media_type}
            return {"type": "resource", "resource": resource}
        case Resource(uri, text, data, media_type):
            held = {"blob": _base64(data)} if data is not None else {"text": text or ""}
            described = {"mimeType": media_type} if media_type else {}
            return {"type": "resource", "resource": {"uri": uri, **held, **described}}
        case Link(uri, name, description, media_type):
            more = {"description": description, "mimeType": media_type}
            found = {key: value for key, value in more.items() if value}
            return {"type": "resource_link", "uri": uri, "name": name or uri, **found}


_WRITERS: Final[Mapping[str, Callable[[Answered], list[dict[str, Any]]]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "mcp": _mcp,
}
