"""What the command line costs before it does anything, beside an interpreter that does nothing."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROUNDS = 7


def cpu_seconds(command: Sequence[str], env: dict[str, str]) -> float:
    """The least processor time of several runs; other programs on the machine do not count."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise RuntimeError(f"{command} ended {done.returncode}")
        spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        best = min(best, spent)
    return best


def startup() -> dict[str, float]:
    """Seconds of `python -c pass` and of commands with all installed plugins."""
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HARDPOINT_HOME": home, "NO_COLOR": "1"}
        hardpoint = str(Path(sys.executable).parent / "hardpoint")
        figures = {"python -c pass": cpu_seconds([sys.executable, "-c", "pass"], env)}
        figures["hardpoint --version"] = cpu_seconds([hardpoint, "--version"], env)
        cold = float("inf")
        for _ in range(3):
            shutil.rmtree(Path(home) / "cache", ignore_errors=True)
            cold = min(cold, _once([hardpoint, "tools", "list"], env))
        figures["hardpoint tools list, cached"] = cpu_seconds([hardpoint, "tools", "list"], env)
        figures["hardpoint tools list, cold"] = cold
    return figures


def _once(command: Sequence[str], env: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    for name, seconds in startup().items():
        print(f"{name:35} {seconds * 1e3:8.1f} ms")
