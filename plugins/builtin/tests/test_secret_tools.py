"""Secrets by name: listed, deleted, never shown, never another user's."""

import pytest

from hardpoint import API_VERSION, Config, JobContext, hookimpl
from hardpoint.config import SecretsConfig
from hardpoint.testing import MemorySecrets, make_runtime
from hardpoint_builtin import secret_tools

ANA = JobContext(user_id="ana", auto_approve=True)
VALUE = "synthetic-value-of-ana"


class ReadOnly(MemorySecrets):
    writable = False


@pytest.fixture
def make():
    store = MemorySecrets({"ana": {"Mail": VALUE, "key": VALUE}, "bob": {"bobs": "synthetic-bob"}})

    def make(store=store):
        class Plugin:
            HARDPOINT_API = API_VERSION

            @hookimpl
            def hardpoint_register_extensions(self, registry):
                registry.register("secret_store", "memory", store)

        config = Config(secrets=SecretsConfig(stores=("env", "memory")))
        runtime = make_runtime(plugins={"secrets": Plugin()}, config=config)
        for tool in secret_tools():
            runtime.registry.register(tool, owner="hardpoint-builtin")
        return runtime

    return make


async def test_names_are_listed_without_values(make):
    async with make() as runtime:
        outcome = await runtime.run("secret_list", {}, ANA)
        stranger = await runtime.run("secret_list", {}, JobContext(user_id="eve"))

    assert outcome.result == {
        "secrets": [
            {"name": "key", "provider": "memory"},
            {"name": "mail", "provider": "memory"},
        ],
        "count": 2,
    }
    assert VALUE not in str(outcome.to_json())
    assert stranger.result == {"secrets": [], "count": 0}


async def test_a_secret_is_deleted_whatever_its_letter_case(make):
    async with make() as runtime:
        deleted = await runtime.run("secret_delete", {"name": " MAIL "}, ANA)
        again = await runtime.run("secret_delete", {"name": "mail"}, ANA)
        left = await runtime.run("secret_list", {}, ANA)

    assert deleted.result == {"status": "deleted", "name": "MAIL"}
    assert again.result["status"] == "not_found"
    assert left.result["count"] == 1


async def test_deleting_needs_approval(make):
    async with make() as runtime:
        outcome = await runtime.run("secret_delete", {"name": "key"}, JobContext(user_id="ana"))

        assert not outcome.ok
        assert await runtime.services.secrets.exists("key", "ana")


@pytest.mark.parametrize("name", ["bobs", "system:key", "SYSTEM:x", "", "  "])
async def test_nobody_deletes_what_is_not_theirs(make, monkeypatch, name):
    monkeypatch.setenv("HARDPOINT_SECRET_KEY", "synthetic-system-value")
    async with make() as runtime:
        outcome = await runtime.run("secret_delete", {"name": name}, ANA)

        assert not outcome.ok or outcome.result["status"] == "not_found"
        assert await runtime.services.secrets.exists("bobs", "bob")
        assert await runtime.services.secrets.exists("system:key", "ana")


async def test_a_store_that_cannot_be_written_is_named(make):
    async with make(ReadOnly({"ana": {"key": VALUE}})) as runtime:
        outcome = await runtime.run("secret_delete", {"name": "key"}, ANA)

    assert outcome.result["status"] == "not_found"
    assert "'memory'" in outcome.result["message"]
