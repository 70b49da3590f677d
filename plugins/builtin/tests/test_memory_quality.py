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
