"""A tool behind the gateway borrows the model of the client in front."""

from __future__ import annotations

from typing import Any

import mcp.types as types
import pytest

import hardpoint
from hardpoint.errors import ExternalService
from hardpoint_mcp.sampling import reply_of, request_of

ERAS = ["modern", "legacy"]


async def ask_model(question: str, context: hardpoint.JobContext) -> str:
    """Ask a model."""
    model = context.services.extensions("llm_provider")["mcp-sampling"]
    reply = await model.complete(
        [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": [{"type": "text", "text": question}]},
        ],
        max_tokens=50,
        temperature=0.5,
    )
    return f"the model says: {reply.text}"


def model(answer: Any, asked: list[Any]) -> Any:
    async def sample(context: Any, params: types.CreateMessageRequestParams) -> Any:
        asked.append(params)
        if isinstance(answer, str):
            content = types.TextContent(type="text", text=answer)
            return types.CreateMessageResult(role="assistant", content=content, model="m")
        return answer

    return sample


@pytest.mark.parametrize("era", ERAS)
async def test_the_clients_model_answers_a_tool(era, front):
    made = await front()
    made.runtime.registry.register(hardpoint.tool(ask_model, approval="never"))
    asked: list[Any] = []

    async with made.client(era, sampling_callback=model("42", asked)) as client:
        result = await client.call_tool("ask_model", {"question": "why?"})

    assert result.content[0].text == "the model says: 42"
    [params] = asked
    assert (params.system_prompt, params.max_tokens, params.temperature) == ("Be short.", 50, 0.5)
    assert params.messages[0].content.text == "why?"


async def test_a_refusal_is_an_error_of_the_tool(front):
    """A client without a handshake that refuses does not come back at all."""
    made = await front()
    made.runtime.registry.register(hardpoint.tool(ask_model, approval="never"))
    no = types.ErrorData(code=-1, message="User rejected sampling request")

    async with made.client("legacy", sampling_callback=model(no, [])) as client:
        result = await client.call_tool("ask_model", {"question": "why?"})

    assert result.is_error


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_lends_no_model_is_not_asked(era, front):
    made = await front()
    made.runtime.registry.register(hardpoint.tool(ask_model, approval="never"))

    async with made.client(era) as client:
        result = await client.call_tool("ask_model", {"question": "why?"})

    assert result.is_error
    assert "lends its model" in result.content[0].text


async def test_without_a_client_in_front_there_is_no_model(front, context):
    made = await front()
    made.runtime.registry.register(hardpoint.tool(ask_model, approval="never"))

    outcome = await made.runtime.run("ask_model", {"question": "why?"}, context)

    assert "lends its model" in outcome.error.message


def test_what_the_system_says_stands_apart():
    made = request_of(
        [
            {"role": "system", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "tool", "content": "c"},
            {"role": "system", "content": "d"},
        ],
        7,
    )
    assert made["systemPrompt"] == "a\n\nd"
    assert [(m["role"], m["content"]["text"]) for m in made["messages"]] == [
        ("assistant", "b"),
        ("user", "c"),
    ]


def test_texts_and_calls_of_a_reply_are_told_apart():
    reply = reply_of(
        {
            "content": [
                {"type": "text", "text": "one "},
                {"type": "tool_use", "id": "1", "name": "t", "input": {"a": 1}},
                {"type": "text", "text": "two"},
            ],
            "stopReason": "toolUse",
        }
    )
    assert reply.text == "one two"
    assert reply.tool_calls == ({"id": "1", "name": "t", "arguments": {"a": 1}},)
    assert reply.stop_reason == "toolUse"


@pytest.mark.parametrize("answer", [None, 7, {}, {"content": []}, {"content": "text"}])
def test_what_is_no_reply_is_refused(answer):
    with pytest.raises(ExternalService, match="no reply"):
        reply_of(answer)
