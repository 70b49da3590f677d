"""Hold rules against what is installed: typos, unreadable patterns, examples that do not hold."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from hardpoint.config import Config
from hardpoint.entries import Entry
from hardpoint.errors import ConfigError, ToolError
from hardpoint.policy.binding import BoundRule, NotAbout, bind_rule
from hardpoint.policy.rules import Rule
from hardpoint.protected import FIRST_PARTY, PROTECTED_KINDS, PROTECTED_TOOL_NAMES
from hardpoint.registry import ToolRegistry
from hardpoint.tools import FunctionTool, Subject, SubjectKind, Tool, ToolDomain

# The operations that an example without one of its own is tried with.
_OPERATIONS: Final[Mapping[str, Sequence[str]]] = {
    "path": ("read", "write", "list", "delete"),
    "url": ("GET", "POST"),
    "text": ("",),
}


@attrs.frozen
class Finding:
    """One thing wrong with a rule."""

    rule: Rule
    message: str
    fatal: bool
    """An error; otherwise a warning."""

    def __str__(self) -> str:
        return f"{self.rule.source}: rule {str(self.rule)!r}: {self.message}"


def lint_rules(
    rules: Sequence[Rule],
    registry: ToolRegistry,
    *,
    elsewhere: Mapping[str, str] | None = None,
    declared: Sequence[str] = (),
    domains: Collection[str] | None = None,
) -> Sequence[Finding]:
    """Everything that is wrong with the rules, in their order.

    Args:
        rules: What the configuration says.
        registry: The tools that there are now.
        elsewhere: Tools, or globs, that a switched-off plugin or an unread server has, with the
            reason why they are not here.
        declared: Globs over the names that the host program will register itself.
        domains: The execution domains of the plugins; None where that is not known.
    """
    findings: list[Finding] = []
    for rule in rules:
        findings += _lint_one(rule, registry, elsewhere or {}, declared)
        if domains is not None:
            findings += _lint_domains(rule, {*domains, *ToolDomain})
    return findings


def _lint_one(
    rule: Rule, registry: ToolRegistry, elsewhere: Mapping[str, str], declared: Sequence[str]
) -> Iterator[Finding]:
    named = [entry for entry in registry.entries() if rule.names(entry.name)]
    about: list[Entry] = []
    not_about: ConfigError | None = None
    for entry in named:
        try:
            kind = entry.tool.subject_kind
            bound = bind_rule(rule, entry.name, entry.definition.parameters, kind)
        except ToolError:  # the toolset lists it and does not have it now
            about.append(entry)
            continue
        except NotAbout as error:
            not_about = error
            continue
        except ConfigError as error:
            yield Finding(rule, _without_place(error, rule), fatal=True)
            return
        about.append(entry)
        yield from _lint_examples(rule, bound, entry)
        yield from _lint_subjects(rule, bound, entry)
    if about:
        return
    if not_about is not None:
        yield Finding(rule, _without_place(not_about, rule), fatal=True)
        return
    if rule.tool in PROTECTED_TOOL_NAMES:
        yield from _lint_absent(rule)
        return
    for pattern, reason in elsewhere.items():
        if fnmatch.fnmatchcase(rule.tool, pattern) or rule.names(pattern):
            yield Finding(rule, f"matches nothing now: {reason}", fatal=False)
            return
    if any(fnmatch.fnmatchcase(rule.tool, pattern) for pattern in declared):
        return
    if rule.is_glob:
        if not any(rule.names(name) for name in PROTECTED_TOOL_NAMES):
            yield Finding(rule, "matches no tool that is installed now", fatal=False)
        return
    told = _no_such("tool", rule.tool, {*registry, *PROTECTED_TOOL_NAMES})
    yield Finding(
        rule,
        f"{told} (a tool that your program registers itself belongs into"
        " [policy] application_tools)",
        fatal=True,
    )


def _lint_domains(rule: Rule, known: Collection[str]) -> Iterator[Finding]:
    for conditions in (rule.when, rule.unless):
        for word in conditions.get("domain", ()):
            if not fnmatch.filter(known, word):
                near = difflib.get_close_matches(word, sorted(known), n=1)
                did_you_mean = f"; did you mean {near[0]!r}?" if near else ""
                text = f"there is no domain {word!r} here{did_you_mean}"
                yield Finding(rule, text, fatal=bool(near))


def _lint_subjects(rule: Rule, bound: BoundRule, entry: Entry) -> Iterator[Finding]:
    """A tool that never says what it acts on is out of reach for rules about that."""
    tool = entry.tool
    if bound.kind is None or entry.toolset is not None or rule.is_glob:
        return
    if isinstance(tool, FunctionTool):
        says = tool.options.canonicalise is not None
    else:
        says = type(tool).canonicalise is not Tool.canonicalise
    if not says:
        yield Finding(
            rule,
            f"can match nothing: {entry.name!r} has subjects of kind {bound.kind!r}, and no"
            " `canonicalise` that names them",
            fatal=True,
        )


def _lint_absent(rule: Rule) -> Iterator[Finding]:
    """A rule on a protected name is always valid; its pattern still has to be readable."""
    kind = PROTECTED_KINDS.get(rule.tool)
    if rule.is_bare or rule.where or kind is None:
        return
    try:
        bind_rule(rule, rule.tool, None, kind)
    except ConfigError as error:
        yield Finding(rule, _without_place(error, rule), fatal=True)


def _lint_examples(rule: Rule, bound: BoundRule, entry: Entry) -> Iterator[Finding]:
    kind = entry.tool.subject_kind
    for wanted, examples in ((True, rule.match), (False, rule.not_match)):
        for example in examples:
            try:
                hit = example_matches(bound, kind, example)
            except ConfigError as error:
                yield Finding(rule, error.message, fatal=True)
                continue
            if hit is not wanted:
                word = "does not match" if wanted else "matches"
                yield Finding(rule, f"{word} its example {example!r}", fatal=True)


def example_matches(bound: BoundRule, kind: SubjectKind | None, example: Any) -> bool:
    """Whether a rule matches an example: arguments as a table, or the text of a subject.

    Raises:
        ConfigError: The tool has no subject that a text could be.
    """
    if isinstance(example, Mapping):
        command = example.get("command") if kind == "command" else None
        if bound.kind == "command" and command is not None:
            return bound.matches(example, ()) and _command_matches(bound, command)
        return bound.matches(example, ())
    if not isinstance(example, str):
        raise ConfigError(f"example {example!r} is neither a table of arguments nor text")
    if kind is None:
        raise ConfigError(
            f"example {example!r}: the tool has no command, path or URL; write a table of arguments"
        )
    if bound.kind == "command":
        return _command_matches(bound, example)
    return any(
        bound.matches({}, (Subject(kind, example, operation),))
        for operation in _OPERATIONS.get(kind, ("",))
    )


def _command_matches(bound: BoundRule, command: Any) -> bool:
    from hardpoint.subjects import decide_command

    word = bound.rule.decision
    answer = decide_command(command, **{word: [bound.rule]})
    return answer.verdict == word


def _without_place(error: ConfigError, rule: Rule) -> str:
    """The message without file and rule, which the finding says itself."""
    return error.message.removeprefix(f"{rule.source}: rule {str(rule)!r}").lstrip(": ").strip()


def unknown_names(
    config: Config,
    registry: ToolRegistry,
    plugins: Collection[str],
    elsewhere: Mapping[str, str],
) -> list[tuple[str, bool]]:
    """Settings for tools and plugins that are not there, and whether each looks like a mistake.

    A name that is nearly one that there is would otherwise protect nothing, without a word. One
    that resembles nothing may be meant for another machine.
    """
    tools = {*registry, *PROTECTED_TOOL_NAMES}
    known_plugins = {*plugins, *FIRST_PARTY}
    loose = [*elsewhere, *config.policy.application_tools]
    found: list[tuple[str, bool]] = []

    def check(what: str, name: str, known: Collection[str], place: str, source: object) -> None:
        if name not in known:
            near = bool(difflib.get_close_matches(name, sorted(known), n=1))
            found.append((f"{source or 'settings'}: {place}: {_no_such(what, name, known)}", near))

    for name in sorted(config.tools):
        if not any(fnmatch.fnmatchcase(name, each) for each in loose):
            source = config.sources.get(f"tools.{name}")
            check("tool", name, tools, f"[tools.{name}]", source)
    for name in sorted(config.plugins.disabled):
        source = config.sources.get("plugins.disabled")
        check("plugin", name, known_plugins, "plugins.disabled", source)
    for name, reason in sorted(config.blocked.items()):
        check("plugin", name, known_plugins, reason, "command line")
    return found


def _no_such(what: str, name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"there is no {what} {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
