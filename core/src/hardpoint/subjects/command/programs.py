"""Options and program texts of everyday tools that make them run something else."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from hardpoint.subjects.command.args import SINGLE_DASH, read_args
from hardpoint.subjects.command.finding import ask
from hardpoint.subjects.command.opening import Code, Opened, Runs, joined
from hardpoint.subjects.command.tables import names_of, table
from hardpoint.subjects.command.words import HOLE, Word
from hardpoint.subjects.command.wrappers import ssh_options


@lru_cache(maxsize=1)
def _options() -> dict[str, tuple[tuple[str, ...], frozenset[str]]]:
    found = {}
    for line in table("options"):
        names, runs, valued = (part.split() for part in line.split("|"))
        for name in names:
            found[name] = (tuple(runs), frozenset([*runs, *valued]))
    return found


def valued_options(program: str) -> frozenset[str]:
    """The options of a program that take a value, as far as this table knows."""
    return _options().get(program, ((), frozenset()))[1]


def open_program(program: str, words: Sequence[Word]) -> Opened:
    """What a program runs by its options or its own little language."""
    opened = Opened()
    runs, valued = _options().get(program, ((), frozenset()))
    if runs:
        args = read_args(words[1:], valued, single_dash=program in SINGLE_DASH or program == "zip")
        for name in runs:
            for value in args.values(name):
                opened.add(Code(_command_part(program, name, value), f"{program} {name}"))
    special = _SPECIAL.get(program)
    if special is not None:
        special(words, opened)
    return opened


def _command_part(program: str, option: str, value: Word) -> Word:
    """The part of an option's value that is run."""
    if program in ("tar", "gtar") and option == "--checkpoint-action":
        action, _, command = value.text.partition("=")
        return value.part(command if action == "exec" else ":")
    if program == "fzf" and option == "--bind":
        inside = re.findall(r"(?:execute|become|reload|transform)[^(:+]*[(:]([^)]*)", value.text)
        return value.part("; ".join(inside) or ":")
    if program == "hg":
        key, _, command = value.text.partition("=")
        risky = re.match(r"alias|hooks|extensions|ui\.(?:editor|ssh|merge)|merge-tools", key)
        return value.part(command.removeprefix("!") if risky else ":")
    if option == "-wrapper":
        return value.part(value.text.replace(",", " "))
    if program == "rg" and not value.text:
        return value.part(":")
    return value


# programs with a language of their own ------------------------------------------------------------


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


def _database(words: Sequence[Word], opened: Opened) -> None:
    for word in words[1:]:
        for escape in (
            r"(?:^|[;\n]|=|-\w)\s*\\+!\s*(.+)", r"\bsystem\s+(.+)", r"^\.(?:shell|system)\s+(.+)",
            r"\bprogram\s+'(.+?)'", r"^\s*!\s*(.+)", r"\\o\s*\|\s*(.+)", r"\|\s*(.+)$",
        ):  # fmt: skip
            match = re.search(escape, word.text, re.IGNORECASE | re.DOTALL | re.MULTILINE)
            if match and (escape[0] != "\\" or "system" not in escape or _is_client(words[0])):
                if escape == r"\|\s*(.+)$" and not word.text.lstrip().startswith(("\\", ".")):
                    continue
                opened.find(ask("the database client runs a command"))
                opened.add(Code(word.part(match[1].strip().strip("'\"")), "database client"))
        if re.search(r"\.load\s|load_extension|xp_cmdshell|lo_export|into\s+(?:out|dump)file",
                     word.text, re.IGNORECASE):  # fmt: skip
            opened.find(ask("the database writes files or loads code"))


def _is_client(program: Word) -> bool:
    return program.text.rpartition("/")[2].startswith(("mysql", "mariadb", "sqlite", "redis"))


def _netcat(words: Sequence[Word], opened: Opened) -> None:
    args = read_args(words[1:], names_of("-e -c -p -s -w -i -q -x -X --exec --sh-exec"))
    for value in args.values("-e", "-c", "--exec", "--sh-exec"):
        opened.find(ask("hands a program to the network"))
        opened.add(Code(value, "netcat"))


