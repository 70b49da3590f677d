"""Write the permissions of other programs as rules of ours; what has no meaning here is said."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, Final

import attrs

from hardpoint.config import RuleEntry
from hardpoint.errors import ConfigError
from hardpoint.policy.binding import NotAbout, bind_rule
from hardpoint.policy.rules import parse_rule
from hardpoint.policy.verdict import DecisionWord
from hardpoint.protected import PROTECTED_KINDS


@attrs.frozen
class Imported:
    """What came of a file."""

    rules: tuple[tuple[DecisionWord, str | Mapping[str, Any]], ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be carried over, and why."""

    def to_toml(self) -> str:
        """The rules as a `[policy]` table, the notes as comments."""
        from hardpoint.config.edit import to_toml

        lines = [f"# not carried over: {note}" for note in self.notes]
        lines.append("[policy]")
        for word in ("allow", "ask", "deny"):
            specs = [spec for decision, spec in self.rules if decision == word]
            if specs:
                lines.append(f"{word} = [")
                lines += [f"  {to_toml(spec)}," for spec in specs]
                lines.append("]")
        return "\n".join(lines) + "\n"


Found = Iterator[tuple[DecisionWord, str | Mapping[str, Any]] | str]
"""Rules, and notes as plain text."""


def import_rules(text: str, kind: str) -> Imported:
    """Read the permissions of another program.

    Args:
        text: The file.
        kind: `claude`, `codex`, `gemini` or `inspect`.

    Raises:
        ConfigError: The text is not of this kind.
    """
    if kind not in _KINDS:
        raise ConfigError(f"unknown kind {kind!r}; known: {', '.join(sorted(_KINDS))}")
    try:
        found = list(_KINDS[kind](text))
    except (ValueError, SyntaxError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"this is no {kind} file: {error}") from error
    rules: list[tuple[DecisionWord, str | Mapping[str, Any]]] = []
    notes: list[str] = []
    for each in found:
        wrong = each if isinstance(each, str) else _unreadable(*each)
        if wrong is not None:
            notes.append(wrong)
        elif each not in rules:
            rules.append(each)  # type: ignore[arg-type]  # a text is a note
    return Imported(tuple(rules), tuple(notes))


def _unreadable(word: DecisionWord, spec: str | Mapping[str, Any]) -> str | None:
    """Why a rule that was made cannot be one; what is printed is always readable."""
    try:
        rule = parse_rule(RuleEntry(word, spec))
        bind_rule(rule, rule.tool, None, PROTECTED_KINDS.get(rule.tool))
    except NotAbout:
        return None  # its tool is not here, so nothing can be said
    except ConfigError as error:
        return f"{word} {spec!r}: {error.message}"
    return None


# Claude-style settings: permissions.allow, ask, deny with Tool(spec) -----------------------------

_CLAUDE_TOOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "Bash": ("shell",),
    "Read": ("read_file", "list_dir", "grep", "glob"),
    "Edit": ("write_file", "apply_patch"),
    "Write": ("write_file",),
    "MultiEdit": ("apply_patch",),
    "Glob": ("glob",),
    "Grep": ("grep",),
    "LS": ("list_dir",),
    "WebFetch": ("web_fetch", "http"),
    "WebSearch": (),
}


_CLAUDE_KEYS: Final = {
    "defaultMode": "set [policy] mode, or the caller's mode",
    "additionalDirectories": "file tools see one workspace; choose it with `workspace`",
    "disableBypassPermissionsMode": "no mode here skips what always asks",
}


def _claude(text: str) -> Found:
    permissions = json.loads(text).get("permissions", {})
    for word in ("allow", "ask", "deny"):
        for spec in permissions.get(word, []):
            yield from _claude_rule(word, spec)
    for key in sorted(set(permissions) - {"allow", "ask", "deny"}):
        why = _CLAUDE_KEYS.get(key, "there is no such setting here")
        yield f"{key} {permissions[key]!r}: {why}"


def _claude_rule(word: DecisionWord, spec: str) -> Found:
    found = re.fullmatch(r"([A-Za-z_]+)(?:\((.*)\))?", spec, re.DOTALL)
    if spec.startswith("mcp__"):
        server, _, tool = spec.removeprefix("mcp__").partition("__")
        yield word, f"{server}__{tool or '*'}"
        return
    if found is None or found[1] not in _CLAUDE_TOOLS:
        yield f"{word} {spec!r}: no tool of ours does that"
        return
    pattern = found[2]
    for tool in _CLAUDE_TOOLS[found[1]]:
        if tool == "http" and word == "allow":
            # What may be fetched may not be posted to.
            yield word, f"http(GET {pattern})" if pattern else "http(method:GET)"
        elif pattern in (None, "", "*", "**"):
            yield word, tool
        elif found[1] in ("Read", "Edit", "Write", "MultiEdit", "Glob", "Grep", "LS"):
            yield from _claude_path(word, tool, str(pattern))
        else:
            yield word, f"{tool}({pattern})"
    if not _CLAUDE_TOOLS[found[1]]:
        yield f"{word} {spec!r}: no tool of ours does that"


def _claude_path(word: DecisionWord, tool: str, pattern: str) -> Found:
    if pattern.startswith(("//", "~")):
        yield f"{word} {tool}({pattern}): file tools see only the workspace"
        return
    yield word, f"{tool}({pattern.removeprefix('./')})"


# Codex-style prefix rules: prefix_rule(pattern=[…], decision=…, …) -------------------------------

MOST_PREFIXES: Final = 1000

_CODEX_WORDS: Final[Mapping[str, DecisionWord]] = {
    "allow": "allow",
    "prompt": "ask",
    "forbidden": "deny",
}


