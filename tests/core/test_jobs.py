"""Background jobs: calls and workers, progress, cancelling, isolation, and what a crash leaves."""

import asyncio
import contextlib
import subprocess
import sys
import textwrap
import threading

import attrs
import pytest

from hardpoint import (
    Config,
    ExecutionFailed,
    HardpointError,
    InvalidParameters,
    JobContext,
    NotAuthorized,
    tool,
)
from hardpoint.config import JobsConfig, StoreConfig
from hardpoint.interfaces import JobRequest, JobWorker, PlannedCall
from hardpoint.testing import make_runtime

ANA = JobContext(user_id="ana", session_id="s1")
BOB = JobContext(user_id="bob")


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
async def fail() -> str:
    """Fail."""
    raise ExecutionFailed("no luck")


@tool
async def sleep(seconds: float = 60) -> str:
    """Sleep."""
    await asyncio.sleep(seconds)
    return "slept"


@tool
async def seen(context: JobContext) -> dict:
    """Who calls, as the tool sees it."""
    return {
        "user": context.user_id,
        "session": context.session_id,
        "job": context.job_id,
        "origin": context.origin,
        "interactive": context.interactive,
        "autonomous": context.autonomous,
        "mode": context.mode,
        "workspace": str(context.workspace),
        "allowed": sorted(context.allowed_tools),
        "extra_env": dict(context.extra_env),
    }


@tool(approval="unless_auto_approved")
async def careful() -> str:
    """Ask unless approved."""
    return "done"


@tool(approval="always")
async def grave() -> str:
    """Ask always."""
    return "done"


TOOLS = [add, fail, sleep, seen, careful, grave]


def calls(*planned, **options):
    made = [PlannedCall(name, params) for name, params in planned]
    return JobRequest(options.pop("title", "a job"), calls=made, **options)


async def done(runtime, request, context=ANA):
    job = await runtime.jobs.create(request, context)
    return await runtime.jobs.wait(job, 20)


async def kinds(runtime, job):
    return [event.kind for event in await runtime.jobs.events(job, 1000)]


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def runtime(request, tmp_path):
    places = {"memory": {}, "sqlite": {"path": tmp_path / "state.db"}}
    there = request.param == "postgresql"
    place = {"url": request.getfixturevalue("database")} if there else places[request.param]
    async with make_runtime(tools=TOOLS, config=Config(store=StoreConfig(**place))) as runtime:
        yield runtime


# calls -----------------------------------------------------------------------------------------


async def test_calls_are_made_in_order_and_their_results_kept(runtime):
    job = await done(runtime, calls(("add", {"a": 1, "b": 2}), ("add", {"a": "3", "b": 4})))

    assert job.state == "completed"
    assert job.result == [
        {"ok": True, "tool": "add", "result": 3},
        {"ok": True, "tool": "add", "result": 7},
    ]
    assert (job.done, job.total) == (2, 2)
    assert await kinds(runtime, job) == [
        "created",
        "started",
        "call_started",
        "call_finished",
        "progress",
        "call_started",
        "call_finished",
        "progress",
        "completed",
    ]


async def test_a_failed_call_ends_the_job_and_says_what_was_done(runtime):
    job = await done(runtime, calls(("add", {"a": 1, "b": 2}), ("fail", {}), ("sleep", {})))

    assert job.state == "failed"
    assert "call 2 (fail): no luck; 1 further calls were not made" in job.error["message"]
    assert job.result[0]["result"] == 3
    assert job.result[1]["error"]["kind"] == "execution_failed"


async def test_keep_going_makes_the_calls_after_a_failed_one(runtime):
    job = await done(runtime, calls(("fail", {}), ("add", {"a": 1, "b": 2}), keep_going=True))

    assert job.state == "failed"
    assert job.result[1]["result"] == 3


