"""Compiled code on disk: reused when it is ours and unchanged, and run in no other case."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import wasmtime

from hardpoint import SandboxError
from hardpoint_wasm.cache import CodeCache
from hardpoint_wasm.compiler import CompileLimits, Compiler
from hardpoint_wasm.engine import EngineSettings, make_engine

WASM = bytes(wasmtime.wat2wasm('(module (func (export "f") (result i32) (i32.const 41)))'))


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[CodeCache]:
    cache = CodeCache(tmp_path / "code")
    yield cache
    cache.compiler.close()


def _load(cache: CodeCache, settings: EngineSettings = EngineSettings()) -> bytes:  # noqa: B008
    code = cache.load(WASM, settings, "module")
    return Path(code.path).read_bytes()


def _file(cache: CodeCache) -> Path:
    [file] = cache.folder.glob("*.cwasm")
    return file


def test_what_was_compiled_once_is_loaded_and_not_compiled_again(cache: CodeCache) -> None:
    first = _load(cache)
    written = _file(cache).stat().st_mtime_ns

    assert _load(cache) == first
    assert _file(cache).stat().st_mtime_ns == written


def test_compiled_code_runs(cache: CodeCache) -> None:
    engine = make_engine(EngineSettings())
    code = cache.load(WASM, EngineSettings(), "module")
    module = wasmtime.Module.deserialize_file(engine, code.path)
    store = wasmtime.Store(engine)
    store.set_epoch_deadline(1)
    instance = wasmtime.Instance(store, module, [])
    function = instance.exports(store)["f"]

    assert isinstance(function, wasmtime.Func)
    assert function(store) == 41


@pytest.mark.parametrize("place", [0, 100, -1])
def test_a_flipped_byte_is_not_run(cache: CodeCache, place: int) -> None:
    good = _load(cache)
    changed = bytearray(good)
    changed[place] ^= 1
    _file(cache).write_bytes(changed)

    assert _load(cache) == good


def test_code_under_another_name_is_not_run(cache: CodeCache) -> None:
    good = _load(cache)
    file = _file(cache)
    file.write_bytes(b"other code")

    assert _load(cache) == good


def test_a_link_in_place_of_code_is_not_followed(cache: CodeCache, tmp_path: Path) -> None:
    good = _load(cache)
    file, elsewhere = _file(cache), tmp_path / "elsewhere"
    elsewhere.write_bytes(good)
    file.unlink()
    file.symlink_to(elsewhere)

    assert _load(cache) == good
    assert not _file(cache).is_symlink()


def test_code_that_others_can_write_is_not_run(cache: CodeCache) -> None:
    good = _load(cache)
    os.chmod(_file(cache), 0o666)

    assert _load(cache) == good
    assert _file(cache).stat().st_mode & 0o022 == 0


def test_the_folder_and_its_files_belong_to_the_user_alone(cache: CodeCache) -> None:
    cache.folder.mkdir(mode=0o777)
    os.chmod(cache.folder, 0o777)

    _load(cache)

    assert cache.folder.stat().st_mode & 0o077 == 0
    assert _file(cache).stat().st_mode & 0o077 == 0


def test_other_engine_settings_are_another_compilation(cache: CodeCache) -> None:
    _load(cache)

    _load(cache, EngineSettings(fuel=True))

    assert len(list(cache.folder.glob("*.cwasm"))) == 2


def test_an_open_file_survives_its_deletion(cache: CodeCache) -> None:
    code = cache.load(WASM, EngineSettings(), "module")

    _file(cache).unlink()

    assert len(Path(code.path).read_bytes()) == code.size


def test_nothing_else_is_left_behind(cache: CodeCache) -> None:
    _load(cache)
    with pytest.raises(SandboxError):
        cache.load(b"\0asm\1\0\0\0\1", EngineSettings(), "module")

    assert [file.suffix for file in cache.folder.iterdir()] == [".cwasm"]


# compiling is limited --------------------------------------------------------------------------


def _slow_module(functions: int) -> bytes:
    """Compiles for long: many functions with deep expressions."""
    expression = "(local.get 0)"
    for _ in range(300):
        expression = f"(i64.mul (i64.add {expression} (local.get 0)) (i64.const 7))"
    body = f"(func (param i64) (result i64) {expression})"
    return bytes(wasmtime.wat2wasm(f"(module {body * functions})"))


def test_compiling_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    cache = CodeCache(tmp_path, Compiler(CompileLimits(seconds=0.3)))

    with pytest.raises(SandboxError, match=r"longer than 0\.3 s"):
        cache.load(_slow_module(3000), EngineSettings(), "module")


def test_compiling_that_takes_too_much_memory_is_stopped(tmp_path: Path) -> None:
    cache = CodeCache(tmp_path, Compiler(CompileLimits(memory=48 << 20)))

    with pytest.raises(SandboxError, match=r"memory|broke off"):
        cache.load(_slow_module(3000), EngineSettings(), "module")


def test_the_compiler_goes_on_after_a_module_that_was_stopped(tmp_path: Path) -> None:
    compiler = Compiler(CompileLimits(seconds=0.3))
    with pytest.raises(SandboxError):
        CodeCache(tmp_path, compiler).load(_slow_module(3000), EngineSettings(), "module")
    patient = CodeCache(tmp_path, Compiler())

    assert patient.load(WASM, EngineSettings(), "module").size > 0
    compiler.close()


def test_a_compiler_that_was_killed_is_started_again(tmp_path: Path) -> None:
    compiler = Compiler()
    cache = CodeCache(tmp_path, compiler)
    _load(cache)
    assert compiler._helper is not None
    compiler._helper.kill()
    compiler._helper.wait()

    assert cache.load(WASM, EngineSettings(fuel=True), "module").size > 0
