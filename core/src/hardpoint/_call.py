"""One call from the request to the outcome, in ten named steps.

    find → coerce → canonicalise → refuse_early → decide → ask → count → run → clean → settle

`run_call` at the end of the page is the whole story. Each step either leaves the call a little
further on or raises the `ToolError` that ends it; whatever happens, `settle` writes it down.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import attrs

from hardpoint import _facts
from hardpoint._asking import ask_about
from hardpoint._core import Core
from hardpoint._family import Family
from hardpoint._judging import denied, judge, limits_of
from hardpoint._plan import Plan
from hardpoint._state import Call, Watch
from hardpoint.calls import CallOutcome, ToolCall
from hardpoint.context import CallHandle, JobContext
from hardpoint.deadlines import within
from hardpoint.domains import KILL_GRACE, STILL_RUNNING, left_running, refuse_runaway
from hardpoint.errors import (
    ExecutionFailed,
    ExternalService,
    HardpointError,
    InvalidParameters,
    NotAuthorized,
    RateLimited,
    ToolDisabled,
    ToolError,
    ToolNotFound,
    ToolTimeout,
)
from hardpoint.interfaces import Invocation, LimitRequest
from hardpoint.parts import ToolOutput
from hardpoint.plugins import HookFunction
from hardpoint.policy.verdict import PolicyVerdict
from hardpoint.services import CallServices
from hardpoint.tools import Canonical

logger = logging.getLogger(__name__)


# 1 ---------------------------------------------------------------------------------------------


async def find(call: Call) -> None:
    """The tool of this name, switched on and allowed to be seen."""
    core, name = call.core, call.request.tool
    if call.family is not None:
        call.family.admit(call.context.depth + 1)
    if not isinstance(name, str):  # a model's reply can hold anything
        raise ToolNotFound(str(name))
    plan = core.plan(name)
    if plan is None:
        status, reason = core.absence(name)
        if status == "disabled":
            raise ToolDisabled(f"{name!r} is disabled: {reason}")
        near = core.registry.close_names(str(name))
        raise ToolNotFound(str(name), suggestions=near, hint=reason)
    call.plan = plan
    if not plan.config.enabled:
        source = core.config.sources.get(f"tools.{name}.enabled")
        raise ToolDisabled(f"{name!r} is disabled" + (f" in {source}" if source else ""))
    if core.lock is not None:
        await core.lock.refuse(plan.entry, plan.domain)
    if not core.loops.is_idle:
        core.loops.refuse_repetition(call.loop_key)
    secrets, user = core.services.secrets, call.context.user_id
    if not secrets.knows(user):
        # From here on the leak scan has to know what the caller's secrets are.
        await secrets.learn_user(user)


# 2 ---------------------------------------------------------------------------------------------


def coerce(call: Call) -> None:
    """Mend what models get wrong about types, then hold the arguments against the schema."""
    plan = call.plan
    call.params = plan.coerce(call.params)
    validator = plan.validator
    if validator.is_valid(call.params):
        return
    issues = validator.validate(call.params, sensitive=plan.sensitive)
    lines = "; ".join(str(issue) for issue in issues)
    raise InvalidParameters(
        f"the arguments of {plan.entry.name!r} are wrong: {lines}", issues=issues
    )


# 3 ---------------------------------------------------------------------------------------------


async def canonicalise(call: Call) -> None:
    """The arguments that will really run, and what they act on."""
    plan = call.plan
    if plan.canonicalises:
        # Bound, so that a canonicaliser can look at the settings; it may not call anything.
        made = await _own(plan, plan.tool.canonicalise(call.params, bind(call)))
        if not isinstance(made, Canonical):
            raise ExecutionFailed(f"{plan.entry.name!r} gave no canonical arguments")
        call.params, call.subjects = made.params, made.subjects
    call.effects = plan.effects(call.params)


async def _own(plan: Plan, work: Any) -> Any:
    """Await a tool's own method; what it raises by mistake becomes an orderly error."""
    try:
        return await work
    except ToolError:
        raise
    except Exception as error:  # a tool's own method is foreign code
        raise ExecutionFailed(
            f"{plan.entry.name!r} failed before it ran: {type(error).__name__}: {error}"
        ) from error


# 4 ---------------------------------------------------------------------------------------------


async def refuse_early(call: Call) -> None:
    """Ask nobody about a call that its limits would refuse anyway. Nothing is counted here."""
    plan, user = call.plan, call.context.user_id
    call.limits = plan.limits_for(user)
    for function in plan.limit_hooks:
        more = (LimitRequest(user, *limit) for limit in limits_of(call, function))
        call.limits = (*call.limits, *more)
    if call.limits:
        await _refuse_limited(call, call.core.limiter.check)


async def _refuse_limited(call: Call, ask: Callable[..., Awaitable[timedelta | None]]) -> None:
    """Ask the limiter; whatever goes wrong with it denies the call.

    Raises:
        RateLimited: A limit is used up.
        ExternalService: What counts is out of order.
    """
    try:
        wait = await ask(call.limits)
    except ToolError:
        raise
    except Exception as error:  # a backend is foreign code
        raise ExternalService(
            "the rate limits cannot be counted, so the call is denied:"
            f" {type(error).__name__}: {error}"
        ) from error
    if wait is not None:
        raise RateLimited(wait)


