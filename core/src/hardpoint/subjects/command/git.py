"""Git: options, settings and subcommands that run other programs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hardpoint.subjects.command.args import Args, read_args
from hardpoint.subjects.command.finding import ask
from hardpoint.subjects.command.opening import Code, Opened, Runs, joined
from hardpoint.subjects.command.tables import names_of
from hardpoint.subjects.command.words import HOLE, Word, words_of

GLOBAL_VALUES: Final = names_of(
    "-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source"
)

# Settings whose value Git runs.
_RUNS: Final = re.compile(
    r"""(?:
        alias\..+ | core\.(?:fsmonitor|pager|editor|sshcommand|askpass|gitproxy
            |alternaterefscommand) | pager\..+ | sequence\.editor | diff\.external
      | diff\..+\.(?:command|textconv) | (?:diff|merge)tool\..+\.(?:cmd|path) | merge\..+\.driver
      | filter\..+\.(?:clean|smudge|process) | credential\.(?:.+\.)?helper
      | gpg\.(?:.+\.)?program | gpg\.ssh\.defaultkeycommand | browser\..+\.(?:cmd|path)
      | man\..+\.(?:cmd|path) | remote\..+\.(?:uploadpack|receivepack|vcs)
      | uploadpack\.packobjectshook | sendemail\..*(?:cmd|smtpserver) | trailer\..+\.(?:command|cmd)
      | interactive\.difffilter | instaweb\.(?:httpd|browser) | guitool\..+\.cmd
      | submodule\..+\.update | tar\..+\.command | imap\.tunnel | web\.browser
      | maintenance\..+ | lfs\.customtransfer\..+ | hook\..+\.command
    )""",
    re.VERBOSE | re.IGNORECASE,
)
# Settings that make Git load code or settings from elsewhere.
_LOADS: Final = re.compile(
    r"core\.hookspath|core\.worktree|include\.path|includeif\..+\.path|init\.templatedir"
    r"|protocol\.(?:ext\.)?allow|url\..+\.(?:pushinsteadof|insteadof)|safe\.directory"
    r"|core\.attributesfile|receive\..+",
    re.IGNORECASE,
)
# subcommand: options whose value is run.
_OPTIONS: Final = {
    "fetch": "--upload-pack", "pull": "--upload-pack", "clone": "-u --upload-pack",
    "ls-remote": "--upload-pack --exec", "fetch-pack": "--upload-pack --exec",
    "push": "--receive-pack --exec", "send-pack": "--receive-pack --exec", "archive": "--exec",
    "rebase": "-x --exec", "difftool": "-x --extcmd", "grep": "-O --open-files-in-pager",
    "filter-branch": "--setup --env-filter --tree-filter --index-filter --parent-filter"
    " --msg-filter --commit-filter --tag-name-filter",
    "send-email": "--smtp-server --to-cmd --cc-cmd --sendmail-cmd --header-cmd",
    "shell": "-c", "daemon": "--access-hook", "instaweb": "--httpd --browser",
    "diff-tree": "", "filter-repo": "", "remote-ext": "", "submodule": "", "bisect": "",
    "web--browse": "--browser",
}  # fmt: skip


def open_git(words: Sequence[Word]) -> Opened:
    """Everything that a `git` command runs besides itself."""
    opened = Opened()
    globals_ = read_args(words[1:], GLOBAL_VALUES, stop=True)
    for setting in globals_.values("-c"):
        _setting(setting, opened)
    for value in globals_.values("--exec-path"):
        opened.find(ask(f"takes Git's own programs from {value.shown}"))
    if globals_.values("--config-env"):
        opened.find(ask("takes a setting from a variable"))
    rest = globals_.rest
    if not rest:
        return opened
    command = rest[0].text
    valued = frozenset([*_OPTIONS.get(command, "").split(), "-m", "-c", "--config", "--template"])
    args = read_args(rest[1:], valued - ({"-c"} if command != "clone" else set()))
    for name in _OPTIONS.get(command, "").split():
        for value in args.values(name):
            opened.add(Code(value, f"git {command} {name}"))
    _subcommand(command, rest, args, opened)
    if any(word.text.startswith(("ext::", "fd::")) for word in args.operands):
        for word in args.operands:
            if word.text.startswith("ext::"):
                text = re.sub(r"%.", " ", word.text[5:])
                opened.add(Code(word.part(text), "git ext::"))
        opened.find(ask("the transport runs a command"))
    return opened


def _setting(setting: Word, opened: Opened) -> None:
    key, equals, value = setting.text.partition("=")
    if HOLE in key:
        opened.find(ask("a setting is known only at run time"))
    elif key.lower().startswith("alias."):
        if value.startswith("!"):
            opened.add(Code(setting.part(value[1:]), "git alias"))
        else:
            opened.add(Runs((*words_of(["git"]), *words_of(value.split())), "git alias"))
            opened.find(ask("an alias hides which subcommand runs"))
    elif _RUNS.fullmatch(key):
        if equals and value.lower() not in ("", "true", "false", "cat", "less", "0", "1"):
            opened.add(Code(setting.part(value.removeprefix("!")), f"git -c {key}"))
    elif _LOADS.fullmatch(key):
        opened.find(ask(f"the setting {key} loads code or settings from elsewhere"))


def _subcommand(command: str, rest: Sequence[Word], args: Args, opened: Opened) -> None:
    operands = args.operands
    if command == "submodule" and operands and operands[0].text == "foreach":
        at = list(rest).index(operands[0]) + 1
        text = read_args(rest[at:], stop=True).rest
        if text:
            opened.add(Code(joined(text), "git submodule foreach"))
    elif command == "bisect" and operands and operands[0].text == "run":
        opened.add(Runs(rest[2:], "git bisect run"))
    elif command == "remote-ext" and len(operands) > 1:
        opened.add(Code(joined(operands[1:]), "git remote-ext"))
    elif command == "config":
        _config(rest, args, opened)
    elif command == "clone":
        for value in args.values("-c", "--config"):
            _setting(value, opened)
        if args.values("--template"):
            opened.find(ask("copies hooks from elsewhere"))
    elif command == "grep" and args.has("-O", "--open-files-in-pager"):
        for option in args.options:
            if option.name.startswith("--open") and option.value is None:
                opened.find(ask("opens files in a program"))


def _config(rest: Sequence[Word], args: Args, opened: Opened) -> None:
    operands = [word for word in args.operands if word.text not in ("set", "--")]
    if len(operands) < 2 or args.has("--get", "--list", "-l", "--unset"):
        return
    key = operands[0].text
    if key == "get":
        return
    if _RUNS.fullmatch(key) or _LOADS.fullmatch(key) or HOLE in key:
        value = operands[1]
        opened.find(ask(f"from now on the setting {key} runs something"))
        if value.text.startswith("!"):
            opened.add(Code(value.part(value.text[1:]), "git config"))
