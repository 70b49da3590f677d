"""The job tools as an agent calls them, on both databases."""

import asyncio
import subprocess
import sys

import attrs
import pytest

from hardpoint import JobContext, ToolRegistry, tool
from hardpoint.config import PolicyConfig, RuleEntry
from hardpoint.testing import ScriptedApprover
from hardpoint_builtin import job_tools

ANA = JobContext(user_id="ana", auto_approve=True)
BOB = JobContext(user_id="bob", auto_approve=True)
NOBODY = JobContext(user_id="ana", interactive=False)


@tool
async def sleep(seconds: float = 60) -> str:
    """Sleep."""
    await asyncio.sleep(seconds)
    return "slept"


@tool(approval="unless_auto_approved")
async def careful() -> str:
    """Ask unless approved."""
    return "done"


@tool(approval="always")
async def grave() -> str:
    """Ask always."""
    return "done"


@pytest.fixture
async def runtime(runtime_at):
    async with runtime_at(tools=[sleep, careful, grave]) as runtime:
        yield runtime


@pytest.fixture
def call(runtime):
    async def call(name, context=ANA, **params):
        return await runtime.run(name, params, context)

    return call


def echo(*messages):
    return [{"tool": "echo", "params": {"message": message}} for message in messages]


async def test_a_job_is_made_looked_at_and_listed(call):
    made = await call("create_job", title="Say it", description="twice", calls=echo("a", "b"))
    job_id = made.result["job_id"]
    waited = await call("create_job", title="w", description="d", calls=echo("c"), wait=True)
    status = await call("job_status", job_id=job_id[:8])
    while status.result["status"] in ("pending", "in_progress"):
        status = await call("job_status", job_id=job_id)
    listed = await call("list_jobs")

    assert made.result["status"] == "pending"
    assert made.result["title"] == "Say it"
    assert waited.result["status"] == "completed"
    assert waited.result["result"] == [{"ok": True, "tool": "echo", "result": "c"}]
    told = status.result
    assert told["job_id"] == job_id
    assert (told["title"], told["description"]) == ("Say it", "twice")
    assert told["created_at"] <= told["started_at"] <= told["completed_at"]
    assert told["actual_cost"] is None
    assert told["fallback_deliverable"] is None
    assert {job["title"] for job in listed.result["jobs"]} == {"Say it", "w"}
    assert listed.result["summary"] == {
        "total": 2,
        "pending": 0,
        "in_progress": 0,
        "waiting": 0,
        "completed": 2,
        "failed": 0,
        "cancelled": 0,
    }


async def test_the_filter_chooses(call):
    await call("create_job", title="good", description="d", calls=echo("c"), wait=True)
    bad = [{"tool": "json", "params": {"operation": "parse", "data": "{"}}]
    await call("create_job", title="bad", description="d", calls=bad, wait=True)

    for chosen, titles in (
        ("failed", ["bad"]),
        ("completed", ["good"]),
        ("active", []),
        ("all", ["bad", "good"]),
    ):
        jobs = (await call("list_jobs", filter=chosen)).result["jobs"]
        assert [job["title"] for job in jobs] == titles


async def test_a_failed_job_tells_what_there_is_all_the_same(call):
    calls = [*echo("first"), {"tool": "json", "params": {"operation": "parse", "data": "{"}}]
    job = await call("create_job", title="t", description="d", calls=calls, wait=True)

    told = job.result
    assert told["status"] == "failed"
    assert told["error"]["kind"] == "call_failed"
    assert "call 2 (json)" in told["fallback_deliverable"]["failure_reason"]
    assert told["fallback_deliverable"]["partial_result"][0]["result"] == "first"
    assert told["fallback_deliverable"]["calls_done"] == 2


async def test_a_running_job_is_cancelled(call):
    made = await call("create_job", title="t", description="d", calls=[{"tool": "sleep"}])
    job_id = made.result["job_id"]

    unapproved = await call("cancel_job", NOBODY, job_id=job_id)
    cancelled = await call("cancel_job", job_id=job_id)
    again = await call("cancel_job", job_id=job_id)

    assert unapproved.error.kind == "approval_required"
    assert cancelled.ok, cancelled.error
    assert cancelled.result["status"] == "cancelled"
    assert "ended already" in again.result["message"]


async def test_events_say_what_happened(call):
    made = await call("create_job", title="t", description="d", calls=echo("x" * 900), wait=True)

    events = (await call("job_events", job_id=made.result["job_id"])).result["events"]
    last = (await call("job_events", job_id=made.result["job_id"], limit=1)).result["events"]

    assert [event["event"] for event in events] == [
        "created",
        "started",
        "call_started",
        "call_finished",
        "progress",
        "completed",
    ]
    assert events[3]["data"]["preview"] == "x" * 500
    assert [event["event"] for event in last] == ["completed"]


