"""From the arguments of `shell` to what the policy judges. How strict to be is decided in core."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hardpoint import ApprovalRequirement, Canonical, Subject, judge_command
from hardpoint.errors import InvalidParameters, Issue


def canonicalise_command(params: Mapping[str, Any] | str) -> Canonical:
    """The arguments with their command as it will run, and that command as the subject.

    Args:
        params: The arguments, or the JSON text of them.

    Raises:
        InvalidParameters: There is no command in them, or one that no program can be given.
    """
    arguments = _as_object(params)
    command = arguments.get("command")
    if isinstance(command, str):
        words = [command]
    elif isinstance(command, list) and command and all(isinstance(w, str) for w in command):
        words = command
    else:
        raise _invalid("a command line, or a list of a program and its arguments", command)
    if not words[0].strip():
        raise _invalid("a command that is not empty", command)
    for word in words:
        if "\0" in word:
            raise _invalid("text without NUL characters", command)
        try:
            word.encode()
        except UnicodeEncodeError:
            raise _invalid("text that can be encoded, without lone surrogates", command) from None
    return Canonical(arguments, (Subject("command", command, "execute"),))


def is_about_background(params: Mapping[str, Any] | str) -> bool:
    """Whether a call looks at or stops a command that was started before, and starts none."""
    if isinstance(params, str) or params.get("command") is not None:
        return False
    return params.get("background_id") is not None


def canonicalise_background(params: Mapping[str, Any]) -> Canonical:
    """The arguments of a call that starts nothing; what it acts on is no command but an id.

    Raises:
        InvalidParameters: It also says how to start something.
    """
    job_id = params["background_id"]
    wrong = [name for name in ("stdin", "timeout", "background") if params.get(name)]
    if params.get("workdir", ".") != ".":
        wrong.append("workdir")
    if wrong:
        raise InvalidParameters(
            f"with background_id nothing is started, so {', '.join(wrong)} cannot be given"
        )
    kept = {"background_id": job_id, "stop": bool(params.get("stop"))}
    return Canonical(kept, (Subject("text", job_id, "stop" if kept["stop"] else "read"),))


def requirement_of(params: Mapping[str, Any] | str) -> ApprovalRequirement:
    """What approval a command needs; `always` for one that cannot be read or never runs."""
    try:
        (subject,) = canonicalise_command(params).subjects
    except InvalidParameters:
        return ApprovalRequirement.ALWAYS
    requirement = judge_command(subject.value).requirement
    return ApprovalRequirement.ALWAYS if requirement == "deny" else ApprovalRequirement(requirement)


def _as_object(params: Mapping[str, Any] | str) -> dict[str, Any]:
    if isinstance(params, str):
        try:
            params = json.loads(params)
        except (ValueError, RecursionError):
            raise InvalidParameters("the arguments are not the JSON text of an object") from None
    if not isinstance(params, Mapping):
        raise InvalidParameters("the arguments must be an object such as {'command': 'ls'}")
    return dict(params)


def _invalid(expected: str, received: Any) -> InvalidParameters:
    shown = ascii(received)[:80]
    return InvalidParameters(
        f"`command` must be {expected}; received {shown}",
        issues=[Issue("/command", "invalid_value", expected, shown)],
    )