async def test_a_job_has_its_callers_rights_and_nobody_to_ask(runtime, tmp_path):
    context = JobContext(
        user_id="ana",
        session_id="s1",
        workspace=tmp_path,
        allowed_tools={"x"},
        extra_env={"KEY": "value"},
    )

    job = await done(runtime, calls(("seen", {})), context)

    assert job.result[0]["result"] == {
        "user": "ana",
        "session": "s1",
        "job": job.id,
        "origin": "job",
        "interactive": False,
        "autonomous": True,
        "mode": "default",
        "workspace": str(tmp_path),
        "allowed": ["x"],
        "extra_env": {},
    }


async def test_what_asks_unless_approved_passes_and_what_always_asks_does_not(runtime):
    assert (await done(runtime, calls(("careful", {})))).state == "completed"
    with pytest.raises(NotAuthorized, match="a job cannot ask"):
        await runtime.jobs.create(calls(("grave", {})), ANA)

    listed = attrs.evolve(ANA, allowed_tools={"grave"})
    assert (await done(runtime, calls(("grave", {})), listed)).state == "completed"


async def test_a_job_can_be_made_to_ask_like_its_caller():
    config = Config(jobs=JobsConfig(autonomous=False))
    async with make_runtime(tools=TOOLS, config=config) as runtime:
        with pytest.raises(NotAuthorized, match="a job cannot ask"):
            await runtime.jobs.create(calls(("careful", {})), ANA)


async def test_the_mode_of_the_caller_holds_in_its_job(runtime):
    planning = attrs.evolve(ANA, mode="plan")

    with pytest.raises(NotAuthorized, match="plan"):
        await runtime.jobs.create(calls(("add", {"a": 1, "b": 2})), planning)


async def test_rules_hold_in_jobs_and_can_name_them():
    rule = {"tool": "add", "when": {"origin": "job"}}
    async with make_runtime(tools=TOOLS, deny=[rule]) as runtime:
        assert (await runtime.run("add", {"a": 1, "b": 2}, ANA)).ok
        with pytest.raises(NotAuthorized):
            await runtime.jobs.create(calls(("add", {"a": 1, "b": 2})), ANA)


async def test_a_tool_that_went_meanwhile_fails_its_call(runtime):
    job = await runtime.jobs.create(
        calls(("sleep", {"seconds": 0.2}), ("add", {"a": 1, "b": 1})), ANA
    )
    runtime.registry.unregister("add")
    job = await runtime.jobs.wait(job, 20)

    assert job.state == "failed"
    assert job.result[1]["error"]["kind"] == "not_found"


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (JobRequest("  "), "needs a title"),
        (JobRequest("x"), "what should the job do"),
        (JobRequest("x", worker="nobody"), "no job worker 'nobody'"),
        (JobRequest("x" * 201, calls=[PlannedCall("add")]), "too long"),
        (JobRequest("x", calls=[PlannedCall("add")] * 101), "100 calls at most"),
        (JobRequest("x", calls=[PlannedCall("add")], worker="w"), "not both"),
        (JobRequest("x", calls=[PlannedCall("add", {"a": 1})]), r"calls\[0\].*'add' are wrong"),
    ],
)
async def test_what_cannot_be_done_is_refused_at_once(runtime, request_, message):
    with pytest.raises(InvalidParameters, match=message):
        await runtime.jobs.create(request_, ANA)
    assert await runtime.jobs.list("ana") == []


async def test_an_unknown_tool_is_refused_at_once(runtime):
    with pytest.raises(HardpointError, match="did you mean 'add'"):
        await runtime.jobs.create(calls(("ad", {})), ANA)


async def test_texts_that_databases_cannot_keep_are_mended(runtime):
    job = await done(
        runtime, calls(("add", {"a": 1, "b": 2}), title="a\0b\ud800", description="\0")
    )

    assert job.title == "a\ufffdb?"


async def test_secrets_in_results_are_not_kept(runtime):
    async def leak(job, context):
        return {"key": "ghp_" + "SyntheticSyntheticSyntheticSyntheticSyn"[:36]}

    runtime.jobs.register_worker("leak", leak)
    job = await done(runtime, JobRequest("x"))

    assert "Synthetic" not in str(job.result)


