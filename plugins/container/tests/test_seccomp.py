"""The list of system calls."""

from __future__ import annotations

import json
from pathlib import Path

from hardpoint_container.seccomp import ALLOWED, REFUSED, profile, write_profile


def test_no_call_is_both_allowed_and_refused() -> None:
    allowed = {name for names in ALLOWED.values() for name in names.split()}

    assert not allowed & set(REFUSED.split())


def test_calls_with_conditions_are_never_allowed_without_one() -> None:
    plain = {
        name
        for rule in profile()["syscalls"]
        if rule["action"] == "SCMP_ACT_ALLOW" and "args" not in rule
        for name in rule["names"]
    }

    assert not plain & {"clone", "clone3", "socket", "personality", "ioctl", "unshare", "ptrace"}


def test_the_file_is_written_once_and_again_when_it_was_changed(tmp_path: Path) -> None:
    path = write_profile(tmp_path)
    written = path.stat().st_mtime_ns
    assert write_profile(tmp_path).stat().st_mtime_ns == written

    path.write_text("{}")
    write_profile(tmp_path)

    assert json.loads(path.read_text()) == profile()
