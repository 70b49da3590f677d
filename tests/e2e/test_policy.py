"""The policy through the installed program: several processes, restarts, people and agents."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

PROGRAM = str(Path(sysconfig.get_path("scripts")) / "hardpoint")
TOKEN = "operator-" + "token-of-a-test"
CASES = Path(__file__).parents[1] / "data" / "acceptance" / "shell_policy.jsonl"


@attrs.frozen
class Place:
    """A home of its own, in which the program runs."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HARDPOINT_", "XDG_"))
        }
        home = self.folder / "home"
        return kept | {
            "HOME": str(home),
            **{f"XDG_{word}_HOME": str(home / word.lower())
               for word in ("CONFIG", "DATA", "STATE", "CACHE")},
        }  # fmt: skip

    def configure(self, text: str) -> None:
        path = self.folder / "home" / "config" / "hardpoint" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PROGRAM, *words],
            cwd=self.folder,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, *words: str, stdin: str | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *words],
            cwd=self.folder,
            env=self.environment | environment,
            input=stdin or "",
            capture_output=True,
            text=True,
            timeout=100,
        )

    def operator(self) -> dict[str, str]:
        """What somebody with the operator's token sets."""
        path = self.folder / "home" / "config" / "hardpoint" / "operator-token"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TOKEN)
        path.chmod(0o600)
        return {"HARDPOINT_OPERATOR_TOKEN": TOKEN}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "home").mkdir()
    return Place(tmp_path)


def call(place: Place, message: str = "hi", *options: str) -> Any:
    done = place.run("call", "echo", f"message={message}", "--json", *options)
    return done.returncode, json.loads(done.stdout)


# denied ----------------------------------------------------------------------------------------


def test_a_denied_tool_is_hidden_and_cannot_be_called(place: Place) -> None:
    place.configure('[policy]\ndeny = [{ tool = "echo", reason = "quiet, please" }]\n')

    code, answer = call(place)
    listed = json.loads(place.run("tools", "list", "--json").stdout)
    found = place.run("tools", "search", "echo", "--json").stdout
    checked = json.loads(place.run("policy", "check", "echo", "message=hi", "--json").stdout)

    assert code == 3
    assert answer["error"]["kind"] == "not_authorized"
    assert "quiet, please" in answer["error"]["message"]
    assert "config.toml:2" in json.dumps(answer["error"]["decision"])
    assert "echo" not in [tool["name"] for tool in listed]
    assert '"echo"' not in found
    assert checked["decision"] == "deny"


async def test_a_denied_tool_is_out_of_reach_through_the_gateway(place: Place) -> None:
    mcp = pytest.importorskip("mcp")
    from mcp.client.stdio import stdio_client

    place.configure('[policy]\ndeny = ["echo"]\n')
    server = mcp.StdioServerParameters(
        command=PROGRAM, args=["serve", "--stdio"], env=place.environment, cwd=place.folder
    )

    async with mcp.Client(stdio_client(server)) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        with pytest.raises(mcp.MCPError, match="Unknown tool"):
            await client.call_tool("echo", {"message": "hi"})
        allowed = await client.call_tool("json", {"operation": "validate", "data": "{}"})

    assert "json" in names
    assert "echo" not in names
    assert not allowed.is_error


# asked -----------------------------------------------------------------------------------------


def test_an_approval_survives_restarts_and_any_process_can_answer(place: Place) -> None:
    place.configure('[policy]\nask = ["echo"]\n')
    operator = place.operator()

    code, waiting = call(place)
    approval = waiting["error"]["approval_id"]
    again, same = call(place)
    shown = place.run("approvals", "show", approval)
    answered = place.run("approvals", "answer", approval, "yes", **operator)
    other, _ = call(place, "something else")
    through, answer = call(place)
    used_up, _ = call(place)

    assert (code, again) == (4, 4)
    assert same["error"]["approval_id"] == approval
    assert "message = hi" in shown.stdout
    assert "config.toml:2" in shown.stdout
    assert answered.returncode == 0, answered.stderr
    assert other == 4
    assert (through, answer["result"]) == (0, "hi")
    assert used_up == 4