async def test_a_long_result_is_kept_by_reference(runtime):
    async def much(job, context):
        return "long " * 300_000

    runtime.jobs.register_worker("much", much)
    job = await done(runtime, JobRequest("x"))
    page = await runtime.services.results.read(job.result["result_ref"], 0, 100, user="ana")

    assert page["text"].startswith('"long long')
    assert job.result["preview"].startswith('"long')


# workers ---------------------------------------------------------------------------------------


async def test_a_worker_is_told_everything_and_calls_tools_as_the_caller(runtime):
    async def work(job, context):
        context.report(1, 2, "half way")
        inner = await context.services.call("add", {"a": 1, "b": job["input"]})
        who = await runtime.call("seen", {}, context)
        await context.services.job.note("nearly", step=2)
        return {"sum": inner.result, "who": who.result["user"], "title": job["title"]}

    runtime.jobs.register_worker("agent", work)
    job = await done(runtime, JobRequest("Sum it", "Please.", input=41))

    assert job.state == "completed"
    assert job.worker == "agent"
    assert job.result == {"sum": 42, "who": "ana", "title": "Sum it"}
    happened = await kinds(runtime, job)
    assert happened.count("call_finished") == 2
    assert "progress" in happened
    assert "note" in happened


async def test_a_worker_from_a_plugin_is_found_by_name(runtime):
    class Echo(JobWorker):
        async def run(self, job, context):
            return job["input"]

    runtime.jobs.register_worker("echo", Echo())
    runtime.jobs.register_worker("other", Echo())

    assert (await done(runtime, JobRequest("x", worker="other", input=[1]))).result == [1]
    with pytest.raises(InvalidParameters, match="name one of the workers echo, other"):
        await runtime.jobs.create(JobRequest("x"), ANA)
    with pytest.raises(HardpointError, match="already"):
        runtime.jobs.register_worker("echo", Echo())


async def test_what_a_worker_raises_ends_the_job_in_order(runtime):
    async def broken(job, context):
        raise LookupError("nothing there")

    async def refused(job, context):
        await context.services.call("grave", {})

    runtime.jobs.register_worker("broken", broken)
    runtime.jobs.register_worker("refused", refused)

    job = await done(runtime, JobRequest("x", worker="broken"))
    assert (job.state, job.error["message"]) == ("failed", "LookupError: nothing there")
    job = await done(runtime, JobRequest("x", worker="refused"))
    assert job.error["kind"] == "approval_required"


async def test_a_worker_hears_what_it_is_told_until_the_last(runtime):
    heard = []

    async def listen(job, context):
        async for prompt in context.services.job.prompts():
            heard.append(prompt.content)
        return "heard all"

    runtime.jobs.register_worker("listen", listen)
    job = await runtime.jobs.create(JobRequest("x"), ANA)
    await runtime.jobs.prompt(job, "one")
    await runtime.jobs.prompt(job, "two", done=True)
    job = await runtime.jobs.wait(job, 20)

    assert job.result == "heard all"
    assert heard == ["one", "two"]
    with pytest.raises(InvalidParameters, match="takes nothing more"):
        await runtime.jobs.prompt(job, "three")


async def test_a_job_of_calls_reads_no_prompts(runtime):
    job = await runtime.jobs.create(calls(("sleep", {"seconds": 0.1})), ANA)

    with pytest.raises(InvalidParameters, match="fixed calls"):
        await runtime.jobs.prompt(job, "hello")


async def test_jobs_may_start_jobs_but_not_for_ever(runtime):
    async def again(job, context):
        await runtime.jobs.create(JobRequest("deeper", worker="again"), context)
        return "started one"

    runtime.jobs.register_worker("again", again)
    await done(runtime, JobRequest("x", worker="again"))
    while any(job.is_active for job in await runtime.jobs.list("ana")):
        await asyncio.sleep(0.02)

    states = [job.state for job in await runtime.jobs.list("ana")]
    assert sorted(states) == ["completed"] * 5 + ["failed"]


