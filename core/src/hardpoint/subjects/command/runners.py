"""Runners with a grammar of their own: where the program that they run stands among their words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import attrs

from hardpoint.subjects.command.args import Args, read_args
from hardpoint.subjects.command.finding import ask
from hardpoint.subjects.command.opening import INPUT, Code, Opened, Runs, joined
from hardpoint.subjects.command.tables import names_of
from hardpoint.subjects.command.words import HOLE, Word
from hardpoint.subjects.command.wrappers import take_assignments


def open_env(words: Sequence[Word]) -> Opened:
    """`env`, with `-S`, which splits a text into words."""
    valued = names_of("-u -C -S -P --unset --chdir --split-string --default-signal")
    args = read_args(words[1:], valued, stop=True)
    opened = Opened()
    rest = take_assignments([word for word in args.rest if word.text != "-"], opened)
    for text in args.values("-S", "--split-string"):
        opened.add(Code(joined([text, *args.rest]), "env"))
        return opened
    if rest:
        opened.add(Runs(rest, "env", len(words) - len(rest)))
    return opened


_XARGS: Final = names_of(
    "-E -I -L -n -P -s -d -a -J -R -S --arg-file --delimiter --max-args --max-lines --max-procs"
    " --max-chars --process-slot-var"
)


def open_xargs(words: Sequence[Word]) -> Opened:
    """`xargs` runs its operands with words from its input."""
    args = read_args(words[1:], _XARGS, stop=True)
    rest = list(args.rest)
    if not rest:
        return Opened()
    marks = [value.text for value in args.values("-I", "-J", "--replace")]
    if args.has("-i", "--replace") and not marks:
        marks = ["{}"]
    inner = replaced(rest, [mark for mark in marks if mark]) if marks else [*rest, INPUT]
    return Opened().add(Runs(inner, "xargs", len(words) - len(rest)))


def replaced(words: Sequence[Word], marks: Sequence[str]) -> list[Word]:
    """The words with every mark, such as `{}`, replaced by something known only at run time."""
    made = []
    for word in words:
        text = word.text
        for mark in marks:
            text = text.replace(mark, HOLE)
        made.append(word if text == word.text else attrs.evolve(word, text=text, raw=word.shown))
    return made


_PARALLEL: Final = names_of(
    "-j -P -a -S -I -N -n -L -d -E -l -s -C -J -M --jobs --max-procs --arg-file --sshlogin --colsep"
    " --delay --timeout --retries --joblog --results --tmpdir --workdir --wd --basefile --return"
    " --arg-sep --arg-file-sep --delimiter --max-args --env --tagstring --load --halt --nice"
    " --block --recstart --recend --shellquote"
)
_SHELL_CHARACTERS: Final = re.compile(r"[;&|<>()$`\\\"'\n*?\[#~{}]")


def open_parallel(words: Sequence[Word]) -> Opened:
    """GNU `parallel`: the command is shell text, its arguments follow `:::` or come as input."""
    args = read_args(words[1:], _PARALLEL, stop=True)
    opened = Opened()
    if args.has("-S", "--sshlogin", "--basefile", "--transfer"):
        opened.find(ask("runs on other machines"))
    template: list[Word] = []
    inputs: list[Word] = []
    into = template
    for word in args.rest:
        if re.fullmatch(r":::\+?|::::\+?", word.text):
            into = inputs
            if word.text.startswith("::::"):
                inputs.append(INPUT)
            continue
        into.append(word)
    if not template:
        if not inputs:
            return opened.find(ask("runs every line of its input"))
        return opened.add(*(Code(word, "parallel") for word in inputs))
    text = joined(template).text
    if _SHELL_CHARACTERS.search(re.sub(r"\{[#%/.\d]*\}", "", text)):
        return opened.add(
            Code(replaced([joined(template)], ["{}", "{.}", "{/}", "{1}"])[0], "parallel")
        )
    if re.search(r"\{[^ ]*\}", text):
        inner = replaced(template, re.findall(r"\{[^ {}]*\}", text))
    else:
        inner = [*template, *(inputs or [INPUT])]
    pieces = [
        word.part(piece) if HOLE not in word.text else word
        for word in inner[: len(template)]
        for piece in (word.text.split() if HOLE not in word.text else [word.text])
    ]
    return opened.add(Runs([*pieces, *inner[len(template) :]], "parallel"))


_SSH: Final = names_of("-B -b -c -D -E -e -F -I -i -J -L -l -m -O -o -P -p -Q -R -S -W -w")
_SSH_CODE: Final = re.compile(
    r"\s*(ProxyCommand|LocalCommand|RemoteCommand|KnownHostsCommand|PKCS11Provider"
    r"|SecurityKeyProvider|XAuthLocation|Match)\s*[= ]\s*(.*)",
    re.IGNORECASE | re.DOTALL,
)


def ssh_options(args: Args, opened: Opened, program: str) -> None:
    """Options that make an SSH client run something here."""
    for value in args.values("-o"):
        match = _SSH_CODE.fullmatch(value.text)
        if match and match[2].lower() != "none":
            opened.add(Code(value.part(match[2]), f"{program} -o"))
        elif HOLE in value.text:
            opened.find(ask("an option of the connection is known only at run time"))
    if program in ("scp", "sftp"):
        for value in args.values("-S", "-D"):
            opened.add(Code(value, f"{program} -S"))
    elif args.has("-R", "-D", "-w"):
        opened.find(ask("opens a tunnel into this machine"))


def open_ssh(words: Sequence[Word]) -> Opened:
    """`ssh` runs its operands as text on another machine; `-o` may run text on this one."""
    args = read_args(words[1:], _SSH, stop=True)
    opened = Opened()
    ssh_options(args, opened, "ssh")
    # Options may stand between the host and the command.
    tail = read_args(args.rest[1:], _SSH, stop=True)
    ssh_options(tail, opened, "ssh")
    if tail.rest:
        opened.add(Code(joined(tail.rest), "ssh"))
    return opened


def open_su(words: Sequence[Word]) -> Opened:
    """`su` and `runuser`: text behind `-c`, or a program behind `--`."""
    valued = names_of(
        "-c -s -g -G -u -w --command --session-command --shell --group --supp-group --user"
    )
    args = read_args(words[1:], valued)
    opened = Opened().find(ask("runs as another user"))
    for text in args.values("-c", "--command", "--session-command"):
        opened.add(Code(text, words[0].text))
    if args.values("-u", "--user") and args.rest:
        opened.add(Runs(args.rest, words[0].text))
    return opened


def open_script(words: Sequence[Word]) -> Opened:
    """`script -c TEXT FILE`, and the BSD form `script FILE PROGRAM …`."""
    args = read_args(
        words[1:],
        names_of("-c -t -I -O -B -T -m -o -E --command --log-in --log-out --log-io"),
    )
    opened = Opened()
    for text in args.values("-c", "--command"):
        opened.add(Code(text, "script"))
    if not opened.inner:
        rest = read_args(words[1:], names_of("-t -T"), stop=True).rest
        if len(rest) > 1:
            opened.add(Runs(rest[1:], "script"))
    return opened


def open_busybox(words: Sequence[Word]) -> Opened:
    """`busybox APPLET …`."""
    if len(words) < 2 or words[1].text.startswith("-"):
        return Opened()
    return Opened(neutral=True).add(Runs(words[1:], words[0].text, 1))


def open_loader(words: Sequence[Word]) -> Opened:
    """The dynamic loader run as a program."""
    args = read_args(
        words[1:],
        names_of("--library-path --preload --audit --inhibit-rpath --argv0"),
        stop=True,
        single_dash=True,
    )
    opened = Opened()
    if args.has("--library-path", "--preload", "--audit"):
        opened.find(ask("loads foreign code"))
    if args.rest:
        opened.add(Runs(args.rest, "loader"))
    return opened


def open_find(words: Sequence[Word]) -> Opened:
    """`find -exec … ;` and `fd -x …`: run once for each match."""
    opened = Opened()
    index = 1
    while index < len(words):
        text = words[index].text
        index += 1
        if text not in ("-exec", "-execdir", "-ok", "-okdir"):
            continue
        end = index
        while end < len(words) and not (
            words[end].text == ";" or (words[end].text == "+" and words[end - 1].text == "{}")
        ):
            end += 1
        inner = replaced(words[index:end], ["{}"])
        opened.add(Runs(inner, f"find {text}", index, deletes_matches=True))
        index = end + 1
    return opened


def open_fd(words: Sequence[Word]) -> Opened:
    """`fd -x PROGRAM …`."""
    opened = Opened()
    for index, word in enumerate(words):
        if word.text in ("-x", "-X", "--exec", "--exec-batch"):
            inner = replaced(words[index + 1 :], ["{}", "{/}", "{//}", "{.}", "{/.}"])
            inner = inner if any(HOLE in w.text for w in inner) else [*inner, INPUT]
            opened.add(Runs(inner, "fd", index + 1, deletes_matches=True))
            break
        if word.text.startswith(("--exec=", "--exec-batch=")):
            opened.add(Code(word.part(word.text.partition("=")[2]), "fd"))
    return opened
