"""Programs with a little language of their own that can run other programs: awk, sed, editors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hardpoint.subjects.command.args import read_args
from hardpoint.subjects.command.finding import ask
from hardpoint.subjects.command.opening import Code, Opened
from hardpoint.subjects.command.option_table import valued_options
from hardpoint.subjects.command.tables import names_of
from hardpoint.subjects.command.words import HOLE, Word


def _awk(words: Sequence[Word], opened: Opened) -> None:
    valued = names_of("-f -F -v -i -l -e -E --file --field-separator --assign --include")
    args = read_args(words[1:], valued, stop=True)
    texts = [*args.values("-e", "--source")]
    if not texts and not args.has("-f", "--file", "-E", "--exec"):
        texts = list(args.rest[:1])
    if args.has("-l", "--load", "-i", "--include"):
        opened.find(ask("loads awk code from elsewhere"))
    for text in texts:
        _awk_text(text, opened)
    for file in args.values("-f", "--file", "-E", "--exec"):
        if re.fullmatch(r"-|/dev/(?:stdin|fd/\d+)", file.text) or HOLE in file.text:
            opened.find(ask("awk code cannot be judged before it runs"))


_AWK_TOKEN: Final = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*")|(?P<comment>\#[^\n]*)|(?P<slash>/)|(?P<other>[^"/\#]+)""",
    re.DOTALL | re.VERBOSE,
)
_AWK_OUTPUTS: Final = names_of('"/dev/stdout" "/dev/stderr" "/dev/null" "/dev/tty" "-"')
_AWK_CALL: Final = re.compile(r"\b(?:system|extension)\s*\(|@load|@include|@\w+\s*\(")
_AWK_REGEX: Final = re.compile(r"/(?:[^/\\\n\[]|\\.|\[\^?\]?[^\]\n]*\])*/")


def _awk_parts(text: str) -> tuple[str, list[str]]:
    """The program without strings, comments and regular expressions; and the strings."""
    bare: list[str] = []
    strings: list[str] = []
    at = 0
    while at < len(text):
        token = _AWK_TOKEN.match(text, at)
        if token is None:
            bare.append(text[at:])
            break
        before = "".join(bare[-1:]).rstrip(" \t")[-1:]
        regex = _AWK_REGEX.match(text, at) if token["slash"] else None
        if token["string"] is not None:
            strings.append(token["string"][1:-1].replace('\\"', '"'))
            # What is printed to these is no file.
            std = token["string"] in _AWK_OUTPUTS
            bare.append(" ~" if std else '""')
        elif regex and (not before or before in "(,{};!~&|=\n"):
            bare.append("0")
            at = regex.end()
            continue
        elif token["comment"] is None:
            bare.append(token[0])
        at = token.end()
    return "".join(bare), strings


def _awk_text(word: Word, opened: Opened) -> None:
    text = word.text
    bare, strings = _awk_parts(text)
    pipes = re.search(r"(?<!\|)\|(?!\|)", bare)
    if HOLE in text and not word.quoted:
        opened.find(ask("the awk program is known only at run time"))
    if not pipes and not _AWK_CALL.search(bare):
        if re.search(r'(?:print|printf)\b[^;\n}]*>\s*(?:""|[$\w(])', bare):
            opened.find(ask("awk writes a file"))
        if "/inet/" in text:
            opened.find(ask("awk opens a network connection"))
        return
    opened.find(ask("the awk program runs other programs"))
    for string in strings:
        if string.strip():
            opened.add(Code(word.part(string), "awk"))


def _sed(words: Sequence[Word], opened: Opened) -> None:
    valued = names_of("-e -f -l -E_ --expression --file --line-length")
    args = read_args(words[1:], valued)
    texts = args.values("-e", "--expression")
    if not texts and not args.has("-f", "--file"):
        texts = list(args.operands[:1])
    if args.has("--sandbox"):
        return
    for text in texts:
        _sed_text(text, opened)
    for file in args.values("-f", "--file"):
        if re.fullmatch(r"-|/dev/(?:stdin|fd/\d+)", file.text) or HOLE in file.text:
            opened.find(ask("sed code cannot be judged before it runs"))


