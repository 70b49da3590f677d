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
    Tool,
    ToolError,
    ToolOutput,
    hookimpl,
    tool,
)
from hardpoint.config import ApprovalConfig, JobsConfig, StoreConfig
from hardpoint.interfaces import (
    ExecutionDomain,
    JobRequest,
    JobWorker,
    PlannedCall,
    SystemClock,
)
from hardpoint.policy.grants import StoredGrants
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


async def test_what_asks_unless_approved_passes_and_what_always_asks_waits(runtime):
    assert (await done(runtime, calls(("careful", {})))).state == "completed"
    job = await parked(runtime, calls(("grave", {})))
    assert job.is_active

    listed = attrs.evolve(ANA, allowed_tools={"grave"})
    assert (await done(runtime, calls(("grave", {})), listed)).state == "completed"


async def test_a_job_can_be_made_to_ask_like_its_caller():
    config = Config(jobs=JobsConfig(autonomous=False))
    async with make_runtime(tools=TOOLS, config=config) as runtime:
        assert (await parked(runtime, calls(("careful", {})))).state == "waiting"


# waiting for an approval -----------------------------------------------------------------------


async def parked(runtime, request, context=ANA):
    job = await runtime.jobs.create(request, context)
    return await runtime.jobs.wait(job, 20, for_answers=False)


ADD = ("add", {"a": 1, "b": 2})


async def test_a_call_that_must_be_approved_is_waited_for_and_made_once_it_is(runtime):
    job = await parked(runtime, calls(ADD, ("grave", {}), ADD))
    (request,) = runtime.approvals.pending("ana")

    assert (job.state, job.approval, job.done) == ("waiting", request.id, 1)
    assert (request.tool, request.request["origin"]) == ("grave", "job")
    assert job.result == [{"ok": True, "tool": "add", "result": 3}]
    runtime.approvals.answer(request.id, True, by="ben")
    job = await runtime.jobs.wait(job, 20)

    assert (job.state, job.approval, job.done) == ("completed", None, 3)
    assert [each["result"] for each in job.result] == [3, "done", 3]
    happened = await kinds(runtime, job)
    steps = ["started", "waiting", "resumed", "completed"]
    assert [kind for kind in happened if kind in steps] == steps
    assert runtime.approvals.get(request.id).state == "used"


async def test_a_call_that_was_denied_fails_the_job_and_says_who_said_no(runtime):
    job = await parked(runtime, calls(("grave", {}), ADD))
    runtime.approvals.answer(job.approval, False, by="ben", message="not today")
    job = await runtime.jobs.wait(job, 20)

    assert job.state == "failed"
    assert "ben said no to exactly this call: not today" in job.error["message"]
    assert "1 further calls were not made" in job.error["message"]


async def test_a_denied_call_is_one_that_failed_to_a_job_that_keeps_going(runtime):
    job = await parked(runtime, calls(("grave", {}), ADD, keep_going=True))
    runtime.approvals.answer(job.approval, False, by="ben")
    job = await runtime.jobs.wait(job, 20)

    assert [each["ok"] for each in job.result] == [False, True]
    assert job.state == "failed"


async def test_nobody_who_answers_in_time_is_a_no(place):
    config = Config(store=place, approval=ApprovalConfig(expires=1))
    async with make_runtime(tools=TOOLS, config=config) as runtime:
        job = await done(runtime, calls(ADD, ("grave", {}), ADD))

    assert job.state == "failed"
    assert "nobody answered ap_" in job.error["message"]
    assert job.result[0]["result"] == 3
    assert (job.result[1]["tool"], job.result[1]["error"]["kind"]) == ("grave", "not_authorized")


async def test_a_withdrawn_request_is_a_no(runtime):
    job = await parked(runtime, calls(("grave", {})))
    assert runtime.approvals.withdraw(job.approval)
    job = await runtime.jobs.wait(job, 20)

    assert job.state == "failed"
    assert "withdrawn" in job.error["message"]


async def test_a_job_that_waits_is_cancelled_and_asks_nobody_any_more(runtime):
    job = await parked(runtime, calls(("grave", {})))
    job = await runtime.jobs.cancel(job)

    assert job.state == "cancelled"
    assert runtime.approvals.pending("ana") == []


