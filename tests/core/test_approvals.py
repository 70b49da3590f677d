"""Who is asked, what is shown, what an answer does, and how long it holds."""

from __future__ import annotations

import io
from typing import Any

import attrs
import pytest

import hardpoint
from hardpoint import ApprovalRequired, Decision, JobContext, NotAuthorized, Pending, tool
from hardpoint.config import ApprovalConfig, Config
from hardpoint.policy.showing import describe, visible
from hardpoint.policy.terminal import TerminalApprover
from hardpoint.testing import FakeClock, ScriptedApprover, make_context, make_runtime
from hardpoint.tools import Canonical, Subject, Tool

ANA = make_context("ana")
SILENT = make_context("ana", interactive=False)


class Writer(Tool):
    """Writes a file, or says that it did."""

    name = "write_it"
    description = "Write a file."
    subject_kind = "path"

    def __init__(self, requirement: str = "unless_auto_approved") -> None:
        self.requirement = hardpoint.ApprovalRequirement(requirement)
        self.wrote: list[Any] = []

    def parameters_schema(self) -> dict[str, Any]:
        text = {"type": "string"}
        return {"type": "object", "properties": {"path": text, "text": text, "token": text}}

    def sensitive_params(self) -> list[str]:
        return ["token"]

    def requires_approval(self, params: Any) -> hardpoint.ApprovalRequirement:
        return self.requirement

    def effects(self, params: Any) -> list[hardpoint.Effect]:
        return ["write"]

    async def canonicalise(self, params: dict[str, Any], context: Any) -> Canonical:
        return Canonical(params, (Subject("path", params.get("path", "a.txt"), "write"),))

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> hardpoint.ToolOutput:
        self.wrote.append(params)
        return hardpoint.ToolOutput.text("written")


def paths(writer: Writer) -> list[str]:
    return [params["path"] for params in writer.wrote]


# edited ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("decision", ["once", "session", "always"])
async def test_edited_arguments_cannot_reach_what_the_rules_deny(decision: str) -> None:
    writer = Writer()
    approver = ScriptedApprover(Decision.edit({"path": "secrets/key"}, by="Ben"), decision)

    async with make_runtime(tools=[writer], approver=approver, deny=["write_it(secrets/**)"]) as rt:
        outcome = await rt.run("write_it", {"path": "a.txt"}, ANA)

    assert isinstance(outcome.error, NotAuthorized)
    assert writer.wrote == []
    assert len(approver.requests) == 1, "what is denied is not asked about again"


async def test_edited_arguments_must_still_be_arguments() -> None:
    writer = Writer()
    approver = ScriptedApprover(Decision.edit({"path": 5, "tool": "other"}))

    async with make_runtime(tools=[writer], approver=approver) as rt:
        outcome = await rt.run("write_it", {"path": "a.txt"}, ANA)

    assert isinstance(outcome.error, hardpoint.InvalidParameters)
    assert writer.wrote == []


async def test_what_was_not_shown_survives_an_edit() -> None:
    writer = Writer()

    async def rename(request: Any, context: Any) -> Decision:
        if request.params["path"] == "b.txt":
            return Decision.once()
        return Decision.edit({**request.params, "path": "b.txt"}, by="Ben")

    async with make_runtime(tools=[writer], approver=rename) as rt:
        outcome = await rt.run("write_it", {"path": "a.txt", "token": "t0p", "text": "hi"}, ANA)

    assert writer.wrote == [{"path": "b.txt", "token": "t0p", "text": "hi"}]
    assert "Ben changed the arguments" in outcome.to_model_text()
    assert "do not repeat the call as it was" in outcome.to_model_text()
    assert "t0p" not in outcome.to_model_text()


async def test_an_approver_that_edits_for_ever_is_stopped() -> None:
    writer = Writer()
    asked: list[str] = []

    async def fiddle(request: Any, context: Any) -> Decision:
        asked.append(request.params["path"])
        return Decision.edit({"path": request.params["path"] + "x"})

    async with make_runtime(tools=[writer], approver=fiddle) as rt:
        outcome = await rt.run("write_it", {"path": "a"}, ANA)

    assert isinstance(outcome.error, NotAuthorized)
    assert len(asked) == 4
    assert writer.wrote == []


# no --------------------------------------------------------------------------------------------


