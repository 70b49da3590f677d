"""What a path in the workspace means, and which paths file tools leave alone.

Reads the host only. The answer is a path without links and dots; the sandbox later opens exactly
that, without following anything, so a link swapped in after this check is refused.
"""

from __future__ import annotations

import itertools
import os
import stat
import unicodedata
from pathlib import Path
from typing import Final, Literal

import attrs

from hardpoint.errors import InvalidParameters, NotAuthorized, SandboxError
from hardpoint_container.config import WORKSPACE

Operation = Literal["read", "write", "list", "search"]
"""`search` reads a file, or everything below a folder."""

LINKS: Final = 40
LONGEST_NAME: Final = 255
LONGEST_PATH: Final = 4096

_SECRET_FOLDERS: Final = frozenset(
    {
        *(".ssh", ".aws", ".azure", ".docker", ".kube", ".gnupg", ".gcloud"),
        *(".password-store", ".terraform.d"),
    }
)
_SECRET_PAIRS: Final = frozenset({(".config", "gh"), (".config", "gcloud"), (".config", "hub")})
_SECRET_NAMES: Final = frozenset(
    {
        *("id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", "id_ecdsa_sk", "id_ed25519_sk"),
        *("authorized_keys", "known_hosts", ".git-credentials", ".vault-token", ".htpasswd"),
        *(".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc", ".pypirc"),
        *(".bash_history", ".zsh_history", ".sh_history", ".ash_history", ".ksh_history"),
        *(".fish_history", ".histfile", ".history", ".python_history", ".node_repl_history"),
        *(".psql_history", ".mysql_history", ".sqlite_history", ".rediscli_history"),
        ".irb_history",
    }
)
_SECRET_SUFFIXES: Final = (".pem", ".key", ".p12", ".pfx", ".jks", ".keystore")
_ENV_SAMPLES: Final = (".example", ".sample", ".template", ".dist")
_OWN_FOLDER: Final = ".hardpoint"
_GIT_RUNS: Final = frozenset({"config", "config.worktree", "hooks"})


@attrs.frozen
class Resolved:
    """A path that was looked at."""

    path: str
    """Relative to the workspace, with `/`; `.` is the workspace itself."""
    kind: Literal["file", "folder", "missing"]


def resolve(workspace: Path, path: str, operation: Operation) -> Resolved:
    """Follow a path on the host and judge it.

    Raises:
        InvalidParameters: It is no path, or not one that this operation can work on.
        NotAuthorized: It leaves the workspace, or is a file that is left alone.
        SandboxError: Somebody changes it at this very moment.
    """
    try:
        return _resolve(workspace.resolve(), path, operation)
    except OSError as error:
        raise SandboxError(f"{path!r} could not be checked: {error.strerror}") from None


def _resolve(root: Path, path: str, operation: Operation) -> Resolved:
    if path == "" and operation in ("list", "search"):
        path = "."
    _check_text(path)
    given = _relative_parts(root, path)
    found = _follow(root, given, path)
    # A link's own name counts as much as what it leads to.
    for parts in (found.parts, _without_dots(given)):
        _check_rules(parts, path, operation)
    resolved = "/".join(found.parts) or "."
    if found.mode is None:
        if operation == "write" and path.endswith("/"):
            raise InvalidParameters(f"{path!r} names a folder, not a file")
        return Resolved(resolved, "missing")
    if operation == "search" and stat.S_ISDIR(found.mode):
        return Resolved(resolved, "folder")
    if operation == "list":
        if not stat.S_ISDIR(found.mode):
            raise InvalidParameters(f"{path!r} is {_describe(found.mode)}, not a folder")
        return Resolved(resolved, "folder")
    if not stat.S_ISREG(found.mode) or path.endswith("/"):
        raise InvalidParameters(
            f"{path!r} is {_describe(found.mode)}, not a file"
            if not stat.S_ISREG(found.mode)
            else f"{path!r} names a folder and is a file"
        )
    if operation in ("read", "search") and found.links > 1:
        _check_other_names(root, root.joinpath(*found.parts), path)
    return Resolved(resolved, "file")


# reading the host --------------------------------------------------------------------------------


@attrs.frozen
class _Followed:
    parts: list[str]
    mode: int | None
    """None when nothing is there."""
    links: int = 1


def _check_text(path: str) -> None:
    if not path:
        raise InvalidParameters("the path is empty")
    if "\0" in path:
        raise InvalidParameters("the path contains a NUL character")
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        raise InvalidParameters("the path is not valid Unicode text") from None
    if len(encoded) > LONGEST_PATH:
        raise InvalidParameters(f"the path is longer than {LONGEST_PATH} bytes")
    if any(len(part.encode()) > LONGEST_NAME for part in path.split("/")):
        raise InvalidParameters(f"a name in the path is longer than {LONGEST_NAME} bytes")