async def test_a_worker_is_given_the_task_and_hears_prompts(call, runtime):
    async def agent(job, context):
        async for prompt in context.services.job.prompts():
            return f"{job['description']}: {prompt.content}"

    runtime.jobs.register_worker("agent", agent)
    made = await call("create_job", title="Ask me", description="What colour?")
    told = await call("job_prompt", job_id=made.result["job_id"], content="blue")
    job = await runtime.jobs.wait(await runtime.jobs.get(made.result["job_id"], "ana"), 20)

    assert told.result == {
        "job_id": made.result["job_id"],
        "status": "queued",
        "message": "the job reads it when it next looks",
        "done": False,
    }
    assert job.result == "What colour?: blue"
    assert not (await call("job_prompt", job_id=job.id, content="too late")).ok


async def test_without_calls_or_a_worker_the_refusal_says_what_to_give(call):
    outcome = await call("create_job", title="t", description="d")

    assert outcome.error.kind == "invalid_parameters"
    assert "list its calls" in outcome.error.message


async def test_users_reach_no_jobs_but_their_own(call):
    made = await call("create_job", title="t", description="d", calls=echo("x"), wait=True)
    job_id = made.result["job_id"]

    for name in ("job_status", "job_events", "cancel_job"):
        for asked in (job_id, job_id[:4]):
            outcome = await call(name, BOB, job_id=asked)
            assert outcome.error.kind == "invalid_parameters"
            assert "there is no job" in outcome.error.message
    assert not (await call("job_prompt", BOB, job_id=job_id, content="x")).ok
    assert (await call("list_jobs", BOB)).result["summary"]["total"] == 0


# nothing is gained by packing a call into a job ---------------------------------------------------


@pytest.mark.parametrize(
    ("planned", "context", "kind"),
    [
        ("echo", NOBODY, None),
        ("careful", NOBODY, "approval_required"),
        ("careful", ANA, None),
        # What the job itself will ask about, it asks when the turn comes.
        ("grave", NOBODY, None),
        ("grave", ANA, None),
        ("grave", attrs.evolve(NOBODY, autonomous=True), None),
        ("grave", attrs.evolve(NOBODY, autonomous=True, allowed_tools={"grave"}), None),
    ],
)
async def test_a_job_needs_the_approval_that_its_calls_need(call, planned, context, kind):
    params = {"message": "x"} if planned == "echo" else {}
    calls = [{"tool": planned, "params": params}]
    context = attrs.evolve(context, interactive=False)

    outcome = await call("create_job", context, title="t", description="d", calls=calls)

    assert (None if outcome.ok else outcome.error.kind) == kind


async def test_a_person_who_approves_sees_every_call(runtime_at):
    approver = ScriptedApprover("once")
    person = JobContext(user_id="ana")
    params = {"title": "t", "description": "d", "calls": [{"tool": "careful"}], "wait": True}
    async with runtime_at(tools=[careful], approver=approver) as runtime:
        outcome = await runtime.run("create_job", params, person)

    assert outcome.result["status"] == "completed"
    assert approver.requests[0].params["calls"] == [{"tool": "careful"}]


async def test_a_denied_call_cannot_be_put_into_a_job(runtime_at):
    rules = PolicyConfig(rules=(RuleEntry("deny", "echo"),))
    async with runtime_at(policy=rules) as runtime:
        params = {"title": "t", "description": "d", "calls": echo("x")}
        outcome = await runtime.run("create_job", params, ANA)

    assert outcome.error.kind == "not_authorized"
    assert "calls[0]: 'echo' is denied" in outcome.error.message


async def test_a_job_that_waits_for_an_answer_says_so_everywhere(call, runtime):
    plan = [*echo("first"), {"tool": "grave"}]
    made = await call("create_job", title="t", description="d", calls=plan, wait=True)
    (request,) = runtime.approvals.pending("ana")
    job_id = made.result["job_id"]
    status = (await call("job_status", job_id=job_id)).result
    listed = (await call("list_jobs", filter="waiting")).result
    events = (await call("job_events", job_id=job_id)).result

    assert made.result["status"] == status["status"] == events["status"] == "waiting"
    assert made.result["approval_id"] == status["approval_id"] == request.id
    assert f"hardpoint approvals answer {request.id}" in status["message"]
    assert status["progress"]["done"] == 1
    assert [job["approval_id"] for job in listed["jobs"]] == [request.id]
    assert listed["summary"]["waiting"] == 1
    assert events["events"][-1]["data"] == {"approval_id": request.id}
    active = (await call("list_jobs", filter="active")).result["jobs"]
    assert [job["job_id"] for job in active] == [job_id]

    runtime.approvals.answer(request.id, True, by="ben")
    await runtime.jobs.wait(await runtime.jobs.get(job_id, "ana"), 20)
    assert (await call("job_status", job_id=job_id)).result["status"] == "completed"


