"""One call from the request to the outcome, in ten named steps.

    find → coerce → canonicalise → refuse_early → decide → ask → count → run → clean → settle

`run_call` at the end of the page is the whole story. Each step either leaves the call a little
further on or raises the `ToolError` that ends it; whatever happens, `settle` writes it down.
"""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import attrs

from hardpoint._family import Family
from hardpoint._plan import Plan
from hardpoint.calls import CallOutcome, ToolCall, call_digest
from hardpoint.context import CallHandle, JobContext
from hardpoint.errors import (
    ApprovalRequired,
    ExecutionFailed,
    InvalidParameters,
    NotAuthorized,
    RateLimited,
    ToolDisabled,
    ToolError,
    ToolNotFound,
    ToolTimeout,
)
from hardpoint.interfaces import ApprovalRequest, Invocation, LimitRequest
from hardpoint.limits import ToolRateLimitConfig
from hardpoint.parts import Part, ToolOutput
from hardpoint.plugins import HookFunction
from hardpoint.policy import approval
from hardpoint.policy.decide import Question
from hardpoint.policy.decide import decide as judge
from hardpoint.policy.loops import Key
from hardpoint.policy.verdict import PolicyVerdict, Reason
from hardpoint.redaction import redact_params
from hardpoint.tools import ApprovalRequirement, Canonical, Effect, Subject

if TYPE_CHECKING:
    from hardpoint._core import Core

logger = logging.getLogger(__name__)

_numbers = itertools.count(1)
ALLOWED = PolicyVerdict("allow")
LEAVING: frozenset[Effect] = frozenset(("network", "send"))


@attrs.define(eq=False)
class Watch:
    """Who follows a call while it runs, and what it gave out early."""

    progress: Any = None
    emitted: Any = None
    parts: list[Part] = attrs.field(factory=list)
    room: int = 1_000_000

    def emit(self, part: Part) -> None:
        size = sum(len(v) for v in attrs.asdict(part).values() if isinstance(v, str | bytes))
        if size <= self.room:
            self.room -= size
            self.parts.append(part)
        if self.emitted is not None:
            self.emitted(part)


class Call:
    """One call on its way."""

    __slots__ = (
        "canonical",
        "context",
        "core",
        "decided_written",
        "digest",
        "effects",
        "error",
        "family",
        "id",
        "judged",
        "limits",
        "notes",
        "outcome_extra",
        "output",
        "params",
        "partial",
        "plan",
        "request",
        "requirement",
        "reservation",
        "started",
        "subjects",
        "verdict",
        "watch",
    )

    def __init__(
        self,
        core: Core,
        request: ToolCall,
        context: JobContext,
        family: Family | None,
        watch: Watch | None,
    ) -> None:
        self.core = core
        self.request = request
        self.context = context
        self.family = family
        self.watch = watch
        self.id = request.id or f"call_{core.boot_id}_{next(_numbers)}"
        self.started = time.perf_counter()
        self.params: dict[str, Any] = request.params
        self.plan: Plan = None  # type: ignore[assignment]  # set by `find`, before all else
        self.subjects: tuple[Subject, ...] = ()
        self.effects: Any = ()
        self.requirement = ApprovalRequirement.NEVER
        self.limits: list[LimitRequest] = []
        self.verdict = ALLOWED
        self.judged: str | None = None
        """What the policy said, before earlier answers and people."""
        self.digest: str | None = None
        self.reservation: Any = None
        self.decided_written = False
        self.notes: list[str] = []
        self.output: ToolOutput | None = None
        self.partial: ToolOutput | None = None
        self.error: ToolError | None = None
        self.outcome_extra: dict[str, Any] = {}

    def make_digest(self) -> str:
        """What the approval of this call belongs to."""
        plan = self.plan
        return call_digest(
            plan.entry.name,
            plan.definition.hash,
            self.params,
            plan.domain_name,
            self.context.user_id,
        )

    @property
    def loop_key(self) -> Key:
        """What makes two calls the same one for the loop guard."""
        asked = json.dumps(self.request.params, sort_keys=True, default=repr)
        return self.context.user_id, self.context.session_id, self.request.tool, asked

    @property
    def redacted(self) -> ToolCall:
        """The call as observers and records may see it."""
        sensitive = self.plan.sensitive if self.plan is not None else ()
        params = self.params if isinstance(self.params, dict) else {}
        return ToolCall(self.request.tool, redact_params(params, sensitive), self.id)


