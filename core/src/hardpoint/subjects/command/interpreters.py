"""Shells and other interpreters: which text they run, from an option, a file or their input."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import attrs

from hardpoint.subjects.command.args import read_args
from hardpoint.subjects.command.finding import ask, refuse
from hardpoint.subjects.command.opening import Code, Opened, Script, Stdin
from hardpoint.subjects.command.tables import names_of
from hardpoint.subjects.command.words import Word

SHELLS: Final = names_of(
    "sh bash dash ash zsh ksh ksh93 mksh pdksh lksh oksh yash fish rbash rsh_shell csh tcsh posh"
    " hush xonsh nu elvish osh ysh git-shell bash5 sh.distrib"
)

_STDIN: Final = re.compile(r"-|/dev/stdin|/dev/fd/0|/proc/self/fd/0")
_FORKS: Final = re.compile(
    r"fork\s+while\s+fork|while\s*\(?\s*(?:1|true)\s*\)?.{0,40}\bfork\b"
    r"|\bfork\b.{0,40}\bwhile\b|loop\s*\{?\s*(?:do\s*)?\{?\s*fork",
    re.IGNORECASE | re.DOTALL,
)
_WIPES: Final = re.compile(
    r"(?:rmtree|rm_rf|rm_r|remove_dir_all|rmSync|rmdirSync|remove_tree)\s*[(\s]\s*['\"]/['\"]"
    r"|rm\s+-(?:rf|fr)\s+/(?:['\"\s*;]|$)"
)


@attrs.frozen
class Interpreter:
    """How a language is given a program."""

    code: str
    """Options whose value is code."""
    valued: str = ""
    """Other options that take a value; after the last of `stops` there is no script."""
    stops: str = ""
    """Options that name the program themselves, such as `-m MODULE`."""
    scripts_only: bool = False
    """Never reads a program from its input without being told."""
    words: tuple[str, ...] = ()
    """Subcommands whose operand is code."""


_LANGUAGES: Final = {
    "python": Interpreter("-c", "-W -X --check-hash-based-pycs", "-m"),
    "perl": Interpreter("-e -E", "-I -M -m -F"),
    "ruby": Interpreter("-e", "-I -r -E -F -K -C"),
    "node": Interpreter(
        "-e --eval -p --print -pe -r --require --import --loader --experimental-loader",
        "-C --conditions --env-file --title",
        "--test --run --check -c",
    ),
    "php": Interpreter("-r -B -R -E -F", "-c -d -f -S -t -z", "-S -f"),
    "lua": Interpreter("-e", "-l", ""),
    "Rscript": Interpreter("-e"),
    "R": Interpreter("-e", "-f --file", "-f --file", scripts_only=True),
    "julia": Interpreter("-e -E --eval --print", "-J -L -p -t -C"),
    "osascript": Interpreter("-e", "-l -s"),
    "deno": Interpreter("", "", "", scripts_only=True, words=("eval",)),
    "bun": Interpreter("-e --eval -p --print", "", "", scripts_only=True),
    "tclsh": Interpreter(""),
    "wish": Interpreter(""),
    "expect": Interpreter("-c", "-f", "-f"),
    "guile": Interpreter("-c", "-l -L -C -s", "-s"),
    "groovy": Interpreter("-e"),
    "scala": Interpreter("-e"),
    "elixir": Interpreter("-e --eval", "-r -pr -pa", "-S"),
    "erl": Interpreter("-eval", "-s -run -pa -pz", "-s -run", scripts_only=True),
    "ghc": Interpreter("-e", "-o -i", "", scripts_only=True),
    "swift": Interpreter("-e", "", "build run test package", scripts_only=True),
    "octave": Interpreter("--eval --eval-with"),
    "racket": Interpreter("-e --eval", "-l -t -f -r", "-l -t -f -r"),
    "sbcl": Interpreter("--eval", "--load --script --core", "--load --script"),
    "clojure": Interpreter("-e --eval", "-i -m", "-i -m"),
    "crystal": Interpreter("", "", "", scripts_only=True, words=("eval",)),
    "ocaml": Interpreter("-e", "-I"),
    "gdb": Interpreter("-ex -iex -x --eval-command --command -eval-command -command", "-p", "",
                       scripts_only=True),
    "lldb": Interpreter("-o -O -s --one-line --source", "-p -n", "", scripts_only=True),
    "powershell": Interpreter("-c -command -encodedcommand -enc -e -ec -encodedarguments",
                              "-executionpolicy -file -f", "-file -f"),
    "cmd": Interpreter("/c /k /r"),
    "emacs": Interpreter(
        "--eval -eval --execute -execute -f --funcall -funcall -l --load -load --script -script"
        " --batch", "", "", scripts_only=True),
}  # fmt: skip
_ALIASES: Final = {
    "pythonw": "python", "pypy": "python", "ipython": "python", "micropython": "python",
    "py": "python", "jython": "python", "nodejs": "node", "jruby": "ruby", "luajit": "lua",
    "tsx": "node", "ts-node": "node", "texlua": "lua", "pwsh": "powershell", "emacsclient": "emacs",
    "nickle": "tclsh", "jimsh": "tclsh", "rscript": "Rscript", "r": "R", "php-cli": "php",
    "python-config": "", "gawk": "", "command.com": "cmd", "csi": "powershell",
}  # fmt: skip


def language_of(program: str) -> Interpreter | None:
    """The interpreter behind a program name, whatever version it carries."""
    name = re.sub(r"[-.]?\d[\d.]*t?$", "", program) or program
    name = _ALIASES.get(name, name)
    return _LANGUAGES.get(name)


def open_shell(words: Sequence[Word]) -> Opened:
    """A shell: text behind `-c`, a script, or its input."""
    name = words[0].text.rpartition("/")[2]
    valued = names_of("-o -O +o +O --rcfile --init-file --init-command -C --emulate")
    if name == "fish":
        valued = names_of("-o -C -d -p -f --init-command --features --profile")
    args = read_args(words[1:], valued, stop=True, plus=True)
    opened = Opened()
    for file in args.values("--rcfile", "--init-file"):
        opened.add(Script(file, name))
    for text in args.values("--init-command", "-C"):
        opened.add(Code(text, f"{name} -C"))
    if args.has("-c", "--command") or any(
        option.name.startswith("--command=") for option in args.options
    ):
        # Options may stand between -c and its text: bash -c -l TEXT.
        tail = read_args(args.rest, valued, stop=True, plus=True)
        texts = [*args.values("--command"), *tail.rest[:1]]
        if not texts:
            return opened.find(ask(f"{name} -c has no text to judge"))
        return opened.add(Code(texts[0], f"{name} -c"))
    if args.has("-s") or not args.rest or _STDIN.fullmatch(args.rest[0].text):
        if not args.has("--version", "--help"):
            opened.add(Stdin(name))
        return opened
    return opened.add(Script(args.rest[0], name))


def open_interpreter(program: str, words: Sequence[Word]) -> Opened | None:
    """An interpreter of another language; None when the program is none."""
    language = language_of(program)
    if language is None:
        return None
    opened = Opened()
    code, stops = language.code.split(), language.stops.split()
    lower = [attrs.evolve(w, text=w.text.lower()) if program in ("cmd", "powershell", "pwsh")
             else w for w in words]  # fmt: skip
    single_dash = any(len(o) > 2 and not o.startswith("--") for o in code) or program == "cmd"
    args = read_args(
        lower[1:], frozenset([*code, *language.valued.split(), *stops]), stop=True,
        single_dash=single_dash,
    )  # fmt: skip
    if program.startswith("cmd") and any(w.text[:2] in ("/c", "/k", "/r") for w in lower[1:]):
        return opened.find(ask("runs a command of another shell"))
    given = [value for name in code for value in args.values(name)]
    if given or (code and args.has(*code)) or (args.rest and args.rest[0].text in language.words):
        opened.find(ask("inline code cannot be judged"))
        texts = " ".join(word.text for word in words[1:])
        if _FORKS.search(texts):
            opened.find(refuse("starts processes without end"))
        if _WIPES.search(texts):
            opened.find(refuse("erases the root directory"))
        return opened
    if stops and args.has(*stops):
        modules = [value.text for value in args.values("-m")]
        if modules and modules[0] in ("timeit", "code", "pdb", "trace"):
            opened.find(ask("inline code cannot be judged"))
        return opened
    if not args.rest:
        if not language.scripts_only and not args.has(
            "-V", "-v", "-h", "--version", "--help", "-version"
        ):
            opened.add(Stdin(program, shell=False))
        return opened
    if _STDIN.fullmatch(args.rest[0].text):
        return opened.add(Stdin(program, shell=False))
    if not language.scripts_only:
        opened.add(Script(args.rest[0], program, shell=False))
    elif any(re.match(r"https?://", word.text) for word in args.rest):
        opened.find(ask("runs a program from the network"))
    return opened


def open_source(words: Sequence[Word]) -> Opened:
    """`. FILE` and `source FILE`."""
    operands = [word for word in words[1:] if word.text != "--"]
    if not operands:
        return Opened()
    if _STDIN.fullmatch(operands[0].text) and operands[0].text != "-":
        return Opened().add(Stdin(words[0].text))
    return Opened().add(Script(operands[0], words[0].text))