# 5 ---------------------------------------------------------------------------------------------


def decide(call: Call) -> None:
    """Allow, ask or deny, by requirement, hooks, rules, mode and caller."""
    judge(call)
    if call.verdict.limits:
        user = call.context.user_id
        more = (LimitRequest(user, *limit) for limit in call.verdict.limits)
        call.limits = (*call.limits, *more)
    if call.verdict.decision == "deny":
        raise denied(call)


# 6 ---------------------------------------------------------------------------------------------


async def ask(call: Call) -> bool:
    """Let a person decide where the policy says so, unless an earlier answer covers the call.

    Returns:
        True when the arguments were edited and the call must be looked at from the start.
    """
    if call.verdict.decision != "ask":
        return False
    if call.verdict.limits:
        await _refuse_limited(call, call.core.limiter.check)
    call.digest = call.make_digest()
    return await ask_about(call)


# 7 ---------------------------------------------------------------------------------------------


async def count(call: Call) -> None:
    """Reserve the cost, count the call in every limit or in none, write that it will run."""
    core, plan = call.core, call.plan
    refuse_runaway(plan.entry.name, plan.tool)
    if core.budget is not None:
        cost = plan.tool.estimated_cost(call.params) if plan.costs else None
        call.reservation = await core.budget.reserve(
            call.context, plan.entry.name, cost, seconds=plan.timeout.total_seconds()
        )
    # What is held back can be given back; what a limiter has counted stays counted. So it is last.
    if call.limits:
        await _refuse_limited(call, core.limiter.acquire)
    write_decided(call)


def write_decided(call: Call) -> None:
    """One audit record for what was decided, refusals included.

    Raises:
        NotAuthorized: The record cannot be written; a call without a record does not run.
    """
    call.decided_written = True
    try:
        call.core.recorder.write(_facts.of_decision(call))
    except Exception as error:  # whatever stops the record stops the call
        raise NotAuthorized(
            f"the audit record cannot be written, so the call is denied: {error}"
        ) from error


# 8 ---------------------------------------------------------------------------------------------


async def run(call: Call) -> None:
    """Run exactly what was approved, in its domain, until its time-out."""
    plan, core = call.plan, call.core
    domain = plan.require_domain()
    timeout = _time_left(call)
    paused = None
    context = call.context
    if plan.needs_context:
        if call.family is None:
            call.family = Family(timeout)
        paused = call.family.paused
        context = bind(call)
    if plan.started_hooks:
        _observe(call, plan.started_hooks, context=context)
    if call.digest is not None and call.make_digest() != call.digest:
        raise NotAuthorized("the call changed after it was approved; call again")
    invocation = Invocation(
        plan.tool, plan.entry.name, call.params, context, timeout, call.subjects, call.digest or ""
    )
    place = await core.take_place(plan, call.ancestors)
    try:
        await core.enter(plan, call.generation)
        call.began = True
        with nullcontext() if core.around is None else core.around(call.id):
            output = await within(
                timeout,
                domain.run(invocation),
                grace=KILL_GRACE if domain.killable else 0.0,
                paused=paused,
            )
    except ToolTimeout as error:
        if left_running(plan.tool) > 0:
            error.still_running, error.hint = True, STILL_RUNNING
        call.partial = _partial(call, error.partial)
        raise
    finally:
        core.leave_place(place)
    if not isinstance(output, ToolOutput):
        raise ExecutionFailed(
            f"{plan.entry.name!r} returned {type(output).__name__}, not a ToolOutput"
        )
    call.output = output


def bind(call: Call) -> JobContext:
    """The caller's context, bound to this call; what is called with it is nested in this one."""
    parent = call.context.handle
    watch = call.watch
    handle = CallHandle(
        call_id=call.id,
        services=CallServices(
            call.core.services, call.context, lambda *asked: _run_nested(call, *asked)
        ),
        origin=call.root_origin,
        depth=0 if parent is None else parent.depth + 1,
        parent=parent,
        progress=watch.progress if watch is not None else None,
        emit=watch.emit if watch is not None else None,
        state=call,
    )
    return call.context.bound(handle)


def _time_left(call: Call) -> timedelta:
    seconds = call.plan.timeout.total_seconds()
    if call.context.deadline is not None:
        seconds = min(seconds, call.context.deadline - call.core.clock.now())
    if call.family is not None:
        seconds = min(seconds, call.family.time_left())
    if seconds <= 0:
        raise ToolTimeout(timedelta(0), "the deadline has passed; the tool was not started")
    return timedelta(seconds=seconds)


def _partial(call: Call, given: Any) -> ToolOutput | None:
    parts = tuple(call.watch.parts) if call.watch is not None else ()
    if given is None and not parts:
        return None
    made = given if isinstance(given, ToolOutput) else ToolOutput(result=given, structured=False)
    return attrs.evolve(made, parts=(*made.parts, *parts), partial=True)