async def test_a_job_has_a_time_limit():
    config = Config(jobs=JobsConfig(timeout=0.2))
    async with make_runtime(tools=TOOLS, config=config) as runtime:
        job = await done(runtime, calls(("add", {"a": 1, "b": 2}), ("sleep", {})))

    assert (job.state, job.error["kind"]) == ("failed", "timeout")
    assert job.result == [{"ok": True, "tool": "add", "result": 3}]


# cancelling ------------------------------------------------------------------------------------


async def test_cancelling_stops_a_sleeping_tool(runtime):
    job = await runtime.jobs.create(calls(("add", {"a": 1, "b": 2}), ("sleep", {})), ANA)
    while (await runtime.jobs.get(job.id, "ana")).done < 1:
        await asyncio.sleep(0.01)

    async with asyncio.timeout(5):
        job = await runtime.jobs.cancel(job)

    assert job.state == "cancelled"
    assert job.result == [{"ok": True, "tool": "add", "result": 3}]
    assert (await kinds(runtime, job))[-1] == "cancelled"


async def test_a_cancelled_worker_really_stops(runtime):
    steps = []

    async def work(job, context):
        try:
            while True:
                steps.append(1)
                await asyncio.sleep(0.01)
        finally:
            steps.append("cleaned up")

    runtime.jobs.register_worker("work", work)
    job = await runtime.jobs.create(JobRequest("x"), ANA)
    while not steps:
        await asyncio.sleep(0.01)

    await runtime.jobs.cancel(job)

    assert steps[-1] == "cleaned up"


async def test_a_waiting_job_that_is_cancelled_never_runs():
    config = Config(jobs=JobsConfig(concurrency=1))
    async with make_runtime(tools=TOOLS, config=config) as runtime:
        first = await runtime.jobs.create(calls(("sleep", {})), ANA)
        second = await runtime.jobs.create(calls(("sleep", {})), ANA)

        second = await runtime.jobs.cancel(second)
        first = await runtime.jobs.cancel(first)

        assert second.state == first.state == "cancelled"
        assert second.started is None
        again = await runtime.jobs.cancel(first)
        assert again.state == "cancelled"


async def test_a_tool_on_a_thread_is_left_behind_when_its_job_is_cancelled(runtime):
    release = threading.Event()

    @tool
    def stubborn() -> str:
        """Cannot be stopped."""
        release.wait(30)
        return "x"

    runtime.registry.register(stubborn)
    job = await runtime.jobs.create(calls(("stubborn", {})), ANA)
    while (await runtime.jobs.get(job.id, "ana")).state == "pending":
        await asyncio.sleep(0.01)
    job = await runtime.jobs.cancel(job)
    release.set()

    assert job.state == "cancelled"


# limits and order ------------------------------------------------------------------------------


async def test_no_more_jobs_run_at_one_time_than_configured():
    most = {"ana": 0, "all": 0}
    users = {"ana": 0, "bob": 0}

    async def work(job, context):
        users[context.user_id] += 1
        most["ana"] = max(most["ana"], users["ana"])
        most["all"] = max(most["all"], sum(users.values()))
        await asyncio.sleep(0.02)
        users[context.user_id] -= 1

    config = Config(jobs=JobsConfig(concurrency=3, per_user=2))
    async with make_runtime(config=config) as runtime:
        runtime.jobs.register_worker("work", work)
        jobs = [
            await runtime.jobs.create(JobRequest("x"), context)
            for context in (ANA,) * 8 + (BOB,) * 4
        ]
        ended = [await runtime.jobs.wait(job, 20) for job in jobs]

    assert {job.state for job in ended} == {"completed"}
    assert most == {"ana": 2, "all": 3}


async def test_a_thousand_jobs_wait_and_are_done(runtime):
    jobs = [await runtime.jobs.create(calls(("add", {"a": n, "b": 1})), ANA) for n in range(1000)]

    ended = [await runtime.jobs.wait(job, 100) for job in jobs]

    assert [job.result[0]["result"] for job in ended] == list(range(1, 1001))
    assert await runtime.jobs.counts("ana") == {"completed": 1000}


