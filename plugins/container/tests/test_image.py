"""The image that is made of this machine's packages."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

import pytest

from hardpoint_container import image

pytestmark = pytest.mark.skipif(
    not image.can_build_from_packages(), reason="needs a machine with Debian packages"
)


def test_the_same_packages_give_the_same_bytes(tmp_path: Path) -> None:
    sums = set()
    for name in ("one", "two"):
        image.compose(tmp_path / name)
        sums.add(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())

    assert len(sums) == 1


def test_it_holds_programs_and_nothing_of_the_hosts_settings(tmp_path: Path) -> None:
    image.compose(tmp_path / "root.tar")

    with tarfile.open(tmp_path / "root.tar") as archive:
        members = {member.name: member for member in archive}
    for program in ("sh", "bash", "python3", "sed", "tar"):
        assert f"usr/bin/{program}" in members
    of_etc = {name for name in members if name.startswith("etc/")}
    assert of_etc <= {
        *("etc/passwd", "etc/group", "etc/nsswitch.conf", "etc/os-release"),
        "etc/ssl/certs/ca-certificates.crt",
    }
    assert not [m.name for m in members.values() if m.mode & 0o6000]
    assert {(m.uid, m.gid, m.mtime) for m in members.values()} == {(0, 0, 0)}
    assert not [name for name in members if name.startswith(("home", "root/", "var/lib"))]
