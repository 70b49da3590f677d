"""Checks of single programs that need more than a pattern of options and operands."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from hardpoint.subjects.command import places, sql
from hardpoint.subjects.command.args import Args, read_args
from hardpoint.subjects.command.danger import read_program
from hardpoint.subjects.command.finding import Finding, ask, refuse
from hardpoint.subjects.command.programs import valued_options
from hardpoint.subjects.command.tables import names_of
from hardpoint.subjects.command.words import HOLE, Word


@attrs.frozen
class Input:
    """What stands on a command's standard input."""

    given: bool = False
    text: str | None = None
    """All of it, where the line itself holds it."""
    from_file: bool = False


SECRET_NAME: Final = re.compile(r"key|token|secret|passw|cred|auth|private", re.IGNORECASE)


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
    if re.fullmatch(
        r"mkfs(\..+)?|mke2fs|mkswap|newfs.*|mkdosfs|mkntfs|wipefs|blkdiscard|shred|wipe"
        r"|sgdisk|sfdisk|badblocks|cryptsetup|format|dd|diskutil",
        program,
    ):
        found += _devices(program, words)
    return found


def _devices(program: str, words: Sequence[Word]) -> list[Finding]:
    lists = {"--help", "--version", "-V", "-p", "--print", "-l", "--list", "info", "list"}
    if any(word.text in lists for word in words[1:]) or program == "dd":
        return []
    if any(places.is_storage(word) for word in words[1:]):
        return [refuse("erases a device")]
    if any(re.match(r"(?:[A-Za-z]:|disk\d|/dev/\x00)", word.text) for word in words[1:]):
        return [refuse("erases a drive")]
    return []


# deleting -----------------------------------------------------------------------------------------


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


# sending ------------------------------------------------------------------------------------------

_CURL_DATA: Final = ("-d", "--data", "--data-binary", "--data-ascii", "--json", "--data-urlencode")


def _sends_hidden(words: Sequence[Word]) -> list[Finding]:
    """Data in a host name or URL that is only put together at run time."""
    for word in words:
        if word.substitutions:
            return [ask("what is sent is put together at run time")]
        if any(SECRET_NAME.search(name) for name in word.variables):
            return [ask("the value of a secret variable leaves in a name or URL")]
    return []