def test_of_many_processes_that_answer_at_once_exactly_one_wins(place: Place) -> None:
    place.configure('[policy]\nask = ["echo"]\n')
    operator = place.operator()
    _, waiting = call(place)
    approval = waiting["error"]["approval_id"]

    answering = [
        place.start("approvals", "answer", approval, "yes" if number % 2 else "no", **operator)
        for number in range(6)
    ]
    said = [process.communicate() for process in answering]
    won = [n for n, process in enumerate(answering) if process.returncode == 0]
    code, _ = call(place)

    assert len(won) == 1
    assert all("was already" in err for n, (_, err) in enumerate(said) if n not in won)
    assert code == (0 if won[0] % 2 else 3)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"HARDPOINT_OPERATOR_TOKEN": "guessed"},
        {"HARDPOINT_OPERATOR_TOKEN": ""},
        {"HARDPOINT_OPERATOR_TOKEN": TOKEN, "HARDPOINT_INSIDE_CALL": "1"},
    ],
)
def test_an_agent_cannot_answer_its_own_request(place: Place, environment: Any) -> None:
    """It has no terminal, does not know the token, and is known by the mark of a running call."""
    place.configure('[policy]\nask = ["echo"]\n')
    place.operator()
    _, waiting = call(place)
    approval = waiting["error"]["approval_id"]

    answered = place.run("approvals", "answer", approval, "yes", stdin="y\ny\n", **environment)
    code, _ = call(place)

    assert answered.returncode == 3
    assert code == 4


def test_a_token_that_others_can_read_proves_nothing(place: Place) -> None:
    place.configure('[policy]\nask = ["echo"]\n')
    operator = place.operator()
    (place.folder / "home" / "config" / "hardpoint" / "operator-token").chmod(0o644)
    _, waiting = call(place)

    answered = place.run("approvals", "answer", waiting["error"]["approval_id"], "yes", **operator)

    assert answered.returncode == 3


def test_an_answer_for_good_is_remembered_listed_and_revoked(place: Place) -> None:
    place.configure('[tools.echo]\napproval = "unless_auto_approved"\n')
    operator = place.operator()
    _, waiting = call(place)
    approval = waiting["error"]["approval_id"]

    answered = place.run("approvals", "answer", approval, "always", **operator)
    codes = [call(place, message)[0] for message in ("hi", "more")]
    stranger, _ = call(place, "hi", "--user", "somebody-else")
    elsewhere = place.folder / "elsewhere"
    elsewhere.mkdir()
    other_project, _ = call(place, "hi", "--workspace", str(elsewhere))
    (remembered,) = json.loads(place.run("approvals", "list", "--json").stdout)["remembered"]
    revoked = place.run("approvals", "revoke", remembered["id"])
    after, _ = call(place)

    assert answered.returncode == 0, answered.stderr
    assert codes == [0, 0]
    assert (stranger, other_project) == (4, 4)
    assert remembered["pattern"] == "echo"
    assert revoked.returncode == 0
    assert after == 4


def test_what_always_asks_is_not_remembered(place: Place) -> None:
    place.configure('[tools.echo]\napproval = "always"\n')
    operator = place.operator()
    _, waiting = call(place)
    approval = waiting["error"]["approval_id"]

    for scope in ("always", "session"):
        answered = place.run("approvals", "answer", approval, scope, **operator)
        assert answered.returncode == 1
        assert "asked about every time" in answered.stderr
    yes = place.run("approvals", "answer", approval, "yes", **operator)

    assert yes.returncode == 0, "an answer that was refused is none"
    assert [call(place)[0] for _ in range(2)] == [0, 4]
    assert call(place, "hi", "--yes")[0] == 4


def test_no_terminal_means_nobody_is_asked(place: Place) -> None:
    place.configure('[policy]\nask = ["echo"]\n[approval]\napprovers = ["terminal"]\n')

    done = place.run("call", "echo", "message=hi", stdin="y\ny\ny\n")

    assert done.returncode == 4
    assert "hi" not in done.stdout


# checked ---------------------------------------------------------------------------------------


def test_a_batch_is_answered_in_one_process(place: Place) -> None:
    cases = [json.loads(line) for line in CASES.read_text().splitlines()]
    lines = [
        {"id": number, "tool": "shell", "params": case.get("params") or {"command": "ls"},
         "rules": case.get("rules") or {}}
        for number, case in enumerate(cases[:245])
    ]  # fmt: skip
    lines += [
        {"id": "unknown", "tool": "no_such_tool"},
        {
            "id": "bad rule",
            "tool": "echo",
            "params": {"message": "x"},
            "rules": {"allow": ["echo("]},
        },
        {"id": "bad list", "tool": "echo", "params": {"message": "x"}, "rules": []},
        {"id": "bad params", "tool": "echo", "params": {"massage": "x"}},
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines) + "not json\n"

    done = place.run("policy", "check", "--batch", stdin=text)

    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert [answer["id"] for answer in answers] == [*(line["id"] for line in lines), None]
    assert all("decision" in a or "error" in a for a in answers)
    assert {a.get("decision") for a in answers} >= {"allow", "ask", "deny"}
    kinds = [answer["error"]["kind"] for answer in answers[-5:]]
    assert kinds == ["not_found", "config", "config", "invalid_parameters", "usage"]


