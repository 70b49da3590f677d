"""Routines: on a schedule, on messages and events, by hand; as their owner and nobody else."""

import asyncio
import time

import attrs
import pytest

from hardpoint import API_VERSION, JobContext, hookimpl, tool
from hardpoint.interfaces import Channel, Delivery, LlmProvider, LlmReply
from hardpoint.testing import FakeClock
from hardpoint_builtin.routines.engine import matches

ANA = JobContext(user_id="ana", auto_approve=True, user_timezone="Europe/Berlin")
BOB = JobContext(user_id="bob", auto_approve=True)
START = 1_772_951_400  # 2026-03-08 06:30 UTC, a Sunday
ECHO = {"calls": [{"tool": "echo", "params": {"message": "hi"}}]}
MANUAL = {"kind": "manual"}


@tool(approval="unless_auto_approved")
async def careful() -> str:
    """Ask unless approved."""
    return "done"


class Box(Channel):
    def __init__(self):
        self.sent = []

    async def send(self, message, context):
        self.sent.append((message.target, message.content))
        return Delivery("box", message.target)


class Model(LlmProvider):
    """Says what it is told to, and remembers what it was asked."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.asked = []

    async def complete(self, messages, *, tools=(), max_tokens=None, **options):
        self.asked.append((list(messages), [each.name for each in tools]))
        return self.replies.pop(0) if self.replies else LlmReply("the end")


@pytest.fixture
def box():
    return Box()


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def start(runtime_at, box, model):
    class Plugin:
        HARDPOINT_API = API_VERSION

        @hookimpl
        def hardpoint_register_extensions(self, registry):
            registry.register("channel", "box", box)
            registry.register("llm_provider", "model", model)

    def start(**options):
        options = {"clock": FakeClock(START), "tools": [careful], **options}
        return runtime_at(plugins={"test": Plugin()}, **options)

    return start


@pytest.fixture
async def runtime(start):
    async with start() as runtime:
        yield runtime


@pytest.fixture
def call(runtime):
    async def call(tool, context=ANA, /, **params):
        return await runtime.run(tool, params, context)

    return call


async def ended(runtime, user="ana"):
    """The user's jobs, when none of them is active any more."""
    async with asyncio.timeout(30):
        while True:
            jobs = await runtime.jobs.list(user)
            if jobs and not any(job.is_active for job in jobs):
                return jobs
            await asyncio.sleep(0.02)


def engine(runtime):
    return runtime.services.extensions("job_worker")["routine"]


# making ----------------------------------------------------------------------------------------


async def test_a_routine_is_made_listed_changed_and_deleted(call):
    made = await call(
        "routine_create",
        name="Morning",
        prompt="Say hello.",
        request={"kind": "cron", "schedule": "0 9 * * *"},
        execution=ECHO,
    )
    listed = await call("routine_list")
    changed = await call("routine_update", name="Morning", schedule="0 10 * * *", prompt="Hi")
    off = await call("routine_update", name="Morning", enabled=False)
    on = await call("routine_update", name="Morning", enabled=True)
    deleted = await call("routine_delete", name="Morning")

    assert set(made.result) == {"id", "name", "trigger_type", "next_fire_at", "status"}
    assert made.result["status"] == "created"
    assert made.result["next_fire_at"] == "2026-03-08T08:00:00.000+00:00"  # 9:00 in Berlin
    (routine,) = listed.result["routines"]
    assert (listed.result["count"], routine["name"], routine["run_count"]) == (1, "Morning", 0)
    assert routine["trigger"] == {"schedule": "0 9 * * *", "timezone": "Europe/Berlin"}
    assert changed.result["next_fire_at"] == "2026-03-08T09:00:00.000+00:00"
    assert off.result["next_fire_at"] is None
    assert on.result["next_fire_at"] == "2026-03-08T09:00:00.000+00:00"
    assert deleted.result == {"name": "Morning", "deleted": True}
    assert (await call("routine_list")).result == {"count": 0, "routines": []}


