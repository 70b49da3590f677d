"""Which programs, subcommands and options destroy, cannot be undone, need privileges or send data.

A table of patterns over options and operands in any order. What needs more than a pattern is in
`checks`.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import attrs

from hardpoint.subjects.command.args import SINGLE_DASH, Args, read_args
from hardpoint.subjects.command.finding import Finding, ask
from hardpoint.subjects.command.git import GLOBAL_VALUES
from hardpoint.subjects.command.option_table import valued_options
from hardpoint.subjects.command.services import CONTAINER_GLOBALS, KUBECTL_GLOBALS
from hardpoint.subjects.command.tables import names_of, table
from hardpoint.subjects.command.words import HOLE, Word


@attrs.frozen
class _Pattern:
    operands: tuple[tuple[str, ...], ...]
    options: tuple[tuple[str, ...], ...]
    absent: tuple[str, ...]
    why: str


# Programs whose first operand is a subcommand, and the options before it that take a value.
_GLOBALS: Final = {
    "git": GLOBAL_VALUES,
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "podman-compose"),
                    CONTAINER_GLOBALS),
    **dict.fromkeys(("kubectl", "oc"), KUBECTL_GLOBALS),
    "helm": names_of("-n --namespace --kube-context --kubeconfig"),
    "aws": names_of("--profile --region --output --endpoint-url --query --color"),
    "gcloud": names_of("--project --account --configuration --format --zone --region"),
    "terraform": frozenset(),
    "npm": names_of("--prefix -w --workspace -C --registry"),
    "pnpm": names_of("-C --dir -F --filter"),
    "yarn": names_of("--cwd"),
    "systemctl": names_of("-H --host -M --machine -t --type --root"),
    "gh": names_of("-R --repo"),
    "cargo": names_of("--manifest-path --color --config -Z -C"),
    "redis-cli": names_of("-h -p -a -n -s -u --user --pass -r -i"),
    "ip": names_of("-n -netns -f -family -b -batch"),
    "dnf": names_of("-c --releasever --installroot --enablerepo --disablerepo"),
}  # fmt: skip
_SUB_VALUES: Final = {
    "git push": "-o --push-option --repo --receive-pack --exec",
    "git checkout": "-b --orphan --conflict --pathspec-from-file",
    "git switch": "-c --create --orphan --conflict",
    "git branch": "-u --set-upstream-to --contains --merged --no-merged --sort --format",
    "git tag": "-m -F --message --file -u --local-user --contains --sort --format",
    "git restore": "-s --source --pathspec-from-file",
    "git reset": "--pathspec-from-file",
    "git clean": "-e --exclude",
    "git rebase": "--onto -s -X -x --exec --strategy",
    "git stash": "-m --message",
}


@lru_cache(maxsize=1)
def _patterns() -> tuple[dict[str, list[_Pattern]], list[tuple[str, _Pattern]]]:
    named: dict[str, list[_Pattern]] = {}
    globbed: list[tuple[str, _Pattern]] = []
    for line in table("dangerous"):
        left, _, why = line.rpartition(" : ")
        programs, *tokens = left.split()
        operands, options, absent = [], [], []
        for token in tokens:
            if token.startswith("!"):
                absent += token[1:].split("|")
            elif token.startswith("-"):
                options.append(tuple(token.split("|")))
            else:
                operands.append(tuple(token.split("|")))
        pattern = _Pattern(tuple(operands), tuple(options), tuple(absent), why)
        for program in programs.split("|"):
            if "*" in program:
                globbed.append((program, pattern))
            else:
                named.setdefault(program, []).append(pattern)
    return named, globbed


def read_program(program: str, words: Sequence[Word]) -> tuple[Args, Args]:
    """The arguments of a program, and again with those before its subcommand left out."""
    single = program in SINGLE_DASH
    if program not in _GLOBALS:
        args = read_args(words[1:], valued_options(program), single_dash=single)
        return args, args
    valued = _GLOBALS[program]
    before = read_args(words[1:], valued, stop=True, single_dash=single)
    if not before.rest:
        return before, before
    sub = before.rest[0]
    inner_values = _SUB_VALUES.get(f"{program} {sub.text}", "").split()
    # Behind the subcommand the same letters mean something else to these.
    split = program == "git" or valued is CONTAINER_GLOBALS
    keep = frozenset(inner_values) | (frozenset() if split else valued)
    after = read_args(before.rest[1:], keep, single_dash=single)
    unsure = frozenset(index + 1 for index in after.unsure)
    return before, attrs.evolve(
        after, operands=(sub, *after.operands), unsure=unsure, rest=before.rest
    )


def table_findings(program: str, words: Sequence[Word]) -> list[Finding]:
    """What the table says about a command."""
    named, globbed = _patterns()
    patterns = [*named.get(program, ())]
    patterns += [pattern for glob, pattern in globbed if fnmatch.fnmatchcase(program, glob)]
    if not patterns:
        return []
    _, args = read_program(program, words)
    found = []
    for pattern in patterns:
        if _fits(pattern, args):
            found.append(ask(pattern.why))
    if not found and any(_cannot_tell(pattern, args) for pattern in patterns):
        found.append(ask(f"which subcommand of {program} runs is known only at run time"))
    return found


def _fits(pattern: _Pattern, args: Args) -> bool:
    for names in pattern.options:
        if not any(_given(name, args) for name in names):
            return False
    if any(_given(name, args) for name in pattern.absent):
        return False
    return not pattern.operands or match_operands(pattern.operands, args)


def _given(name: str, args: Args) -> bool:
    if "*" in name:
        return any(fnmatch.fnmatchcase(option.name, name) for option in args.options)
    if "=" in name:
        option, _, value = name.partition("=")
        return any(fnmatch.fnmatchcase(found.text, value) for found in args.values(option))
    return args.has(name)


def match_operands(wanted: Sequence[Sequence[str]], args: Args) -> bool:
    """Whether the operands start as a pattern says.

    An operand that may be the value of an unknown option is tried both ways.
    """
    # Places of the operands that the pattern may have reached; few, as patterns are short.
    reached = {0}
    texts = [word.text.lower() for word in args.operands]

    def with_skips(places: set[int]) -> set[int]:
        for place in sorted(places):
            at = place
            while at in args.unsure:
                at += 1
                places.add(at)
        return places

    reached = with_skips(reached)
    for alternatives in wanted:
        if alternatives == ("...",):
            reached = set(range(min(reached), len(texts) + 1))
            continue
        reached = with_skips(
            {
                place + 1
                for place in reached
                if place < len(texts)
                and any(
                    fnmatch.fnmatchcase(texts[place], choice.lower()) for choice in alternatives
                )
            }
        )
        if not reached:
            return False
    return True


def _cannot_tell(pattern: _Pattern, args: Args) -> bool:
    """Whether an expansion stands where the pattern wants one particular word."""
    for index, alternatives in enumerate(pattern.operands[: len(args.operands)]):
        text = args.operands[index].text
        if alternatives == ("...",) or "*" in alternatives:
            return False
        if HOLE in text:
            # What stands around the expansion may still rule the word out.
            shape = text.replace("[", "[[]").replace(HOLE, "*").lower()
            return any(fnmatch.fnmatchcase(choice.rstrip("*"), shape) for choice in alternatives)
        if not any(fnmatch.fnmatchcase(text.lower(), choice) for choice in alternatives):
            return False
    return False
