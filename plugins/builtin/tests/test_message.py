"""Messages: what was sent has arrived, and what has not arrived is never called sent."""

import asyncio
import base64
import contextlib
import email
import email.policy
import json
import os
import ssl
import stat

import pytest

from hardpoint import Config, ConfigError, JobContext, Runtime
from hardpoint.interfaces import Channel, Delivery
from hardpoint.testing import make_runtime
from hardpoint_builtin import MessageTool
from hardpoint_builtin.channels.webhook import sign

ANA = JobContext(user_id="ana")
HOST = "api.example.com"


@pytest.fixture
def runtime_with(services, monkeypatch):
    monkeypatch.setenv("HARDPOINT_SECRET_HOOK_KEY", "synthetic-value-1")
    monkeypatch.setenv("HARDPOINT_SECRET_MAIL_PASSWORD", "synthetic-value-2")

    def make(**channels):
        config = Config(
            plugin={"builtin": {"channels": channels}}, load_only=frozenset({"builtin"})
        )
        return Runtime(config, installed_plugins=True, http_client=services._client)

    return make


async def send(runtime, context=ANA, **params):
    return await runtime.run("message", {"content": "Tea is ready.", **params}, context)


# channels on this machine ------------------------------------------------------------------------


async def test_without_any_setting_messages_go_to_the_console(runtime_with, capsys):
    async with runtime_with() as runtime:
        outcome = await send(runtime, content="Tea \x1b[2J is ready.")

    assert outcome.result == "Broadcast message to console"
    said = capsys.readouterr()
    assert said.err == "[message to ana] Tea \\x1b[2J is ready.\n"
    assert said.out == ""


