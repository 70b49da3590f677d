"""Where secret values are kept, who gets them, and who never does."""

from __future__ import annotations

import base64
import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hardpoint
from hardpoint import JobContext, NotAuthorized, tool
from hardpoint.config import Config, SecretsConfig
from hardpoint.errors import ConfigError
from hardpoint.interfaces import SYSTEM, SecretStore
from hardpoint.secrets import Secrets
from hardpoint.secrets.environment import EnvironmentStore
from hardpoint.secrets.file import EncryptedFileStore
from hardpoint.secrets.keyring import KeyringStore
from hardpoint.testing import MemorySecrets, make_context, make_runtime

VALUE = "synthetic-" + "value/1"


class FakeKeyring:
    """The part of a keyring that stores use, in memory."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, user: str) -> str | None:
        return self.entries.get((service, user))

    def set_password(self, service: str, user: str, value: str) -> None:
        self.entries[service, user] = value

    def delete_password(self, service: str, user: str) -> None:
        del self.entries[service, user]


def file_store(folder: Path, passphrase: str = "correct horse") -> EncryptedFileStore:
    environ = {"HARDPOINT_PASSPHRASE": passphrase}
    return EncryptedFileStore(folder / "vault" / "secrets.json", key="passphrase", environ=environ)


@pytest.fixture(autouse=True)
def quick_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardpoint.secrets.file._SCRYPT", {"n": 2**4, "r": 8, "p": 1})


@pytest.fixture(params=["file", "file with keyring", "keyring", "memory"])
def store(request: Any, tmp_path: Path) -> SecretStore:
    if request.param == "file":
        return file_store(tmp_path)
    if request.param == "file with keyring":
        return EncryptedFileStore(tmp_path / "secrets.json", keyring=FakeKeyring())
    if request.param == "keyring":
        return KeyringStore(FakeKeyring(), lock=tmp_path / "keyring.lock")
    return MemorySecrets()


# every store -----------------------------------------------------------------------------------


async def test_a_store_keeps_lists_and_forgets(store: SecretStore) -> None:
    await store.set("ana", "Api_Key", VALUE)
    await store.set("ana", "other", "x" * 5000 + "ü")

    assert await store.get("ana", "API_KEY") == VALUE
    assert await store.get("ana", "other") == "x" * 5000 + "ü"
    assert await store.names("ana") == ["api_key", "other"]
    assert await store.delete("ana", "api_KEY") is True
    assert await store.delete("ana", "api_key") is False
    assert await store.get("ana", "api_key") is None
    assert await store.names("ana") == ["other"]


async def test_nobody_gets_anothers(store: SecretStore) -> None:
    await store.set("ana", "key", VALUE)
    await store.set(SYSTEM, "key", "of the system")

    for other in ("ben", "ANA", "ana/", "", "*", "an%61"):
        assert await store.get(other, "key") is None
        assert await store.names(other) == []


async def test_owners_and_names_cannot_be_chosen_to_meet(store: SecretStore) -> None:
    await store.set("a/b", "c", VALUE)

    assert await store.get("a", "b/c") is None
    assert await store.get("a%2fb", "c") is None
    assert await store.get("a/b", "c") == VALUE


# the environment -------------------------------------------------------------------------------


async def test_variables_are_the_systems_alone() -> None:
    store = EnvironmentStore({"HARDPOINT_SECRET_API_KEY": VALUE, "HARDPOINT_SECRET_EMPTY": ""})

    assert await store.get(SYSTEM, "Api_Key") == VALUE
    assert await store.get(SYSTEM, "empty") is None
    assert await store.names(SYSTEM) == ["api_key"]
    assert await store.get("ana", "api_key") is None
    assert not store.writable


# the encrypted file ----------------------------------------------------------------------------


async def test_the_file_is_private_and_holds_no_value(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    await store.set("ana", "key", VALUE)

    path = tmp_path / "vault" / "secrets.json"
    raw = path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert VALUE.encode() not in raw
    assert base64.b64encode(VALUE.encode())[:-4] not in raw
    assert sorted(p.name for p in path.parent.iterdir()) == ["secrets.json", "secrets.lock"]


async def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    await store.set("ana", "key", VALUE)
    path = tmp_path / "vault" / "secrets.json"
    path.chmod(0o644)

    assert await store.get("ana", "key") == VALUE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_missing_keyring_is_laid_to_the_setting_that_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)

    with pytest.raises(ConfigError, match=r"\[secrets\] key is 'keyring'") as refused:
        EncryptedFileStore(tmp_path / "secrets.json")

    assert 'key = "passphrase"' in str(refused.value.hint)


async def test_a_wrong_passphrase_opens_and_changes_nothing(tmp_path: Path) -> None:
    await file_store(tmp_path).set("ana", "key", VALUE)
    wrong = file_store(tmp_path, "incorrect horse")

    with pytest.raises(ConfigError, match="key or passphrase is another one"):
        await wrong.get("ana", "key")
    with pytest.raises(ConfigError, match="key or passphrase is another one"):
        await wrong.set("ana", "other", "x")

    assert await file_store(tmp_path).get("ana", "key") == VALUE
    assert await file_store(tmp_path).names("ana") == ["key"]


async def test_without_a_passphrase_and_a_terminal_it_says_what_to_set(tmp_path: Path) -> None:
    await file_store(tmp_path).set("ana", "key", VALUE)
    store = EncryptedFileStore(tmp_path / "vault" / "secrets.json", key="passphrase", environ={})

    with pytest.raises(ConfigError) as refused:
        await store.get("ana", "key")

    assert "HARDPOINT_PASSPHRASE" in str(refused.value.hint)


async def test_a_value_cannot_be_moved_to_another_owner_or_name(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    await store.set("ana", "key", VALUE)
    path = tmp_path / "vault" / "secrets.json"
    document = json.loads(path.read_text())
    sealed = document["entries"]["ana"]["key"]

    for owner, name in (("ben", "key"), ("ana", "other"), (SYSTEM, "key")):
        document["entries"].setdefault(owner, {})[name] = sealed
        path.write_text(json.dumps(document))
        with pytest.raises(ConfigError, match="file was changed"):
            await file_store(tmp_path).get(owner, name)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "5", '{"version": 2, "salt": "", "entries": {}}', '{"version": 1}',
        '{"version": 1, "salt": "AAAA", "entries": []}',
        '{"version": 1, "salt": "AAAA", "entries": {"ana": {"key": 5}}}',
        '{"version": 1, "salt": "AAAA", "entries": {"ana": {"key": "AAAA"}}}',
        '{"version": 1, "salt": "AAAA", "check": "!", "entries": {"ana": {"key": "AAAA"}}}',
    ],
)  # fmt: skip
async def test_a_damaged_file_is_an_error_and_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "vault" / "secrets.json"
    path.parent.mkdir(mode=0o700)
    path.write_text(text)

    for work in (lambda s: s.get("ana", "key"), lambda s: s.set("ana", "key", VALUE)):
        with pytest.raises(ConfigError, match=r"secrets\.json"):
            await work(file_store(tmp_path))

    assert path.read_text() == text


async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir(mode=0o700)
    (tmp_path / "vault" / "secrets.json").symlink_to(tmp_path / "elsewhere.json")
    (tmp_path / "elsewhere.json").write_text("{}")

    with pytest.raises(ConfigError, match="cannot be read"):
        await file_store(tmp_path).get("ana", "key")


async def test_a_file_made_anew_by_another_process_is_read_with_its_own_salt(
    tmp_path: Path,
) -> None:
    store = file_store(tmp_path)
    await store.set("ana", "key", VALUE)
    (tmp_path / "vault" / "secrets.json").unlink()
    await file_store(tmp_path).set("ana", "key", "another")

    assert await store.get("ana", "key") == "another"
    await store.set("ana", "more", "x")
    assert await file_store(tmp_path).get("ana", "key") == "another"


async def test_a_lost_key_is_said(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    await EncryptedFileStore(path, keyring=FakeKeyring()).set("ana", "key", VALUE)

    with pytest.raises(ConfigError, match="not in this machine's keyring"):
        await EncryptedFileStore(path, keyring=FakeKeyring()).get("ana", "key")


async def test_what_a_killed_process_left_over_is_cleared_away(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    await store.set("ana", "key", VALUE)
    (tmp_path / "vault" / "secrets.abc123.new").write_text('{"version": 1, "ent')

    await store.set("ana", "other", "x")

    assert not list((tmp_path / "vault").glob("*.new"))
    assert await store.names("ana") == ["key", "other"]


WRITER = """
import asyncio, sys
from pathlib import Path
from hardpoint.secrets import file

