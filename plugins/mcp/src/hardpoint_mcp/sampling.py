"""The client's own model as a language model for tools, while its request is served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hardpoint import ToolDefinition
from hardpoint.errors import ExternalService
from hardpoint.interfaces import LlmProvider, LlmReply
from hardpoint_mcp.front import current_front
from hardpoint_mcp.wire.channel import Message
from hardpoint_mcp.wire.errors import RpcError

_TOKENS: Final = 4096
_METHOD: Final = "sampling/createMessage"


class SamplingProvider(LlmProvider):
    """Asks the client to have its model answer. What it costs, and whether to, is the client's."""

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[ToolDefinition] = (),
        max_tokens: int | None = None,
        **options: Any,
    ) -> LlmReply:
        """One reply.

        Raises:
            ExternalService: No client is there, it offers no sampling, or it refused.
        """
        front = current_front.get()
        asker = None if front is None else front.asker
        if asker is None or "sampling" not in asker.capabilities:
            raise ExternalService(
                "no client that lends its model stands in front of this call",
                hint="configure another language model, or use a client that offers sampling",
            )
        params = request_of(messages, max_tokens or _TOKENS)
        if isinstance(options.get("temperature"), int | float):
            params["temperature"] = options["temperature"]
        if tools and "tools" in (asker.capabilities["sampling"] or {}):
            params["tools"] = [
                {"name": one.name, "description": one.description, "inputSchema": one.parameters}
                for one in tools
            ]
        try:
            answers = await asker.ask({"reply": {"method": _METHOD, "params": params}})
        except RpcError as error:
            raise ExternalService(f"the client's model did not answer: {error.message}") from error
        return reply_of(answers.get("reply"))


def request_of(messages: Sequence[Mapping[str, Any]], max_tokens: int) -> Message:
    """A chat as MCP puts it: what the system says stands apart."""
    system = [_text(m.get("content")) for m in messages if m.get("role") == "system"]
    chat = [
        {
            "role": "assistant" if message.get("role") == "assistant" else "user",
            "content": {"type": "text", "text": _text(message.get("content"))},
        }
        for message in messages
        if message.get("role") != "system"
    ]
    params: Message = {"messages": chat, "maxTokens": max_tokens}
    if system:
        params["systemPrompt"] = "\n\n".join(system)
    return params


def reply_of(answer: Any) -> LlmReply:
    """What came back, as a reply.

    Raises:
        ExternalService: It is no reply.
    """
    answer = answer if isinstance(answer, Mapping) else {}
    content = answer.get("content")
    given = content if isinstance(content, list) else [content]
    blocks = [block for block in given if isinstance(block, Mapping)]
    if not blocks:
        raise ExternalService("the client's model gave no reply")
    calls = [
        {"id": block.get("id"), "name": block.get("name"), "arguments": block.get("input")}
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    reason = answer.get("stopReason")
    return LlmReply(text, tuple(calls), reason if isinstance(reason, str) else None)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return ""
