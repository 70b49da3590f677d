"""Read the tool calls of a model's reply, however badly formed.

A call that cannot be read is still a call, with what could be read of it: the pipeline then answers
it with an error, so that every call of a reply gets its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from hardpoint.providers.definitions import family_of
from hardpoint.providers.names import NameMap

CUT_OFF: Final = "[cut off: the reply ended before the arguments did; send the call again]"
"""Stands for the arguments of a call that must not run, because they may be incomplete."""


@attrs.frozen
class ProviderCall:
    """One tool call of a reply."""

    id: str
    name: str
    """The tool's own name, mapped back."""
    params: Any
    """The arguments; text where they came as text, whether it can be read or not."""
    wire_name: str = ""
    """What the provider called the tool."""
    form: str = ""
    """Which of a provider's forms the call came in, where it has several."""


def parse_calls(provider: str, reply: Any, names: Iterable[str] = ()) -> list[ProviderCall]:
    """The tool calls of a model's reply, in order.

    Args:
        provider: As for `definitions_for`.
        reply: The list of tool calls, the message that holds them, or the whole response; as plain
            data or as objects of the provider's library. Only a whole response tells that it was
            cut off at its token limit; its last call then gets `CUT_OFF` as its arguments.
        names: The names of the tools that were offered, to map the provider's names back.

    Example:
        calls = parse_calls("openai", response.choices[0].message, ["files.read"])
        calls[0].name    # "files.read"
    """
    family = family_of(provider)
    mapped = NameMap(family, names)
    read = _READERS[family](reply)
    calls = [attrs.evolve(call, name=mapped.from_wire(call.wire_name)) for call in read]
    if calls and _was_cut_off(reply):
        calls[-1] = attrs.evolve(calls[-1], params=CUT_OFF)
    return calls


# plain data or objects -------------------------------------------------------------------------


def _get(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(key)
    if value is None or isinstance(value, str | bytes | int | float | list | tuple):
        return None
    return getattr(value, key, None)


def _list(value: Any) -> list[Any]:
    if value is None or isinstance(value, str | bytes):
        return []
    if isinstance(value, list | tuple):
        return list(value)
    return [value]  # one object, also of a provider's library, which may iterate over its fields


def _either(value: Any, *keys: str) -> Any:
    for key in keys:
        found = _get(value, key)
        if found is not None:
            return found
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _was_cut_off(reply: Any) -> bool:
    first = next(iter(_list(_get(reply, "choices")) or _list(_get(reply, "candidates"))), None)
    details = _get(reply, "incomplete_details")  # the Responses API
    reasons = [
        _either(first, "finish_reason", "finishReason"),
        _either(reply, "stop_reason", "finish_reason", "finishReason"),
        _get(details, "reason"),
    ]
    words = {str(getattr(reason, "value", reason)).lower() for reason in reasons}
    return bool(words & {"length", "max_tokens", "max_output_tokens"})


# one reader for each family --------------------------------------------------------------------


def _read_openai(reply: Any) -> Iterator[ProviderCall]:
    choice = next(iter(_list(_get(reply, "choices"))), None)
    message = _get(choice, "message") or reply
    held = _either(message, "tool_calls", "output")
    for item in _list(held if held is not None else message):
        function = _get(item, "function")
        if function is not None:
            arguments = _get(function, "arguments")
            name = _text(_get(function, "name"))
            yield ProviderCall(_text(_get(item, "id")), name, arguments, name, "chat")
        elif _get(item, "type") == "function_call":
            name = _text(_get(item, "name"))
            identifier = _text(_either(item, "call_id", "id"))
            yield ProviderCall(identifier, name, _get(item, "arguments"), name, "responses")


def _read_anthropic(reply: Any) -> Iterator[ProviderCall]:
    held = _get(reply, "content")
    for item in _list(held if held is not None else reply):
        if _get(item, "type") == "tool_use":
            name = _text(_get(item, "name"))
            yield ProviderCall(_text(_get(item, "id")), name, _get(item, "input"), name)


def _read_gemini(reply: Any) -> Iterator[ProviderCall]:
    candidate = next(iter(_list(_get(reply, "candidates"))), None)
    content = _get(candidate, "content") or _get(reply, "content") or reply
    held = _get(content, "parts")
    for item in _list(held if held is not None else content):
        call = _either(item, "functionCall", "function_call") or item
        if _get(call, "name") is not None:
            name = _text(_get(call, "name"))
            yield ProviderCall(_text(_get(call, "id")), name, _get(call, "args"), name)


def _read_mcp(reply: Any) -> Iterator[ProviderCall]:
    for item in _list(reply):
        is_request = _get(item, "method") is not None
        call = _get(item, "params") if is_request else item
        identifier = _get(item, "id")
        form = (
            ("jsonrpc-number" if isinstance(identifier, int) else "jsonrpc") if is_request else ""
        )
        name = _text(_get(call, "name"))
        shown = "" if identifier is None else str(identifier)
        yield ProviderCall(shown, name, _get(call, "arguments"), name, form)


_READERS: Final[Mapping[str, Callable[[Any], Iterator[ProviderCall]]]] = {
    "openai": _read_openai,
    "anthropic": _read_anthropic,
    "gemini": _read_gemini,
    "mcp": _read_mcp,
}