_SED_ADDRESS: Final = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\]|\\.)*/[IM]*|\\(.)(?:(?!\1).)*\1[IM]*)"
_SED_COMMAND: Final = re.compile(
    rf"\s*(?:{_SED_ADDRESS})?(?:\s*,\s*(?:[+~]?\d+|\$|/(?:[^/\\]|\\.)*/[IM]*))?\s*!*\s*", re.DOTALL
)


def _sed_text(word: Word, opened: Opened) -> None:
    """Walk over the commands of a sed program; `e` and the flag `e` run, `w` and `W` write."""
    text, at = word.text, 0
    while at < len(text):
        match = _SED_COMMAND.match(text, at)
        at = match.end() if match else at
        while at < len(text) and text[at] in "; \t\n{}":
            at += 1
        if at >= len(text):
            return
        command = text[at]
        if command.isdigit() or command in "$/\\+,!~":
            if _SED_COMMAND.match(text, at).end() == at:  # type: ignore[union-attr]
                at += 1
            continue
        at += 1
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        if command == "e":
            opened.find(ask("sed runs a command"))
            opened.add(Code(word.part(text[at:end].strip() or ":"), "sed e"))
            at = end
        elif command in "wW":
            opened.find(ask("sed writes a file"))
            at = end
        elif command in "sy":
            if at >= len(text):
                return
            delimiter = text[at]
            parts: list[str] = []
            start = at = at + 1
            while at < len(text) and len(parts) < 2:
                if text[at] == "\\":
                    at += 2
                    continue
                if text[at] == delimiter:
                    parts.append(text[start:at])
                    start = at + 1
                at += 1
            flags = re.match(r"[gpiImM0-9ew]*", text[at:])
            found = flags[0] if flags and command == "s" else ""
            if "e" in found.partition("w")[0]:
                opened.find(ask("sed runs what a replacement made"))
                if len(parts) == 2:
                    opened.add(Code(word.part(parts[1]), "sed s///e"))
            if "w" in found:
                opened.find(ask("sed writes a file"))
                at = len(text) if text.find("\n", at) < 0 else text.find("\n", at)
            else:
                at += len(found)
        elif command in "aic":
            # The text goes on behind each line break with a backslash before it.
            skipped = re.compile(r"(?:[^\n\\]|\\.)*", re.DOTALL).match(text, at)
            at = skipped.end() if skipped else end
        elif command in "rRbtT:lqQL#v":
            at = end if command in "rR#" else at
            if command in "bt:T":
                skip = re.match(r"[^;\n}]*", text[at:])
                at += skip.end() if skip else 0
    if HOLE in text and (word.splits or re.match(rf"[\s{HOLE}]*{HOLE}", text)):
        opened.find(ask("the sed program is known only at run time"))


def _vim(words: Sequence[Word], opened: Opened) -> None:
    for index, word in enumerate(words[1:], start=1):
        text = word.text
        if text in ("-c", "--cmd", "-S", "-s", "-u", "-U", "--server", "--remote-expr"):
            value = words[index + 1] if index + 1 < len(words) else Word("")
            _editor_text(value, opened)
        elif text.startswith("+") and len(text) > 1 and not text[1:].isdigit():
            _editor_text(word.part(text[1:]), opened)
        elif text.startswith("-c") and len(text) > 2:
            _editor_text(word.part(text[2:]), opened)


def _editor_text(word: Word, opened: Opened) -> None:
    text = word.text.lstrip(": \t/")
    if re.fullmatch(r"(?:q|qa|wq|wqa|x|xa|q!|qa!|\d+|set \w+|noh|syntax \w+)", text):
        return
    opened.find(ask("the editor runs this text"))
    bang = text.find("!")
    if bang >= 0:
        opened.add(Code(word.part(text[bang + 1 :].strip() or ":"), "editor !"))
    for inside in re.findall(r"system\w*\(\s*['\"](.*?)['\"]", text):
        opened.add(Code(word.part(inside), "editor system()"))


