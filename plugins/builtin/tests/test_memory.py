"""The workspace over both databases."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hardpoint import HardpointError, InvalidParameters
from hardpoint.interfaces import EmbeddingProvider
from hardpoint_builtin import MemoryWorkspace
from hardpoint_builtin.memory.documents import MAX_DOCUMENT


@pytest.fixture
async def runtime(runtime_at):
    async with runtime_at() as runtime:
        yield runtime


@pytest.fixture
async def workspace(runtime):
    return runtime.services.workspace


async def found(workspace, query, user="ana", **options):
    return [each["path"] for each in await workspace.search(user, query, **options)]


async def test_what_was_written_is_read_and_listed(workspace):
    await workspace.write("ana", "notes/tea.md", "Jasmine.")
    await workspace.write("ana", "MEMORY.md", "Facts.")

    assert await workspace.read("ana", "./notes//tea.md") == "Jasmine."
    assert await workspace.read("ana", "notes/coffee.md") is None
    assert await workspace.list("ana") == ["MEMORY.md", "notes/tea.md"]
    assert await workspace.list("ana", "notes") == ["notes/tea.md"]
    assert await workspace.list("ana", "not") == []


@pytest.mark.parametrize(
    "query",
    ["jasmine", "JASMINE tea", "jas*", '"jasmine tea"', "drinking", "🍵", "京都", "都", "cafe"],
)
async def test_a_text_is_found_by_what_is_in_it(workspace, query):
    await workspace.write("ana", "a.md", "She drinks jasmine tea 🍵 in a Café, 東京都.")
    await workspace.write("ana", "b.md", "Nothing of that kind 🚀, 大阪.")

    assert await found(workspace, query) == ["a.md"]


@pytest.mark.parametrize("query", ["tea jasmine coffee?", '"tea jasmine"', "jas", "", "京阪", "🚀"])
async def test_what_is_not_there_is_not_found(workspace, query):
    await workspace.write("ana", "a.md", "She drinks jasmine 🍵 in 東京都.")

    hits = await found(workspace, query)

    assert hits == ([] if query != "tea jasmine coffee?" else ["a.md"])


async def test_rare_words_count_more_than_common_ones(workspace):
    for number in range(20):
        await workspace.write("ana", f"common{number}.md", "the project meeting about the project")
    await workspace.write("ana", "rare.md", "the zeppelin")

    assert (await found(workspace, "project zeppelin"))[0] == "rare.md"


async def test_a_phrase_is_required_and_other_words_are_wanted(workspace):
    await workspace.write("ana", "both.md", "a red door in the garden")
    await workspace.write("ana", "phrase.md", "a red door in the wall")
    await workspace.write("ana", "words.md", "the garden has a door that is red")

    assert await found(workspace, '"red door" garden') == ["both.md", "phrase.md"]


async def test_words_of_the_path_count_too(workspace):
    await workspace.write("ana", "projects/zeppelin.md", "The plan.")

    assert await found(workspace, "zeppelin") == ["projects/zeppelin.md"]


async def test_users_see_nothing_of_each_other(workspace):
    await workspace.write("ana", "a.md", "secret plan")
    await workspace.write("bob", "a.md", "other plan")

    assert await workspace.read("bob", "a.md") == "other plan"
    assert [each["content"] for each in await workspace.search("ana", "plan")] == ["secret plan"]
    assert await workspace.search("eve", "plan") == []
    assert await workspace.list("eve") == []


async def test_a_rewritten_text_is_no_longer_found_by_its_old_words(workspace):
    await workspace.write("ana", "a.md", "old zeppelin " * 400)
    await workspace.write("ana", "a.md", "new")

    assert await found(workspace, "zeppelin") == []
    assert await found(workspace, "new") == ["a.md"]


async def test_appending_begins_a_line_and_keeps_what_is_there(workspace):
    await workspace.write("ana", "log.md", "one", append=True)
    await workspace.write("ana", "log.md", "two\n", append=True)
    await workspace.write("ana", "log.md", "three", append=True)

    assert await workspace.read("ana", "log.md") == "one\ntwo\nthree"


async def test_every_version_can_be_read_again(workspace):
    await workspace.write("ana", "a.md", "first")
    await workspace.write("ana", "a.md", "more", append=True)
    await workspace.write("ana", "a.md", "second")
    await workspace.write("ana", "a.md", "end", append=True)

    texts = [(await workspace.document("ana", "a.md", n)).content for n in (1, 2, 3, 4)]

    assert texts == ["first", "first\nmore", "second", "second\nend"]
    assert await workspace.document("ana", "a.md", 5) is None
    kinds = [each.kind for each in await workspace.versions("ana", "a.md")]
    assert kinds == ["write", "append", "write", "append"]


async def test_a_long_history_forgets_its_beginning_and_stays_right(workspace):
    for number in range(260):
        await workspace.write("ana", "a.md", f"text {number}")

    kept = await workspace.versions("ana", "a.md")

    assert 200 <= len(kept) <= 202
    assert (await workspace.document("ana", "a.md", kept[0].version)).content == (
        f"text {kept[0].version - 1}"
    )
    assert await workspace.document("ana", "a.md", 1) is None


async def test_passages_of_a_long_document_are_found_at_their_place(workspace):
    filler = "Words about nothing in particular. " * 40
    await workspace.write("ana", "long.md", f"{filler}\n\nThe zeppelin landed.\n\n{filler}")

    (hit,) = await workspace.search("ana", "zeppelin landed")

    assert "The zeppelin landed." in hit["content"]
    assert hit["chunk"] == 1
    assert hit["score"] == 1.0
    assert hit["is_hybrid_match"] is False


async def test_appending_to_a_long_document_indexes_only_its_end(workspace):
    await workspace.write("ana", "a.md", "Some sentence here.\n" * 1000)
    before = await workspace.search("ana", "sentence", limit=20)
    documents = workspace._started()
    used = documents.user("ana")["next_chunk"]

    await workspace.write("ana", "a.md", "zeppelin", append=True)

    assert documents.user("ana")["next_chunk"] - used <= 2
    assert len(await workspace.search("ana", "sentence", limit=20)) == len(before)
    assert await found(workspace, "zeppelin") == ["a.md"]


async def test_a_document_has_a_greatest_length(workspace):
    await workspace.write("ana", "a.md", "x" * (MAX_DOCUMENT - 10))

    with pytest.raises(InvalidParameters, match="characters long"):
        await workspace.write("ana", "a.md", "y" * 20, append=True)


async def test_texts_that_databases_cannot_keep_are_mended(workspace):
    await workspace.write("ana", "a.md", "a\0b \ud83c\udf75 \udc00 tea")

    assert await workspace.read("ana", "a.md") == "a\ufffdb 🍵 \ufffd tea"
    assert await found(workspace, "🍵") == ["a.md"]


@given(query=st.text(max_size=200), text=st.text(max_size=200))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_no_query_breaks_the_search(workspace, query, text):
    await workspace.write("ana", "a.md", text)

    for asked in (query, f'"{query}"', f"{query}*", f"{query} {text}"):
        assert len(await workspace.search("ana", asked)) <= 1


@pytest.mark.parametrize(
    "query",
    [
        '" OR 1=1 --', "'; DROP TABLE memory_chunks; --", "NEAR(a b, 5)", "path:a", "-tea", "^tea",
        "tea AND OR NOT", "((((", '"""', "tea:*", "a & b | !c <-> d", "\\", "%_%", "*", "{path}: x",
        "\0", "\ud800", "tea" * 5000, " ".join(map(str, range(5000))), '"' * 5000,
    ],
)  # fmt: skip
async def test_hostile_queries_are_only_words(workspace, query):
    await workspace.write("ana", "a.md", "green tea")

    await workspace.search("ana", query)

    assert await workspace.read("ana", "a.md") == "green tea"


