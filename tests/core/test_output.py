import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint import Config, tool
from hardpoint.config import OutputConfig
from hardpoint.context import JobContext
from hardpoint.errors import InvalidParameters
from hardpoint.output.cap import cut
from hardpoint.output.leaks import LeakScanner
from hardpoint.output.results import Results
from hardpoint.output.shelf import MIGRATIONS
from hardpoint.parts import Image, Text, ToolOutput
from hardpoint.store import Store
from hardpoint.testing import make_runtime

ANA = JobContext(user_id="ana")


class Hand:
    """A clock that is moved by hand."""

    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture(params=["memory", "folder", "sqlite", "postgresql"])
def make_results(request, tmp_path):
    places = {"memory": None, "folder": tmp_path / "results", "sqlite": tmp_path}
    there = request.param == "postgresql"
    location = request.getfixturevalue("database") if there else tmp_path
    store = Store(location)
    kept = request.param in ("memory", "folder")

    def make(**options):
        place = places[request.param] if kept else store.namespace("results", MIGRATIONS)
        return Results(place, **options)

    yield make
    store.close()


async def read_all(results, ref, **options):
    pieces, offset = [], 0
    while offset is not None:
        page = await results.read(ref, offset=offset, user="ana", **options)
        pieces.append(page["text"])
        offset = page["next_offset"]
    return "".join(pieces)


# the cut ----------------------------------------------------------------------------------------


def test_a_text_that_fits_is_not_cut():
    assert cut("a" * 100, 100) is None
    assert cut("é" * 50, 100) is None


@given(
    text=st.text(alphabet=st.sampled_from("a\nbéß中𝄞\ud800"), min_size=1, max_size=400),
    cap=st.integers(8, 200),
)
def test_a_cut_falls_between_characters_and_loses_nothing_silently(text, cap):
    data = text.encode("utf-8", "surrogatepass")
    found = cut(text, cap)
    if found is None:
        assert len(data) <= cap
        return
    assert text.startswith(found.head)
    assert text.endswith(found.tail)
    assert found.head_bytes == len(found.head.encode("utf-8", "surrogatepass"))
    kept = found.head_bytes + len(found.tail.encode("utf-8", "surrogatepass"))
    assert kept + found.left_out == found.total == len(data)
    assert kept <= cap + 3


def test_a_cut_prefers_the_end_of_a_line():
    text = "".join(f"line {number}\n" for number in range(1000))

    found = cut(text, 2000)

    assert found.head.endswith("\n")
    assert found.tail.startswith("line ")


# capped outputs ---------------------------------------------------------------------------------


async def test_a_cut_result_names_the_call_that_reads_on(make_results):
    results = make_results()
    text = "".join(f"line {number:05}\n" for number in range(2000))

    capped = await results.cap(
        ToolOutput.text(text), text, max_bytes=2000, context=ANA, call_id="c1"
    )

    shown = capped.output.result
    assert len(shown) < 2400
    assert shown.startswith("line 00000\n")
    assert shown.endswith("line 01999\n")
    offset = int(capped.notice.partition("offset=")[2].partition(")")[0])
    assert f'result_read(result_ref="{capped.result_ref}", offset={offset})' in shown
    page = await results.read(capped.result_ref, offset=offset, max_bytes=100, user="ana")
    assert text[offset:].startswith(page["text"])


async def test_all_pages_together_are_the_whole_result(make_results):
    results = make_results()
    text = "Grüße 中文 𝄞 " * 1000

    capped = await results.cap(ToolOutput.text(text), text, max_bytes=500, context=ANA, call_id="c")

    assert await read_all(results, capped.result_ref, max_bytes=97) == text


async def test_half_a_structure_is_dropped_and_said_so(make_results):
    rows = {"rows": list(range(5000))}
    text = json.dumps(rows)

    capped = await make_results().cap(
        ToolOutput.success(rows), text, max_bytes=1000, context=ANA, call_id="c"
    )

    assert isinstance(capped.output.result, str)
    assert capped.output.structured is False
    assert capped.output.meta["structured_dropped"] is True
    assert "structured result was dropped" in capped.notice


async def test_long_text_parts_are_cut_like_results(make_results):
    image = Image(b"\x89PNG" * 1000)
    output = ToolOutput.text("short").with_parts(Text("x" * 5000), image)

    capped = await make_results().cap(output, "short", max_bytes=1000, context=ANA, call_id="c")

    assert capped.output.result == "short"
    assert len(capped.output.parts[0].text) < 1400
    assert capped.output.parts[1] is image
    assert capped.result_ref is not None


async def test_a_disk_that_is_full_cuts_all_the_same(tmp_path):
    (tmp_path / "file").touch()
    text = "x" * 5000

    capped = await Results(tmp_path / "file" / "results").cap(
        ToolOutput.text(text), text, max_bytes=1000, context=ANA, call_id="c"
    )

    assert capped.result_ref is None
    assert "could not be kept" in capped.output.result


# kept results -----------------------------------------------------------------------------------