async def test_a_file_keeps_one_message_a_line(runtime_with, tmp_path):
    path = tmp_path / "sub" / "messages.jsonl"
    async with runtime_with(log={"type": "file", "path": str(path)}) as runtime:
        first = await send(runtime, channel="log", target="team")
        await send(runtime, channel="log", content="two\nlines")

    assert first.result == "Sent message to log:team"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [(line["target"], line["content"]) for line in lines] == [
        ("team", "Tea is ready."),
        ("ana", "two\nlines"),
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_file_that_cannot_be_written_is_a_failure(runtime_with, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    async with runtime_with(log={"type": "file", "path": str(tmp_path / "link")}) as runtime:
        outcome = await send(runtime, channel="log")

    assert outcome.error.kind == "external_service"
    assert not (tmp_path / "elsewhere").exists()


@pytest.fixture
def notify(tmp_path, monkeypatch):
    """A `notify-send` that writes its arguments down."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "notify-send"

    def install(body):
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)

    install(f'printf "%s\\n" "$@" > "{tmp_path}/shown"')
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return install, tmp_path / "shown"


async def test_a_desktop_notification_is_shown_as_text(runtime_with, notify):
    _, shown = notify
    async with runtime_with(desk={"type": "desktop"}) as runtime:
        outcome = await send(runtime, channel="desk", content="--help <b>$(id)</b>")

    assert outcome.ok
    assert shown.read_text().splitlines()[-3:] == [
        "--",
        "Hardpoint",
        "--help &lt;b&gt;$(id)&lt;/b&gt;",
    ]


async def test_a_desktop_that_refuses_is_a_failure(runtime_with, notify):
    install, _ = notify
    install("echo no display >&2; exit 1")
    async with runtime_with(desk={"type": "desktop"}) as runtime:
        outcome = await send(runtime, channel="desk")

    assert outcome.error.kind == "external_service"
    assert "no display" in outcome.error.message


async def test_a_machine_without_notifications_says_so(runtime_with, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    async with runtime_with(desk={"type": "desktop"}) as runtime:
        outcome = await send(runtime, channel="desk")

    assert "no desktop notifications" in outcome.error.message


# webhook ---------------------------------------------------------------------------------------


def hook(server):
    return {"type": "webhook", "url": server.url("/hook"), "secret": "system:hook_key"}


async def test_a_webhook_gets_a_signed_message(runtime_with, serve):
    server = await serve({"/hook": (202, (), b"")})
    async with runtime_with(hook=hook(server)) as runtime:
        outcome = await send(runtime, channel="hook", target="#tea")

    assert outcome.result == "Sent message to hook:#tea"
    (received,) = server.received
    body = json.loads(received.body)
    assert received.method == "POST"
    assert (body["channel"], body["target"], body["content"]) == ("hook", "#tea", "Tea is ready.")
    expected = sign("synthetic-value-1", received.headers["x-hardpoint-timestamp"], received.body)
    assert received.headers["x-hardpoint-signature"] == expected
    assert b"synthetic-value-1" not in received.body


@pytest.mark.parametrize("status", [301, 400, 401, 404, 429, 500, 503])
async def test_a_webhook_that_does_not_take_it_is_a_failure(runtime_with, serve, status):
    server = await serve({"/hook": (status, (), b"nothing here")})
    async with runtime_with(hook=hook(server)) as runtime:
        outcome = await send(runtime, channel="hook")

    assert outcome.error.kind == "external_service"
    assert str(status) in outcome.error.message


async def test_a_webhook_that_is_not_there_is_a_failure(runtime_with, serve):
    server = await serve()
    settings = hook(server)
    settings["url"] = server.url("/hook").replace(str(server.port), "1")
    async with runtime_with(hook=settings) as runtime:
        outcome = await send(runtime, channel="hook")

    assert outcome.error.kind == "external_service"


async def test_a_secret_in_a_message_is_not_sent(runtime_with, serve):
    server = await serve({"/hook": (200, (), b"")})
    token = "ghp_" + "SyntheticSyntheticSyntheticSyntheticSyn"[:36]
    async with runtime_with(hook=hook(server)) as runtime:
        outcome = await send(runtime, channel="hook", content=f"the key is {token}")

    assert outcome.error.kind == "not_authorized"
    assert server.received == []


# mail ------------------------------------------------------------------------------------------


class MailServer:
    """As much of a mail server as a client needs."""

    def __init__(self, context, answers):
        self.context = context
        self.answers = answers
        self.mails = []
        self.logins = []

    async def serve(self, reader, writer):
        encrypted = False

        def say(line):
            writer.write(f"{line}\r\n".encode())

        say("220 tests")
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            while line := (await reader.readline()).decode().strip():
                word = line.split(" ")[0].upper()
                if word in self.answers:
                    say(self.answers[word])
                elif word == "EHLO":
                    say("250-tests")
                    say("250-AUTH PLAIN")
                    say("250 SMTPUTF8" if encrypted else "250 STARTTLS")
                elif word == "STARTTLS":
                    say("220 go")
                    await writer.drain()
                    await writer.start_tls(self.context)
                    encrypted = True
                elif word == "AUTH":
                    self.logins.append((encrypted, line.split(" ")[2]))
                    say("235 welcome")
                elif word == "DATA":
                    say("354 go")
                    data = await reader.readuntil(b"\r\n.\r\n")
                    self.mails.append(
                        email.message_from_bytes(data[:-3], policy=email.policy.default)
                    )
                    say("250 kept")
                elif word == "QUIT":
                    say("221 bye")
                    break
                else:
                    say("250 ok")
                await writer.drain()
        writer.close()


@pytest.fixture
async def mail(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    async with contextlib.AsyncExitStack() as stack:

        async def start(**answers):
            server = MailServer(context, answers)
            listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
            stack.callback(listening.close)
            port = listening.sockets[0].getsockname()[1]
            settings = {
                "type": "smtp",
                "host": "localhost",
                "port": port,
                "sender": "hardpoint@example.com",
                "recipients": ["ana@example.com", "team@example.com"],
                "username": "robot",
                "secret": "system:mail_password",
            }
            return server, settings

        yield start


@pytest.fixture
def trusted(trusting):
    def trust(runtime):
        runtime.services.extensions("channel")["mail"].tls = trusting
        return runtime

    return trust


async def test_a_mail_is_delivered_encrypted_and_logged_in(runtime_with, mail, trusted):
    server, settings = await mail()
    async with runtime_with(mail=settings) as runtime:
        outcome = await send(trusted(runtime), channel="mail", content="Tea 🍵\nis ready.")

    assert outcome.result == "Sent message to mail:ana@example.com"
    (received,) = server.mails
    assert received["To"] == "ana@example.com"
    assert received["Subject"] == "Tea 🍵"
    assert received.get_content().split() == ["Tea", "🍵", "is", "ready."]
    ((encrypted, login),) = server.logins
    assert encrypted
    assert base64.b64decode(login) == b"\0robot\0synthetic-value-2"


async def test_mail_goes_to_named_recipients_only(runtime_with, mail, trusted):
    server, settings = await mail()
    async with runtime_with(mail=settings) as runtime:
        trusted(runtime)
        team = await send(runtime, channel="mail", target="Team@example.com")
        eve = await send(runtime, channel="mail", target="eve@example.net")
        two = await send(runtime, channel="mail", target="ana@example.com\r\nBcc: eve@example.net")

    assert team.ok
    assert eve.error.kind == two.error.kind == "invalid_parameters"
    assert [received["To"] for received in server.mails] == ["team@example.com"]


async def test_a_subject_cannot_add_headers(runtime_with, mail, trusted):
    server, settings = await mail()
    async with runtime_with(mail=settings) as runtime:
        await send(trusted(runtime), channel="mail", content="Hi\rBcc: eve@example.net\n\nbody")

    (received,) = server.mails
    assert received["Bcc"] is None


@pytest.mark.parametrize(
    "answers",
    [
        {"RCPT": "550 no such mailbox"},
        {"MAIL": "451 try later"},
        {"AUTH": "535 wrong password"},
        {"EHLO": "500 what", "HELO": "500 what"},
    ],
)
async def test_a_mail_that_is_refused_is_a_failure(runtime_with, mail, trusted, answers):
    server, settings = await mail(**answers)
    async with runtime_with(mail=settings) as runtime:
        outcome = await send(trusted(runtime), channel="mail")

    assert outcome.error.kind == "external_service"
    assert server.mails == []


async def test_a_password_is_not_given_to_a_server_that_nobody_vouches_for(runtime_with, mail):
    server, settings = await mail()
    async with runtime_with(mail=settings) as runtime:
        outcome = await send(runtime, channel="mail")

    assert outcome.error.kind == "external_service"
    assert server.logins == []


# which channel ---------------------------------------------------------------------------------


class Recording(Channel):
    def __init__(self, failing=None, proof=True):
        self.sent = []
        self.failing = failing
        self.proof = proof

    async def send(self, message, context):
        if self.failing is not None:
            raise self.failing
        self.sent.append(message)
        return Delivery("x", message.target) if self.proof else True


def channels(**named):
    from hardpoint import API_VERSION, hookimpl

    class Plugin:
        HARDPOINT_API = API_VERSION

        @hookimpl
        def hardpoint_register_extensions(self, registry):
            for name, channel in named.items():
                registry.register("channel", name, channel)

    runtime = make_runtime(plugins={"channels": Plugin()})
    runtime.registry.register(MessageTool(), owner="hardpoint-builtin")
    return runtime


async def test_everybody_hears_what_names_no_channel():
    first, second = Recording(), Recording()
    async with channels(a=first, b=second) as runtime:
        outcome = await send(runtime)

    assert outcome.result == "Broadcast message to a, b"
    assert len(first.sent) == len(second.sent) == 1


async def test_a_broadcast_says_whom_it_did_not_reach():
    async with channels(a=Recording(), b=Recording(OSError("gone"))) as runtime:
        outcome = await send(runtime)

    assert outcome.result.startswith("Broadcast message to a; NOT sent to b (")
    assert "gone" in outcome.result


async def test_a_broadcast_that_reaches_nobody_is_a_failure():
    async with channels(a=Recording(OSError("gone")), b=Recording(proof=False)) as runtime:
        outcome = await send(runtime)

    assert outcome.error.kind == "external_service"
    assert "not sent" in outcome.error.message


async def test_a_channel_without_proof_has_not_sent():
    async with channels(a=Recording(proof=False)) as runtime:
        outcome = await send(runtime, channel="a")

    assert "not confirm" in outcome.error.message


@pytest.mark.parametrize(
    ("metadata", "params", "expected"),
    [
        ({"notify_channel": "b", "notify_user": "bea"}, {}, ("b", "bea")),
        ({"channel": "a", "target": "al", "notify_channel": "b"}, {}, ("a", "al")),
        ({"channel": "a", "target": "al"}, {"channel": "b"}, ("b", "ana")),
        ({"channel": "a", "target": "al"}, {"target": "ute"}, ("a", "ute")),
        ({"notify_channel": "gone", "channel": 5}, {}, None),
        ({}, {"channel": "b", "target": "x"}, ("b", "x")),
    ],
)
async def test_the_conversation_says_where_messages_go(metadata, params, expected):
    named = {"a": Recording(), "b": Recording()}
    async with channels(**named) as runtime:
        outcome = await send(runtime, JobContext(user_id="ana", metadata=metadata), **params)

    if expected is None:
        assert outcome.result == "Broadcast message to a, b"
        return
    channel, target = expected
    assert outcome.result == f"Sent message to {channel}:{target}"
    assert [name for name, each in named.items() if each.sent] == [channel]


async def test_an_unknown_channel_names_the_known_ones():
    async with channels(a=Recording()) as runtime:
        outcome = await send(runtime, channel="telepathy")

    assert outcome.error.kind == "invalid_parameters"
    assert "there are: a" in outcome.error.message


async def test_an_empty_message_is_refused():
    async with channels(a=Recording()) as runtime:
        assert (await send(runtime, content="  ")).error.kind == "invalid_parameters"


async def test_without_channels_nothing_is_claimed():
    async with channels() as runtime:
        assert (await send(runtime)).error.kind == "external_service"


# attachments -----------------------------------------------------------------------------------


async def test_kept_results_and_memory_documents_are_attached(runtime_with, serve):
    server = await serve({"/hook": (200, (), b"")})
    data = bytes(range(256)) * 20_000
    async with runtime_with(hook=hook(server)) as runtime:
        results = runtime.services.results
        image = await results.save(data, context=ANA, name="tea.png", media_type="image/png")
        text = await results.save("héllo", context=ANA)
        await runtime.services.workspace.write("ana", "notes/tea.md", "# Tea")
        outcome = await send(runtime, channel="hook", attachments=[image, text, "notes/tea.md"])

    assert outcome.ok, outcome.error
    attached = json.loads(server.received[0].body)["attachments"]
    assert [(a["name"], a["media_type"]) for a in attached] == [
        ("tea.png", "image/png"),
        (f"{text}.txt", "text/plain"),
        ("tea.md", "text/markdown"),
    ]
    assert [base64.b64decode(a["base64"]) for a in attached] == [data, "héllo".encode(), b"# Tea"]


async def test_attachments_reach_a_mail(runtime_with, mail, trusted):
    server, settings = await mail()
    async with runtime_with(mail=settings) as runtime:
        ref = await runtime.services.results.save(b"\x89PNG", context=ANA, name="a.png")
        outcome = await send(trusted(runtime), channel="mail", attachments=[ref])

    assert outcome.ok, outcome.error
    (attachment,) = server.mails[0].iter_attachments()
    assert (attachment.get_filename(), attachment.get_content()) == ("a.png", b"\x89PNG")


@pytest.mark.parametrize(
    "attachments",
    [
        ["r_doesnotexistdoesnotex"],
        ["/etc/passwd"],
        ["../../etc/passwd"],
        ["~/x"],
        ["notes/missing.md"],
        [""],
        [5],
        "not a list",
        ["a"] * 11,
        {"a": 1},
    ],
)
async def test_a_wrong_attachment_refuses_the_whole_message(runtime_with, tmp_path, attachments):
    path = tmp_path / "messages.jsonl"
    async with runtime_with(log={"type": "file", "path": str(path)}) as runtime:
        outcome = await send(runtime, channel="log", attachments=attachments)

    assert outcome.error.kind == "invalid_parameters"
    assert not path.exists()


async def test_nobody_attaches_another_users_result(runtime_with, tmp_path):
    path = tmp_path / "messages.jsonl"
    async with runtime_with(log={"type": "file", "path": str(path)}) as runtime:
        ref = await runtime.services.results.save("bob's", context=JobContext(user_id="bob"))
        outcome = await send(runtime, channel="log", attachments=[ref])

    assert outcome.error.kind == "invalid_parameters"
    assert not path.exists()


async def test_a_secret_in_an_attachment_stops_the_message(runtime_with, tmp_path):
    path = tmp_path / "messages.jsonl"
    token = "ghp_" + "SyntheticSyntheticSyntheticSyntheticSyn"[:36]
    async with runtime_with(log={"type": "file", "path": str(path)}) as runtime:
        await runtime.services.workspace.write("ana", "keys.md", token)
        outcome = await send(runtime, channel="log", attachments=["keys.md"])

    assert outcome.error.kind == "not_authorized"
    assert not path.exists()


async def test_what_cannot_carry_an_attachment_says_so(runtime_with, notify):
    async with runtime_with(desk={"type": "desktop"}) as runtime:
        await runtime.services.workspace.write("ana", "a.md", "x")
        outcome = await send(runtime, channel="desk", attachments=["a.md"])

    assert "no attachments" in outcome.error.message


# settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"type": "webhook", "url": "https://example.com"}, "needs secret"),
        ({"type": "smtp", "host": "x"}, "needs recipients, needs sender"),
        ({"type": "file", "url": "https://example.com"}, "has no url"),
        ({"type": "pigeon"}, "type"),
        ({"type": "console", "colour": "red"}, "colour"),
    ],
)
def test_a_setting_that_means_nothing_is_an_error(runtime_with, table, message):
    with pytest.raises(ConfigError, match=message):
        runtime_with(odd=table)
