"""Checks of single programs that need more than a pattern of options and operands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hardpoint.subjects.command import places, sql
from hardpoint.subjects.command.args import Args, read_args
from hardpoint.subjects.command.danger import read_program
from hardpoint.subjects.command.deleting import DELETING, check_devices
from hardpoint.subjects.command.finding import Check, Finding, Input, ask, refuse
from hardpoint.subjects.command.sending import SENDING, sends_hidden
from hardpoint.subjects.command.tables import names_of
from hardpoint.subjects.command.words import HOLE, Word


def check_program(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    """Everything that is wrong with this use of a program.

    Args:
        program: Its base name in lower case.
        words: The command, name included.
        stdin: What is piped or redirected into it.
    """
    check = _CHECKS.get(program)
    found: list[Finding] = []
    if check is not None:
        found += check(program, words, stdin)
    is_service = re.match(r"/etc/(?:init|rc)\.d/", words[0].text) is not None
    if is_service and len(words) > 1 and words[1].text != "status":
        found.append(ask("controls a service"))
    if re.fullmatch(
        r"mkfs(\..+)?|mke2fs|mkswap|newfs.*|mkdosfs|mkntfs|wipefs|blkdiscard|shred|wipe"
        r"|sgdisk|sfdisk|badblocks|cryptsetup|format|dd|diskutil",
        program,
    ):
        found += check_devices(program, words)
    return found


# rights and processes -----------------------------------------------------------------------------

_OPEN_MODE: Final = re.compile(r"(?:^|,)[ugoa]*(?:[oa][ugoa]*)[+=][rXstug]*w|(?:^|,)[+=][rxXst]*w")
_SETUID: Final = re.compile(r"(?:^|,)[ugoa]*[+=][rwxXt]*s|0*[2467]\d{3}$")


def _chmod(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    recursive = any(
        re.fullmatch(r"-[cfhvHLP]*R[cfhvHLPR]*|--r(?:e(?:c(?:u\w*)?)?)?", word.text)
        for word in words[1:]
    )
    operands = [
        word
        for word in words[1:]
        if not re.fullmatch(r"--.*|-[cfvRhHLP]+", word.text) or HOLE in word.text
    ]
    if not operands:
        return []
    mode, targets = operands[0].text, operands[1:]
    found = []
    open_to_all = bool(re.fullmatch(r"0*[0-7]?[0-7]{0,2}[2367]", mode)) or bool(
        _OPEN_MODE.search(mode) and not re.fullmatch(r"\+w", mode)
    )
    if open_to_all:
        found.append(ask("lets everybody write"))
    if HOLE in mode:
        found.append(ask("the mode is known only at run time"))
    if _SETUID.search(mode):
        found.append(ask("lets a program run with its owner's rights"))
    if any(places.deletion_target(word) for word in targets):
        found.append(
            refuse("changes the rights of a system directory")
            if recursive and open_to_all
            else ask("changes the rights of a system directory")
        )
    if recursive and re.fullmatch(r"0*[0-7]?0[0-7]{2}|a?-[rwx]+|0+", mode):
        found.append(ask("takes away the rights to a tree"))
    return found


def _chown(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    args = read_args(words[1:])
    if args.has("-R", "--recursive") and any(
        places.deletion_target(word) == "root" for word in args.operands
    ):
        return [refuse("changes the owners of the whole system")]
    return [finding for word in args.operands[1:] if (finding := places.writing(word))]


def _kill(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    texts = [word.text for word in words[1:]]
    if not texts or texts[0] in ("-l", "-L", "--list", "--help"):
        return []
    signal = ""
    if texts[0] in ("-s", "-n", "--signal") and len(texts) > 1:
        signal, targets = texts[1], words[3:]
    elif re.fullmatch(r"-[A-Za-z]+|-\d+|--signal=.+", texts[0]) and len(texts) > 1:
        signal, targets = texts[0].rpartition("=")[2].lstrip("-"), words[2:]
    else:
        targets = words[1:]
    if signal in ("0", "EXIT"):
        return []
    found = []
    for word in targets:
        if re.fullmatch(r"-\d+|1|0", word.text):
            found.append(ask("signals a whole group of processes"))
        elif word.substitutions or (word.splits and HOLE in word.text and not word.variables):
            found.append(ask("which processes end is known only at run time"))
    if re.fullmatch(r"(?:9|(?:sig)?kill)", signal, re.IGNORECASE):
        found.append(ask("ends a process without letting it clean up"))
    return found


def _editor(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    """`ed` takes its commands from its input, `!` among them."""
    if stdin.given and (stdin.text is None or "!" in stdin.text):
        return [ask("the editor may run what its input says")]
    return []


# data bases, containers, Git ----------------------------------------------------------------------

_SQL_OPTIONS: Final = names_of("-c -e -q -Q --command --execute --query --eval --sql")


def _database(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    texts = [word.text for word in words[1:]]
    if any(sql.destroys(re.sub(r"^(?:-\w|--[\w-]+=)", " ", text)) for text in texts):
        return [ask("the statement destroys data or changes rights")]
    if stdin.text and re.search(r"\\!|^\s*[.\\]?(?:shell|system)\b", stdin.text, re.MULTILINE):
        return [ask("the database client runs a command")]
    if stdin.text and sql.destroys(stdin.text):
        return [ask("the statement destroys data or changes rights")]
    if stdin.given and stdin.text is None and not stdin.from_file:
        return [ask("the statements are known only at run time")]
    args = read_args(words[1:], _SQL_OPTIONS)
    if any((HOLE in value.text and value.splits) or value.text == HOLE
           for name in _SQL_OPTIONS for value in args.values(name)):  # fmt: skip
        return [ask("the statement is known only at run time")]
    return []


_HOST_MOUNT: Final = re.compile(
    r"(?:^|source=|src=)(?:/(?:etc|root|proc|sys|dev|boot|usr|var/run/docker\.sock"
    r"|run/[\w/]*docker\.sock|var/run|var/lib/\w+|home|run)?/?(?=:|,|$)"
    r"|/(?:etc|root|proc|sys|boot|dev)/|\S*\.sock(?=:|,|$)|~(?=:|/?:|$)|~/\.(?:ssh|aws|kube|gnupg))"
)


def _container(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    found = []
    _, args = read_program(program, words)
    texts = [word.text for word in args.rest[1:]]
    if not args.operands or args.operands[0].text not in ("run", "create", "container"):
        return []
    for index, text in enumerate(texts):
        following = texts[index + 1] if index + 1 < len(texts) else ""
        name, equals, value = text.partition("=")
        mount = ""
        if name in ("-v", "--volume", "--mount"):
            mount = value if equals else following
        elif text.startswith("-v") and len(text) > 2:
            mount = text[2:]
        elif re.fullmatch(r"-[a-z]+v", text):
            mount = following
        home = args.rest[1:][index].variables[:1] == ("HOME",)
        mount = mount.replace(HOLE, "~", 1) if home else mount
        if _HOST_MOUNT.search(mount) and mount:
            found.append(ask("gives a container a folder of the host"))
        if name in ("--pid", "--ipc", "--net", "--network", "--uts", "--userns") and (
            (value or following) == "host"
        ):
            found.append(ask("gives a container rights over the host"))
    return found


def _git(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    _, args = read_program(program, words)
    if not args.operands:
        return []
    command, operands = args.operands[0].text, args.operands[1:]
    if command == "checkout":
        return _git_checkout(args, operands)
    if command == "stash" and operands and operands[0].text.startswith(HOLE):
        return [ask("which stash command runs is known only at run time")]
    if command in ("push", "fetch", "clone", "ls-remote", "pull"):
        return sends_hidden([word for word in operands if re.match(r"\w+://|[\w.@-]+:", word.text)])
    return []


def _git_checkout(args: Args, operands: Sequence[Word]) -> list[Finding]:
    rest = [word.text for word in args.rest]
    if args.has("-b", "--orphan", "-t", "--track", "--detach", "-l"):
        return []
    if "--" in rest and rest.index("--") + 1 < len(rest):
        return [ask("discards changes")]
    # Two operands are a commit and paths; one that looks like a path is one.
    if len(operands) > 1 or any(
        re.fullmatch(r"\.{1,2}|.*/|:.*|.*[*?].*|\.{1,2}/.*|.*\.\w{1,5}", word.text)
        and not re.search(r"\d\.\d", word.text)
        for word in operands
    ):
        return [ask("discards changes")]
    return []


def _assignments_run(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    """Builtins that evaluate a subscript or an expression in their operands."""
    if any(re.search(r"\[.*[$`]", word.text, re.DOTALL) for word in words[1:]):
        return [ask("a subscript is evaluated as code")]
    if program == "let" and any("$(" in word.text or "`" in word.text for word in words[1:]):
        return [ask("an expression is evaluated as code")]
    return []


def _test_run(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    if any(w.text == "-v" for w in words) or program == "[[":
        return _assignments_run(program, words, stdin)
    return []


_CHECKS: Final[dict[str, Check]] = {
    **DELETING,
    **SENDING,
    "chmod": _chmod, "gchmod": _chmod, "chown": _chown, "chgrp": _chown, "kill": _kill,
    "ed": _editor, "ex": _editor, "red": _editor, "git": _git,
    **dict.fromkeys(("psql", "mysql", "mariadb", "sqlite3", "sqlite", "duckdb", "pgcli", "mycli",
                     "cockroach", "clickhouse-client", "clickhouse", "sqlplus", "isql", "bq",
                     "mongosh", "mongo", "sqlcmd", "cqlsh", "trino", "presto", "snowsql", "hive",
                     "beeline", "impala-shell", "spark-sql", "usql", "litecli", "tsql", "vertica",
                     "vsql", "athena", "turso", "d1"), _database),
    **dict.fromkeys(("docker", "podman", "nerdctl"), _container),
    **dict.fromkeys(("let", "declare", "typeset", "local", "export", "readonly", "unset", "read",
                     "mapfile", "readarray", "printf", "wait", "getopts"), _assignments_run),
    **dict.fromkeys(("test", "[", "[["), _test_run),
}  # fmt: skip