def _codex(text: str) -> Found:
    for statement in ast.parse(text).body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or getattr(call.func, "id", None) != "prefix_rule":
            yield f"line {statement.lineno}: only prefix_rule(…) is read"
            continue
        fields = {k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg}
        word = _CODEX_WORDS[fields.get("decision", "allow")]
        pattern = fields["pattern"]
        if prod(len(each) for each in pattern if isinstance(each, list)) > MOST_PREFIXES:
            raise ValueError(f"line {statement.lineno} stands for too many prefixes")
        for words in _alternatives(pattern):
            if any("*" in word for word in words):
                yield f"line {statement.lineno}: a star in {words} would mean any text here"
                continue
            rule: dict[str, Any] = {"tool": f"shell({shlex.join(words)}:*)"}
            if fields.get("justification"):
                rule["reason"] = fields["justification"]
            for key in ("match", "not_match"):
                examples = [_command(example) for example in fields.get(key, [])]
                if examples and len(list(_alternatives(fields["pattern"]))) == 1:
                    rule[key] = examples
            yield word, rule if len(rule) > 1 else str(rule["tool"])


def _alternatives(pattern: Sequence[Any]) -> Iterator[list[str]]:
    """`["git", ["push", "fetch"]]` is two patterns."""
    if not pattern:
        yield []
        return
    head = pattern[0] if isinstance(pattern[0], list) else [pattern[0]]
    for word in head:
        for rest in _alternatives(pattern[1:]):
            yield [str(word), *rest]


def _command(example: Any) -> str:
    return example if isinstance(example, str) else shlex.join(map(str, example))


# Gemini-style policy: [[rule]] with toolName, commandPrefix, decision, priority ------------------

_GEMINI_TOOLS: Final[Mapping[str, str]] = {
    "run_shell_command": "shell",
    "read_file": "read_file",
    "write_file": "write_file",
    "replace": "apply_patch",
    "list_directory": "list_dir",
    "glob": "glob",
    "search_file_content": "grep",
    "grep_search": "grep",
    "web_fetch": "web_fetch",
    "save_memory": "memory_write",
    "*": "*",
}
_GEMINI_KEYS: Final = frozenset(
    ("toolName", "mcpName", "commandPrefix", "decision", "priority", "denyMessage", "name",
     "description")
)  # fmt: skip
_GEMINI_WORDS: Final[Mapping[str, DecisionWord]] = {
    "allow": "allow",
    "deny": "deny",
    "ask_user": "ask",
}


def _gemini(text: str) -> Found:
    for number, rule in enumerate(tomllib.loads(text)["rule"], 1):
        word = _GEMINI_WORDS[rule["decision"]]
        names = rule.get("toolName", "*")
        for name in [names] if isinstance(names, str) else names:
            yield from _gemini_rule(number, rule, name, word)
        if "priority" in rule:
            yield f"rule {number}: priority {rule['priority']}: here deny wins, then ask"


def _gemini_rule(number: int, rule: Mapping[str, Any], name: str, word: DecisionWord) -> Found:
    narrower = ", ".join(sorted(set(rule) - _GEMINI_KEYS))
    if narrower and word == "allow":
        yield f"rule {number}: {narrower} would make this allow narrower; left out"
        return
    if narrower:
        yield f"rule {number}: {narrower} is not carried over; the rule is broader"
    server = rule.get("mcpName")
    tool = f"{server}__{name}" if server else _GEMINI_TOOLS.get(name, name)
    if "__" in name and not server:
        tool = name
    prefixes = rule.get("commandPrefix")
    specs = [tool]
    if prefixes is not None:
        prefixes = [prefixes] if isinstance(prefixes, str) else prefixes
        specs = [f"{tool}({prefix.strip()}:*)" for prefix in prefixes]
    for spec in specs:
        message = rule.get("denyMessage") if word == "deny" else None
        yield word, {"tool": spec, "reason": message} if message else spec


# inspect-style approval: approvers with tools as globs -------------------------------------------


def _inspect(text: str) -> Found:
    for approver in _small_yaml(text)["approvers"]:
        name = str(approver.get("name", "")).rpartition("/")[2]
        tools = approver.get("tools", "*")
        for tool in [tools] if isinstance(tools, str) else tools:
            if name == "human":
                yield "ask", str(tool)
            elif name == "auto" and approver.get("decision", "approve") == "approve":
                yield "allow", str(tool)
            elif name == "auto" and approver.get("decision") in ("reject", "terminate"):
                yield "deny", str(tool)
            else:
                yield f"approver {approver.get('name')!r} for {tool!r}: write an Approver plugin"


def _small_yaml(text: str) -> Any:
    """The part of YAML that such files use: lists of mappings of scalars and flow lists."""
    try:
        import yaml
    except ImportError:
        return _approvers_by_hand(text)
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _approvers_by_hand(text: str) -> dict[str, Any]:
    approvers: list[dict[str, Any]] = []
    for line in text.splitlines():
        bare = line.split(" #")[0].rstrip()
        if not bare.strip() or bare.strip() == "approvers:":
            continue
        found = re.fullmatch(r"\s*(-\s+)?([\w]+):\s*(.*)", bare)
        if found is None:
            raise ValueError(f"cannot read {line!r}; install PyYAML for the whole of YAML")
        if found[1]:
            approvers.append({})
        value: Any = found[3].strip("\"'")
        if found[3].startswith("["):
            value = [item.strip().strip("\"'") for item in found[3][1:-1].split(",")]
        approvers[-1][found[2]] = value
    return {"approvers": approvers}


_KINDS: Final[Mapping[str, Callable[[str], Found]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "inspect": _inspect,
}