# isolation -------------------------------------------------------------------------------------


async def test_ids_may_be_shortened_and_never_reach_another_user(runtime):
    job = await done(runtime, calls(("add", {"a": 1, "b": 2})))

    assert (await runtime.jobs.get(job.id[:4], "ana")).id == job.id
    assert (await runtime.jobs.get(job.id.upper(), "ana")).id == job.id
    assert (await runtime.jobs.get(job.id, None)).id == job.id
    for wrong, user in ((job.id, "bob"), (job.id[:8], "bob"), ("ffff-0000", "ana")):
        with pytest.raises(InvalidParameters, match="there is no job"):
            await runtime.jobs.get(wrong, user)
    for wrong in ("abc", "", "%%%%", "zzzz", job.id + "0"):
        with pytest.raises(InvalidParameters):
            await runtime.jobs.get(wrong, "ana")
    assert await runtime.jobs.list("bob") == []
    assert await runtime.jobs.counts("bob") == {}


async def test_a_beginning_that_fits_several_is_refused_with_all_of_them(runtime):
    first = await done(runtime, calls(("add", {"a": 1, "b": 2})))
    twin = first.id[:8] + "-0000-4000-8000-000000000000"
    runtime.jobs.tables.tables.execute("UPDATE jobs_jobs SET id = ? WHERE id = ?", (twin, first.id))
    other = await done(runtime, calls(("add", {"a": 1, "b": 2})))
    sibling = first.id[:8] + "-1111-4000-8000-000000000000"
    runtime.jobs.tables.tables.execute(
        "UPDATE jobs_jobs SET id = ? WHERE id = ?", (sibling, other.id)
    )

    with pytest.raises(InvalidParameters, match="several jobs") as refusal:
        await runtime.jobs.get(first.id[:8], "ana")

    assert twin in refusal.value.message
    assert sibling in refusal.value.message


# several processes -----------------------------------------------------------------------------


def config_at(place, **options):
    return Config(store=place, jobs=JobsConfig(**options))


CHILD = """
import asyncio, sys
from pathlib import Path
from hardpoint import Config, JobContext, Runtime, tool
from hardpoint.config import JobsConfig, StoreConfig
from hardpoint.interfaces import JobRequest, PlannedCall

@tool
async def add(a: int, b: int) -> int:
    "Add."
    return a + b

@tool
async def hang() -> str:
    "Never end."
    print("hanging", flush=True)
    await asyncio.sleep(600)

async def main():
    given = sys.argv[1]
    place = StoreConfig(url=given) if "://" in given else StoreConfig(path=Path(given))
    config = Config(store=place, jobs=JobsConfig({settings}))
    async with Runtime(config, tools=[add, hang], origin="{origin}") as runtime:
{body}

asyncio.run(main())
"""