async def test_the_old_flat_spelling_is_understood(call):
    made = await call(
        "routine_create",
        name="old",
        prompt="p",
        trigger_type="system_event",
        event_source="build",
        event_type="failed",
        event_filters={"branch": "main"},
        action_type="full_job",
        notify_channel="box",
        cooldown_secs="60",
    )
    (routine,) = (await call("routine_list")).result["routines"]

    assert made.result["trigger_type"] == "system_event"
    assert routine["trigger"] == {
        "source": "build",
        "event_type": "failed",
        "filters": {"branch": "main"},
    }


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"request": {}}, "request/kind"),
        ({"request": {"kind": "cron"}}, "needs schedule"),
        ({"request": {"kind": "cron", "schedule": "61 * * * *"}}, "'61' is no minute"),
        ({"request": {"kind": "cron", "schedule": "* * * * *", "timezone": "Mars"}}, "Mars"),
        ({"request": {"kind": "manual", "schedule": "* * * * *"}}, "has no schedule"),
        ({"request": {"kind": "message_event"}}, "needs pattern"),
        ({"request": {"kind": "message_event", "pattern": "("}}, "no regular expression"),
        ({"request": {"kind": "message_event", "pattern": "a" * 70_000}}, "too long"),
        ({"request": {"kind": "system_event", "source": "x"}}, "needs event_type"),
        (
            {"request": {"kind": "system_event", "source": "x", "event_type": "y",
                         "filters": {"a": {"b": 1}}}},
            "filters",
        ),
        ({"name": " ", "request": MANUAL}, "no name"),
        ({"name": "x" * 101, "request": MANUAL}, "no name"),
        ({"prompt": " ", "request": MANUAL}, "empty"),
        ({"request": MANUAL, "execution": {"max_tool_rounds": 21}}, "max_tool_rounds"),
        ({"request": MANUAL, "execution": {"context_paths": ["../../etc/passwd"]}}, "memory"),
    ],
)  # fmt: skip
async def test_what_cannot_work_is_refused_when_it_is_made(call, params, message):
    outcome = await call("routine_create", **{"name": "r", "prompt": "p", **params})

    assert outcome.error.kind == "invalid_parameters"
    assert message in f"{outcome.error.message} {outcome.error.issues}"


async def test_names_are_each_users_own(call):
    for context in (ANA, BOB):
        made = await call("routine_create", context, name="r", prompt="p", request=MANUAL)
        assert made.ok
    again = await call("routine_create", name="r", prompt="p", request=MANUAL)

    assert "already" in again.error.message
    for name in ("routine_fire", "routine_history", "routine_update", "routine_delete"):
        outcome = await call(name, JobContext(user_id="eve", auto_approve=True), name="r")
        assert outcome.error.kind == "invalid_parameters"


async def test_a_missing_name_brings_up_near_ones(call):
    await call("routine_create", name="morning", prompt="p", request=MANUAL)

    outcome = await call("routine_history", name="mornin")

    assert "'morning'" in outcome.error.message


async def test_calls_that_would_ask_their_caller_make_the_routine_ask(call):
    nobody = JobContext(user_id="ana", interactive=False)
    execution = {"calls": [{"tool": "careful"}]}
    params = {"prompt": "p", "request": MANUAL}

    asks = await call("routine_create", nobody, name="a", execution=execution, **params)
    plain = await call("routine_create", nobody, name="b", execution=ECHO, **params)

    assert asks.error.kind == "approval_required"
    assert plain.ok


# firing ----------------------------------------------------------------------------------------


async def test_a_routine_fires_by_hand_and_its_history_tells(call, runtime):
    await call("routine_create", name="r", prompt="p", request=MANUAL, execution=ECHO)
    unapproved = await call("routine_fire", JobContext(user_id="ana", interactive=False), name="r")
    fired = await call("routine_fire", name="r")
    await ended(runtime)

    history = (await call("routine_history", name="r")).result

    assert unapproved.error.kind == "approval_required"
    assert fired.result["status"] == "fired"
    (run,) = history["runs"]
    assert run["run_id"] == fired.result["run_id"]
    assert (run["trigger"], run["status"]) == ("manual", "completed")
    assert run["result"] == [{"tool": "echo", "result": "hi"}]


async def test_a_schedule_fires_when_its_time_has_come(start):
    clock = FakeClock(START)
    async with start(clock=clock, origin="cli") as runtime:
        params = {
            "name": "r",
            "prompt": "p",
            "request": {"kind": "cron", "schedule": "0 * * * *"},
            "execution": ECHO,
        }
        await runtime.run("routine_create", params, ANA)
        before = await engine(runtime).fire_due()
        clock.advance(1800)
        at_seven = await engine(runtime).fire_due()
        again = await engine(runtime).fire_due()
        clock.advance(5 * 3600)
        missed_five = await engine(runtime).fire_due()
        (routine,) = (await runtime.run("routine_list", {}, ANA)).result["routines"]

    assert before == again == []
    assert len(at_seven) == 1
    assert len(missed_five) == 1
    assert routine["next_fire_at"] == "2026-03-08T13:00:00.000+00:00"
    assert routine["run_count"] == 2