# 1 ---------------------------------------------------------------------------------------------


async def find(call: Call) -> None:
    """The tool of this name, switched on and allowed to be seen."""
    core, name = call.core, call.request.tool
    if call.family is not None:
        call.family.admit(call.context.depth + 1)
    plan = core.plan(name)
    if plan is None:
        reason = core.disabled_reason(name)
        if reason is not None:
            raise ToolDisabled(f"{name!r} is disabled: {reason}")
        raise ToolNotFound(str(name), suggestions=core.registry.close_names(str(name)))
    call.plan = plan
    if not plan.config.enabled:
        source = core.config.sources.get(f"tools.{name}.enabled")
        raise ToolDisabled(f"{name!r} is disabled" + (f" in {source}" if source else ""))
    if not core.loops.is_idle:
        core.loops.refuse_repetition(call.loop_key)


# 2 ---------------------------------------------------------------------------------------------


async def coerce(call: Call) -> None:
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
    limits = list(plan.limits)
    for function in plan.limit_hooks:
        limits += _limits_of(call, function)
    call.limits = [LimitRequest(user, counter, limit) for counter, limit in limits]
    if not call.limits:
        return
    wait = await call.core.limiter.check(call.limits)
    if wait is not None:
        raise RateLimited(wait)


def _limits_of(call: Call, function: Any) -> Sequence[tuple[str, ToolRateLimitConfig]]:
    answer = _decision(call, function) or ()
    if not all(isinstance(limit, ToolRateLimitConfig) for limit in answer):
        raise NotAuthorized(f"plugin {function.plugin!r} gave something that is not a rate limit")
    return [(f"{call.plan.entry.name}:{function.plugin}", limit) for limit in answer]


def _decision(call: Call, function: Any) -> Any:
    """Ask one decision hook; an exception means deny."""
    try:
        return function(call=call.redacted, tool=call.plan.definition, context=call.context)
    except Exception as error:  # a hook is foreign code
        raise NotAuthorized(
            f"plugin {function.plugin!r} failed to decide: {type(error).__name__}: {error}"
        ) from error


# 5 ---------------------------------------------------------------------------------------------


async def decide(call: Call) -> None:
    """Allow, ask or deny, by requirement, hooks, rules, grants, mode and caller."""
    plan = call.plan
    if plan.rule_error is not None:
        raise NotAuthorized(
            f"a rule for {plan.entry.name!r} cannot be read, so it is denied:"
            f" {plan.rule_error.message}"
        )
    call.requirement, asked_by = _requirement(call)
    if _needs_no_verdict(call):
        call.verdict = ALLOWED
    else:
        call.verdict = judge(_question(call, asked_by), plan.rules)
    if call.verdict.decision != "deny" and not LEAVING.isdisjoint(call.effects):
        _refuse_leaks(call)
    call.judged = call.verdict.decision
    if call.verdict.decision == "deny":
        raise _denied(call)


def _use_earlier_answers(call: Call) -> None:
    """What was approved before, this very call or its pattern, need not be asked again."""
    plan, grants, context = call.plan, call.core.grants, call.context
    assert call.digest is not None
    if grants.use(call.digest, context):
        why = Reason("approved before, for exactly this call")
    elif call.verdict.may_remember and grants.covers(
        plan.entry.name, plan.definition.hash, call.core.pattern_for(call), context.mode, context
    ):
        why = Reason("covered by an earlier approval")
    else:
        refused = grants.refused(call.digest, context)
        if refused is None:
            return
        said = f": {refused.message}" if refused.message else ""
        raise NotAuthorized(
            f"{refused.answered_by} said no to exactly this call{said}",
            decision=call.verdict.to_json(plan.entry.name),
            hint="Do not retry this call.",
        )
    call.verdict = attrs.evolve(call.verdict, decision="allow", reasons=(why,))


