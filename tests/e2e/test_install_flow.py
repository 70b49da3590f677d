"""Extensions from a catalogue that is served on this machine: found, installed, used, removed."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import ssl
import textwrap
import zipfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trustme

from hardpoint import JobContext, Runtime, hookimpl
from hardpoint.config import Config
from hardpoint.errors import (
    ApprovalRequired,
    ExternalService,
    InvalidParameters,
    NotAuthorized,
    ToolDisabled,
    ToolError,
    ToolNotFound,
)
from hardpoint.interfaces import (
    ApprovalRequest,
    CatalogueEntry,
    Decision,
    Installer,
    InstallState,
)
from hardpoint.lockfile import write_lock
from hardpoint.net import PinnedClient, UrlGuard

HOST = "tools.example.com"
DOUBLE = """(component
  (core module $m (func (export "f") (param i32) (result i32)
    (i32.mul (local.get 0) (i32.const {factor}))))
  (core instance $i (instantiate $m))
  (func (export "times") (param "x" u32) (result u32) (canon lift (core func $i "f"))))"""
SERVER = """
import json, sys

TOOLS = [{"name": "shout", "description": "%s", "inputSchema":
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}]

def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "shouting", "version": "1.0"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": params["arguments"]["text"].upper()}]}

def main():
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(message["method"], message.get("params", {}))
        said = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)