async def test_two_jobs_share_a_request_and_one_answer_is_for_one_call(runtime):
    first = await parked(runtime, calls(("grave", {})))
    second = await parked(runtime, calls(("grave", {})))
    assert first.approval == second.approval
    runtime.approvals.answer(first.approval, True, by="ben")

    async def settled():
        states = [(await runtime.jobs.get(each.id, "ana")).state for each in (first, second)]
        return sorted(states) == ["completed", "waiting"] and runtime.approvals.pending("ana")

    while not await settled():
        await asyncio.sleep(0.02)
    (request,) = runtime.approvals.pending("ana")
    assert request.id != first.approval


async def test_a_job_that_waits_lets_others_run():
    config = Config(jobs=JobsConfig(concurrency=1))

    async def work(job, context):
        return (await context.services.call("grave", {})).result

    async with make_runtime(tools=TOOLS, config=config) as runtime:
        runtime.jobs.register_worker("agent", work)
        waiting = [await parked(runtime, calls(("grave", {}))), await parked(runtime, request())]
        assert [job.state for job in waiting] == ["waiting", "waiting"]
        assert (await done(runtime, calls(ADD))).state == "completed"


def request():
    return JobRequest("x")


async def test_a_worker_stands_still_until_its_call_is_approved(runtime):
    async def work(job, context):
        return (await context.services.call("grave", {})).result

    runtime.jobs.register_worker("agent", work)
    job = await parked(runtime, request())
    (asked,) = runtime.approvals.pending("ana")
    assert (job.state, job.approval) == ("waiting", asked.id)
    runtime.approvals.answer(asked.id, True, by="ben")
    job = await runtime.jobs.wait(job, 20)

    assert (job.state, job.result, job.approval) == ("completed", "done", None)


async def test_a_worker_need_not_wait_and_is_told_when_the_answer_is_no(runtime):
    async def work(job, context):
        asked = await context.services.run("grave", {}, wait=False)
        refused = await context.services.run("grave", {})
        return [asked.error.kind, refused.error.kind]

    runtime.jobs.register_worker("agent", work)
    job = await parked(runtime, request())
    runtime.approvals.answer(job.approval, False, by="ben")
    job = await runtime.jobs.wait(job, 20)

    assert job.result == ["approval_required", "not_authorized"]


async def test_a_worker_that_waits_is_cancelled_at_once(runtime):
    async def work(job, context):
        await context.services.call("grave", {})

    runtime.jobs.register_worker("agent", work)
    job = await runtime.jobs.cancel(await parked(runtime, request()))

    assert job.state == "cancelled"
    assert runtime.approvals.pending("ana") == []


async def test_the_time_of_a_worker_stands_still_while_it_waits():
    config = Config(jobs=JobsConfig(timeout=0.5))

    async def work(job, context):
        await context.services.call("grave", {})
        await asyncio.sleep(60)

    async with make_runtime(tools=TOOLS, config=config) as runtime:
        runtime.jobs.register_worker("agent", work)
        job = await parked(runtime, request())
        job = await runtime.jobs.wait(job, 1, for_answers=True)
        assert job.state == "waiting"
        runtime.approvals.answer(job.approval, True, by="ben")
        job = await runtime.jobs.wait(job, 20)

    assert job.error["kind"] == "timeout"


async def test_a_call_that_began_before_it_was_refused_is_not_made_twice(runtime):
    ran = []

    @tool
    async def outer(context: JobContext) -> str:
        """Begin, then ask."""
        ran.append(1)
        return (await context.services.call("grave", {})).result

    runtime.registry.register(outer)
    job = await done(runtime, calls(("outer", {})))

    assert (job.state, ran) == ("failed", [1])


async def test_a_long_result_is_still_there_after_waiting(runtime):
    @tool
    async def much() -> list:
        """Give a lot."""
        return ["word " * 1000] * 18

    runtime.registry.register(much)
    job = await parked(runtime, calls(*[("much", {})] * 18, ("grave", {})))
    assert "result_ref" in job.result
    runtime.approvals.answer(job.approval, True, by="ben")
    job = await runtime.jobs.wait(job, 20)

    assert (job.state, job.done) == ("completed", 19)


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


# where it works, and with what -----------------------------------------------------------------


@pytest.fixture
def projects(tmp_path):
    for name in ("top/one/deep", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "top" / "file").touch()
    (tmp_path / "top" / "way-out").symlink_to(tmp_path / "elsewhere")
    return tmp_path / "top"