def _curl(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    args = read_args(words[1:], valued_options("curl"))
    found = _sends_hidden([*args.operands, *args.values("--url", "--url-query")])
    for name in _CURL_DATA:
        for value in args.values(name):
            text = value.text
            if text.startswith("@") or (name == "--data-urlencode" and re.match(r"\w*@", text)):
                found.append(ask("sends a file away"))
            elif value.substitutions:
                found.append(ask("what is sent is put together at run time"))
    if any(value.substitutions for value in args.values("--data-raw", "--form-string")):
        found.append(ask("what is sent is put together at run time"))
    for value in args.values("-F", "--form"):
        if re.search(r"=[@<]", value.text) or value.substitutions:
            found.append(ask("sends a file away"))
    for value in args.values("-H", "--header", "-b", "--cookie", "-A", "-e", "-u"):
        if value.substitutions or value.text.startswith("@"):
            found.append(ask("what is sent is put together at run time"))
    if args.has("-T", "--upload-file"):
        found.append(ask("uploads a file"))
    if args.has("-K", "--config"):
        found.append(ask("options come from a file"))
    if any(value.text.upper() == "DELETE" for value in args.values("-X", "--request")):
        found.append(ask("deletes at the server"))
    if args.has("-Q", "--quote", "--variable"):
        found.append(ask("runs commands at the server or sends a file"))
    for value in args.values("-o", "--output", "-c", "--cookie-jar", "-D", "--dump-header"):
        finding = places.writing(value)
        found += [finding] if finding else []
    return found + _odd_urls(args.operands)


def _odd_urls(operands: Sequence[Word]) -> list[Finding]:
    if any(
        re.match(r"(?:telnet|gopher|dict|smtps?|imaps?|tftp|ldaps?):", w.text) for w in operands
    ):
        return [ask("opens a raw connection")]
    return []


def _wget(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    args = read_args(words[1:], valued_options("wget"))
    found = _sends_hidden(args.operands)
    if args.has("--post-file", "--body-file"):
        found.append(ask("sends a file away"))
    for value in args.values("--post-data", "--body-data", "--header", "--user-agent", "-U"):
        if value.substitutions:
            found.append(ask("what is sent is put together at run time"))
    for value in args.values("-O", "--output-document", "-P", "--directory-prefix"):
        finding = places.writing(value)
        found += [finding] if finding else []
    if any(value.text.upper() == "DELETE" for value in args.values("--method")):
        found.append(ask("deletes at the server"))
    return found


def _httpie(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    args = read_args(words[1:], valued_options("http"))
    found = _sends_hidden(args.operands)
    if any(re.search(r"(?:^|=|:=)@|^[\w.-]+@(?!\w+\.)", w.text) for w in args.operands):
        found.append(ask("sends a file away"))
    if any(word.text.upper() == "DELETE" for word in args.operands[:1]):
        found.append(ask("deletes at the server"))
    if stdin.given:
        found.append(ask("sends its input away"))
    return found


def _netcat(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    args = read_args(words[1:], names_of("-p -s -w -i -q -x -X -e -c"))
    if args.has("-z", "-h", "--help", "--version") and not stdin.given:
        return []
    return [ask("moves data over a bare connection")]


def _lookup(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    found = _sends_hidden(words[1:])
    return found or ([ask("looks up what it is given")] if stdin.given else [])


def _ssh(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    found = _sends_hidden(words[1:2])
    return [*found, ask("sends its input to another machine")] if stdin.given else found


def _editor(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    """`ed` takes its commands from its input, `!` among them."""
    if stdin.given and (stdin.text is None or "!" in stdin.text):
        return [ask("the editor may run what its input says")]
    return []


def _openssl(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    if any(word.text in ("s_client", "s_server") for word in words[1:]) and stdin.given:
        return [ask("moves data over a bare connection")]
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
        return _sends_hidden(
            [word for word in operands if re.match(r"\w+://|[\w.@-]+:", word.text)]
        )
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


def _unzip(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    folders = read_args(words[1:], names_of("-d -P -x")).values("-d")
    return [finding for folder in folders if (finding := places.writing(folder))]


Check = Callable[[str, Sequence[Word], Input], list[Finding]]
_CHECKS: Final[dict[str, Check]] = {
    **dict.fromkeys(("rm", "grm", "unlink"), _rm),
    "find": _find, "gfind": _find, "rsync": _rsync, "mv": _moves, "gmv": _moves,
    **dict.fromkeys(("cp", "gcp", "install", "ginstall", "ln", "tee", "gtee", "scp", "touch"),
                    _copies),
    **dict.fromkeys(("sed", "gsed", "perl", "ruby"), _edits),
    "dd": _dd, "gdd": _dd, "dcfldd": _dd, "dc3dd": _dd,
    "chmod": _chmod, "gchmod": _chmod, "chown": _chown, "chgrp": _chown, "kill": _kill,
    "curl": _curl, "wget": _wget, "wget2": _wget,
    **dict.fromkeys(("http", "https", "xh", "xhs"), _httpie),
    **dict.fromkeys(("nc", "ncat", "netcat", "nc.openbsd", "nc.traditional"), _netcat),
    **dict.fromkeys(("dig", "drill", "host", "nslookup", "kdig", "doggo", "delv", "ping", "ping6",
                     "traceroute", "getent", "whois", "mtr", "nmap", "fping", "resolvectl",
                     "lynx", "w3m", "links", "elinks", "aria2c", "fetch", "axel"), _lookup),
    "ssh": _ssh, "sftp": _ssh, "ed": _editor, "ex": _editor, "red": _editor, "openssl": _openssl,
    **dict.fromkeys(("psql", "mysql", "mariadb", "sqlite3", "sqlite", "duckdb", "pgcli", "mycli",
                     "cockroach", "clickhouse-client", "clickhouse", "sqlplus", "isql", "bq",
                     "mongosh", "mongo", "sqlcmd", "cqlsh", "trino", "presto", "snowsql", "hive",
                     "beeline", "impala-shell", "spark-sql", "usql", "litecli", "tsql", "vertica",
                     "vsql", "athena", "turso", "d1"), _database),
    **dict.fromkeys(("docker", "podman", "nerdctl"), _container),
    "git": _git, "unzip": _unzip, "tar": _tar, "bsdtar": _tar, "gtar": _tar,
    **dict.fromkeys(("let", "declare", "typeset", "local", "export", "readonly", "unset", "read",
                     "mapfile", "readarray", "printf", "wait", "getopts"), _assignments_run),
    **dict.fromkeys(("test", "[", "[["), _test_run),
}  # fmt: skip