def _pager(words: Sequence[Word], opened: Opened) -> None:
    for word in words[1:]:
        if word.text.startswith("+") and "!" in word.text:
            opened.find(ask("the pager runs this text"))
            opened.add(Code(word.part(word.text.partition("!")[2]), "pager !"))


def _make(words: Sequence[Word], opened: Opened) -> None:
    args = read_args(words[1:], valued_options("make"))
    for text in args.values("--eval", "-E"):
        opened.find(ask("make runs text from the command line"))
        for inside in re.findall(r"\$\(shell\s+(.*)\)", text.text, re.DOTALL):
            opened.add(Code(text.part(inside), "make --eval"))
        recipe = text.text.partition("\t")[2]
        if recipe:
            opened.add(Code(text.part(recipe.lstrip("@-+")), "make --eval"))
    for word in args.operands:
        name, equals, value = word.text.partition("=")
        if not equals:
            continue
        for inside in re.findall(r"\$[({]shell\s+(.*?)[)}]", value, re.DOTALL):
            opened.add(Code(word.part(inside), "make"))
            opened.find(ask("make runs text from the command line"))
        if name.strip(":?+!") in ("SHELL", ".SHELLFLAGS", "MAKEFLAGS", "MAKE", "MAKEFILES"):
            opened.find(ask(f"replaces {name}"))
            opened.add(Code(word.part(value), "make"))
    for file in args.values("-f", "--file", "--makefile"):
        if re.fullmatch(r"-|/dev/(?:stdin|fd/\d+)", file.text) or HOLE in file.text:
            opened.find(ask("the makefile cannot be judged before it runs"))


# How clients of databases are told to run a command of the shell; a group holds it.
_ESCAPES: Final = (
    re.compile(r"(?:^|[;\n]|=|-\w)\s*\\+!\s*(.+)", re.DOTALL),
    re.compile(r"^\s*!\s*(.+)", re.DOTALL | re.MULTILINE),
    re.compile(r"^\s*[.\\]?(?:shell|system)\s+(.+)", re.IGNORECASE | re.DOTALL | re.MULTILINE),
    re.compile(r"\bprogram\s+(?:'|\$\$)(.+?)(?:'|\$\$)", re.IGNORECASE | re.DOTALL),
    re.compile(r"^\s*[\\.][^|\n]*\|\s*(.+)", re.MULTILINE),
)
_WRITES: Final = re.compile(
    r"\.load\s|load_extension|xp_cmdshell|lo_export|into\s+(?:out|dump)file", re.IGNORECASE
)


def _database(words: Sequence[Word], opened: Opened) -> None:
    for word in words[1:]:
        for escape in _ESCAPES:
            match = escape.search(word.text)
            if match:
                opened.find(ask("the database client runs a command"))
                opened.add(Code(word.part(match[1].strip().strip("'\"")), "database client"))
        if _WRITES.search(word.text):
            opened.find(ask("the database writes files or loads code"))


LANGUAGES: Final = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk", "goawk"), _awk),
    **dict.fromkeys(("sed", "gsed", "ssed"), _sed),
    **dict.fromkeys(("vim", "vi", "nvim", "view", "ex", "vimdiff", "gvim", "rvim", "kak", "hx"),
                    _vim),
    **dict.fromkeys(("less", "more", "most", "pg", "lv"), _pager),
    **dict.fromkeys(("make", "gmake", "bmake", "mingw32-make"), _make),
    **dict.fromkeys(("psql", "mysql", "mariadb", "sqlite3", "sqlite", "duckdb", "pgcli", "mycli",
                     "cockroach", "clickhouse-client", "sqlplus", "isql", "mongosh", "mongo",
                     "sqlcmd", "redis-cli"), _database),
}  # fmt: skip