def _needs_no_verdict(call: Call) -> bool:
    return (
        call.requirement is ApprovalRequirement.NEVER
        and not call.plan.rules
        and call.context.mode in ("default", "auto")
        and call.core.mode in (None, "default", "auto")
        and not any(subject.kind == "command" for subject in call.subjects)
        and (not call.core.config.policy.egress_after or LEAVING.isdisjoint(call.effects))
    )


def _requirement(call: Call) -> tuple[ApprovalRequirement, str]:
    """The strictest of what tool, configuration and plugins ask for, and who asks for it."""
    plan = call.plan
    name = plan.entry.name
    if plan.fixed_requirement is not None:
        return plan.fixed_requirement, f"{name!r}"
    answers: list[tuple[ApprovalRequirement, str]] = []
    try:
        for answer in (
            plan.tool.requires_approval(call.params),
            plan.tool.approval_requirement(call.params),
        ):
            answers.append((ApprovalRequirement(answer), f"{name!r}"))
    except Exception as error:  # a tool's own method is foreign code; its failure means no
        raise NotAuthorized(
            f"{name!r} failed to say what approval it needs: {type(error).__name__}: {error}"
        ) from error
    if plan.config.approval is not None:
        answers.append((ApprovalRequirement(plan.config.approval), f"[tools.{name}] approval"))
    for function in plan.requirement_hooks:
        answer = _decision(call, function)
        if answer is None:
            continue
        try:
            answers.append((ApprovalRequirement(answer), f"plugin {function.plugin!r}"))
        except ValueError as error:
            raise NotAuthorized(
                f"plugin {function.plugin!r} gave {answer!r}, which is no approval requirement"
            ) from error
    return max(answers, key=lambda answer: answer[0].rank)


def _question(call: Call, asked_by: str) -> Question:
    core, context = call.core, call.context
    return Question(
        tool=call.plan.entry.name,
        params=call.params,
        subjects=call.subjects,
        requirement=call.requirement,
        requirement_from=asked_by,
        asked_by_tool=asked_by == f"{call.plan.entry.name!r}",
        effects=call.effects,
        domain=call.plan.domain_name,
        context=context,
        modes={context.mode} if core.mode is None else {context.mode, core.mode},
        seen=core.labels.seen(context),
        egress_after=core.config.policy.egress_after,
    )


def _refuse_leaks(call: Call) -> None:
    """Arguments that leave the machine are scanned; a found secret stops the call."""
    findings = call.core.leaks.scan_value(call.params)
    blocked = sorted({finding.kind for finding in findings if finding.action == "block"})
    if blocked:
        why = f"the arguments hold what looks like a secret ({', '.join(blocked)}) and would leave"
        call.verdict = PolicyVerdict("deny", call.requirement, (Reason(why),), retry=False)
    elif findings:
        kinds = ", ".join(sorted({finding.kind for finding in findings}))
        call.notes.append(f"the arguments hold sensitive text ({kinds})")


def _denied(call: Call) -> NotAuthorized:
    verdict = call.verdict
    return NotAuthorized(
        f"{call.plan.entry.name!r} was denied: {verdict.explain()}",
        decision=verdict.to_json(call.plan.entry.name),
        hint=None if verdict.retry else "Do not retry this call; another way is needed.",
    )


# 6 ---------------------------------------------------------------------------------------------


async def ask(call: Call) -> bool:
    """Let a person decide where the policy says so.

    Returns:
        True when the arguments were edited and the call must be looked at from the start.
    """
    if call.verdict.decision != "ask":
        return False
    call.digest = call.make_digest()
    _use_earlier_answers(call)
    if call.verdict.decision == "allow":
        return False
    plan, core, context = call.plan, call.core, call.context
    request = _approval_request(call)
    clock_stopped = call.family.waiting() if call.family is not None else nullcontext()
    try:
        with clock_stopped:
            answer = await approval.ask(request, context, core.approvers, core.grants)
    except (NotAuthorized, ApprovalRequired) as refusal:
        refusal.decision = call.verdict.to_json(plan.entry.name)
        raise
    if isinstance(answer, approval.Edited):
        call.params = answer.params
        by = answer.by or "a person"
        told = f": {answer.message}" if answer.message else ""
        call.notes.append(f"{by} changed the arguments to {_shown(call)}{told}")
        return True
    if answer.scope != "once":
        core.grants.remember(
            answer.scope,
            plan.entry.name,
            plan.definition.hash,
            core.pattern_for(call),
            context.mode,
            context,
        )
    why = Reason(f"approved ({answer.scope}) by {answer.by or 'the approver'}")
    call.verdict = attrs.evolve(call.verdict, decision="allow", reasons=(why,))
    return False