@contextlib.contextmanager
def child(place, body, *, settings="", origin="library"):
    code = CHILD.replace("{settings}", settings).replace("{origin}", origin)
    code = code.replace("{body}", textwrap.indent(textwrap.dedent(body), " " * 8))
    process = subprocess.Popen(
        [sys.executable, "-c", code, place.url or str(place.path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


HANGING = """
three = {"a": 1, "b": 2}
calls = [PlannedCall("add", three), PlannedCall("hang"), PlannedCall("add", three)]
job = await runtime.jobs.create(JobRequest("x", calls=calls), JobContext(user_id="ana"))
await asyncio.sleep(600)
"""


async def test_a_killed_process_leaves_a_failed_job_that_says_what_was_done(place):
    with child(place, HANGING) as process:
        assert process.stdout.readline() == "hanging\n"
        process.kill()
        process.wait(timeout=30)

    async with make_runtime(tools=TOOLS, config=config_at(place)) as runtime:
        (job,) = await runtime.jobs.list("ana")
        happened = await kinds(runtime, job)

    assert job.state == "failed"
    assert job.error["kind"] == "interrupted"
    assert "after 1 of 3 calls" in job.error["message"]
    assert job.result == [{"ok": True, "tool": "add", "result": 3}]
    assert happened[-2:] == ["call_started", "failed"]


async def test_a_process_that_stops_in_order_marks_its_jobs_failed(place):
    async with make_runtime(tools=TOOLS, config=config_at(place)) as runtime:
        job = await runtime.jobs.create(calls(("sleep", {})), ANA)
        while (await runtime.jobs.get(job.id, "ana")).state == "pending":
            await asyncio.sleep(0.01)

    async with make_runtime(tools=TOOLS, config=config_at(place)) as runtime:
        job = await runtime.jobs.get(job.id, "ana")

    assert (job.state, job.error["kind"]) == ("failed", "interrupted")


async def test_jobs_that_wait_survive_and_run_in_the_next_process(place):
    async with make_runtime(tools=TOOLS, config=config_at(place), origin="cli") as runtime:
        job = await runtime.jobs.create(calls(("add", {"a": 1, "b": 2})), ANA)
        assert (await runtime.jobs.get(job.id, "ana")).state == "pending"

    async with make_runtime(tools=TOOLS, config=config_at(place)) as runtime:
        job = await runtime.jobs.wait(job, 20)

    assert job.state == "completed"


async def test_a_command_that_waits_does_the_job_itself(place):
    async with make_runtime(tools=TOOLS, config=config_at(place), origin="cli") as runtime:
        other = await runtime.jobs.create(calls(("add", {"a": 1, "b": 2})), ANA)
        job = await done(runtime, calls(("add", {"a": 2, "b": 2})))

        assert job.state == "completed"
        assert (await runtime.jobs.get(other.id, "ana")).state == "pending"


async def test_a_job_is_cancelled_from_another_process(place):
    with child(place, HANGING) as process:
        assert process.stdout.readline() == "hanging\n"
        async with make_runtime(tools=TOOLS, config=config_at(place), origin="cli") as runtime:
            (job,) = await runtime.jobs.list("ana")
            job = await runtime.jobs.cancel(job)

    assert job.state == "cancelled"
    assert job.result == [{"ok": True, "tool": "add", "result": 3}]


async def test_each_job_runs_once_however_many_processes_look(place):
    body = "await runtime.jobs.drain()"
    async with make_runtime(tools=TOOLS, config=config_at(place), origin="cli") as runtime:
        for number in range(60):
            await runtime.jobs.create(calls(("add", {"a": number, "b": 0})), ANA)
        with (
            child(place, body, origin="job") as first,
            child(place, body, origin="job") as second,
        ):
            assert first.wait(timeout=60) == 0
            assert second.wait(timeout=60) == 0
        ended = await runtime.jobs.list("ana")
        events = [await kinds(runtime, job) for job in ended]

    assert {job.state for job in ended} == {"completed"}
    assert all(happened.count("started") == 1 for happened in events)


async def test_a_job_whose_lease_ran_out_is_lost_to_its_process(place):
    async with make_runtime(tools=TOOLS, config=config_at(place)) as runtime:
        job = await runtime.jobs.create(
            calls(("sleep", {"seconds": 0.3}), ("add", {"a": 1, "b": 1})), ANA
        )
        while "call_started" not in await kinds(runtime, job):
            await asyncio.sleep(0.01)
        tables = runtime.jobs.tables
        lost = await asyncio.to_thread(tables.recover, runtime.services.clock.now() + 1000)
        await asyncio.sleep(0.5)

        job = await runtime.jobs.get(job.id, "ana")
        happened = await kinds(runtime, job)

    assert lost == [job.id]
    assert (job.state, job.error["kind"]) == ("failed", "interrupted")
    assert happened.count("call_started") == 1


async def test_jobs_that_ended_long_ago_can_be_deleted(runtime):
    job = await done(runtime, calls(("add", {"a": 1, "b": 2})))

    assert await runtime.jobs.prune(job.finished) == 0
    assert await runtime.jobs.prune(job.finished + 1) == 1
    assert await runtime.jobs.list("ana") == []
    assert await runtime.jobs.events(job) == []