def _socat(words: Sequence[Word], opened: Opened) -> None:
    for word in words[1:]:
        match = re.match(r"(?:exec|system|shell):(.*)", word.text, re.IGNORECASE | re.DOTALL)
        if match:
            opened.find(ask("hands a program to the network"))
            opened.add(Code(word.part(re.split(r",(?=[a-z])", match[1])[0].strip("'\"")), "socat"))
        elif re.match(r"(?:tcp|udp|openssl|sctp|socks)", word.text, re.IGNORECASE):
            opened.find(ask("opens a network connection"))


def _wget(words: Sequence[Word], opened: Opened) -> None:
    args = read_args(words[1:], valued_options("wget"))
    for value in args.values("-e", "--execute"):
        if "askpass" in value.text.lower() or HOLE in value.text:
            opened.find(ask("a setting runs a program"))


def _cargo(words: Sequence[Word], opened: Opened) -> None:
    args = read_args(words[1:], valued_options("cargo"))
    for value in args.values("--config"):
        if re.search(r"rustc|wrapper|linker|runner|rustdoc|credential|alias", value.text):
            opened.find(ask("a setting runs a program"))


def _copy(words: Sequence[Word], opened: Opened) -> None:
    ssh_options(read_args(words[1:], valued_options("scp") | {"-S", "-D"}), opened, "scp")


def _apt(words: Sequence[Word], opened: Opened) -> None:
    for value in read_args(words[1:], valued_options("apt")).values("-o", "-c"):
        if re.search(r"invoke|Dir::|::Run|Pager", value.text, re.IGNORECASE):
            opened.find(ask("a setting runs a program"))
            opened.add(Code(value.part(value.text.partition("=")[2]), "apt -o"))


def _terminal(words: Sequence[Word], opened: Opened) -> None:
    """`tmux` and `screen` run their last operands."""
    args = read_args(words[1:], names_of("-L -S -f -t -n -s -c -x -y -F -e -p -h -T -X"), stop=True)
    rest = list(args.rest)
    if words[0].text.endswith("screen"):
        if rest:
            opened.add(Runs(rest, "screen", len(words) - len(rest)))
        return
    if rest and re.fullmatch(
        r"new|new-session|neww|new-window|splitw|split-window|respawn-\w+|run|run-shell|if|if-shell"
        r"|display-popup|popup|pipe-pane|pipep|send|send-keys|set-hook|bind|bind-key|confirm\w*"
        r"|command-prompt",
        rest[0].text,
    ):
        tail = read_args(rest[1:], names_of("-t -n -s -c -x -y -F -e -p -h -T -N"), stop=True)
        if tail.rest:
            opened.add(Code(joined([w for w in tail.rest if w.text not in ("Enter", "C-m")]),
                            "tmux"))  # fmt: skip


_CONTAINER_VALUES: Final = names_of(
    "-v --volume -e --env --env-file -p --publish -w --workdir -u --user --name --network --net -h"
    " --hostname --entrypoint -m --memory --cpus --mount -l --label --platform --restart"
    " --add-host --cap-add --cap-drop --device --security-opt --tmpfs --ulimit --shm-size --pid"
    " --ipc --userns --log-driver --log-opt --link --dns --gpus --cidfile --pull --runtime -c"
    " --cpu-shares --volumes-from --ip --cgroupns --uts --detach-keys --index --arch --annotation"
    " --pod --secret --expose --group-add --stop-signal --stop-timeout --health-cmd --sysctl"
    " --kernel-memory --memory-swap --cpuset-cpus --pids-limit --label-file --uidmap"
)
CONTAINER_GLOBALS: Final = names_of(
    "-H --host -c --context -l --log-level --config --tlscacert --tlscert --tlskey -f --file -p"
    " --project-name --profile --project-directory --root --runroot --url --connection --identity"
    " --namespace --address --env-file"
)


def _container(words: Sequence[Word], opened: Opened) -> None:
    rest = read_args(words[1:], CONTAINER_GLOBALS, stop=True).rest
    if rest and rest[0].text in ("compose", "container"):
        rest = read_args(rest[1:], CONTAINER_GLOBALS, stop=True).rest
    if not rest or rest[0].text not in ("run", "exec", "create"):
        return
    args = read_args(rest[1:], _CONTAINER_VALUES, stop=True)
    inner = args.rest[1:]
    entry = args.values("--entrypoint")
    for value in args.values("--health-cmd"):
        opened.add(Code(value, "container health check"))
    if entry and entry[0].text:
        inner = (entry[0], *inner)
    if inner and inner[0].text.startswith("-"):
        # Arguments of the image's own program.
        return
    if inner:
        at = None if entry else len(words) - len(inner)
        opened.add(Runs(inner, f"{words[0].text} {rest[0].text}", at))