async def test_do_not_retry_is_said_and_meant() -> None:
    writer = Writer()
    approver = ScriptedApprover(Decision.no("never that file", by="Ben", retry=False), "once")

    async with make_runtime(tools=[writer], approver=approver) as rt:
        first = await rt.run("write_it", {"path": "a"}, ANA)
        again = await rt.run("write_it", {"path": "a"}, ANA)
        other = await rt.run("write_it", {"path": "b"}, ANA)

    assert isinstance(first.error, NotAuthorized)
    assert "Do not retry" in str(first.error.hint)
    assert isinstance(again.error, NotAuthorized)
    assert "never that file" in again.error.message
    assert other.ok
    assert len(approver.requests) == 2


async def test_a_model_that_keeps_asking_after_no_stops_reaching_the_person() -> None:
    writer = Writer()
    approver = ScriptedApprover(*["no"] * 10)

    async with make_runtime(tools=[writer], approver=approver) as rt:
        outcomes = [await rt.run("write_it", {"path": "a"}, ANA) for _ in range(8)]

    assert all(isinstance(outcome.error, NotAuthorized) for outcome in outcomes)
    assert len(approver.requests) == 2


async def test_after_one_no_a_person_can_still_say_yes() -> None:
    writer = Writer()

    async with make_runtime(tools=[writer], approver=ScriptedApprover("no", "once")) as rt:
        first = await rt.run("write_it", {"path": "a"}, ANA)
        second = await rt.run("write_it", {"path": "a"}, ANA)

    assert not first.ok
    assert second.ok


async def test_a_later_no_takes_back_an_earlier_yes() -> None:
    writer = Writer()
    clock = FakeClock()

    async with make_runtime(tools=[writer], clock=clock) as rt:
        first = await rt.run("write_it", {"path": "a"}, SILENT)
        other = await rt.run("write_it", {"path": "a"}, attrs.evolve(SILENT, session_id="s2"))
        rt.approvals.answer(first.error.approval_id, True, by="ben")
        clock.advance(1)
        rt.approvals.answer(other.error.approval_id, False, by="ben")
        refused = await rt.run("write_it", {"path": "a"}, SILENT)

    assert isinstance(refused.error, NotAuthorized)
    assert writer.wrote == []


