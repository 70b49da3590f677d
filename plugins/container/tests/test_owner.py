"""Which process a sandbox belongs to."""

from __future__ import annotations

import os
import subprocess
import sys

from hardpoint_container.owner import is_alive, my_mark


def test_this_process_is_alive() -> None:
    assert is_alive(my_mark())


def test_an_ended_process_is_not() -> None:
    code = "from hardpoint_container.owner import my_mark; print(my_mark())"
    mark = subprocess.check_output([sys.executable, "-c", code], text=True).strip()

    assert not is_alive(mark)


def test_another_process_with_the_same_number_is_not() -> None:
    boot, namespace, pid, _ = my_mark().split(":")

    assert pid == str(os.getpid())
    assert not is_alive(f"{boot}:{namespace}:{pid}:1")


def test_another_boot_is_gone_and_nonsense_too() -> None:
    assert not is_alive("another-boot:1:1:1")
    assert not is_alive("")
    assert not is_alive("a:b:c:d")