@pytest.mark.parametrize("name", ["one", "one/deep", "one/../one", ".", "{top}/one"])
async def test_a_job_works_in_a_folder_of_its_callers_workspace(runtime, projects, name):
    context = attrs.evolve(ANA, workspace=projects)
    name = name.replace("{top}", str(projects))
    job = await done(runtime, calls(("seen", {}), project_dir=name), context)

    assert job.result[0]["result"]["workspace"] == str((projects / name).resolve())
    assert job.project_dir == str((projects / name).resolve())


@pytest.mark.parametrize(
    "name", ["nothing", "..", "../elsewhere", "way-out", "file", "/", "/etc", "a\0b", "~"]
)
async def test_a_folder_that_is_none_or_elsewhere_is_refused(runtime, projects, name):
    context = attrs.evolve(ANA, workspace=projects)
    with pytest.raises(InvalidParameters, match="no folder below"):
        await runtime.jobs.create(calls(ADD, project_dir=name), context)


async def test_without_a_folder_for_projects_none_can_be_chosen(runtime):
    with pytest.raises(InvalidParameters, match="no folder for projects"):
        await runtime.jobs.create(calls(ADD, project_dir="one"), ANA)


async def test_the_configured_folder_counts_and_not_the_callers(projects):
    config = Config(jobs=JobsConfig(projects=projects))
    context = attrs.evolve(ANA, workspace=projects.parent)
    async with make_runtime(tools=TOOLS, config=config) as runtime:
        job = await done(runtime, calls(("seen", {}), project_dir="one"), context)
        with pytest.raises(InvalidParameters, match="no folder below"):
            await runtime.jobs.create(calls(ADD, project_dir=str(projects.parent)), context)

    assert job.result[0]["result"]["workspace"] == str(projects / "one")


async def test_a_folder_that_became_a_link_meanwhile_fails_the_job(projects, place):
    context = attrs.evolve(ANA, workspace=projects)
    async with make_runtime(tools=TOOLS, config=config_at(place), origin="cli") as runtime:
        job = await runtime.jobs.create(calls(("seen", {}), project_dir="one/deep"), context)
    (projects / "one" / "deep").rmdir()
    (projects / "one" / "deep").symlink_to(projects.parent / "elsewhere")
    async with make_runtime(tools=TOOLS, config=config_at(place)) as runtime:
        job = await runtime.jobs.wait(job, 20)

    assert (job.state, job.error["kind"]) == ("failed", "not_authorized")
    assert "not there any more" in job.error["message"]


@pytest.mark.parametrize("by_worker", [False, True])
async def test_a_folder_that_became_a_link_between_two_calls_ends_the_job(projects, by_worker):
    folder = projects / "one" / "deep"

    @tool
    async def swap() -> None:
        """Put a link in the place of the job's folder."""
        folder.rmdir()
        folder.symlink_to(projects.parent / "elsewhere")

    async def work(job, context):
        await context.services.call("swap", {})
        return (await context.services.call("seen", {})).result

    context = attrs.evolve(ANA, workspace=projects)
    made = JobRequest("t", "d", worker="worker") if by_worker else calls(("swap", {}), ("seen", {}))
    async with make_runtime(tools=[*TOOLS, swap]) as runtime:
        runtime.jobs.register_worker("worker", work)
        job = await done(runtime, attrs.evolve(made, project_dir="one/deep"), context)

    assert (job.state, job.error["kind"]) == ("failed", "not_authorized")
    assert "not there any more" in job.error["message"]
    assert by_worker or [told["tool"] for told in job.result] == ["swap"]


class Exchange(ExecutionDomain):
    """Says what it was given, and knows one secret."""

    async def run(self, invocation):
        return ToolOutput.success(dict(invocation.context.credentials))

    def credential_problem(self, secret):
        return None if secret == "api_key" else "it knows api_key only"


class InExchange(Tool):
    name = "inside"
    description = "Run in there."

    def parameters_schema(self):
        return {"type": "object", "properties": {}}

    def domain(self):
        return "exchange"

    async def execute(self, params, ctx, /):
        raise AssertionError


class Exchanging:
    HARDPOINT_API = 1

    @hookimpl
    def hardpoint_register_domains(self, registry):
        registry.register("exchange", Exchange())

    @hookimpl
    def hardpoint_register_tools(self, registry):
        registry.register(InExchange())


@pytest.fixture
async def exchanging(monkeypatch):
    monkeypatch.setenv("HARDPOINT_SECRET_API_KEY", "synthetic-value-1")
    monkeypatch.setenv("HARDPOINT_SECRET_OTHER", "synthetic-value-2")
    async with make_runtime(tools=TOOLS, plugins={"acme": Exchanging()}) as runtime:
        yield runtime