def _observe(call: Call, functions: Sequence[HookFunction], **more: Any) -> None:
    """Tell the observers; what they raise is logged and changes nothing."""
    for function in functions:
        try:
            function(call=call.redacted, tool=call.plan.definition, **more)
        except Exception:  # an observer is foreign code
            logger.exception("an observer of plugin %s failed", function.plugin)


# 9 ---------------------------------------------------------------------------------------------


async def clean(call: Call) -> None:
    """Leak scan first, then filters, then the cap. What was cut stays readable."""
    assert call.output is not None
    cleaned = await call.core.cleaner.clean(call.output, call)
    call.output = cleaned.output
    call.notes += cleaned.notices
    call.outcome_extra = {"truncated": cleaned.truncated, "result_ref": cleaned.result_ref}


# 10 --------------------------------------------------------------------------------------------


async def settle(call: Call) -> CallOutcome:
    """Settle the budget, write the end, tell the observers, give the outcome."""
    core, plan = call.core, call.plan
    duration = timedelta(seconds=time.perf_counter() - call.started)
    if call.error is not None:
        call.error.tool = call.request.tool
        if call.partial is not None:
            call.partial = await core.cleaner.clean_partial(call.partial)
    outcome = CallOutcome(
        tool=call.request.tool,
        call_id=call.id,
        output=call.output if call.error is None else None,
        error=call.error,
        duration=duration,
        provenance=_provenance(call),
        warnings=tuple(call.notes),
        decision=call.verdict.to_json(call.request.tool) if call.verdict.reasons else None,
        partial=call.partial,
        digest=call.digest,
        **call.outcome_extra,
    )
    if call.reservation is not None:
        await _settle_budget(call, outcome)
    if call.error is not None or not core.loops.is_idle:
        warning = core.loops.note(call.loop_key, outcome)
        if warning is not None:
            outcome = attrs.evolve(outcome, warnings=(*outcome.warnings, warning))
    if call.began:
        core.labels.add(call.context, outcome)
    core.recorder.write_if_possible(_facts.of_end(call, outcome))
    if plan is not None and plan.finished_hooks:
        _observe(call, plan.finished_hooks, outcome=outcome)
    return outcome


async def _settle_budget(call: Call, outcome: CallOutcome) -> None:
    try:
        await call.core.budget.settle(call.reservation, outcome, began=call.began)
    except Exception:  # the call has happened; what it held back is booked when its time is over
        logger.exception("call %s could not be settled in the budget", call.id)


def _provenance(call: Call) -> Any:
    if call.output is not None and call.output.provenance is not None:
        return call.output.provenance
    return call.plan.provenance if call.plan is not None else "trusted"


# the whole story -------------------------------------------------------------------------------


async def run_call(
    core: Core,
    request: ToolCall,
    context: JobContext,
    *,
    family: Family | None = None,
    watch: Watch | None = None,
) -> CallOutcome:
    """Take one call through all ten steps. Never raises, except when it is cancelled."""
    call = Call(core, request, context, family, watch)
    call.generation = core.begin_call()
    try:
        await _take(call)
        return await settle(call)
    finally:
        core.end_call(call.generation)


async def _take(call: Call) -> None:
    core = call.core
    try:
        await find(call)
        while True:
            coerce(call)
            await canonicalise(call)
            await refuse_early(call)
            decide(call)
            if not await ask(call):
                break
        await count(call)
        await run(call)
        await clean(call)
    except ToolError as error:
        call.error = error
    except Exception as error:  # foreign code: a tool's body, a domain, a backend
        call.error = _as_tool_error(call, error)
    except BaseException as error:
        if call.reservation is not None:
            core.budget.cancel(call.reservation, began=call.began)
        core.recorder.write_if_possible(_facts.of_cancellation(call, error))
        raise
    if not call.decided_written:
        try:
            write_decided(call)
        except NotAuthorized as error:
            call.error = call.error or error


def _as_tool_error(call: Call, error: Exception) -> ToolError:
    logger.debug("call %s of %s failed", call.id, call.request.tool, exc_info=error)
    made = ExecutionFailed(f"{type(error).__name__}: {error}")
    made.__cause__ = error
    return made


async def preview(core: Core, request: ToolCall, context: JobContext) -> PolicyVerdict:
    """What would be decided about a call: steps 1 to 3 and 5, without counting, asking or running.

    Raises:
        ToolError: The call would fail before the policy is asked.
    """
    call = Call(core, request, context, None, None)
    await find(call)
    coerce(call)
    await canonicalise(call)
    try:
        decide(call)
    except NotAuthorized as error:
        if error.decision is None:
            raise
    return call.verdict


async def _run_nested(parent: Call, tool: str, params: Mapping[str, Any]) -> CallOutcome:
    """A call made by a running tool: the same caller, and the root's deadline and count."""
    if parent.family is None:
        raise HardpointError("a canonicaliser starts nothing; call other tools from the body")
    request = ToolCall(tool, dict(params))
    return await run_call(parent.core, request, bind(parent), family=parent.family)
