"""How often the right passage is among the first five; the documentation tells what it was."""

import json
from pathlib import Path

import pytest

from hardpoint_builtin import MemoryWorkspace

DATA = json.loads((Path(__file__).parent / "data" / "fables.json").read_text("utf-8"))
QUESTIONS = DATA["questions"]


async def hits_at_5(runtime, embeddings, kind):
    workspace = MemoryWorkspace(embeddings)
    await workspace.start(runtime.services)
    for name, text in DATA["fables"].items():
        await workspace.write("ana", f"fables/{name}.md", text)
    right = 0
    for question, name in QUESTIONS[kind]:
        hits = await workspace.search("ana", question, limit=5)
        right += f"fables/{name}.md" in [hit["path"] for hit in hits]
    return right


def test_every_question_has_its_fable():
    for kind in QUESTIONS:
        assert {name for _, name in QUESTIONS[kind]} <= DATA["fables"].keys()


async def test_words_find_what_is_asked_for_in_its_own_words(runtime_at):
    async with runtime_at() as runtime:
        assert await hits_at_5(runtime, "none", "words") == 20


async def test_choosing_by_signs_finds_what_comparing_everything_finds(runtime_at):
    np = pytest.importorskip("numpy")
    pytest.importorskip("safetensors")
    pytest.importorskip("tokenizers")
    from hardpoint_builtin.embeddings.local import LocalEmbeddings
    from hardpoint_builtin.memory.vectors import RESCORED_AT_LEAST, Vectors

    model = LocalEmbeddings()
    words = " ".join(DATA["fables"].values()).split()
    sizes = (15, 25, 40, 60)
    texts = [" ".join(words[at : at + n]) for n in sizes for at in range(len(words) - n)]
    assert len(texts) > 2 * RESCORED_AT_LEAST
    made = np.array(await model.embed(texts), dtype=np.float32)
    questions = [question for kind in QUESTIONS.values() for question, _ in kind]
    wanted = await model.embed(questions)
    async with runtime_at() as runtime:
        workspace = MemoryWorkspace(model)
        await workspace.start(runtime.services)
        await workspace.write("ana", "a.md", "x")
        tables = runtime.services.store("memory")
        whole, chosen = Vectors(tables), Vectors(tables, exact_numbers=0)
        with tables.transaction() as transaction:
            whole.put(transaction, "ana", "m", range(len(texts)), made)
        same = 0
        for each in wanted:
            expected, got = (v.search("ana", "m", each, 5) for v in (whole, chosen))
            same += len({chunk for chunk, _ in expected} & {chunk for chunk, _ in got})

    assert same >= 0.98 * 5 * len(wanted)


@pytest.mark.parametrize("at_once", [True, False])
async def test_vectors_that_all_point_one_way_are_told_apart_by_signs(runtime_at, at_once):
    np = pytest.importorskip("numpy")
    from hardpoint_builtin.memory.vectors import RESCORED_AT_LEAST, Vectors

    some = np.random.default_rng(7)
    made = some.random((5 * RESCORED_AT_LEAST, 32), dtype=np.float32) + 1
    parts = [(0, len(made))] if at_once else [(0, 10), (10, 300), (300, 9000), (9000, len(made))]
    async with runtime_at() as runtime:
        workspace = MemoryWorkspace(None)
        await workspace.start(runtime.services)
        await workspace.write("ana", "a.md", "x")
        tables = runtime.services.store("memory")
        chosen = Vectors(tables, exact_numbers=0)
        for first, end in parts:
            with tables.transaction() as transaction:
                chosen.put(transaction, "ana", "m", range(first, end), made[first:end])
                rows = transaction.query(
                    "UPDATE memory_users SET version = version + 1 RETURNING version", ()
                )
                chosen.note_changes(transaction, "ana", rows[0]["version"], range(first, end))
            chosen.search("ana", "m", made[0], 1)
        wanted = range(0, len(made), 100)
        found = [chosen.search("ana", "m", made[at], 1)[0][0] for at in wanted]

    assert found == list(wanted)


async def test_a_small_local_model_finds_more_by_meaning(runtime_at):
    pytest.importorskip("numpy")
    pytest.importorskip("safetensors")
    pytest.importorskip("tokenizers")
    from hardpoint_builtin.embeddings.local import LocalEmbeddings

    async with runtime_at() as runtime:
        words = await hits_at_5(runtime, "none", "meaning")
        hybrid = await hits_at_5(runtime, LocalEmbeddings(), "meaning")
        still = await hits_at_5(runtime, LocalEmbeddings(), "words")

    assert hybrid >= 2 * words
    assert still == 20
