"""Embedding models: an endpoint, one on this machine, and their settings."""

import json

import pytest

from hardpoint import Config, ConfigError, ExternalService, Runtime
from hardpoint_builtin.embeddings.local import LocalEmbeddings

PLANETS = ("mars", "venus", "earth")


def vector(text):
    return [0.1 + text.lower().count(planet) for planet in PLANETS]


async def embed(request, writer):
    texts = json.loads(request.body)["input"]
    data = [{"index": place, "embedding": vector(text)} for place, text in enumerate(texts)]
    body = json.dumps({"data": data[::-1]}).encode()
    return 200, [("content-type", "application/json")], body


@pytest.fixture
def runtime_with(services, monkeypatch):
    monkeypatch.setenv("HARDPOINT_SECRET_EMBEDDINGS_KEY", "synthetic-value-1")

    def make(**embeddings):
        config = Config(
            plugin={"builtin": {"embeddings": embeddings}}, load_only=frozenset({"builtin"})
        )
        return Runtime(config, installed_plugins=True, http_client=services._client)

    return make


def endpoint(server, **more):
    return {
        "provider": "endpoint",
        "url": server.url("/v1/embeddings"),
        "model": "small",
        "secret": "system:embeddings_key",
        **more,
    }


async def test_an_endpoint_gives_meaning_to_documents(runtime_with, serve):
    server = await serve({"/v1/embeddings": embed})
    async with runtime_with(**endpoint(server)) as runtime:
        memory = runtime.services.workspace
        await memory.write("ana", "a.md", "mars mars")
        await memory.write("ana", "b.md", "venus")
        (hit,) = await memory.search("ana", "Mars?", limit=1)

    assert hit["path"] == "a.md"
    assert hit["is_hybrid_match"] is True
    bodies = [json.loads(each.body) for each in server.received]
    assert {each.headers["authorization"] for each in server.received} == {
        "Bearer synthetic-value-1"
    }
    assert all(body["model"] == "small" and "dimensions" not in body for body in bodies)


async def test_a_wanted_dimension_is_asked_for_and_checked(runtime_with, serve):
    server = await serve({"/v1/embeddings": embed})
    async with runtime_with(**endpoint(server, dimension=5)) as runtime:
        provider = runtime.services.extensions("embedding_provider")["endpoint"]
        with pytest.raises(ExternalService, match="3 numbers, not 5"):
            await provider.embed(["mars"])

    assert json.loads(server.received[0].body)["dimensions"] == 5


@pytest.mark.parametrize(
    "body",
    [
        b"", b"not json", b"[]", b'{"data": []}', b'{"data": [{"index": 0}]}',
        b'{"data": [{"index": 0, "embedding": ["x"]}]}',
        b'{"data": [{"index": 0, "embedding": [NaN, 1]}]}',
        b'{"data": [{"index": 0, "embedding": [1e999, 1]}]}',
        b'{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [2]}]}',
    ],
)  # fmt: skip
async def test_what_is_no_embedding_is_an_error_and_loses_no_document(runtime_with, serve, body):
    server = await serve({"/v1/embeddings": (200, [("content-type", "application/json")], body)})
    async with runtime_with(**endpoint(server)) as runtime:
        provider = runtime.services.extensions("embedding_provider")["endpoint"]
        with pytest.raises(ExternalService):
            await provider.embed(["mars"])
        memory = runtime.services.workspace
        await memory.write("ana", "a.md", "mars")

        assert [hit["path"] for hit in await memory.search("ana", "mars")] == ["a.md"]


@pytest.mark.parametrize("status", [301, 401, 429, 500])
async def test_a_refusing_endpoint_is_an_error(runtime_with, serve, status):
    server = await serve({"/v1/embeddings": (status, (), b"no")})
    async with runtime_with(**endpoint(server)) as runtime:
        provider = runtime.services.extensions("embedding_provider")["endpoint"]
        with pytest.raises(ExternalService, match=str(status)):
            await provider.embed(["mars"])


async def test_a_text_with_a_secret_stays_at_home_and_holds_up_no_other(runtime_with, serve):
    server = await serve({"/v1/embeddings": embed})
    token = "ghp_" + "SyntheticSyntheticSyntheticSyntheticSyn"[:36]
    async with runtime_with(**endpoint(server)) as runtime:
        memory = runtime.services.workspace
        text = f"mars {token}\n\n" + "venus " * 300
        await memory.write("ana", "a.md", text)
        by_word = await memory.search("ana", "mars")
        before = len(server.received)
        await memory.search("ana", "venus")

    assert by_word[0]["path"] == "a.md"
    assert all(token.encode() not in each.body for each in server.received)
    assert len(server.received) - before == 1  # the refused text is not tried again and again


async def test_the_local_model_needs_no_network_and_knows_some_words():
    pytest.importorskip("wordllama")
    model = LocalEmbeddings()

    loaf, bread, server, nothing = await model.embed(["a loaf", "bread", "web server", ""])

    def alike(one, two):
        return sum(a * b for a, b in zip(one, two, strict=True))

    assert len(loaf) == model.dimension
    assert alike(loaf, bread) > alike(loaf, server)
    assert nothing == [0.0] * model.dimension


def test_a_missing_extra_says_what_to_install(monkeypatch):
    monkeypatch.setattr("hardpoint_builtin.embeddings.local.find_spec", lambda name: None)

    with pytest.raises(ConfigError) as refusal:
        LocalEmbeddings()

    assert "hardpoint-builtin[embeddings]" in refusal.value.hint


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"provider": "endpoint"}, "needs url and model"),
        ({"dimension": 0}, "dimension"),
        ({"colour": 1}, "colour"),
    ],
)
def test_settings_that_mean_nothing_are_errors(runtime_with, settings, message):
    with pytest.raises(ConfigError, match=message):
        runtime_with(**settings)


async def test_a_provider_that_nobody_registered_stops_the_start(runtime_with):
    with pytest.raises(ConfigError, match="'telepathy'"):
        async with runtime_with(provider="telepathy"):
            pass
