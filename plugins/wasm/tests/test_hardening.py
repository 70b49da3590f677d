"""The repairs of the engine's Python layer: tested at first use, refusing to run without them."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest

from hardpoint_wasm import hardening


def _run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("broken", [
    "_func.enter_wasm = None; del _func.enter_wasm",
    "_types.VariantLikeType._lower = None; del _types.VariantLikeType._lower",
])  # fmt: skip
def test_a_library_that_the_repairs_do_not_fit_runs_nothing(broken: str) -> None:
    answer = _run(
        f"""
from wasmtime.component import _func, _types
{broken}
from hardpoint_wasm import hardening
try:
    hardening.ensure()
except Exception as error:
    print(type(error).__name__, error.hint)
"""
    )

    assert "DomainUnavailable" in answer
    assert "wasmtime>=50.0.1,<51" in answer


def test_a_repair_that_does_not_work_is_noticed() -> None:
    answer = _run(
        """
from hardpoint_wasm import hardening
hardening._install()
from wasmtime.component import _types
shipped = _types.ListType.convert_from_c
_types.ListType.convert_from_c = lambda self, c: shipped(self, c)[1:]
hardening._install = lambda: None
try:
    hardening.ensure()
except Exception as error:
    print(error)
"""
    )

    assert "a byte list changed" in answer


def test_a_swallowed_host_exception_is_noticed() -> None:
    answer = _run(
        """
from hardpoint_wasm import hardening
install = hardening._install
from wasmtime.component import _enter, _linker
shipped = _linker.catch_exceptions
def half():
    install()
    _linker.catch_exceptions = shipped
hardening._install = half
try:
    hardening.ensure()
    print("went on")
except Exception as error:
    print(type(error).__name__)
"""
    )

    assert "DomainUnavailable" in answer


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardening, "_ready", False)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "51.0.0")

    with pytest.raises(Exception, match=r"wasmtime 51\.0\.0"):
        hardening.ensure()


def test_byte_lists_go_both_ways_unchanged() -> None:
    hardening.ensure()
    mirror = hardening._mirror()("bytes")

    for size in (0, 1, 255, 65_537):
        data = bytes(n % 251 for n in range(size))
        assert mirror(data) == data


def test_threads_do_not_swap_host_exceptions() -> None:
    hardening.ensure()
    wrong: list[Any] = []

    def work(error: Exception) -> None:
        def fail(value: Any) -> Any:
            raise error

        call = hardening._mirror(fail)("pick")
        for _ in range(100):
            try:
                call(1)
            except Exception as raised:
                if raised is not error:
                    wrong.append(raised)

    errors = (ValueError("a"), KeyError("b"), RuntimeError("c"))
    threads = [threading.Thread(target=work, args=(error,)) for error in errors]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)

    assert not wrong


def test_a_list_longer_than_its_budget_is_refused() -> None:
    class Count:
        size = 11

    with hardening.conversion_budget(20):
        hardening._spend(11)
        with pytest.raises(ValueError, match="too many items"):
            hardening._spend(11)
    hardening._spend(10**9)  # outside of executions nothing is counted
