"""Build the sandbox image: from this machine's Debian packages, a Containerfile, or a pinned base.

The first needs no network and no root: it copies what the packages installed, never configuration
from /etc, and gives the same image for the same packages.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Final, Protocol

from hardpoint.errors import ExecutionFailed
from hardpoint_container.config import ContainerConfig

BASE_IMAGE: Final = (
    "docker.io/library/debian:trixie-slim"
    "@sha256:a29215f6a35e51e22adffa17f89e9d2ef06214e64a2bad10d765c46aea49f11f"
)
"""A manifest list: one digest for every architecture. Change it by hand, with a reason."""

PACKAGES: Final = (
    *("base-files", "bash", "bzip2", "ca-certificates", "coreutils", "dash", "diffutils", "file"),
    *(
        "findutils",
        "gawk",
        "git",
        "grep",
        "gzip",
        "hostname",
        "jq",
        "less",
        "make",
        "mawk",
        "patch",
    ),
    *(
        "debianutils",
        "procps",
        "python3",
        "ripgrep",
        "sed",
        "tar",
        "tzdata",
        "unzip",
        "util-linux",
        "xz-utils",
    ),
)
NEEDED: Final = {"git": "git", "patch": "patch", "rg": "ripgrep", "jq": "jq"}
"""Programs that the tools and their users expect, and the package of each."""

# Only for maintaining packages, or heavy without use in a sandbox.
_LEFT_OUT: Final = frozenset(
    {
        *("perl", "perl-base", "dpkg", "debconf", "debconf-2.0", "git-man", "install-info"),
        *("systemd", "openssl"),
    }
)
_KEPT: Final = re.compile(r"/(usr|bin|sbin|lib|lib32|lib64)(/|$)")
_DROPPED: Final = re.compile(
    r"/usr/share/(doc|man|info|locale|lintian|bash-completion|bug|perl|gitweb|menu|pixmaps)(/|$)"
    r"|/__pycache__|\.pyc$|/(test|tests|idlelib|tkinter|ensurepip)/"
)
_MERGED: Final = ("bin", "sbin", "lib", "lib32", "lib64")
_ALTERNATIVES: Final = (("usr/bin/awk", ("gawk", "mawk")), ("usr/bin/sh", ("dash", "bash")))
_FILES: Final = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nsandbox:x:1000:1000::/workspace:/bin/sh\n"
    "nobody:x:65534:65534::/:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
_FOLDERS: Final = {
    "tmp": 0o1777,
    "var/tmp": 0o1777,
    "workspace": 0o1777,  # an empty one in memory takes its mode from here
    "proc": 0o555,
    "sys": 0o555,
    "dev": 0o755,
    "run/hardpoint": 0o755,
    "root": 0o755,
}


class Builder(Protocol):
    """What builds an image."""

    config: ContainerConfig

    async def run(
        self, *arguments: str, check: bool = True, timeout: float = 60.0
    ) -> tuple[int, str, str]: ...

    async def inspect_image(self) -> str | None: ...

    def forget_image(self) -> None: ...


def can_build_from_packages() -> bool:
    """Whether this is a Debian-like machine with what every sandbox needs."""
    needed = ("dpkg-query", "dpkg", "bash")
    return all(map(shutil.which, needed)) and os.path.exists("/usr/bin/python3")


def missing_programs() -> dict[str, str]:
    """Programs that an image from this machine would lack, and their packages."""
    return {
        program: package
        for program, package in NEEDED.items()
        if not os.path.exists(f"/usr/bin/{program}")
    }


async def build_from_packages(engine: Builder) -> str:
    """Build the default image from the packages of this machine; its id."""
    with tempfile.TemporaryDirectory(prefix="hardpoint-image-") as folder:
        root = Path(folder)
        await asyncio.to_thread(compose, root / "rootfs.tar")
        (root / "Containerfile").write_text(containerfile("packages"), encoding="utf-8")
        return await _build(engine, root, root / "Containerfile", network="none")


async def build_from_base(engine: Builder) -> str:
    """Build the default image from the pinned public base. Needs the network."""
    with tempfile.TemporaryDirectory(prefix="hardpoint-image-") as folder:
        root = Path(folder)
        (root / "Containerfile").write_text(containerfile("base"), encoding="utf-8")
        return await _build(engine, root, root / "Containerfile", network=None)


async def build_from_containerfile(engine: Builder, path: Path) -> str:
    """Build the configured image from a file of the user."""
    return await _build(engine, path.resolve().parent, path.resolve(), network=None)


async def _build(engine: Builder, context: Path, recipe: Path, network: str | None) -> str:
    options = [f"--tag={engine.config.image}", f"--file={recipe}", "--quiet"]
    # One time stamp for all layers gives the same digest for the same content.
    options += ["--timestamp=0", "--no-cache"]
    if network is not None:
        options += [f"--network={network}", "--pull=never"]
    code, _, said = await engine.run("build", *options, str(context), check=False, timeout=1800)
    if code != 0:
        raise ExecutionFailed(f"building {engine.config.image} failed: {said[-1000:]}")
    engine.forget_image()
    return await engine.inspect_image() or ""


def containerfile(kind: str) -> str:
    """The recipe: `packages` or `base`."""
    text = (
        files("hardpoint_container").joinpath(f"Containerfile.{kind}").read_text(encoding="utf-8")
    )
    return text.replace("@BASE@", BASE_IMAGE).replace("@PACKAGES@", " ".join(PACKAGES))


# composing -------------------------------------------------------------------------------------


def compose(target: Path, packages: Iterable[str] = PACKAGES) -> int:
    """Write a root file system as a tar archive, byte for byte the same for the same files.

    Returns:
        The number of packages in it.
    """
    chosen = _closure(packages)
    paths: set[str] = set()
    for package in sorted(chosen):
        paths.update(_dpkg("dpkg", "-L", package).splitlines())
    with tarfile.open(target, "w") as archive:
        names: set[str] = set()
        for name in _MERGED:
            _add_link(archive, names, name, f"usr/{name}")
        kept = {
            _inside(path): path
            for path in sorted(paths)
            if _KEPT.match(path)
            and path.strip("/") not in _MERGED
            and not _DROPPED.search(path)
            and os.path.lexists(path)
        }
        for name in sorted(kept):  # folders before what is in them
            _add_folder(archive, names, name.rpartition("/")[0])
            _add_path(archive, names, kept[name], name)
        for name, choices in _ALTERNATIVES:
            for choice in choices:
                if f"usr/bin/{choice}" in names:
                    _add_link(archive, names, name, choice)
                    break
        bundle = "/etc/ssl/certs/ca-certificates.crt"
        if os.path.exists(bundle):
            _add_path(archive, names, bundle, bundle.strip("/"))
        _add_link(archive, names, "etc/os-release", "../usr/lib/os-release")
        for name, text in _FILES.items():
            _add_text(archive, names, name, text)
        for name, mode in _FOLDERS.items():
            _add_folder(archive, names, name, mode)
    return len(chosen)


def _closure(packages: Iterable[str]) -> set[str]:
    """The installed packages among these, and what they depend on."""
    installed = _installed()
    seen: set[str] = set()
    todo = list(packages)
    while todo:
        name = todo.pop()
        if name in seen or name in _LEFT_OUT or name not in installed:
            continue
        seen.add(name)
        for dependency in re.split(r"[,|]", installed[name]):
            todo.append(dependency.partition("(")[0].partition(":")[0].strip())
    return seen


def _installed() -> dict[str, str]:
    """Every installed package with what it depends on."""
    out = _dpkg("dpkg-query", "-W", "-f", "${Package}|${Status}|${Pre-Depends},${Depends}\\n")
    found = {}
    for line in out.splitlines():
        name, status, depends = line.split("|", 2)
        if status.endswith("ok installed"):
            found[name] = depends
    return found


def _dpkg(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _fresh(names: set[str], name: str) -> bool:
    if name in names:
        return False
    names.add(name)
    return True


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    info.mode &= ~0o6000  # no setuid, no setgid
    return info


def _inside(path: str) -> str:
    # /bin and its like are links into /usr in the image, also where they are not on this machine.
    return re.sub(r"^/(bin|sbin|lib|lib32|lib64)(/|$)", r"/usr/\1\2", path).strip("/")


def _add_path(archive: tarfile.TarFile, names: set[str], path: str, inside: str) -> None:
    if not _fresh(names, inside):
        return
    info = _plain(archive.gettarinfo(path, arcname=inside))
    if info.isreg() or info.islnk():
        info.type, info.linkname = tarfile.REGTYPE, ""
        info.size = os.stat(path).st_size
        with open(path, "rb") as file:
            archive.addfile(info, file)
    elif info.isdir() or info.issym():
        archive.addfile(info)


def _add_link(archive: tarfile.TarFile, names: set[str], name: str, target: str) -> None:
    if _fresh(names, name):
        info = tarfile.TarInfo(name)
        info.type, info.linkname = tarfile.SYMTYPE, target
        archive.addfile(info)


def _add_text(archive: tarfile.TarFile, names: set[str], name: str, text: str) -> None:
    if _fresh(names, name):
        info = tarfile.TarInfo(name)
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text.encode()))


def _add_folder(archive: tarfile.TarFile, names: set[str], name: str, mode: int = 0o755) -> None:
    if name and _fresh(names, name):
        info = tarfile.TarInfo(name)
        info.type, info.mode = tarfile.DIRTYPE, mode
        archive.addfile(info)