# meaning ---------------------------------------------------------------------------------------


class Colours(EmbeddingProvider):
    """Knows three meanings."""

    dimension = 3
    model = "colours"

    def __init__(self):
        self.broken = False
        self.asked = 0

    async def embed(self, texts):
        if self.broken:
            raise HardpointError("the model is away")
        self.asked += len(texts)
        groups = (("sea", "ocean", "blue"), ("blood", "rose", "red"), ("leaf", "grass", "green"))
        return [
            [0.01 + sum(text.lower().count(word) for word in group) for group in groups]
            for text in texts
        ]


@pytest.fixture
async def colours(runtime):
    model = Colours()
    workspace = MemoryWorkspace(model)
    await workspace.start(runtime.services)
    await workspace.write("ana", "sea.md", "The sea was calm.")
    await workspace.write("ana", "rose.md", "A rose on the table.")
    await workspace.write("ana", "leaf.md", "A leaf fell.")
    return workspace, model


async def test_a_model_finds_what_shares_no_word(colours):
    workspace, _ = colours

    hits = await workspace.search("ana", "ocean", limit=1)

    assert [hit["path"] for hit in hits] == ["sea.md"]
    assert hits[0]["is_hybrid_match"] is False


async def test_what_both_find_comes_first_and_says_so(colours):
    workspace, _ = colours
    await workspace.write("ana", "word.md", "Grass, the word for rose in a dream of blood and red.")

    hits = await workspace.search("ana", "rose")

    assert hits[0]["is_hybrid_match"] is True
    assert hits[0]["score"] > hits[-1]["score"]


