"""Do one firing of a routine: its calls, a short talk with a model, or the host's worker."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hardpoint import ApprovalRequirement, ExecutionFailed, HardpointError, JobContext
from hardpoint_builtin.routines.tables import Routine

DENIED: Final = frozenset(
    ("routine_create", "routine_update", "routine_delete", "routine_fire", "restart", "create_job",
     "tool_call", "tool_install", "tool_remove", "tool_upgrade", "event_emit")
)  # fmt: skip
"""What no model in a routine calls, so that routines do not breed."""
MAX_TOKENS: Final = 4096
MAX_OUTPUT: Final = 8192
MAX_MESSAGES: Final = 32
MAX_CONTEXT: Final = 20_000
"""Characters of each document that a routine reads first."""


async def run_routine(
    routine: Routine, cause: Mapping[str, Any], job: Mapping[str, Any], context: JobContext
) -> Any:
    """Do what the routine says and deliver what comes out.

    Raises:
        HardpointError: It could not be done, or not be delivered.
    """
    execution = routine.execution
    if execution.get("calls"):
        result: Any = await _make_calls(execution["calls"], context)
    else:
        prompt = await _prompt(routine, cause, context)
        result = await _answer(routine, prompt, job, context)
    await _deliver(routine, result, context)
    return result


async def _make_calls(calls: Sequence[Mapping[str, Any]], context: JobContext) -> list[Any]:
    results = []
    for call in calls:
        output = await context.services.call(call["tool"], call.get("params", {}))
        results.append({"tool": call["tool"], "result": output.result})
    return results


async def _prompt(routine: Routine, cause: Mapping[str, Any], context: JobContext) -> str:
    """The prompt, what happened, and the documents that it names."""
    pieces = [routine.prompt]
    if set(cause) - {"kind"}:
        pieces.append(f"What happened:\n{json.dumps(cause, ensure_ascii=False)}")
    workspace = context.services.workspace
    for path in routine.execution.get("context_paths", ()):
        text = None if workspace is None else await workspace.read(context.user_id, path)
        pieces.append(f"# {path}\n{'(not there)' if text is None else text[:MAX_CONTEXT]}")
    return "\n\n".join(pieces)


async def _answer(
    routine: Routine, prompt: str, job: Mapping[str, Any], context: JobContext
) -> Any:
    jobs = context.services.jobs
    worker = jobs.default_worker()
    providers = context.services.extensions("llm_provider")
    light = routine.execution.get("mode", "lightweight") == "lightweight"
    if light and providers:
        return await _talk(next(iter(providers.values())), prompt, routine.execution, context)
    if worker is not None:
        told = {**job, "title": routine.name, "description": prompt, "input": None}
        return await jobs.workers[worker].run(told, context)
    raise ExecutionFailed(
        f"routine {routine.name!r} has nobody to do it",
        hint="register a job worker or a language model, or give it calls",
    )


async def _talk(model: Any, prompt: str, execution: Mapping[str, Any], context: JobContext) -> str:
    """A few rounds with a model that may use tools which need no approval."""
    tools = _tools(execution, context) if execution.get("use_tools", True) else []
    allowed = {definition.name for definition in tools}
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    for left in range(int(execution.get("max_tool_rounds", 3)), -1, -1):
        # In the last round the model has to answer.
        reply = await model.complete(
            messages[:1] + messages[1:][-MAX_MESSAGES:],
            tools=tools if left else (),
            max_tokens=MAX_TOKENS,
        )
        if not reply.tool_calls or not left:
            return str(reply.text)[:MAX_OUTPUT]
        messages.append(
            {"role": "assistant", "content": reply.text, "tool_calls": list(reply.tool_calls)}
        )
        for call in reply.tool_calls:
            messages.append(await _tool_message(call, allowed, context))
    raise AssertionError("the last round returns")


async def _tool_message(
    call: Mapping[str, Any], allowed: set[str], context: JobContext
) -> dict[str, Any]:
    name = str(call["name"])
    services: Any = context.services
    if name in allowed:
        # A model that is refused goes another way; the routine does not stand still for a rule.
        outcome = await services.run(name, call.get("arguments") or {}, wait=False)
        text = outcome.to_model_text()
    else:
        text = f"Error: {name}: this routine may not call it"
    return {"role": "tool", "tool_call_id": call.get("id"), "name": name, "content": text}


def _tools(execution: Mapping[str, Any], context: JobContext) -> list[Any]:
    """What the routine may call: visible, named if names are given, and asking nobody."""
    services = context.services
    named = set(execution.get("tool_permissions", ()))
    return [
        definition
        for definition in services.registry.schemas()
        if definition.name not in DENIED
        and (not named or definition.name in named)
        and services.may_see(definition.name)
        and _asks_nobody(services.registry.get(definition.name))
    ]


def _asks_nobody(tool: Any) -> bool:
    try:
        answers = (tool.requires_approval({}), tool.approval_requirement({}))
    except Exception:  # a tool's own method is foreign code; its failure means no
        return False
    return all(answer is ApprovalRequirement.NEVER for answer in answers)


async def _deliver(routine: Routine, result: Any, context: JobContext) -> None:
    delivery = {key: value for key, value in routine.delivery.items() if value}
    if not delivery:
        return
    text = (
        result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
    )
    if not text.strip():
        return
    params = {"content": text[:MAX_OUTPUT]}
    params |= {"channel": delivery["channel"]} if "channel" in delivery else {}
    params |= {"target": delivery["user"]} if "user" in delivery else {}
    outcome = await context.services.run("message", params)
    if outcome.error is not None:
        raise HardpointError(f"the result could not be delivered: {outcome.error.message}")
