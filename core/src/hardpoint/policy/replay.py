"""Judge recorded calls again under another policy, or propose the smallest rules for them."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, Literal

import attrs

from hardpoint.errors import ConfigError
from hardpoint.policy.binding import BoundRule, NotAbout, bind_rule
from hardpoint.policy.conditions import Facts
from hardpoint.policy.decide import Question, decide, modes_in_force
from hardpoint.policy.rules import Rule, rules_for
from hardpoint.policy.verdict import Reason
from hardpoint.protected import PROTECTED_KINDS
from hardpoint.registry import ToolRegistry
from hardpoint.tools import ApprovalRequirement, Subject

Verdict = Literal["allow", "ask", "deny", "undecidable"]
_HIDDEN: Final = "[REDACTED"


@attrs.frozen
class Change:
    """A recorded call that would be judged differently."""

    call_id: str
    tool: str
    at: str
    before: str
    now: Verdict
    reasons: tuple[Reason, ...] = ()
    params: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Replay:
    """What came of judging records again."""

    judged: int
    changes: tuple[Change, ...]
    undecidable: int


def replay(
    records: Iterable[Mapping[str, Any]],
    rules: Sequence[Rule],
    registry: ToolRegistry,
    *,
    mode: str | None = None,
) -> Replay:
    """Judge the `decided` records of an audit under these rules.

    What was redacted is not there any more: where a rule looks at it the answer is `undecidable`.
    """
    judged, undecidable, changes = 0, 0, []
    for record in records:
        if record.get("kind") != "decided" or record.get("policy") is None:
            continue
        judged += 1
        now, reasons = _judge(record, rules, registry, mode)
        undecidable += now == "undecidable"
        if now != record["policy"]:
            changes.append(
                Change(
                    str(record.get("call_id")),
                    str(record.get("tool")),
                    str(record.get("at")),
                    str(record["policy"]),
                    now,
                    reasons,
                    record.get("params") or {},
                )
            )
    return Replay(judged, tuple(changes), undecidable)


def _judge(
    record: Mapping[str, Any], rules: Sequence[Rule], registry: ToolRegistry, mode: str | None
) -> tuple[Verdict, tuple[Reason, ...]]:
    name = str(record["tool"])
    subjects = tuple(
        Subject(s["kind"], s["value"], s.get("operation", "")) for s in record.get("subjects", ())
    )
    params = record.get("params") or {}
    try:
        bound = list(_bind(name, rules, registry, params, subjects))
    except ConfigError as error:
        return "deny", (Reason(f"a rule cannot be read: {error.message}"),)
    if any(_looks_at_hidden(each, params, subjects) for each in bound):
        return "undecidable", (Reason("a rule looks at something that was redacted"),)
    verdict = decide(_question(name, record, params, subjects, mode), bound)
    return verdict.decision, verdict.reasons


def _question(
    name: str,
    record: Mapping[str, Any],
    params: Mapping[str, Any],
    subjects: Sequence[Subject],
    mode: str | None,
) -> Question:
    rights = record.get("rights") or {}
    auto = rights.get("auto_approve", False)
    origin = str(record.get("origin", "library"))
    return Question(
        tool=name,
        params=params,
        subjects=subjects,
        own=ApprovalRequirement(record.get("requirement", "never")),
        imposed=ApprovalRequirement(rights.get("imposed", "never")),
        imposed_by="a plugin or [tools]",
        facts=Facts(
            domain=str(record.get("domain", "orchestrator")),
            effects=frozenset(record.get("effects", ())),
            user=str(record.get("user")),
            origins=frozenset((origin, str(rights.get("root", origin)))),
            seen=frozenset(rights.get("seen", ())),
        ),
        modes=modes_in_force(str(record.get("mode", "default")), mode),
        auto_approve=auto if isinstance(auto, bool) else frozenset(auto),
        autonomous=bool(rights.get("autonomous")),
        allowed_tools=(name,) if rights.get("allowed") else (),
    )


def _bind(
    name: str,
    rules: Sequence[Rule],
    registry: ToolRegistry,
    params: Mapping[str, Any],
    subjects: Sequence[Subject],
) -> Iterator[BoundRule]:
    entry = registry.entry(name)
    if entry is not None:
        parameters, kind = entry.definition.parameters, entry.tool.subject_kind
    else:
        parameters = {"properties": {name: {} for name in params}}
        kind = subjects[0].kind if subjects else PROTECTED_KINDS.get(name)
    for rule in rules_for(rules, name):
        try:
            yield bind_rule(rule, name, parameters, kind)
        except NotAbout:
            if not rule.is_glob:
                raise


def _looks_at_hidden(
    bound: BoundRule, params: Mapping[str, Any], subjects: Sequence[Subject]
) -> bool:
    if bound.rule.is_bare:
        return False
    if bound.kind is not None:
        return any(_HIDDEN in json.dumps(s.value) for s in subjects if s.kind == bound.kind)
    looked_at = bound.rule.where or {str(bound.rule.spec).partition(":")[0]: None}
    return any(_HIDDEN in json.dumps(params.get(name)) for name in looked_at)


# suggesting ------------------------------------------------------------------------------------


@attrs.frozen
class Suggestion:
    """A rule that would have saved questions."""

    rule: str
    calls: int
    """How many recorded calls it covers."""


def suggest(records: Iterable[Mapping[str, Any]], *, least: int = 1) -> Sequence[Suggestion]:
    """The smallest allow rules for the calls that ran although no rule allows them.

    Those are the calls that were asked about and approved, and, of a run in mode `auto`, those that
    would have been. A call that always asks is never proposed, nor one that was refused.

    Args:
        records: The `decided` records of an audit.
        least: How many calls a rule must cover to be proposed.
    """
    counts: Counter[str] = Counter()
    paths: dict[tuple[str, str], Counter[str]] = {}
    for record in records:
        if record.get("kind") != "decided" or not _ran_without_a_rule(record):
            continue
        counts.update(set(_rules_of(record)))
        for subject in record.get("subjects") or ():
            if subject["kind"] == "path" and _HIDDEN not in str(subject["value"]):
                folder = str(PurePosixPath(str(subject["value"])).parent)
                used = paths.setdefault((str(record["tool"]), folder), Counter())
                used[str(subject["value"])] += 1
    for (tool, folder), used in paths.items():
        # One file is one rule; several of a folder stand for the folder.
        if len(used) == 1 or folder == ".":
            counts.update({f"{tool}({path})": calls for path, calls in used.items()})
        else:
            counts[f"{tool}({folder}/**)"] += sum(used.values())
    return [Suggestion(rule, n) for rule, n in sorted(counts.items()) if n >= least]


def _ran_without_a_rule(record: Mapping[str, Any]) -> bool:
    if record.get("requirement") != "unless_auto_approved" or record.get("decision") != "allow":
        return False
    by_rule = any(reason.get("rule") for reason in record.get("reasons") or ())
    return record.get("policy") == "ask" or (record.get("policy") == "allow" and not by_rule)


def _rules_of(record: Mapping[str, Any]) -> Iterator[str]:
    tool = str(record["tool"])
    subjects = record.get("subjects") or ()
    if not subjects:
        yield tool
    for subject in subjects:
        value = subject["value"]
        if _HIDDEN in json.dumps(value):
            continue
        if subject["kind"] == "command":
            yield from (f"{tool}({pattern})" for pattern in _command_patterns(value))
        elif subject["kind"] == "url":
            from hardpoint.net import parse_url

            method = f"{subject['operation']} " if subject.get("operation") else ""
            yield f"{tool}({method}domain:{parse_url(str(value)).host})"
        elif subject["kind"] == "text":
            yield f"{tool}({value})"


# Programs whose second word says what they will do, so that a rule can stop there.
_WITH_VERBS: Final = frozenset(
    "git npm pnpm yarn cargo go docker podman kubectl pip uv poetry gh hg svn apt brew".split()
)
# Programs that do whatever the file or target says that they are given.
_RUN_ANYTHING: Final = frozenset(
    "make python python3 node deno bun ruby perl php bash sh zsh dash fish npx uvx nox tox".split()
)
_VERBS_THAT_RUN: Final = frozenset(("run", "exec", "compose", "x"))


def _command_patterns(command: Any) -> Iterator[str]:
    """One pattern for each simple command that a rule for its program can cover."""
    from hardpoint.subjects import judge_command

    for segment in judge_command(command).segments:
        if segment.cover == "none":
            continue
        words = [word for word in segment.argv if isinstance(word, str)]
        if segment.cover == "exact" or not words or len(words) < len(segment.argv):
            yield segment.text
            continue
        length = 1
        if words[0] in _WITH_VERBS and len(words) > 1:
            length = 3 if words[1] in _VERBS_THAT_RUN else 2
        named = words[:length]
        if words[0] in _RUN_ANYTHING or any(word.startswith("-") for word in named[1:]):
            yield segment.text
        else:
            yield shlex.join(named) + ":*"
