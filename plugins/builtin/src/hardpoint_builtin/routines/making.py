"""`routine_create` and `routine_update`: what a routine is, checked when it is made."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

import attrs

from hardpoint import (
    ApprovalRequirement,
    Canonical,
    Effect,
    InvalidParameters,
    JobContext,
    SchemaError,
    ToolOutput,
)
from hardpoint.errors import Issue
from hardpoint_builtin.jobs.common import iso
from hardpoint_builtin.jobs.create import CALLS_SCHEMA, Judged, judge_calls, planned_calls
from hardpoint_builtin.memory.paths import clean_path
from hardpoint_builtin.routines.engine import matches, next_fire, zone_of
from hardpoint_builtin.routines.tables import Routine
from hardpoint_builtin.routines.tools import RoutineTool

MAX_ROUTINES: Final = 200
MAX_NAME: Final = 100
MAX_PROMPT: Final = 50_000
MAX_PATTERN: Final = 65_536
KINDS: Final = ("cron", "manual", "message_event", "system_event")
_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_FILTERS: Final = {
    "type": "object",
    "properties": {},
    "additionalProperties": {"type": ["string", "number", "boolean"]},
}
# The old flat names, and where each belongs now.
_FLAT: Final = {
    "trigger_type": ("request", "kind"),
    "schedule": ("request", "schedule"),
    "timezone": ("request", "timezone"),
    "event_pattern": ("request", "pattern"),
    "event_channel": ("request", "channel"),
    "event_source": ("request", "source"),
    "event_type": ("request", "event_type"),
    "event_filters": ("request", "filters"),
    "action_type": ("execution", "mode"),
    "context_paths": ("execution", "context_paths"),
    "use_tools": ("execution", "use_tools"),
    "max_tool_rounds": ("execution", "max_tool_rounds"),
    "tool_permissions": ("execution", "tool_permissions"),
    "notify_channel": ("delivery", "channel"),
    "notify_user": ("delivery", "user"),
    "cooldown_secs": ("advanced", "cooldown_secs"),
}
_NEEDED: Final = {
    "cron": ("schedule",),
    "manual": (),
    "message_event": ("pattern",),
    "system_event": ("source", "event_type"),
}
_POSSIBLE: Final = {
    "cron": ("timezone",),
    "manual": (),
    "message_event": ("channel",),
    "system_event": ("filters",),
}


def _groups() -> dict[str, Any]:
    def group(properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": properties,
            "required": list(required),
            "additionalProperties": False,
        }

    return {
        "name": {**_TEXT, "description": "A short name, yours alone"},
        "prompt": {**_TEXT, "description": "What is to be done each time"},
        "description": {**_TEXT, "description": "What it is for"},
        "request": group(
            {
                "kind": {"type": "string", "enum": list(KINDS)},
                "schedule": {**_TEXT, "description": "cron: '0 9 * * mon-fri'; seconds may lead"},
                "timezone": {**_TEXT, "description": "cron: of the schedule; default: the user's"},
                "pattern": {**_TEXT, "description": "message_event: regular expression"},
                "channel": {**_TEXT, "description": "message_event: only messages from there"},
                "source": {**_TEXT, "description": "system_event: who emits it"},
                "event_type": {**_TEXT, "description": "system_event: what happened"},
                "filters": {**_FILTERS, "description": "system_event: values in its payload"},
            },
            ("kind",),
        ),
        "execution": group(
            {
                "mode": {"type": "string", "enum": ["lightweight", "full_job"]},
                "calls": CALLS_SCHEMA,
                "context_paths": {**_TEXTS, "description": "Memory documents to read first"},
                "use_tools": {"type": "boolean"},
                "max_tool_rounds": {"type": "integer", "minimum": 1, "maximum": 20},
                "tool_permissions": {**_TEXTS, "description": "Only these tools"},
            }
        ),
        "delivery": group({"channel": _TEXT, "user": _TEXT}),
        "advanced": group({"cooldown_secs": {"type": "integer", "minimum": 0}}),
    }


class RoutineCreateTool(RoutineTool):
    """Have something done on a schedule or when something happens."""

    name = "routine_create"
    description = (
        "Make a routine: a prompt, or a list of tool calls, that runs by itself on a schedule "
        "(cron), when a message matches (message_event), when something is reported with "
        "event_emit (system_event), or only by routine_fire (manual). It runs with your rights and "
        "nobody to ask."
    )

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": _groups(),
            "required": ["name", "prompt"],
            "additionalProperties": False,
        }

    def discovery_schema(self) -> dict[str, Any]:
        schema = self.parameters_schema()
        groups = schema["properties"]
        for flat, (group, name) in _FLAT.items():
            schema["properties"][flat] = groups[group]["properties"][name]
        return schema

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("write",))

    async def canonicalise(self, params: dict[str, Any], context: JobContext) -> Canonical:
        grouped = _grouped(params)
        calls = planned_calls(grouped["execution"])
        return Canonical(await judge_calls(grouped, calls, context, context.services.jobs))

    def requires_approval(self, params: Mapping[str, Any]) -> ApprovalRequirement:
        if isinstance(params, Judged):
            return params.requirement
        calls = params.get("execution", {}).get("calls")
        return Judged.requirement if calls else ApprovalRequirement.NEVER

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        engine = self.engine(ctx)
        grouped = _grouped(params)
        request = _request(grouped["request"], ctx)
        execution = _execution(grouped["execution"])
        if len(await engine.read(engine.tables.of_user, ctx.user_id)) >= MAX_ROUTINES:
            raise _wrong("name", "fewer routines", f"there are {MAX_ROUTINES} routines already")
        now = ctx.services.clock.now()
        routine = Routine(
            id=str(uuid.uuid4()),
            user_id=ctx.user_id,
            name=_name(params["name"]),
            description=params.get("description", ""),
            prompt=_prompt(params["prompt"]),
            kind=grouped["request"]["kind"],
            request=request,
            execution=execution,
            delivery=grouped["delivery"],
            cooldown=float(grouped["advanced"].get("cooldown_secs", 300)),
            enabled=True,
            context=ctx.services.jobs.kept(ctx),
            created=now,
            next_fire=next_fire(request, now),
        )
        if not await engine.read(engine.tables.add, routine):
            raise _wrong("name", "a new name", f"you have a routine {routine.name!r} already")
        engine.changed()
        result: dict[str, Any] = {
            "id": routine.id,
            "name": routine.name,
            "trigger_type": routine.kind,
            "next_fire_at": iso(routine.next_fire),
            "status": "created",
        }
        note = _note(routine, ctx)
        return ToolOutput.success(result | ({"note": note} if note else {}))


def _note(routine: Routine, ctx: JobContext) -> str | None:
    """What will keep the routine from doing anything, as far as that is known now."""
    services = ctx.services
    if (
        not routine.execution.get("calls")
        and services.jobs.default_worker() is None
        and not services.extensions("llm_provider")
    ):
        return "there is no worker and no language model here yet; it cannot run until there is"
    if routine.kind == "cron" and not services.jobs.runs_here:
        return "it fires while `hardpoint jobs worker` or an application with this store runs"
    return None


class RoutineUpdateTool(RoutineTool):
    """Change a routine, or switch it on and off."""

    name = "routine_update"
    description = "Change a routine: its prompt, description, schedule, time zone, on or off."

    def parameters_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "name": {**_TEXT, "description": "Which routine"},
                "enabled": {"type": "boolean"},
                "prompt": _TEXT,
                "schedule": _TEXT,
                "timezone": _TEXT,
                "description": _TEXT,
            },
            "required": ["name"],
            "additionalProperties": False,
        }

    def effects(self, params: Mapping[str, Any]) -> frozenset[Effect]:
        return frozenset(("write",))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        engine = self.engine(ctx)
        routine = await self.routine(params["name"], ctx)
        request = dict(routine.request)
        if "schedule" in params or "timezone" in params:
            if routine.kind != "cron":
                raise _wrong("schedule", "a cron routine", f"{routine.name!r} has no schedule")
            request |= {key: params[key] for key in ("schedule", "timezone") if key in params}
            request = _request({"kind": "cron", **request}, ctx)
        enabled = params.get("enabled", routine.enabled)
        changed = attrs.evolve(
            routine,
            prompt=_prompt(params["prompt"]) if "prompt" in params else routine.prompt,
            description=params.get("description", routine.description),
            request=request,
            enabled=enabled,
            # Switched on again it waits for its next time; it does not make up for the past.
            next_fire=next_fire(request, ctx.services.clock.now()) if enabled else None,
        )
        await engine.read(engine.tables.change, changed)
        engine.changed()
        return ToolOutput.success(
            {
                "name": changed.name,
                "enabled": changed.enabled,
                "next_fire_at": iso(changed.next_fire),
                "status": "updated",
            }
        )


# checks ----------------------------------------------------------------------------------------


def _grouped(params: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments in their groups, whichever spelling they came in."""
    grouped: dict[str, Any] = {
        key: value for key, value in params.items() if key not in _FLAT and value is not None
    }
    for group in ("request", "execution", "delivery", "advanced"):
        grouped[group] = dict(grouped.get(group) or {})
    for flat, (group, name) in _FLAT.items():
        if params.get(flat) not in (None, ""):
            grouped[group].setdefault(name, params[flat])
    if "kind" not in grouped["request"]:
        kinds = ", ".join(KINDS)
        raise _wrong("request/kind", kinds, f"say in request.kind when it fires: {kinds}")
    return grouped