def test_a_command_is_explained_part_by_part(place: Place) -> None:
    place.configure('[policy]\nallow = ["shell(git diff:*)"]\ndeny = ["shell(curl:*)"]\n')

    done = place.run("policy", "check", "shell", "git diff && curl https://x.example && rm -rf y")

    assert done.returncode == 0
    for part in ("deny", "curl https://x.example", "config.toml:3", "rm -rf y"):
        assert part in done.stdout


# secrets ---------------------------------------------------------------------------------------


def test_a_secret_is_kept_and_never_shown(place: Place) -> None:
    value = "synthetic-" + "value/42"
    place.configure('[secrets]\nstores = ["file"]\nkey = "passphrase"\n')
    operator = place.operator() | {"HARDPOINT_PASSPHRASE": "correct horse"}

    kept = place.run("secrets", "set", "api_key", stdin=f"{value}\n", **operator)
    listed = place.run("secrets", "list", "--json", **operator)
    inside = place.run("secrets", "list", **operator, HARDPOINT_INSIDE_CALL="1")
    stranger = place.run("secrets", "list")
    deleted = place.run("secrets", "delete", "API_KEY", **operator)
    gone = place.run("secrets", "delete", "api_key", **operator)

    assert kept.returncode == 0, kept.stderr
    assert [each["name"] for each in json.loads(listed.stdout)] == ["api_key"]
    assert (inside.returncode, stranger.returncode) == (3, 3)
    assert deleted.returncode == 0
    assert gone.returncode == 1
    for done in (kept, listed, deleted, gone):
        assert value not in done.stdout + done.stderr
    path = place.folder / "home" / "data" / "hardpoint" / "secrets.json"
    assert value not in path.read_text()


# the audit -------------------------------------------------------------------------------------


def test_another_policy_is_tried_on_what_happened(place: Place) -> None:
    place.configure("")
    for message in ("one", "two"):
        call(place, message)
    (place.folder / "strict.toml").write_text('[policy]\ndeny = ["echo(message:t*)"]\n')

    same = place.run("policy", "replay")
    other = place.run("policy", "replay", "--under", "strict.toml", "--json")

    changes = json.loads(other.stdout)["changes"]
    assert same.returncode == 0, same.stdout
    assert other.returncode == 1
    assert [(c["tool"], c["before"], c["now"]) for c in changes] == [("echo", "allow", "deny")]


def test_the_policy_is_tested_by_a_file(place: Place) -> None:
    place.configure('[policy]\ndeny = ["echo(message:secret*)"]\n')
    rows: Callable[[str], str] = lambda expect: json.dumps(  # noqa: E731
        {"tool": "echo", "params": {"message": "secret plan"}, "expect": expect}
    )
    (place.folder / "good.jsonl").write_text(rows("deny") + "\n")
    (place.folder / "bad.jsonl").write_text(rows("deny") + "\n" + rows("allow") + "\n")

    good, bad = (place.run("policy", "test", f"{name}.jsonl") for name in ("good", "bad"))

    assert good.returncode == 0, good.stdout
    assert bad.returncode == 1
    assert "line 2: expected allow, got deny" in bad.stdout


def test_a_call_is_explained_to_the_last_detail(place: Place) -> None:
    place.configure(
        """
        [policy]
        allow = [
          { tool = "http(domain:api.example.com)", rate_limit = { requests_per_minute = 2 } },
        ]
        [budget.day]
        calls = 100
        [[plugin.builtin.credentials]]
        secret = "api_key"
        hosts = ["api.example.com"]
        location = { type = "bearer" }
        """
    )

    done = place.run("explain", "http", "url=https://api.example.com/x", "--json")

    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert found["decision"] == "allow"
    assert found["secrets"] == ["api_key"]
    assert found["subjects"] == ["url GET: https://api.example.com/x"]
    assert "config.toml:4" in found["rules"][0]
    assert any(limit.startswith("rule:http(domain:") for limit in found["limits"])
    assert any(limit.startswith("http: 30 a minute") for limit in found["limits"])
    assert any("calls: 0 of 100" in budget for budget in found["budgets"])
    assert (found["plugin"], found["domain"]) == ("builtin", "orchestrator")


def test_the_doctor_holds_rules_limits_and_secrets_against_what_is_there(place: Place) -> None:
    place.configure('[policy]\ndeny = ["echo(massage:x)", "nothing_like_it_*"]\n')
    broken = place.run("doctor", "rules", "limits", "leaks", "secrets", "state", "audit", "--json")
    place.configure(
        '[policy]\ndeny = [{ tool = "echo(message:x*)", match = [{ message = "xy" }] }]\n'
    )
    whole = place.run("doctor", "rules", "limits", "leaks", "secrets", "state", "audit")

    assert broken.returncode != 0
    assert whole.returncode == 0, whole.stdout
    assert "1 rules, 1 examples hold" in whole.stdout
