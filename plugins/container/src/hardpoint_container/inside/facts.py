"""What holds inside, by the kernel's account. The host refuses what is weaker than asked."""

from __future__ import annotations

import os
import sys
from typing import Any


def account(root: int) -> dict[str, Any]:
    """Everything that the host compares with what it asked for."""
    status = {}
    for line in read_text("/proc/self/status").splitlines():
        name, _, value = line.partition(":")
        status[name] = value.strip()
    return {
        "pid": os.getpid(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "uid": os.getuid(),
        "gid": os.getgid(),
        "capabilities": int(status.get("CapEff", "0"), 16) | int(status.get("CapBnd", "0"), 16),
        "no_new_privileges": status.get("NoNewPrivs") == "1",
        "seccomp": status.get("Seccomp") == "2",
        "root_read_only": bool(os.statvfs("/").f_flag & os.ST_RDONLY),
        "workspace_writable": os.access(".", os.W_OK, dir_fd=root),
        "interfaces": [
            line.partition(":")[0].strip() for line in read_text("/proc/net/dev").splitlines()[2:]
        ],
        "memory": first_number("memory.max", "memory/memory.limit_in_bytes"),
        "pids": first_number("pids.max", "pids/pids.max"),
        "cpu": cpu_limit(),
    }


def read_text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def first_number(*names: str) -> int | None:
    """The first of these cgroup files that holds a number; None for no limit."""
    for name in names:
        text = read_text("/sys/fs/cgroup/" + name).strip()
        if text.isdigit():
            return int(text)
    return None


def cpu_limit() -> float | None:
    quota, _, period = read_text("/sys/fs/cgroup/cpu.max").strip().partition(" ")
    if not quota:
        quota = read_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").strip()
        period = read_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us").strip()
    if quota.isdigit() and period.isdigit():
        return int(quota) / int(period)
    return None


def oom_kills() -> int:
    """How many processes of this sandbox the kernel has killed for lack of memory."""
    for name in ("memory.events", "memory/memory.oom_control"):
        for line in read_text("/sys/fs/cgroup/" + name).splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def memory_left() -> float:
    """The share of the memory that is free or only caches files."""
    limit = first_number("memory.max", "memory/memory.limit_in_bytes")
    used = first_number("memory.current", "memory/memory.usage_in_bytes")
    if not limit or used is None:
        return 1.0
    cached = 0
    for name in ("memory.stat", "memory/memory.stat"):
        for line in read_text("/sys/fs/cgroup/" + name).splitlines():
            if line.startswith(("inactive_file ", "active_file ")):
                cached += int(line.split()[1])
    return max(0.0, 1 - (used - cached) / limit)