"""


# what is served --------------------------------------------------------------------------------


@attrs.define
class Shop:
    """A web server with a catalogue, and whom it may be reached by."""

    client: PinnedClient
    port: int = 0
    files: dict[str, bytes] = attrs.field(factory=dict)
    moved: dict[str, str] = attrs.field(factory=dict)
    """Where a path redirects to."""
    asked: list[str] = attrs.field(factory=list)

    @property
    def catalogue(self) -> str:
        return f"https://{HOST}:{self.port}/catalogue.json"

    def list(self, *entries: dict[str, Any]) -> None:
        index = {"version": 1, "name": "A shop", "entries": list(entries)}
        self.files["/catalogue.json"] = json.dumps(index).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ")[1].decode()
                self.asked.append(path)
                body = self.files.get(path)
                status = "404 Not Found" if body is None else "200 OK"
                if path in self.moved:
                    status = f"302 Found\r\nlocation: {self.moved[path]}"
                body = body or b""
                writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode())
                writer.write(body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass  # the client has what it wanted
        finally:
            writer.close()


class Loopback:
    async def resolve(self, host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def shop(authority: trustme.CA) -> AsyncIterator[Shop]:
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)
    guard = UrlGuard(allow_private=["127.0.0.0/8"])
    async with PinnedClient(guard=guard, resolver=Loopback(), verify=trusting) as client:
        made = Shop(client)
        server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=context)
        made.port = server.sockets[0].getsockname()[1]
        yield made
        server.close()


@pytest.fixture(autouse=True)
def a_home_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARDPOINT_HOME", str(tmp_path / "home"))


def module(factor: int) -> bytes:
    wasmtime = pytest.importorskip("wasmtime")
    return bytes(wasmtime.wat2wasm(DOUBLE.format(factor=factor)))


def wheel(about: str = "Says it louder.") -> bytes:
    """A package with a server that needs nothing but Python."""
    info = "shouting-1.0.dist-info"
    files = {
        "shouting.py": textwrap.dedent(SERVER % about),
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nshouting = shouting:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return out.getvalue()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def wasm_entry(data: bytes, version: str = "1.0", **more: Any) -> dict[str, Any]:
    entry = {"name": "times", "kind": "wasm_tool", "description": "Multiplies.", "version": version}
    return {**entry, "source": "times.wasm", "sha256": sha256(data), **more}


def server_entry(data: bytes, **more: Any) -> dict[str, Any]:
    entry = {"name": "shouting", "kind": "mcp_server", "description": "Says it louder."}
    source = "files/shouting-1.0-py3-none-any.whl"
    return {**entry, "source": source, "sha256": sha256(data), **more}


# whom it is served to --------------------------------------------------------------------------


class Person:
    """Says yes, or no, and remembers what was asked."""

    def __init__(self, answer: str = "once") -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []

    def __call__(self, request: ApprovalRequest, context: JobContext) -> Decision:
        self.asked.append(request)
        return Decision(self.answer, by="ana")  # type: ignore[arg-type]


CONTEXT = JobContext(user_id="ana", session_id="s1")


@asynccontextmanager
async def opened(shop: Shop, person: Any = None, **tables: Any) -> AsyncIterator[Runtime]:
    plugin = {"builtin": {"catalogues": [shop.catalogue]}, **tables.pop("plugin", {})}
    options = {"approver": person} if person is not None else {}
    async with Runtime(
        Config(plugin=plugin, **tables),
        installed_plugins=True,
        in_memory=False,
        http_client=shop.client,
        **options,
    ) as runtime:
        yield runtime


async def find(runtime: Runtime, query: str) -> dict[str, Any]:
    from hardpoint_builtin.extensions import search_catalogues

    return await search_catalogues(runtime.services, query)


Call = Callable[..., Any]


async def call(runtime: Runtime, tool: str, **params: Any) -> Any:
    return (await runtime.call(tool, params, CONTEXT)).result


async def call_alone(runtime: Runtime, tool: str, **params: Any) -> Any:
    """With nobody there to be asked."""
    context = attrs.evolve(CONTEXT, interactive=False)
    return (await runtime.call(tool, params, context)).result


# the flow --------------------------------------------------------------------------------------


async def test_a_wasm_tool_is_found_installed_activated_used_upgraded_and_removed(
    shop: Shop,
) -> None:
    first, second = module(2), module(3)
    shop.files["/times.wasm"] = first
    shop.list(wasm_entry(first))
    person = Person()

    async with opened(shop, person) as runtime:
        found = await find(runtime, "multiplies")
        assert found["searched_online"]
        [result] = found["results"]
        assert (result["status"], result["next"]) == ("available", 'tool_install(name="times")')

        installed = await call(runtime, "tool_install", name="times")
        assert (installed["status"], installed["version"]) == ("installed", "1.0")
        assert installed["next"] == 'tool_activate(name="times")'
        with pytest.raises(ToolNotFound):
            await call(runtime, "times", x=4)

        auth = await call(runtime, "tool_auth", name="times")
        assert auth["status"] == "no_auth_required"
        for _ in range(2):
            active = await call(runtime, "tool_activate", name="times")
            assert (active["status"], active["tools"]) == ("active", ["times"])
        assert await call(runtime, "times", x=4) == 8

        shop.files["/times.wasm"] = second
        shop.list(wasm_entry(second, "1.1"))
        runtime.services.store("catalogues").execute("UPDATE catalogues_fetched SET fetched = 0")
        [outdated] = (await find(runtime, "times"))["results"]
        assert outdated["outdated"]
        [upgraded] = (await call(runtime, "tool_upgrade", name="times"))["upgraded"]
        assert (upgraded["version"], upgraded["status"]) == ("1.1", "active")
        assert await call(runtime, "times", x=4) == 12
        again = await call(runtime, "tool_upgrade")
        assert again["upgraded"] == []

        await call(runtime, "tool_remove", name="times")
        with pytest.raises(ToolNotFound):
            await call(runtime, "times", x=4)
        info = await call(runtime, "extension_info", name="times")
        assert info["status"] == "available"

    tools = [request.tool for request in person.asked]
    assert [t for t in tools if t != "times"] == [
        "tool_install", "tool_auth", "tool_upgrade", "tool_upgrade", "tool_remove"
    ]  # fmt: skip
    assert person.asked[0].params["sha256"] == sha256(first)
    assert person.asked[0].verdicts == ("once", "edit", "no")


async def test_an_mcp_server_runs_in_an_environment_of_its_own_and_outlives_the_process(
    shop: Shop, tmp_path: Path
) -> None:
    data = wheel()
    shop.files["/files/shouting-1.0-py3-none-any.whl"] = data
    shop.list(server_entry(data))
    person = Person()

    async with opened(shop, person) as runtime:
        await find(runtime, "louder")
        installed = await call(runtime, "tool_install", name="shouting")
        assert installed["status"] == "installed"
        active = await call(runtime, "tool_activate", name="shouting")
        assert (active["status"], active["tools"]) == ("active", ["shouting__shout"])
        assert await call(runtime, "shouting__shout", text="hi") == "HI"

    [program] = (tmp_path / "home").rglob("env-*/*/shouting")
    assert program.is_file()

    async with opened(shop, person) as runtime:
        assert await call(runtime, "shouting__shout", text="again") == "AGAIN"
        removed = await call(runtime, "tool_remove", name="shouting")
        assert removed["removed_tools"] == ["shouting__shout"]
        with pytest.raises(ToolNotFound):
            await call(runtime, "shouting__shout", text="hi")
    assert not list((tmp_path / "home").rglob("env-*"))


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        (wasm_entry, "/times.wasm"),
        (server_entry, "/files/shouting-1.0-py3-none-any.whl"),
    ],
    ids=["wasm_tool", "mcp_server"],
)
async def test_content_with_another_hash_is_refused_and_nothing_is_kept(
    shop: Shop, entry: Call, place: str
) -> None:
    shop.files[place] = b"something else"
    shop.list(entry(b"what was promised"))

    async with opened(shop, Person()) as runtime:
        name = (await find(runtime, ""))["results"][0]["name"]
        with pytest.raises(NotAuthorized, match="SHA-256"):
            await call(runtime, "tool_install", name=name)

        info = await call(runtime, "extension_info", name=name)
        assert info["status"] == "available"


@pytest.mark.parametrize("entry", [wasm_entry, server_entry])
async def test_a_file_that_is_not_there_is_named_and_nothing_is_kept(
    shop: Shop, entry: Call
) -> None:
    shop.list(entry(b"what was promised"))

    async with opened(shop, Person()) as runtime:
        name = (await find(runtime, ""))["results"][0]["name"]
        with pytest.raises(ExternalService, match="404"):
            await call(runtime, "tool_install", name=name)

        assert (await call(runtime, "extension_info", name=name))["status"] == "available"


@pytest.mark.parametrize("entry", [wasm_entry, server_entry])
@pytest.mark.parametrize(
    "elsewhere", ["https://10.0.0.1/x", "https://169.254.169.254/x", "http://plain.example/x"]
)
async def test_a_download_leads_to_no_inner_address(
    shop: Shop, entry: Call, elsewhere: str
) -> None:
    listed = entry(b"what was promised")
    shop.moved["/" + listed["source"]] = elsewhere
    shop.list(listed)

    async with opened(shop, Person()) as runtime:
        name = (await find(runtime, ""))["results"][0]["name"]
        with pytest.raises(ToolError) as refused:
            await call(runtime, "tool_install", name=name)

        assert refused.value.kind in ("not_authorized", "external_service")
        assert (await call(runtime, "extension_info", name=name))["status"] == "available"


async def test_a_catalogue_leads_to_no_inner_address(shop: Shop) -> None:
    shop.moved["/catalogue.json"] = "https://169.254.169.254/catalogue.json"

    async with opened(shop) as runtime:
        found = await find(runtime, "")

    assert found["results"] == []
    assert "169.254.169.254" in str(found["problems"])


async def test_a_server_whose_tools_differ_from_the_catalogue_is_quarantined(shop: Shop) -> None:
    data = wheel("Something else.")
    shop.files["/files/shouting-1.0-py3-none-any.whl"] = data
    shop.list(server_entry(data, tools_sha256="0" * 64))

    async with opened(shop, Person()) as runtime:
        await find(runtime, "")
        await call(runtime, "tool_install", name="shouting")
        with pytest.raises(NotAuthorized, match="not those of the catalogue"):
            await call(runtime, "tool_activate", name="shouting")

        info = await call(runtime, "extension_info", name="shouting")
        assert info["status"] == "quarantined"
        assert not runtime.registry.has("shouting__shout")


# who decides -----------------------------------------------------------------------------------


async def test_nothing_is_installed_without_a_person(shop: Shop) -> None:
    data = module(2)
    shop.files["/times.wasm"] = data
    shop.list(wasm_entry(data))

    async with opened(shop) as runtime:
        await find(runtime, "")
        with pytest.raises(ApprovalRequired):
            await call_alone(runtime, "tool_install", name="times")
    async with opened(shop, Person("no")) as runtime:
        with pytest.raises(NotAuthorized):
            await call(runtime, "tool_install", name="times")
    assert "/times.wasm" not in shop.asked


async def test_an_approval_does_not_hold_for_another_entry_of_the_same_name(shop: Shop) -> None:
    first, second = module(2), module(3)
    shop.list(wasm_entry(first))
    shop.files["/times.wasm"] = second

    async with opened(shop) as runtime:
        await find(runtime, "")
        with pytest.raises(ApprovalRequired) as refused:
            await call_alone(runtime, "tool_install", name="times")
        runtime.approvals.answer(refused.value.approval_id, True, by="ana")
        shop.list(wasm_entry(second))
        runtime.services.store("catalogues").execute("UPDATE catalogues_fetched SET fetched = 0")
        await find(runtime, "")

        with pytest.raises(ApprovalRequired):
            await call_alone(runtime, "tool_install", name="times")


async def test_a_plugin_is_named_but_only_a_person_installs_it(shop: Shop) -> None:
    shop.list(
        {"name": "acme", "kind": "pip_plugin", "package": "acme-tools", "version": "1.2"},
    )
    person = Person()

    async with opened(shop, person) as runtime:
        [result] = (await find(runtime, "acme"))["results"]
        assert result["detail"].endswith("hardpoint plugins install acme-tools==1.2")
        with pytest.raises(NotAuthorized) as refused:
            await call(runtime, "tool_install", name="acme")
        assert "hardpoint plugins install acme-tools==1.2" in str(refused.value.hint)
    assert person.asked == []


async def test_what_no_catalogue_has_cannot_be_installed_by_its_address(shop: Shop) -> None:
    shop.list()
    person = Person()

    async with opened(shop, person) as runtime:
        await find(runtime, "")
        url = f"https://{HOST}:{shop.port}/times.wasm"
        with pytest.raises(InvalidParameters, match="no known catalogue"):
            await call(runtime, "tool_install", name="times", url=url)
    assert person.asked == []


async def test_a_pinned_catalogue_counts_only_with_its_hash(shop: Shop) -> None:
    shop.list(wasm_entry(b""))
    pinned = {"location": shop.catalogue, "sha256": sha256(shop.files["/catalogue.json"])}
    wrong = {**pinned, "sha256": "0" * 64}

    async with opened(shop, plugin={"builtin": {"catalogues": [wrong]}}) as runtime:
        found = await find(runtime, "")
        assert found["results"] == []
        assert "not the one that [plugin.builtin] pins" in found["problems"][0]
    async with opened(shop, plugin={"builtin": {"catalogues": [pinned]}}) as runtime:
        assert [r["name"] for r in (await find(runtime, ""))["results"]] == ["times"]


# a stand-in ------------------------------------------------------------------------------------


class Paperwork(Installer):
    """An extension that needs a login in a browser before it works."""

    kind = "paper_form"

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.logged_in = False

    async def find(self, query: str) -> Sequence[CatalogueEntry]:
        return ()

    async def install(self, entry: CatalogueEntry, context: JobContext) -> InstallState:
        self.states[entry.name] = "installed"
        return self._state(entry.name)

    async def authenticate(self, name: str, context: JobContext) -> InstallState:
        return self._state(name)

    async def activate(self, name: str, context: JobContext) -> InstallState:
        if self.logged_in:
            self.states[name] = "active"
        return self._state(name)

    async def remove(self, name: str, context: JobContext) -> InstallState:
        del self.states[name]
        return InstallState(name, self.kind, "available")

    async def installed(self) -> Sequence[InstallState]:
        return [self._state(name) for name in self.states]

    def _state(self, name: str) -> InstallState:
        if not self.logged_in:
            url = "https://login.example.com/"
            return InstallState(name, self.kind, "needs_auth", (), "log in", url)
        return InstallState(name, self.kind, self.states[name], ["fill_in"])


async def test_a_login_stands_between_installing_and_activating(shop: Shop) -> None:
    installer = Paperwork()

    class Plugin:
        HARDPOINT_API = 1

        @staticmethod
        @hookimpl
        def hardpoint_register_extensions(registry: Any) -> None:
            registry.register("installer", "paper", installer)

    shop.list({"name": "form", "kind": "paper_form", "description": "", "colour": "red"})
    config = Config(plugin={"builtin": {"catalogues": [shop.catalogue]}})
    async with Runtime(
        config,
        installed_plugins=True,
        plugins={"paper": Plugin},
        approver=Person(),
        http_client=shop.client,
    ) as runtime:
        await find(runtime, "form")
        installed = await call(runtime, "tool_install", name="form")
        assert (installed["status"], installed["next"]) == ("needs_auth", 'tool_auth(name="form")')
        waiting = await call(runtime, "tool_auth", name="form")
        assert waiting["status"] == "awaiting_authorization"
        assert waiting["auth_url"] == "https://login.example.com/"
        installer.logged_in = True
        done = await call(runtime, "tool_auth", name="form")
        assert (done["status"], done["extension_status"]) == ("no_auth_required", "active")


# the lock --------------------------------------------------------------------------------------


async def test_what_comes_after_the_lock_is_quarantined_alone(shop: Shop, tmp_path: Path) -> None:
    from hardpoint.config.model import PluginsConfig

    data = module(2)
    shop.files["/times.wasm"] = data
    shop.list(wasm_entry(data))
    path = tmp_path / "hardpoint.lock"
    async with opened(shop) as runtime:
        write_lock(path, (await runtime.surface())[0])
    locked = PluginsConfig(lock=path)

    async with opened(shop, Person(), plugins=locked) as runtime:
        await find(runtime, "")
        await call(runtime, "tool_install", name="times")
        active = await call(runtime, "tool_activate", name="times")
        assert active["status"] == "quarantined"
        with pytest.raises(ToolDisabled, match="quarantined"):
            await call(runtime, "times", x=4)
        assert "times" not in {d.name for d in runtime.visible()}
        assert await call(runtime, "echo", message="still here") == "still here"
        write_lock(path, (await runtime.surface())[0])

    async with opened(shop, Person(), plugins=locked) as runtime:
        assert await call(runtime, "times", x=4) == 8
