"""Search words and queries: any text is understood, and nothing in it is syntax."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint_builtin.memory.chunks import CHUNK, OVERLAP, chunks_of
from hardpoint_builtin.memory.words import MAX_TERMS, Term, parse_query, words_of

ANY_TEXT = st.text(st.characters(), max_size=400)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The baker baked; baking!", ["the", "baker", "bak", "bak"]),
        ("Café CRÈME", ["caf", "crem"]),
        ("東京都", ["東京", "京都", "都"]),
        ("Python3入門", ["python3", "入門", "門"]),
        ("tea🍵🍵", ["tea", "🍵", "🍵"]),
        ("👩‍🚀", ["👩", "🚀"]),
        ("ﬁle ＡＢＣ", ["fil", "abc"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("ภาษา", ["ภา", "าษ", "ษา", "า"]),
        ("snake_case-and.dots", ["snak", "cas", "and", "dot"]),
        ("don't", ["don", "t"]),
        ("\0\ud800", []),
        ("", []),
    ],
)
def test_texts_become_words(text, words):
    assert words_of(text) == words


@given(ANY_TEXT)
def test_words_hold_nothing_that_a_database_could_read_as_syntax(text):
    for word in words_of(text):
        assert word
        assert all(unicodedata.category(char)[0] in "LNMS" for char in word)
        assert not set(word) & set("\"'\\*:&|!()<>^-+ ,{}")


@given(ANY_TEXT)
def test_every_text_is_a_query(text):
    query = parse_query(text)

    assert len(query.required) <= MAX_TERMS
    assert len(query.wanted) <= MAX_TERMS
    assert all(term.words for term in query.terms)


@pytest.mark.parametrize(
    ("text", "required", "wanted"),
    [
        ("jasmine tea", [], [Term(("jasmin",)), Term(("tea",))]),
        ("what is the tea", [], [Term(("tea",))]),
        ("who are you", [], [Term(("who",)), Term(("are",)), Term(("you",))]),
        ('"green tea" now', [Term(("green", "tea"))], [Term(("now",))]),
        ('"unclosed phrase', [Term(("unclos", "phras"))], []),
        ("jas*", [], [Term(("jas",), prefix=True)]),
        ("running*", [], [Term(("running",), prefix=True), Term(("run",))]),
        ("東京都", [], [Term(("東京", "京都"))]),
        ("都", [], [Term(("都",), prefix=True)]),
        ('"東京 x"', [Term(("東京", "京", "x"))], []),
        ('* "" \'', [], []),
    ],
)
def test_queries_are_read(text, required, wanted):
    query = parse_query(text)

    assert list(query.required) == required
    assert list(query.wanted) == wanted


@given(st.text(st.sampled_from("ab .\n。!"), max_size=6000))
def test_chunks_cover_the_whole_text_and_overlap(text):
    chunks = chunks_of(text)

    covered = 0
    for chunk in chunks:
        assert text[chunk.start : chunk.start + len(chunk.text)] == chunk.text
        assert 0 < len(chunk.text) <= CHUNK
        assert text[covered : chunk.start].strip() == ""
        assert chunk.start >= covered - OVERLAP
        covered = chunk.start + len(chunk.text)
    assert text[covered:].strip() == ""


@given(st.text(st.sampled_from("word .\n"), max_size=5000), st.text(max_size=50))
def test_appending_leaves_all_but_the_last_chunks_as_they_are(text, more):
    before, after = chunks_of(text), chunks_of(text + more)

    assert after[: max(0, len(before) - 1)] == before[:-1]