KUBECTL_GLOBALS: Final = names_of(
    "-n --namespace --context --kubeconfig -s --server --cluster --user --token --as --as-group"
    " --certificate-authority --request-timeout --cache-dir -c --container -f --filename -l"
    " --selector -o --output --image -v --replicas"
)


def _kubectl(words: Sequence[Word], opened: Opened) -> None:
    args = read_args(words[1:], KUBECTL_GLOBALS)
    if not args.operands or args.operands[0].text not in ("exec", "run", "debug"):
        return
    texts = [word.text for word in words]
    if "--" in texts:
        at = texts.index("--") + 1
        if at < len(words):
            opened.add(Runs(words[at:], "kubectl exec", at))
    elif args.operands[0].text == "exec" and len(args.operands) > 2:
        opened.add(Runs(args.operands[2:], "kubectl exec"))


def _npm(words: Sequence[Word], opened: Opened) -> None:
    args = read_args(words[1:], valued_options("npm") | {"-c", "--call"}, stop=True)
    rest = args.rest
    if not rest or rest[0].text not in ("exec", "x"):
        return
    tail = read_args(rest[1:], names_of("-c --call -p --package -w --workspace"), stop=True)
    for text in [*args.values("-c", "--call"), *tail.values("-c", "--call")]:
        opened.add(Code(text, "npm exec"))
    if tail.rest:
        opened.add(Runs(tail.rest, "npm exec", len(words) - len(tail.rest)))


def _vagrant(words: Sequence[Word], opened: Opened) -> None:
    for text in read_args(words[1:], frozenset(["-c", "--command"])).values("-c", "--command"):
        opened.add(Code(text, "vagrant ssh"))


def _nix(words: Sequence[Word], opened: Opened) -> None:
    texts = [word.text for word in words]
    for flag in ("-c", "--command"):
        if flag in texts and texts.index(flag) + 1 < len(words):
            at = texts.index(flag) + 1
            opened.add(Runs(words[at:], "nix", at))
            return


def _ip(words: Sequence[Word], opened: Opened) -> None:
    texts = [word.text for word in words]
    if "netns" in texts and "exec" in texts:
        at = texts.index("exec") + 2
        opened.find(ask("enters another namespace"))
        if at < len(words):
            opened.add(Runs(words[at:], "ip netns exec", at))


_SPECIAL: Final[dict[str, Callable[[Sequence[Word], Opened], None]]] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk", "goawk"), _awk),
    **dict.fromkeys(("sed", "gsed", "ssed"), _sed),
    **dict.fromkeys(("vim", "vi", "nvim", "view", "ex", "vimdiff", "gvim", "rvim", "kak", "hx"),
                    _vim),
    **dict.fromkeys(("less", "more", "most", "pg", "lv"), _pager),
    **dict.fromkeys(("make", "gmake", "bmake", "mingw32-make"), _make),
    **dict.fromkeys(("psql", "mysql", "mariadb", "sqlite3", "sqlite", "duckdb", "pgcli", "mycli",
                     "cockroach", "clickhouse-client", "sqlplus", "isql", "mongosh", "mongo",
                     "sqlcmd", "redis-cli"), _database),
    **dict.fromkeys(("nc", "ncat", "netcat", "nc.openbsd", "nc.traditional"), _netcat),
    "scp": _copy, "sftp": _copy, "socat": _socat, "wget": _wget, "cargo": _cargo,
    **dict.fromkeys(("apt", "apt-get", "aptitude"), _apt),
    **dict.fromkeys(("tmux", "screen"), _terminal),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "podman-compose", "lima"),
                    _container),
    **dict.fromkeys(("kubectl", "oc", "k3s", "microk8s"), _kubectl),
    "npm": _npm, "vagrant": _vagrant, "nix": _nix, "ip": _ip,
}  # fmt: skip