def _shown(call: Call) -> str:
    return str(redact_params(call.params, call.plan.sensitive))


def _approval_request(call: Call) -> ApprovalRequest:
    plan, context = call.plan, call.context
    remember = call.verdict.may_remember
    return ApprovalRequest(
        id=approval.new_approval_id(),
        digest=call.digest or call.make_digest(),
        tool=plan.entry.name,
        params=redact_params(call.params, plan.sensitive),
        requirement=call.requirement,
        user_id=context.user_id,
        session_id=context.session_id,
        project=context.project,
        description=plan.definition.description,
        reasons=tuple(str(reason) for reason in call.verdict.reasons),
        subjects=call.subjects,
        effects=frozenset(call.effects),
        domain=plan.domain_name,
        verdicts=("once", "session", "always", "edit", "no")
        if remember
        else ("once", "edit", "no"),
        pattern=call.core.pattern_for(call) if remember else None,
        origin=context.origin,
    )


# 7 ---------------------------------------------------------------------------------------------


async def count(call: Call) -> None:
    """Count the call in every limit or in none, reserve its cost, write that it will run."""
    core, plan = call.core, call.plan
    core.deadlines.refuse_runaway(plan.entry.name, plan.tool)
    if call.limits:
        wait = await core.limiter.acquire(call.limits)
        if wait is not None:
            raise RateLimited(wait)
    if core.budget is not None:
        cost = plan.tool.estimated_cost(call.params) if plan.costs else None
        call.reservation = await core.budget.reserve(call.context, plan.entry.name, cost)
    write_decided(call)


def write_decided(call: Call) -> None:
    """One audit record for what was decided, refusals included.

    Raises:
        NotAuthorized: The record cannot be written; a call without a record does not run.
    """
    call.decided_written = True
    try:
        call.core.record_decided(call)
    except Exception as error:  # whatever stops the record stops the call
        raise NotAuthorized(
            f"the audit record cannot be written, so the call is denied: {error}"
        ) from error


# 8 ---------------------------------------------------------------------------------------------


async def run(call: Call) -> None:
    """Run exactly what was approved, in its domain, until its time-out."""
    plan, core = call.plan, call.core
    domain = plan.require_domain()
    if call.digest is not None and call.make_digest() != call.digest:
        raise NotAuthorized("the call changed after it was approved; call again")
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
    invocation = Invocation(
        plan.tool, plan.entry.name, call.params, context, timeout, call.subjects, call.digest or ""
    )
    place = await core.take_place(call)
    try:
        await core.enter(plan)
        output = await core.deadlines.within(
            timeout,
            plan.entry.name,
            plan.tool,
            domain.run(invocation),
            killable=domain.killable,
            paused=paused,
        )
    except ToolTimeout as error:
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
        services=call.core.services_of(call),
        origin=call.core.origin if parent is None else parent.origin,
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
    cleaned = await call.core.cleaner.clean(call.output, call.plan, call.redacted, call.context)
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
        await core.budget.settle(call.reservation, outcome)
    if call.error is not None or not core.loops.is_idle:
        warning = core.loops.note(call.loop_key, outcome)
        if warning is not None:
            outcome = attrs.evolve(outcome, warnings=(*outcome.warnings, warning))
    core.labels.add(call.context, outcome)
    core.record_finished(call, outcome)
    if plan is not None and plan.finished_hooks:
        _observe(call, plan.finished_hooks, outcome=outcome)
    return outcome


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
    try:
        await find(call)
        while True:
            await coerce(call)
            await canonicalise(call)
            await refuse_early(call)
            await decide(call)
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
        core.cancelled(call, error)
        raise
    if not call.decided_written:
        try:
            write_decided(call)
        except NotAuthorized as error:
            call.error = call.error or error
    return await settle(call)


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
    await coerce(call)
    await canonicalise(call)
    try:
        await decide(call)
    except NotAuthorized as error:
        if error.decision is None:
            raise
    return call.verdict
