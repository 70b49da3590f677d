"""Eight processes and one limit: exactly the limit passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

HAMMER = Path(__file__).with_name("hammer.py")
PROCESSES, CALLS, LIMIT = 8, 2000, 777


def test_eight_processes_hammering_pass_exactly_the_limit(server: Any) -> None:
    command = [sys.executable, str(HAMMER), str(server.socket), str(CALLS), str(LIMIT)]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)
    ]
    reports = [process.communicate(timeout=100)[0].split() for process in running]

    assert [process.returncode for process in running] == [0] * PROCESSES
    assert sum(int(ran) for ran, _ in reports) == LIMIT
    assert sum(int(ran) + int(limited) for ran, limited in reports) == PROCESSES * CALLS