async def test_a_model_that_is_away_delays_only_the_vectors(colours):
    workspace, model = colours
    model.broken = True
    await workspace.write("ana", "grass.md", "Fresh grass.")

    assert await found(workspace, "fresh") == ["grass.md"]
    model.broken = False

    assert "grass.md" in await found(workspace, "green", limit=2)


async def test_vectors_follow_their_texts(colours):
    workspace, _ = colours
    await workspace.search("ana", "ocean")

    await workspace.write("ana", "sea.md", "Now about grass.")

    assert {"sea.md", "leaf.md"} == set(await found(workspace, "green", limit=2))


@pytest.mark.parametrize("seed", range(3))
async def test_what_one_process_has_in_memory_follows_what_others_write(runtime_at, seed):
    rng = random.Random(seed)
    words = ("sea", "rose", "leaf", "blue", "red", "grass")
    async with runtime_at() as runtime:
        here, there = MemoryWorkspace(Colours()), MemoryWorkspace(Colours())
        for each in (here, there):
            await each.start(runtime.services)
        for number in range(60):
            path, text = f"{rng.randrange(12)}.md", " ".join(rng.choices(words, k=4))
            if rng.random() < 0.04:
                await there.forget("ana")
            else:
                await there.write("ana", path, text, append=rng.random() < 0.3)
            if number % 3:
                continue
            fresh = MemoryWorkspace(Colours())
            await fresh.start(runtime.services)
            for query in ("ocean", "blood", "green"):
                # Equally good ones may change places.
                expected, got = [
                    sorted((hit["path"], hit["content"], hit["chunk"]) for hit in hits)
                    for hits in (
                        await fresh.search("ana", query, limit=20),
                        await here.search("ana", query, limit=20),
                    )
                ]
                assert got == expected


async def test_a_deleted_user_who_comes_back_is_a_new_one(colours, runtime):
    workspace, _ = colours
    assert await found(workspace, "ocean", limit=1) == ["sea.md"]
    await workspace.forget("ana")
    runtime.services.store("memory").execute("DELETE FROM memory_users WHERE user_id = 'ana'")

    for path in ("a.md", "b.md", "c.md"):
        await workspace.write("ana", path, "Grass.")

    assert sorted(await found(workspace, "ocean")) == ["a.md", "b.md", "c.md"]


async def test_vectors_of_another_model_are_made_anew(colours, runtime):
    assert colours
    other = Colours()
    other.model = "other"
    second = MemoryWorkspace(other)
    await second.start(runtime.services)

    assert await found(second, "ocean", limit=1) == ["sea.md"]
    assert other.asked == 4


async def test_everything_of_a_user_can_be_forgotten(colours):
    workspace, _ = colours
    await workspace.write("bob", "b.md", "The sea.")

    assert await workspace.forget("ana") == 3

    assert await workspace.list("ana") == []
    assert await workspace.search("ana", "ocean sea") == []
    assert await found(workspace, "sea", user="bob") == ["b.md"]


async def test_forgotten_words_are_in_no_corner_of_the_index(workspace, place):
    await workspace.write("ana", "a.md", "xyzzyplugh")
    await workspace.write("bob", "b.md", "other")
    await workspace.forget("ana")
    tables = workspace._started().tables

    if "://" in place:
        rows = tables.query("SELECT id FROM memory_index WHERE CAST(words AS text) LIKE '%xyzzy%'")
    else:
        rows = tables.query("SELECT id FROM memory_index_data WHERE instr(block, ?)", (b"xyzzy",))
    assert rows == []