def _relative_parts(root: Path, path: str) -> list[str]:
    """The parts below the workspace, given as /workspace or by its place on the host."""
    if not path.startswith("/"):
        return path.split("/")
    for prefix in (str(root), WORKSPACE):
        if path == prefix or path.startswith(prefix.rstrip("/") + "/"):
            return path[len(prefix) :].split("/")
    raise NotAuthorized(
        f"{path!r} is outside the workspace", hint="use a path relative to the workspace"
    )


def _follow(root: Path, parts: list[str], path: str) -> _Followed:
    """Resolve dots and links one name at a time, as the kernel would, but never above the root."""
    done: list[str] = []
    todo = parts[::-1]
    links, status = LINKS, os.lstat(root)
    while todo:
        name = todo.pop()
        if name in ("", "."):
            continue
        if name == "..":
            if not done:
                raise NotAuthorized(f"{path!r} leaves the workspace")
            done.pop()
            status = os.lstat(root.joinpath(*done))
            continue
        try:
            status = os.lstat(root.joinpath(*done, name))
        except FileNotFoundError:
            if ".." in todo:
                # Dots below something that is not there are taken as text, and looked at anew.
                return _follow(root, _without_dots([*done, name, *todo[::-1]], path), path)
            rest = [part for part in todo[::-1] if part not in ("", ".")]
            return _Followed([*done, name, *rest], None)
        except NotADirectoryError:
            raise InvalidParameters(f"{path!r}: {'/'.join(done)!r} is not a folder") from None
        except OSError as error:
            raise InvalidParameters(f"{path!r}: {error.strerror}") from None
        if not stat.S_ISLNK(status.st_mode):
            done.append(name)
            continue
        links -= 1
        if links < 0:
            raise InvalidParameters(f"{path!r} passes through too many links")
        target = os.readlink(root.joinpath(*done, name))
        if target.startswith("/"):
            try:
                rest = _relative_parts(root, target)
            except NotAuthorized:
                raise NotAuthorized(f"{path!r} is a link to outside the workspace") from None
            done.clear()
            status = os.lstat(root)
        else:
            rest = target.split("/")
            status = os.lstat(root.joinpath(*done))
        todo += rest[::-1]
    return _Followed(done, status.st_mode, status.st_nlink)


def _without_dots(parts: list[str], path: str = "") -> list[str]:
    done: list[str] = []
    for part in parts:
        if part == "..":
            if not done:
                raise NotAuthorized(f"{path!r} leaves the workspace")
            done.pop()
        elif part not in ("", "."):
            done.append(part)
    return done


def _check_other_names(root: Path, file: Path, path: str) -> None:
    """Refuse a file that has another name in the workspace which is left alone."""
    wanted = os.lstat(file)
    looked = 0
    for folder, folders, names in os.walk(root):
        for name in names:
            parts = [*Path(folder).relative_to(root).parts, name]
            if is_sensitive(parts):
                try:
                    found = os.lstat(os.path.join(folder, name))
                except OSError:
                    continue
                if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                    raise _sensitive(path)
        looked += len(names) + len(folders)
        if looked > 50_000:
            return


def _describe(mode: int) -> str:
    kinds = (
        (stat.S_ISREG, "a file"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((text for test, text in kinds if test(mode)), "a device")


# rules -------------------------------------------------------------------------------------------


def _check_rules(parts: list[str], path: str, operation: Operation) -> None:
    if operation != "list" and is_sensitive(parts):
        raise _sensitive(path)
    if operation == "write" and is_protected(parts):
        raise NotAuthorized(
            f"{path!r} can make programs run and is not written by tools",
            hint="ask the user to change it, or use git itself",
        )


def _sensitive(path: str) -> NotAuthorized:
    return NotAuthorized(
        f"{path!r} usually holds secrets and is left alone",
        hint="ask the user for what you need from it; a .env.example can be read",
    )


def is_sensitive(parts: list[str]) -> bool:
    """Whether a path names a file that usually holds secrets, under any spelling."""
    folded = [_fold(part) for part in parts]
    if not folded:
        return False
    if _SECRET_FOLDERS.intersection(folded):
        return True
    if any(pair in _SECRET_PAIRS for pair in itertools.pairwise(folded)):
        return True
    name = folded[-1]
    if name == ".env" or (name.startswith(".env.") and not name.endswith(_ENV_SAMPLES)):
        return True
    return name in _SECRET_NAMES or name.endswith(_SECRET_SUFFIXES)


def is_protected(parts: list[str]) -> bool:
    """Whether writing a path could make git or Hardpoint run something."""
    folded = [_fold(part) for part in parts]
    if _OWN_FOLDER in folded or (folded and folded[-1] == ".git"):
        return True
    if ".git" not in folded:
        return False
    below = folded[folded.index(".git") + 1 :]
    if below[:1] == ["modules"] or below[:1] == ["worktrees"]:
        return bool(_GIT_RUNS & set(below[1:]))
    return bool(below) and below[0] in _GIT_RUNS


def _fold(name: str) -> str:
    """One spelling of names that some file systems take for the same."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(char for char in plain if unicodedata.category(char) != "Cf").rstrip(" .")