async def test_credentials_reach_the_domain_by_name_and_are_kept_by_name(exchanging):
    wanted = calls(("inside", {}), credentials={"api_key": "API_TOKEN"})
    job = await done(exchanging, wanted)

    assert job.result[0]["result"] == {"API_TOKEN": "api_key"}
    assert "synthetic" not in str(job)


@pytest.mark.parametrize(
    ("planned", "credentials", "message"),
    [
        ("inside", {"other": "TOKEN"}, "it knows api_key only"),
        ("inside", {"nothing": "TOKEN"}, "'nothing' is not set"),
        ("seen", {"api_key": "TOKEN"}, "none of the job's calls runs where 'TOKEN'"),
        ("inside", {"api_key": "token"}, "cannot name a variable"),
        ("inside", {"api_key": "A=B"}, "cannot name a variable"),
        ("inside", {"api_key": "LD_PRELOAD"}, "for something else"),
        ("inside", {"api_key": "PATH"}, "for something else"),
        ("inside", {"api_key": "HTTPS_PROXY"}, "for something else"),
        ("inside", {"api_key": "T", "API_KEY": "T"}, "two secrets in one variable"),
        ("inside", {f"s{n}": f"T{n}" for n in range(21)}, "too many"),
    ],
)
async def test_a_credential_that_cannot_be_given_is_an_error(
    exchanging, planned, credentials, message
):
    with pytest.raises(ToolError, match=message):
        await exchanging.jobs.create(calls((planned, {}), credentials=credentials), ANA)
    assert await exchanging.jobs.list("ana") == []


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
        (await context.services.run("grave", {}, wait=False)).unwrap()

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


async def test_a_job_is_cancelled_between_its_claim_and_its_first_step(monkeypatch):
    async with make_runtime(tools=TOOLS) as runtime:
        claim = runtime.jobs.claim
        cancelled = []

        async def interrupted(job_id=None):
            job = await claim(job_id)
            if job is not None:
                cancelled.append(asyncio.create_task(runtime.jobs.cancel(job, 20)))
                while not (await runtime.jobs.get(job.id, "ana")).cancelling:
                    await asyncio.sleep(0.01)
            return job

        monkeypatch.setattr(runtime.jobs, "claim", interrupted)
        job = await runtime.jobs.create(calls(("sleep", {})), ANA)
        job = await runtime.jobs.wait(job, 20)
        await cancelled[0]

    assert job.state == "cancelled"


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

@tool(approval="always")
async def grave() -> str:
    "Ask always."
    return "done"

async def main():
    given = sys.argv[1]
    place = StoreConfig(url=given) if "://" in given else StoreConfig(path=Path(given))
    config = Config(store=place, jobs=JobsConfig({settings}))
    async with Runtime(config, tools=[add, hang, grave], origin="{origin}") as runtime:
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


async def test_a_job_that_waits_for_an_answer_survives_every_process(place, open_store):
    async with make_runtime(tools=TOOLS, config=config_at(place)) as runtime:
        job = await parked(runtime, calls(ADD, ("grave", {}), ADD))
    StoredGrants(open_store(), SystemClock()).answer(job.approval, True, by="ben")

    async with make_runtime(tools=TOOLS, config=config_at(place), origin="cli") as runtime:
        assert (await runtime.jobs.get(job.id, "ana")).state == "pending"
    async with make_runtime(tools=TOOLS, config=config_at(place)) as runtime:
        job = await runtime.jobs.wait(job, 20)

    assert job.state == "completed"
    assert [each["result"] for each in job.result] == [3, "done", 3]


async def test_a_worker_that_waited_in_a_process_that_died_has_failed(place):
    body = """
    async def work(job, context):
        print("asking", flush=True)
        await context.services.call("grave", {})
    runtime.jobs.register_worker("agent", work)
    await runtime.jobs.create(JobRequest("x"), JobContext(user_id="ana"))
    await asyncio.sleep(600)
    """
    async with make_runtime(tools=TOOLS, config=config_at(place), origin="cli") as runtime:
        with child(place, body) as process:
            assert process.stdout.readline() == "asking\n"
            while not runtime.approvals.pending("ana"):
                await asyncio.sleep(0.02)
            process.kill()
            process.wait(timeout=30)
        (job,) = await runtime.jobs.list("ana")

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
