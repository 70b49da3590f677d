"""Which paths are the root, a home, a system folder, a device or a place that grants something.

Paths are compared as text, whatever exists: a command line is judged before it runs, elsewhere.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from typing import Final, Literal

from hardpoint.subjects.command.finding import Finding, ask, refuse
from hardpoint.subjects.command.words import HOLE, Word

_SYSTEM: Final = (
    "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "proc", "root", "run", "sbin",
    "sys", "usr", "var", "Applications", "Library", "System", "Users",
)  # fmt: skip
_HOME_VARIABLES: Final = frozenset({"HOME", "USERPROFILE"})

_HARMLESS_DEVICE: Final = re.compile(
    r"/dev/(?:null|zero|full|u?random|tty|stdin|stdout|stderr|ptmx|fd/\d+|pts/\d+|shm/.+|log)"
)
_NETWORK_DEVICE: Final = re.compile(r"/dev/(?:tcp|udp)/")
_STORAGE: Final = re.compile(
    r"/dev/(?:[shv]d|xvd|nvme|mmcblk|loop|dm-|md|sr|sg|nbd|z?ram|disk|rdisk|mapper|block|mtd|fd\d"
    r"|bcache|rbd|drbd|pmem|dasd|ubi|cciss|mem$|kmem$|port$|nvram$|vg|\[|\?|\*)",
    re.IGNORECASE,
)
_GRANTING: Final = re.compile(
    r"""(?:^|/)(?:
        \.(?:ssh|gnupg|aws|azure|kube|docker)(?:/|$)
      | \.(?:bash|zsh|k?sh|c?sh|tc)(?:rc|env|_profile|_login|_logout|_history|history)$
      | \.(?:profile|zprofile|zlogin|login|xinitrc|xprofile|inputrc|vimrc|exrc|emacs|gitconfig|netrc
          |npmrc|pypirc|pam_environment|forward|rhosts|shosts|git-credentials|pgpass|psqlrc
          |python_history|mysql_history|psql_history|lesskey|curlrc|wgetrc)$
      | \.config/(?:autostart|systemd|fish|git|gh|gcloud)(?:/|$)
      | \.git/(?:hooks|config)(?:/|$)
      | Launch(?:Agents|Daemons)(?:/|$)
      | authorized_keys2?$
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_SYSTEM_FILE: Final = re.compile(
    r"/(?:etc|usr|bin|sbin|lib\d*|boot|sys|proc|root|var/(?:spool|log|lib)|Library|System)(?:/|$)"
)

Target = Literal["root", "home", "system"]


def normalise(word: Word) -> str:
    """The path without doubled separators and dot segments; `~` for the home directory."""
    text = word.text
    if word.variables and word.variables[0] in _HOME_VARIABLES and text.startswith(HOLE):
        text = "~" + text[1:]
    elif text.startswith("~") and not word.tilde:
        text = "./" + text
    if not text:
        return text
    path = posixpath.normpath(text)
    return path[1:] if path.startswith("//") else path


def deletion_target(word: Word) -> Target | None:
    """Whether deleting this tree would take the root, a home or a system folder with it."""
    path = normalise(word)
    if path == "~" or (re.fullmatch(r"~[^/]*", path) and word.tilde):
        return "home"
    if re.fullmatch(r"~/(?:\.?\*|\.\?\?\*|\.\[.*\]\*)+", path) and word.glob:
        return "home"
    if not path.startswith("/"):
        return None
    parts = path.strip("/").split("/")
    if path == "/":
        return "root"
    if not all(re.fullmatch(r"[*?.\[\]!^]*|\[.*\]\*?", part) for part in parts[1:]):
        return None
    first = parts[0]
    if word.glob and re.search(r"[*?\[]", first):
        hits = [name for name in _SYSTEM if fnmatch.fnmatchcase(name, first)]
        if len(hits) > 4 or first.startswith("."):
            return "root"
        return "system" if hits else None
    return "system" if first in _SYSTEM else None


def writing(word: Word) -> Finding | None:
    """What is wrong with writing to this place, if anything."""
    path = normalise(word)
    if path.startswith("/dev/"):
        if _HARMLESS_DEVICE.fullmatch(path) and ".." not in word.text:
            return None
        if _NETWORK_DEVICE.match(path):
            return ask("opens a network connection")
        if _STORAGE.match(path):
            return refuse(f"overwrites the device {path}")
        return ask(f"writes to the device {word.shown}")
    if re.search(r"/sysrq-trigger$", path):
        return ask("controls the kernel")
    if path == "/" or _SYSTEM_FILE.match(path):
        return ask(f"changes a system file, {word.shown}")
    if _GRANTING.search(path):
        return ask(f"changes {word.shown}, which programs trust")
    return None


def is_storage(word: Word) -> bool:
    """Whether this names a block device or the memory."""
    return _STORAGE.match(normalise(word)) is not None


def is_network_device(word: Word) -> bool:
    return _NETWORK_DEVICE.match(normalise(word)) is not None