async def test_the_clock_is_watched_without_anybody_asking(start):
    async with start(clock=None) as runtime:
        params = {
            "name": "r",
            "prompt": "p",
            "request": {"kind": "cron", "schedule": "* * * * * *"},
            "execution": ECHO,
        }
        await runtime.run("routine_create", params, ANA)
        begun = time.monotonic()
        jobs = await ended(runtime)

    assert jobs[-1].state == "completed"
    assert time.monotonic() - begun < 20


async def test_two_processes_fire_a_routine_once(start):
    clock = FakeClock(START)
    async with start(clock=clock, origin="cli") as one, start(clock=clock, origin="cli") as two:
        params = {
            "name": "r",
            "prompt": "p",
            "request": {"kind": "cron", "schedule": "0 * * * *"},
            "execution": ECHO,
        }
        await one.run("routine_create", params, ANA)
        clock.advance(3600)
        fired = await asyncio.gather(engine(one).fire_due(), engine(two).fire_due())

    assert sorted(map(len, fired)) == [0, 1]


async def test_a_firing_has_its_makers_rights_and_no_more(call, runtime):
    @tool
    def seen(context: JobContext) -> dict:
        """Who calls."""
        return {
            "user": context.user_id,
            "mode": context.mode,
            "allowed": sorted(context.allowed_tools),
            "interactive": context.interactive,
            "origin": context.origin,
        }

    runtime.registry.register(seen)
    maker = attrs.evolve(ANA, allowed_tools={"x"}, extra_env={"K": "v"})
    execution = {"calls": [{"tool": "seen"}]}
    await call("routine_create", maker, name="r", prompt="p", request=MANUAL, execution=execution)
    await call("routine_fire", attrs.evolve(ANA, allowed_tools={"x", "y"}), name="r")
    (job,) = await ended(runtime)

    assert job.result[0]["result"] == {
        "user": "ana",
        "mode": "default",
        "allowed": ["x"],
        "interactive": False,
        "origin": "job",
    }


# events ----------------------------------------------------------------------------------------


async def test_an_event_fires_what_waits_for_it(call, runtime):
    request = {"kind": "system_event", "source": "build", "event_type": "failed"}
    main = {**request, "filters": {"branch": "main", "tries": 2}}
    await call("routine_create", name="any", prompt="p", request=request, execution=ECHO)
    await call("routine_create", name="main", prompt="p", request=main, execution=ECHO)
    await call("routine_create", BOB, name="bobs", prompt="p", request=request, execution=ECHO)
    payload = {"branch": "main", "tries": 2}

    def emit(**params):
        return call("event_emit", **{"event_source": "build", "event_type": "failed", **params})

    both = await emit(payload=payload)
    cooling = await emit(payload=payload)
    runtime.services.clock.advance(301)
    other = await emit(payload={"branch": "main", "tries": True})
    alias = await call("event_emit", source="build", event_type="passed")
    missing = await call("event_emit", event_type="failed")

    assert both.result == {
        "event_source": "build",
        "event_type": "failed",
        "user_id": "ana",
        "fired_routines": ["any", "main"],
    }
    assert cooling.result["fired_routines"] == []
    assert other.result["fired_routines"] == ["any"]
    assert alias.result["fired_routines"] == []
    assert missing.error.kind == "invalid_parameters"
    assert await runtime.jobs.list("bob") == []


async def test_a_message_fires_what_it_matches(call, runtime):
    request = {"kind": "message_event", "pattern": r"(?i)\bdeploy\b", "channel": "ops"}
    await call("routine_create", name="d", prompt="p", request=request)
    tell = engine(runtime).message_received

    assert await tell("ana", "ops", "please deploy now") == ["d"]
    assert await tell("ana", "ops", "please DEPLOY") == []  # cooling down
    runtime.services.clock.advance(301)
    assert await tell("ana", "chat", "deploy") == []
    assert await tell("ana", "ops", "deployment") == []
    assert await tell("bob", "ops", "deploy") == []
    assert await tell("ana", "ops", "DEPLOY") == ["d"]


def test_a_hostile_pattern_takes_no_time():
    begun = time.monotonic()

    assert matches(r"^(a+)+$", "a" * 50_000 + "b") is False
    assert matches(r"(x+x+)+y", "x" * 50_000) is False

    assert time.monotonic() - begun < 20


