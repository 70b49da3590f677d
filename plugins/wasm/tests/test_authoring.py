"""`hardpoint wasm new`, `build` and `test`: every template builds and passes its own examples."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import wasmtime
from wasm_guests import builds, wat

from hardpoint import HardpointError
from hardpoint.errors import ConfigError
from hardpoint_wasm.authoring import build, check, create, run_once
from hardpoint_wasm.settings import WasmConfig

LANGUAGES = ("wat", "c", "rust", "zig", "js", "python")


@pytest.fixture
def config(cache_dir: Path) -> WasmConfig:
    return WasmConfig(cache_dir=cache_dir)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_new_tool_builds_and_passes_its_examples(
    tmp_path: Path, config: WasmConfig, language: str
) -> None:
    reason = builds.missing(language)
    if reason is not None:
        pytest.skip(reason)
    folder = create("guest", language, tmp_path)
    (folder / "build").mkdir()
    (folder / "build/guest.wasm").write_bytes(builds.build_project(language))
    shutil.copy(folder / "guest.capabilities.json", folder / "build")

    results = await check(folder, config)

    assert results
    assert [result.detail for result in results if not result.passed] == []


async def test_building_puts_module_and_capabilities_side_by_side(
    tmp_path: Path, config: WasmConfig
) -> None:
    folder = create("my_tool", "wat", tmp_path)

    path = build(folder)

    assert path == folder / "build/my_tool.wasm"
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "my_tool.capabilities.json",
        "my_tool.wasm",
    ]
    output = await run_once(str(path), {"text": "hi"}, config)
    assert output.result == {"you_sent": {"text": "hi"}}


def test_templates_carry_the_name_and_the_world(tmp_path: Path) -> None:
    for language in LANGUAGES:
        folder = create(f"tool-{language}", language, tmp_path)
        texts = [file.read_text() for file in folder.iterdir() if file.is_file()]

        assert "near:agent@0.3.0" in (folder / "wit/tool.wit").read_text()
        assert any(f"tool-{language}" in text for text in texts)
        assert not any("@NAME@" in text or "@SLUG@" in text for text in texts)
        assert not list(folder.glob("*.in"))


@pytest.mark.parametrize("name", ["", "../x", "a b", "-x", "x/y", "a" * 65])
def test_names_that_no_tool_can_have_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(HardpointError):
        create(name, "wat", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_not_touched(tmp_path: Path) -> None:
    create("a", "wat", tmp_path)

    with pytest.raises(HardpointError, match="exists"):
        create("a", "c", tmp_path)
    assert not (tmp_path / "a/tool.c").exists()


def test_source_that_does_not_build_says_where(tmp_path: Path) -> None:
    folder = create("a", "wat", tmp_path)
    (folder / "tool.wat").write_text("(component (import))")

    with pytest.raises(HardpointError, match=r"tool\.wat(.|\n)*expected"):
        build(folder)


@pytest.mark.parametrize("change", ["no source", "two sources", "no capabilities", "nothing"])
def test_a_folder_that_is_no_project_says_what_is_missing(tmp_path: Path, change: str) -> None:
    folder = create("a", "wat", tmp_path)
    if change == "no source":
        (folder / "tool.wat").unlink()
    elif change == "two sources":
        (folder / "tool.c").touch()
    elif change == "no capabilities":
        (folder / "a.capabilities.json").unlink()
    else:
        shutil.rmtree(folder)
        folder.mkdir()

    with pytest.raises(ConfigError, match="must hold"):
        build(folder)


async def test_a_missing_toolchain_is_an_error_with_the_install_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("hardpoint_wasm.toolchains.sys.executable", "/nowhere/python")
    folder = create("a", "js", tmp_path)

    with pytest.raises(ConfigError) as caught:
        build(folder)

    assert "npm install componentize-qjs" in (caught.value.hint or "")


# examples --------------------------------------------------------------------------------------


async def _run_examples(tmp_path: Path, config: WasmConfig, examples: Any) -> Any:
    folder = create("tour", "wat", tmp_path)
    (folder / "build").mkdir()
    (folder / "build/tour.wasm").write_bytes(wasmtime.wat2wasm(wat.tour()))
    asked = {
        "http": {"allowlist": [{"host": "api.example.com"}]},
        "secrets": {"allowed_names": ["*"]},
        "tool_invoke": {"aliases": {"adder": "add"}},
        "workspace": {},
    }
    (folder / "build/tour.capabilities.json").write_text(json.dumps(asked))
    (folder / "tests.json").write_text(json.dumps(examples))
    return await check(folder, config)


ANSWERS = {
    "now": 5,
    "workspace": {"notes/a.txt": "text"},
    "secrets": ["api_key"],
    "tools": {"add": 3},
    "http": {"POST https://api.example.com/v1/x": {"status": 201, "body": "made"}},
}
EXPECTED = {
    "now": True, "document": "text", "missing": None, "secret": True, "no_secret": False,
    "status": 201, "answer": "made", "sum": 3,
    "denied": "the request is not on the allow-list: host 'denied.example.org' is not on the list",
}  # fmt: skip


async def test_an_example_makes_up_what_the_host_answers(
    tmp_path: Path, config: WasmConfig
) -> None:
    [result] = await _run_examples(
        tmp_path, config, [{"name": "tour", "host": ANSWERS, "expect": EXPECTED}]
    )

    assert result.passed, result.detail


async def test_an_example_that_gives_something_else_fails_and_shows_both(
    tmp_path: Path, config: WasmConfig
) -> None:
    results = await _run_examples(
        tmp_path, config, [{"expect": 1}, {"expect_error": "no"}, {"host": ANSWERS, "expect": {}}]
    )

    assert [result.passed for result in results] == [False, False, False]
    assert "expected 1" in results[0].detail
    assert "should have failed" in results[1].detail
    assert '"sum": 3' in results[2].detail


@pytest.mark.parametrize("examples", [{}, [1], [{"expects": 1}], [{"host": {"web": {}}}]])
async def test_examples_that_cannot_be_read_are_an_error(
    tmp_path: Path, config: WasmConfig, examples: Any
) -> None:
    with pytest.raises(ConfigError, match=r"tests\.json"):
        await _run_examples(tmp_path, config, examples)