file._SCRYPT = {"n": 2**4, "r": 8, "p": 1}
store = file.EncryptedFileStore(
    Path(sys.argv[1]), key="passphrase", environ={"HARDPOINT_PASSPHRASE": "correct horse"}
)

async def work():
    for turn in range(10):
        await store.set(f"user{sys.argv[2]}", f"key{turn}", f"value {sys.argv[2]} {turn}")

asyncio.run(work())
"""


async def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "vault" / "secrets.json"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(number)])
        for number in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0] * 4

    store = file_store(tmp_path)
    for number in range(4):
        assert len(await store.names(f"user{number}")) == 10
        assert await store.get(f"user{number}", "key9") == f"value {number} 9"


# who gets what ---------------------------------------------------------------------------------


def secrets_of(**owners: dict[str, str]) -> Secrets:
    return Secrets([("memory", MemorySecrets(owners))])


async def test_a_user_gets_the_own_value_or_the_systems_and_never_anothers() -> None:
    secrets = secrets_of(
        system={"shared": "of the system"}, ana={"shared": "of ana", "private": "of ana"}
    )

    assert await secrets.resolve("SHARED", "ana") == "of ana"
    assert await secrets.resolve("shared", "ben") == "of the system"
    assert await secrets.resolve("system:shared", "ana") == "of the system"
    for user in ("ben", None, SYSTEM):
        with pytest.raises(NotAuthorized) as refused:
            await secrets.resolve("private", user)
        assert "hardpoint secrets set private" in str(refused.value.hint)
    with pytest.raises(NotAuthorized):
        await secrets.resolve("system:private", "ana")


async def test_an_empty_value_is_no_value() -> None:
    secrets = secrets_of(ana={"key": ""}, system={"key": ""})

    assert not await secrets.exists("key", "ana")
    with pytest.raises(NotAuthorized):
        await secrets.resolve("key", "ana")
    for value in ("", "  ", "\n"):
        with pytest.raises(ConfigError, match="not empty"):
            await secrets.set("ana", "key", value)


@pytest.mark.parametrize(
    "name", ["", "system:key", "a b", "a/b", "../x", "-x", "ü", "x" * 129, "a\n"]
)
async def test_a_name_that_could_be_something_else_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a secret"):
        await secrets_of().set("ana", name, VALUE)


async def test_the_first_store_that_can_be_written_keeps_it() -> None:
    env = EnvironmentStore({"HARDPOINT_SECRET_TAKEN": "x"})
    memory = MemorySecrets()
    secrets = Secrets([("env", env), ("memory", memory)])

    assert await secrets.set(SYSTEM, "Fresh", VALUE) == "memory"
    assert await secrets.providers(SYSTEM) == [("fresh", "memory"), ("taken", "env")]
    with pytest.raises(ConfigError, match="asked first"):
        await secrets.set(SYSTEM, "taken", "y")
    with pytest.raises(ConfigError, match="no store can keep"):
        await Secrets([("env", env)]).set(SYSTEM, "fresh", VALUE)


async def test_a_missing_secret_of_the_system_stops_the_start() -> None:
    import attrs

    from hardpoint.net import Bearer, Binding

    binding = Binding("system:service_key", hosts=("api.example.com",), location=Bearer())

    @attrs.frozen
    class Settings:
        key: Any = binding

    class Plugin:
        HARDPOINT_API = 1

        @hardpoint.hookimpl
        def hardpoint_config_type(self) -> type:
            return Settings

    runtime = make_runtime(plugins={"service": Plugin()})
    with pytest.raises(ConfigError, match="service_key") as refused:
        async with runtime:
            pass

    assert "hardpoint secrets set service_key --system" in str(refused.value.hint)


class SafePlugin:
    """Brings a store as a plugin does."""

    HARDPOINT_API = 1

    def __init__(self, store: SecretStore) -> None:
        self.store = store

    @hardpoint.hookimpl
    def hardpoint_register_extensions(self, registry: Any) -> None:
        registry.register("secret_store", "safe", self.store)


def runtime_with(store: SecretStore, *tools: Any, **options: Any) -> Any:
    return make_runtime(
        tools=tools,
        plugins={"safe": SafePlugin(store)},
        config=Config(secrets=SecretsConfig(stores=("safe",))),
        **options,
    )


async def test_a_running_call_sees_its_own_users_secrets_only() -> None:
    store = MemorySecrets({"ana": {"key": VALUE}, "ben": {"other": "ben's value"}})
    seen: dict[str, Any] = {}

    @tool
    async def look(ctx: JobContext) -> str:
        """Look around."""
        mine = ctx.services.secrets
        seen["names"] = await mine.names()
        seen["revealed"] = await mine.reveal("key", None, "to look")
        for name, work in {
            "exists": lambda: mine.exists("other", "ben"),
            "names": lambda: mine.names("ben"),
            "delete": lambda: mine.delete("other", "ben"),
            "reveal": lambda: mine.reveal("other", "ben", "to steal"),
        }.items():
            with pytest.raises(NotAuthorized):
                await work()
            assert name
        for name in ("resolve", "set", "learn_all"):
            assert not hasattr(mine, name)
        return "looked"

    async with runtime_with(store, look) as rt:
        outcome = await rt.run("look", {}, make_context("ana"))

    assert outcome.ok
    assert seen == {"names": ["key"], "revealed": VALUE}
    assert await store.get("ben", "other") == "ben's value"


@pytest.mark.parametrize("owner", ["ana", SYSTEM, "ben"])
async def test_a_stored_value_never_comes_out_of_a_call(owner: str) -> None:
    """Also one that this process has never handed out: it may have been read from a disk."""

    class Listing(MemorySecrets):
        async def owners(self) -> list[str]:
            return sorted(self._secrets)

    @tool(effects=["read"])
    async def cat(encoding: str = "") -> str:
        """Show a file."""
        raw = VALUE.encode()
        return {"b64": base64.b64encode(raw).decode(), "hex": raw.hex()}.get(encoding, VALUE)

    async with runtime_with(Listing({owner: {"key": VALUE}}), cat) as rt:
        texts = [
            (await rt.run("cat", {"encoding": e}, make_context("ana"))).to_model_text()
            for e in ("", "b64", "hex")
        ]

    assert VALUE not in texts[0]
    assert base64.b64encode(VALUE.encode()).decode() not in texts[1]
    assert VALUE.encode().hex() not in texts[2]


async def test_a_stored_value_does_not_leave_in_arguments() -> None:
    @tool(effects=["network"])
    async def post(text: str) -> str:
        """Post."""
        return "posted"

    async with runtime_with(MemorySecrets({"ana": {"key": VALUE}}), post) as rt:
        outcome = await rt.run("post", {"text": f"it is {VALUE}"}, make_context("ana"))

    assert isinstance(outcome.error, NotAuthorized)
    assert "stored_secret" in outcome.error.message


async def test_a_store_that_is_locked_does_not_stop_calls_that_need_no_secret() -> None:
    class Locked(SecretStore):
        async def get(self, owner: str, name: str) -> str | None:
            raise ConfigError("the vault is locked")

        async def names(self, owner: str) -> list[str]:
            return [] if owner == SYSTEM else ["key"]

    @tool(effects=["read"])
    async def hello() -> str:
        """Greet."""
        return "hello"

    async with runtime_with(Locked(), hello) as rt:
        outcome = await rt.run("hello", {}, make_context("ana"))

    assert outcome.ok


def test_an_unknown_store_stops_the_start() -> None:
    with pytest.raises(ConfigError, match="'vault'"):
        make_runtime(config=Config(secrets=SecretsConfig(stores=("vault",))))