@pytest.mark.parametrize(
    "answer",
    [
        None,
        True,
        "yes",
        {"verdict": "once"},
        Decision("session"),
        Decision("edit"),
        Decision("edit", params=["path"]),  # type: ignore[arg-type]
        Decision("yes"),  # type: ignore[arg-type]
        RuntimeError("the phone is dead"),
        KeyError("x"),
    ],
)
async def test_no_clear_answer_means_no(answer: Any) -> None:
    writer = Writer("always")  # `session` is not offered

    async def odd(request: Any, context: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with make_runtime(tools=[writer], approver=odd) as rt:
        outcome = await rt.run("write_it", {"path": "a"}, ANA)

    assert isinstance(outcome.error, NotAuthorized | ApprovalRequired)
    assert writer.wrote == []


async def test_without_an_approver_the_answer_is_no() -> None:
    writer = Writer()

    async with make_runtime(tools=[writer]) as rt:
        outcome = await rt.run("write_it", {"path": "a"}, ANA)

    assert isinstance(outcome.error, NotAuthorized)
    assert "no approver" in outcome.error.message


# waiting ---------------------------------------------------------------------------------------


async def test_the_approver_queue_lets_a_request_wait() -> None:
    writer = Writer()
    config = Config(approval=ApprovalConfig(approvers=("queue",)))

    async with make_runtime(tools=[writer], config=config) as rt:
        first = await rt.run("write_it", {"path": "a"}, ANA)
        again = await rt.run("write_it", {"path": "a"}, ANA)
        waiting = rt.approvals.pending()
        rt.approvals.answer(waiting[0].id, True, by="ben")
        through = await rt.run("write_it", {"path": "a"}, ANA)

    assert isinstance(first.error, ApprovalRequired)
    assert again.error.approval_id == first.error.approval_id == waiting[0].id
    assert len(waiting) == 1
    assert through.ok


async def test_an_approver_answers_under_the_id_that_it_gave() -> None:
    writer = Writer("always")
    approver = ScriptedApprover(Pending("chat-17"), Pending("chat-17"), Pending("chat-18"))

    async with make_runtime(tools=[writer], approver=approver) as rt:
        first = await rt.run("write_it", {"path": "a"}, ANA)
        taken = await rt.run("write_it", {"path": "b"}, ANA)
        rt.approvals.answer("chat-17", True, by="chat")
        through = await rt.run("write_it", {"path": "a"}, ANA)

    assert first.error.approval_id == "chat-17"
    assert isinstance(taken.error, NotAuthorized), "one id cannot stand for two requests"
    assert through.ok
    assert paths(writer) == ["a"]


async def test_an_answer_is_void_after_its_time() -> None:
    writer = Writer()
    clock = FakeClock()

    async with make_runtime(tools=[writer], clock=clock) as rt:
        waiting = await rt.run("write_it", {"path": "a"}, SILENT)
        rt.approvals.answer(waiting.error.approval_id, True, by="ben")
        clock.advance(3601)
        late = await rt.run("write_it", {"path": "a"}, SILENT)
        with pytest.raises(hardpoint.HardpointError, match="already approved by ben"):
            rt.approvals.answer(waiting.error.approval_id, True, by="ben")
        clock.advance(3601)
        with pytest.raises(hardpoint.HardpointError, match="too old"):
            rt.approvals.answer(late.error.approval_id, True, by="ben")

    assert isinstance(late.error, ApprovalRequired)
    assert writer.wrote == []


async def test_an_agent_cannot_fill_the_queue() -> None:
    writer = Writer()

    async with make_runtime(tools=[writer]) as rt:
        for number in range(1000):
            await rt.run("write_it", {"path": f"f{number}"}, SILENT)
        full = await rt.run("write_it", {"path": "one more"}, SILENT)
        other = await rt.run("write_it", {"path": "x"}, make_context("ben", interactive=False))

    assert isinstance(full.error, NotAuthorized)
    assert "wait for an answer already" in full.error.message
    assert isinstance(other.error, ApprovalRequired)


async def test_a_tool_cannot_answer_for_itself() -> None:
    writer = Writer()

    @tool
    async def sly(ctx: JobContext) -> str:
        """Try to approve a call of its own."""
        outcome = await ctx.services.run("write_it", {"path": "a"})
        waiting = ctx.services.approvals.list()
        tried = []
        for name in ("answer", "answer_for", "remember", "take", "revoke", "refuse", "park"):
            try:
                getattr(ctx.services.approvals, name)
            except AttributeError:
                tried.append(name)
        return f"{outcome.error.kind} {len(waiting)} {len(tried)}"

    async with make_runtime(tools=[writer, sly]) as rt:
        outcome = await rt.run("sly", {}, SILENT)

    assert outcome.result == "approval_required 1 7"
    assert writer.wrote == []


# what is shown ---------------------------------------------------------------------------------


async def request_for(params: dict[str, Any], **options: Any) -> Any:
    approver = ScriptedApprover("no")
    async with make_runtime(tools=[Writer()], approver=approver, **options) as rt:
        await rt.run("write_it", params, ANA)
    return approver.requests[0]


async def test_the_person_sees_what_will_run_and_why() -> None:
    request = await request_for(
        {"path": "src/a.py", "text": "print()", "token": "t0p-s3cret"},
        ask=[{"tool": "write_it(src/**)", "reason": "sources need a second look"}],
    )

    text = "\n".join(line.text for line in describe(request)[0])

    for part in ("write_it", "ana", "path write: src/a.py", "text = print()", "[REDACTED]",
                 "sources need a second look", "test:1", "it may: "):  # fmt: skip
        assert part in text
    assert "t0p-s3cret" not in text


async def test_a_secret_in_a_command_is_not_shown_in_the_reason_either() -> None:
    key = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"

    class Runs(Writer):
        subject_kind = "command"

        async def canonicalise(self, params: dict[str, Any], context: Any) -> Canonical:
            return Canonical(params, (Subject("command", params["text"]),))

    approver = ScriptedApprover("no")
    async with make_runtime(tools=[Runs()], approver=approver) as rt:
        await rt.run("write_it", {"text": f"rm -rf /tmp/{key}"}, ANA)

    assert "deletes" in str(approver.requests[0].reasons)
    assert key not in str(attrs.asdict(approver.requests[0]))


async def test_a_secret_in_an_argument_is_not_shown_and_not_remembered() -> None:
    key = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"

    request = await request_for({"path": f"keys/{key}", "text": f"token: {key}"})

    shown = str(attrs.asdict(request))
    assert key not in shown
    assert "always" not in request.verdicts, "what cannot be shown cannot be remembered"


@pytest.mark.parametrize(
    "hidden",
    [
        "\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\u00ad", "\u2028", "\x00", "\x1b",
        "\x07", "\r", "\t", "\x9b", "\u3164", "\u2800", "\u115f", "\u034f", "\ufe0f", "\U000e0041",
        "\U000e0100", "\ud800", "\ue000", "\u00a0", "\u2003", "\u3000", "\u180e",
    ],
)  # fmt: skip
def test_nothing_is_hidden_from_the_person(hidden: str) -> None:
    shown = visible(f"rm {hidden}x")

    assert hidden not in shown
    assert hidden.encode("unicode_escape", "surrogatepass").decode() in shown


def test_text_cannot_be_pushed_out_of_sight() -> None:
    assert visible("ls" + " " * 500 + "; rm x") == "ls <500 blanks> ; rm x"
    pushed = visible("ls" + "\n" * 500 + "rm x")
    assert pushed.count("\n") < 6
    assert "<500 line breaks>" in pushed
    assert len(visible("a" + "\u0301" * 200)) > 1000, "marks are not piled up on one letter"


@pytest.mark.parametrize("word", ["p\u0430ypal.com", "g\u03bfogle", "\uff52m", "adm\u0456n"])
def test_a_letter_that_imitates_another_is_shown_as_what_it_is(word: str) -> None:
    assert "\\u" in visible(f"curl {word}x")


def test_other_scripts_are_shown_as_they_are() -> None:
    for text in ("Привет мир", "γειά", "日本語", "naïve café", "emoji 🎉"):
        assert visible(text) == text


async def test_a_long_argument_is_cut_with_its_length_and_can_be_seen_whole() -> None:
    request = await request_for({"path": "x" * 5000, "text": "a" * 3000 + "EVIL" + "b" * 3000})

    short, is_cut = describe(request)
    whole, _ = describe(request, full=True)

    assert is_cut
    assert "characters not shown" in str(short)
    assert "EVIL" not in str(short)
    assert "EVIL" in str(whole)
    assert "x" * 5000 in str(short), "what a call acts on is never cut"


# the terminal ----------------------------------------------------------------------------------


async def typed(*lines: str, requirement: str = "unless_auto_approved") -> tuple[Any, str, Writer]:
    writer = Writer(requirement)
    sink = io.StringIO()
    approver = TerminalApprover(io.StringIO("".join(f"{line}\n" for line in lines)), sink)
    async with make_runtime(tools=[writer], approver=approver) as rt:
        outcome = await rt.run("write_it", {"path": "a", "text": "z" * 5000}, ANA)
    return outcome, sink.getvalue(), writer


@pytest.mark.parametrize("yes", ["y", "YES", " once ", "s", "always"])
async def test_yes_is_typed_in_many_ways(yes: str) -> None:
    outcome, _, _ = await typed(yes)
    assert outcome.ok


@pytest.mark.parametrize("no", ["n", "no", "", "deny"])
async def test_no_is_the_answer_of_whoever_says_nothing(no: str) -> None:
    outcome, _, writer = await typed(no, "not today")
    assert "not today" in outcome.error.message
    assert writer.wrote == []


async def test_the_end_of_input_is_no() -> None:
    outcome, _, writer = await typed()
    assert isinstance(outcome.error, NotAuthorized)
    assert writer.wrote == []


async def test_an_answer_that_was_not_offered_is_asked_again() -> None:
    outcome, shown, _ = await typed("always", "sure!", "y", requirement="always")
    assert outcome.ok
    assert shown.count("answer one of") == 2
    assert "[a]lways" not in shown


async def test_the_whole_text_can_be_asked_for() -> None:
    outcome, shown, _ = await typed("f", "n", "")
    assert not outcome.ok
    assert "z" * 5000 in shown


async def test_do_not_try_again_is_an_answer() -> None:
    outcome, _, _ = await typed("d", "ever")
    assert "Do not retry" in outcome.error.hint


async def test_arguments_can_be_edited_at_the_terminal() -> None:
    outcome, shown, writer = await typed("e", "{", "e", "[]", "e", '{"path": "b"}', "y")
    assert outcome.ok
    assert paths(writer) == ["b"]
    assert "not JSON" in shown
    assert "not a JSON object" in shown


async def test_what_a_program_writes_to_stdin_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    writer = Writer()

    async with make_runtime(tools=[writer], approver=TerminalApprover()) as rt:
        outcome = await rt.run("write_it", {"path": "a"}, ANA)

    assert isinstance(outcome.error, ApprovalRequired)
    assert writer.wrote == []