def _request(given: Mapping[str, Any], ctx: JobContext) -> dict[str, Any]:
    kind = given["kind"]
    request = {
        key: value for key, value in given.items() if key != "kind" and value not in ("", {})
    }
    for name in _NEEDED[kind]:
        if name not in request:
            raise _wrong(f"request/{name}", "a value", f"a {kind} routine needs {name}")
    for name in request:
        if name not in (*_NEEDED[kind], *_POSSIBLE[kind]):
            raise _wrong(f"request/{name}", "nothing", f"a {kind} routine has no {name}")
    if kind == "cron":
        request.setdefault("timezone", ctx.user_timezone or "UTC")
        zone_of(request["timezone"])
        try:
            next_fire(request, 0.0)
        except ValueError as error:
            raise _wrong("request/schedule", "a cron schedule", str(error)) from error
    if kind == "message_event":
        _check_pattern(request["pattern"])
    return request


def _check_pattern(pattern: str) -> None:
    if len(pattern) > MAX_PATTERN:
        raise _wrong("request/pattern", f"{MAX_PATTERN} characters", "the pattern is too long")
    try:
        matches(pattern, "")
    except SchemaError as error:
        why = "; ".join(error.problems)
        raise _wrong("request/pattern", "a regular expression", why) from error


def _execution(given: Mapping[str, Any]) -> dict[str, Any]:
    execution = dict(given)
    paths = [clean_path(path, "execution/context_paths") for path in given.get("context_paths", ())]
    if paths:
        execution["context_paths"] = paths
    return execution


def _name(name: str) -> str:
    cleaned = " ".join(name.split())
    if not cleaned or len(cleaned) > MAX_NAME or not cleaned.isprintable():
        raise _wrong("name", f"1 to {MAX_NAME} visible characters", f"{name!r} is no name")
    return cleaned


def _prompt(prompt: str) -> str:
    if not prompt.strip() or len(prompt) > MAX_PROMPT:
        raise _wrong("prompt", f"1 to {MAX_PROMPT} characters", "the prompt is empty or too long")
    return prompt.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _wrong(parameter: str, expected: str, message: str) -> InvalidParameters:
    issue = Issue(f"/{parameter}", "invalid_value", expected, "something else")
    return InvalidParameters(message, issues=[issue])