async def test_only_the_owner_can_read_and_others_learn_nothing(make_results):
    results = make_results()
    ref = await results.save("private words", context=ANA)

    with pytest.raises(InvalidParameters) as foreign:
        await results.read(ref, user="ben")
    with pytest.raises(InvalidParameters) as absent:
        await results.read("r_" + "A" * 22, user="ben")

    assert foreign.value.message.replace(ref, "") == absent.value.message.replace(
        "r_" + "A" * 22, ""
    )
    assert (await results.read(ref, user="ana"))["text"] == "private words"


@pytest.mark.parametrize(
    "ref", ["", "r_x", "../etc/passwd", "r_" + "/" * 22, "r_" + "A" * 22 + "\n"]
)
async def test_a_reference_that_none_was_given_out_for_is_refused(make_results, ref):
    with pytest.raises(InvalidParameters, match="no result"):
        await make_results().read(ref, user="ana")


async def test_an_offset_outside_of_the_result_is_refused(make_results):
    results = make_results()
    ref = await results.save("ten bytes.", context=ANA)

    assert (await results.read(ref, offset=10, user="ana"))["text"] == ""
    for offset in (11, -1):
        with pytest.raises(InvalidParameters, match="10 bytes"):
            await results.read(ref, offset=offset, user="ana")


async def test_an_offset_inside_a_character_reads_all_of_it(make_results):
    results = make_results()
    ref = await results.save("a中b", context=ANA)

    page = await results.read(ref, offset=2, user="ana")

    assert (page["offset"], page["text"]) == (1, "中b")


async def test_bytes_that_are_no_text_come_as_base64(make_results):
    results = make_results()
    data = bytes(range(256))
    ref = await results.save(data, context=ANA, name="picture", media_type="image/x")

    first = await results.read(ref, max_bytes=200, user="ana")
    second = await results.read(ref, offset=first["next_offset"], user="ana")

    assert base64.b64decode(first["base64"]) + base64.b64decode(second["base64"]) == data
    assert first["name"] == "picture"


async def test_a_result_that_is_too_old_is_gone(make_results):
    clock = Hand()
    results = make_results(keep_seconds=60, clock=clock)
    ref = await results.save("x", context=ANA)

    clock.now += 61
    with pytest.raises(InvalidParameters, match="no result"):
        await results.read(ref, user="ana")
    assert await results.prune() == 1
    assert await results.owned(user="ana") == []


async def test_the_oldest_go_when_all_together_is_too_much(make_results):
    clock = Hand()
    results = make_results(keep_bytes=250, clock=clock)
    refs = []
    for _ in range(4):
        clock.now += 1
        refs.append(await results.save("x" * 100, context=ANA))

    assert [kept.ref for kept in await results.owned(user="ana")] == refs[2:]


async def test_a_result_larger_than_everything_is_kept_in_part_and_says_so(make_results):
    results = make_results(keep_bytes=100)
    ref = await results.save("x" * 500, context=ANA)

    page = await results.read(ref, user="ana")

    assert len(page["text"]) == 100
    assert page["incomplete"]


async def test_saved_text_is_scanned_and_other_bytes_are_left_alone(make_results):
    results = make_results(scanner=LeakScanner({"word": "synthetic-word-1234"}))

    text = await results.save(b"say synthetic-word-1234 now", context=ANA)
    other = await results.save(b"\xff synthetic-word-1234", context=ANA)

    assert "1234" not in (await results.read(text, user="ana"))["text"]
    assert base64.b64decode((await results.read(other, user="ana"))["base64"])[0] == 0xFF


async def test_everything_of_one_user_can_be_forgotten(make_results):
    results = make_results()
    mine = await results.save("mine", context=ANA)
    theirs = await results.save("theirs", context=JobContext(user_id="ben"))

    assert await results.delete(user="ana") == 1

    with pytest.raises(InvalidParameters):
        await results.read(mine, user="ana")
    assert (await results.read(theirs, user="ben"))["text"] == "theirs"


async def test_another_process_reads_what_was_kept_and_nobody_else(tmp_path):
    ref = await Results(tmp_path / "results").save("shared", context=ANA)

    assert (await Results(tmp_path / "results").read(ref, user="ana"))["text"] == "shared"
    assert (tmp_path / "results").stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "results").iterdir()] == [0o600]


async def test_another_runtime_on_the_same_store_reads_on(place, monkeypatch, tmp_path):
    monkeypatch.setenv("HARDPOINT_HOME", str(tmp_path / "home"))
    text = "".join(f"line {number:05}\n" for number in range(3000))

    @tool
    async def long() -> str:
        """Say a lot."""
        return text

    config = Config(store=place, output=OutputConfig(max_bytes=2000))
    async with make_runtime(tools=[long], config=config) as runtime:
        ref = (await runtime.run("long", {}, ANA)).result_ref
    async with make_runtime(config=config) as runtime:
        page = await runtime.call("result_read", {"result_ref": ref, "offset": 1200}, ANA)

    assert page.result["text"].startswith(text[1200:1300])
    files = [path.suffix for path in tmp_path.rglob("*.result")]
    assert files == ([".result"] if place.url is None else [])