async def test_the_mode_names_a_worker_that_has_to_be_there(call, runtime):
    task = {"title": "t", "description": "d"}
    missing = await call("create_job", mode="claude_code", **task)
    assert missing.error.kind == "invalid_parameters"
    assert "'claude_code'" in missing.error.message
    for more in ({"calls": echo("a")}, {"worker": "other"}):
        refused = await call("create_job", mode="claude_code", **task, **more)
        assert "leave out" in refused.error.message
    assert not (await call("create_job", mode="magic", **task)).ok

    async def agent(job, context):
        return "coded"

    async def other(job, context):
        return "other"

    runtime.jobs.register_worker("claude_code", agent)
    runtime.jobs.register_worker("other", other)
    for params, result in (
        ({"mode": "claude_code"}, "coded"),
        ({"mode": "worker", "worker": "other"}, "other"),
    ):
        assert (await call("create_job", wait=True, **task, **params)).result["result"] == result
    calls = await call("create_job", mode="worker", calls=echo("a"), wait=True, **task)
    assert calls.result["status"] == "completed"


async def test_a_job_has_a_folder_of_its_callers_workspace(call, tmp_path):
    (tmp_path / "work" / "one").mkdir(parents=True)
    context = attrs.evolve(ANA, workspace=tmp_path / "work")
    task = {"title": "t", "description": "d", "calls": echo("a")}

    made = await call("create_job", context, project_dir="one", wait=True, **task)
    outside = await call("create_job", context, project_dir="..", **task)
    nowhere = await call("create_job", project_dir="one", **task)

    assert made.result["project_dir"] == str(tmp_path / "work" / "one")
    assert outside.error.kind == nowhere.error.kind == "invalid_parameters"
    assert "[jobs] projects" in nowhere.error.hint


async def test_a_credential_that_no_call_can_use_is_an_error(call, monkeypatch):
    monkeypatch.setenv("HARDPOINT_SECRET_API_KEY", "synthetic-value-1")
    task = {"title": "t", "description": "d", "calls": echo("a")}

    outcome = await call("create_job", credentials={"api_key": "API_KEY"}, **task)

    assert outcome.error.kind == "invalid_parameters"
    assert "none of the job's calls runs where" in outcome.error.message


async def test_the_group_registers_all_six_over_the_given_jobs(runtime):
    registry = ToolRegistry()
    registry.register_job_tools(runtime.jobs, None)

    assert registry.list() == [
        "cancel_job",
        "create_job",
        "job_events",
        "job_prompt",
        "job_status",
        "list_jobs",
    ]
    assert len(job_tools()) == 6


# processes -------------------------------------------------------------------------------------

WORKER = """
import asyncio, sys
from pathlib import Path
from hardpoint import Config, JobContext, Runtime, tool
from hardpoint.config import StoreConfig

place = sys.argv[1]
where = {"url": place} if "://" in place else {"path": Path(place)}

@tool
async def sleep(seconds: float = 60) -> str:
    "Sleep."
    print("sleeping", flush=True)
    await asyncio.sleep(seconds)

async def main():
    config = Config(store=StoreConfig(**where), load_only=frozenset({"builtin"}))
    async with Runtime(config, tools=[sleep], installed_plugins=True) as runtime:
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_a_job_moves_to_the_process_that_is_there(place, runtime_at):
    async with runtime_at(tools=[sleep], origin="cli") as runtime:
        params = {"title": "t", "description": "d", "calls": [*echo("x"), {"tool": "sleep"}]}
        made = await runtime.run("create_job", params, ANA)
        command = [sys.executable, "-c", WORKER, place]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert worker.stdout.readline() == "sleeping\n"
            running = await runtime.run("job_status", {"job_id": made.result["job_id"]}, ANA)
        finally:
            worker.kill()
            worker.communicate(timeout=30)
        dead = await runtime.run("job_status", {"job_id": made.result["job_id"]}, ANA)

    assert running.result["status"] == "in_progress"
    assert running.result["progress"]["done"] == 1
    assert dead.result["status"] == "failed"
    assert dead.result["error"]["kind"] == "interrupted"
    assert dead.result["fallback_deliverable"]["partial_result"][0]["result"] == "x"