async def test_routines_that_set_each_other_off_come_to_an_end(call, runtime):
    request = {"kind": "system_event", "source": "s", "event_type": "t"}
    again = {"calls": [{"tool": "event_emit", "params": {"event_source": "s", "event_type": "t"}}]}
    await call(
        "routine_create", name="loop", prompt="p", request=request, execution=again,
        advanced={"cooldown_secs": 0},
    )  # fmt: skip
    await call("event_emit", event_source="s", event_type="t")

    jobs = await ended(runtime)

    assert len(jobs) <= 7


# models and workers ----------------------------------------------------------------------------


async def test_a_model_answers_with_the_documents_that_it_was_given(call, runtime, model, box):
    await runtime.services.workspace.write("ana", "notes/tea.md", "Ana likes jasmine.")
    model.replies = [
        LlmReply(tool_calls=[{"id": "1", "name": "echo", "arguments": {"message": "x"}}]),
        LlmReply("Jasmine, of course."),
    ]
    await call(
        "routine_create",
        name="tea",
        prompt="Which tea?",
        request=MANUAL,
        execution={"context_paths": ["notes/tea.md", "notes/none.md"], "use_tools": True},
        delivery={"channel": "box", "user": "kitchen"},
    )
    await call("routine_fire", name="tea")
    (job,) = await ended(runtime)

    first, offered = model.asked[0]
    assert job.result == "Jasmine, of course."
    assert "Which tea?" in first[0]["content"]
    assert "Ana likes jasmine." in first[0]["content"]
    assert "(not there)" in first[0]["content"]
    assert "echo" in offered
    assert not {"routine_create", "cancel_job", "careful", "tool_call", "create_job"} & {*offered}
    assert model.asked[1][0][-1]["role"] == "tool"
    assert box.sent == [("kitchen", "Jasmine, of course.")]


async def test_a_model_calls_only_what_it_was_offered_and_not_for_ever(call, runtime, model):
    reply = LlmReply("working", tool_calls=[{"id": "1", "name": "careful", "arguments": {}}] * 2)
    model.replies = [reply] * 10
    await call(
        "routine_create", name="r", prompt="p", request=MANUAL,
        execution={"max_tool_rounds": 2, "tool_permissions": ["echo", "careful"]},
    )  # fmt: skip
    await call("routine_fire", name="r")
    (job,) = await ended(runtime)

    assert job.result == "working"
    assert [offered for _, offered in model.asked] == [["echo"], ["echo"], []]
    assert "may not call it" in model.asked[1][0][-1]["content"]


async def test_a_full_job_goes_to_the_host_programs_worker(call, runtime):
    async def agent(job, context):
        return f"{job['title']}: {job['description']}"

    runtime.jobs.register_worker("agent", agent)
    await call(
        "routine_create", name="r", prompt="Do it", request=MANUAL, execution={"mode": "full_job"}
    )
    await call("routine_fire", name="r")
    (job,) = await ended(runtime)

    assert job.result == "r: Do it"


async def test_a_result_that_cannot_be_delivered_fails_the_run(call, runtime):
    await call(
        "routine_create", name="r", prompt="p", request=MANUAL, execution=ECHO,
        delivery={"channel": "nowhere"},
    )  # fmt: skip
    await call("routine_fire", name="r")
    await ended(runtime)

    (run,) = (await call("routine_history", name="r")).result["runs"]
    assert run["status"] == "failed"
    assert "nowhere" in run["error"]


async def test_a_routine_that_nobody_can_do_says_so_from_the_start(runtime_at):
    async with runtime_at() as runtime:
        params = {"name": "r", "prompt": "p", "request": MANUAL}
        made = await runtime.run("routine_create", params, ANA)
        await runtime.run("routine_fire", {"name": "r"}, ANA)
        (job,) = await ended(runtime)

    assert "no worker and no language model" in made.result["note"]
    assert "nobody to do it" in job.error["message"]


async def test_a_deleted_routine_takes_its_history_along(call, runtime):
    await call("routine_create", name="r", prompt="p", request=MANUAL, execution=ECHO)
    await call("routine_fire", name="r")
    await ended(runtime)
    await call("routine_delete", name="r")
    await call("routine_create", name="r", prompt="p", request=MANUAL, execution=ECHO)

    assert (await call("routine_history", name="r")).result["runs"] == []
