"""What deletes or overwrites, and which places it reaches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hardpoint.subjects.command import places
from hardpoint.subjects.command.args import read_args
from hardpoint.subjects.command.finding import Check, Finding, Input, ask, refuse
from hardpoint.subjects.command.option_table import valued_options
from hardpoint.subjects.command.tables import names_of
from hardpoint.subjects.command.words import HOLE, Word


def check_devices(program: str, words: Sequence[Word]) -> list[Finding]:
    lists = {"--help", "--version", "-V", "-p", "--print", "-l", "--list", "info", "list"}
    if any(word.text in lists for word in words[1:]) or program == "dd":
        return []
    if any(places.is_storage(word) for word in words[1:]):
        return [refuse("erases a device")]
    if any(re.match(r"(?:[A-Za-z]:|disk\d|/dev/\x00)", word.text) for word in words[1:]):
        return [refuse("erases a drive")]
    return []


def _rm(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    args = read_args(words[1:])
    found = []
    recursive = args.has("-r", "-R", "--recursive")
    unknown = [word for word in args.operands if word.text.startswith(HOLE) and word.raw]
    if not recursive and (
        args.has_unknown_option or (len(args.operands) > 1 and any(w.text == HOLE for w in unknown))
    ):
        found.append(ask("what is deleted, and how, is known only at run time"))
    if not recursive:
        return found
    if args.has("--no-preserve-root"):
        found.append(refuse("erases the root directory"))
    return found + _erases(args.operands)


def _erases(targets: Sequence[Word]) -> list[Finding]:
    names = {
        "root": "erases the root directory",
        "home": "erases a home directory",
        "system": "erases a system directory",
    }
    return [refuse(names[kind]) for word in targets if (kind := places.deletion_target(word))]


def _find(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    texts = [word.text for word in words]
    found = []
    starts = []
    for word in words[1:]:
        if word.text.startswith(("-", "(", "!")) and word.text not in ("-H", "-L", "-P"):
            break
        starts.append(word)
    tests = [text for text in texts[1 + len(starts) :] if text.startswith("-")]
    deletes = "-delete" in texts
    if deletes:
        found.append(ask("deletes everything that it finds"))
    runs = [texts[i + 1 : i + 3] for i, t in enumerate(texts) if re.fullmatch(r"-(?:exec|ok).*", t)]
    removes = any(run and run[0].rpartition("/")[2] in ("rm", "shred", "unlink") for run in runs)
    selective = any(re.match(r"-i?(?:name|path|regex|wholename|newer|[acm]time|[acm]min|size|empty"
                             r"|user|group|perm|inum|samefile|lname|links|nouser|nogroup)", t)
                    for t in tests)  # fmt: skip
    if (deletes or removes) and not selective:
        found += _erases(starts)
    for index, text in enumerate(texts[:-1]):
        if text in ("-fprint", "-fprint0", "-fls", "-fprintf"):
            found.append(places.writing(words[index + 1]) or ask("find writes a file"))
    return found


def _rsync(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    args = read_args(words[1:], valued_options("rsync"))
    if args.has("--delete", "--delete-before", "--delete-after") and args.operands:
        return _erases(args.operands[-1:])
    return _copies(program, words, stdin)


def _moves(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    args = read_args(words[1:], names_of("-t -S --target-directory --suffix"))
    found = _erases(args.operands[:-1])
    if args.operands and args.operands[-1].text == "/dev/null":
        return [*found, ask("throws a file away")]
    return found + _copies(program, words, stdin)


def _copies(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    """Writing to a sensitive place by `cp`, `install`, `ln`, `tee` and the like."""
    args = read_args(words[1:], names_of("-t -S -m -o -g --target-directory --mode"))
    targets = list(args.operands) if program == "tee" else list(args.operands[-1:])
    targets += args.values("-t", "--target-directory")
    found = [finding for word in targets if (finding := places.writing(word))]
    if program == "ln" and len(args.operands) > 1 and "_history" in args.operands[-1].text:
        found.append(ask("erases traces"))
    return found


def _edits(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    args = read_args(words[1:], names_of("-e -f --expression --file"))
    if not args.has("-i", "-I", "--in-place"):
        return []
    return [finding for word in args.operands if (finding := places.writing(word))]


def _dd(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    found = []
    for word in words[1:]:
        name, _, value = word.text.partition("=")
        if name == "of":
            finding = places.writing(word.part(value))
            if finding:
                found.append(finding)
            elif value.startswith(HOLE):
                found.append(ask("what is overwritten is known only at run time"))
    return found


def _tar(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    texts = [word.text for word in words[1:]]
    found = []
    if "--remove-files" in texts:
        found.append(ask("deletes what it packs"))
    if any(text in ("-P", "--absolute-names") for text in texts):
        found.append(ask("writes anywhere"))
    for index, text in enumerate(texts):
        folder = (
            texts[index + 1] if text in ("-C", "--directory") and index + 1 < len(texts) else ""
        )
        finding = places.writing(Word(folder)) if folder else None
        packs = re.search(r"c", texts[0].partition("=")[0]) if texts else None
        found += [finding] if finding and not packs else []
    return found


def _unzip(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    folders = read_args(words[1:], names_of("-d -P -x")).values("-d")
    return [finding for folder in folders if (finding := places.writing(folder))]


DELETING: Final[dict[str, Check]] = {
    **dict.fromkeys(("rm", "grm", "unlink"), _rm),
    "find": _find, "gfind": _find, "rsync": _rsync, "mv": _moves, "gmv": _moves,
    **dict.fromkeys(("cp", "gcp", "install", "ginstall", "ln", "tee", "gtee", "scp", "touch"),
                    _copies),
    **dict.fromkeys(("sed", "gsed", "perl", "ruby"), _edits),
    "dd": _dd, "gdd": _dd, "dcfldd": _dd, "dc3dd": _dd,
    "unzip": _unzip, "tar": _tar, "bsdtar": _tar, "gtar": _tar,
}  # fmt: skip
