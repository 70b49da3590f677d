"""Read a capabilities file: strictly, with a reason for every refusal and a warning for a doubt."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

import attrs

from hardpoint.errors import ConfigError
from hardpoint_wasm.capabilities import (
    MAX_DESCRIPTION,
    MAX_FILE,
    MAX_PARAMETERS,
    MAX_REQUEST,
    MAX_RESPONSE,
    MAX_TIMEOUT,
    Capabilities,
)

_MAX_NESTING = 8


def read(document: str | bytes | Mapping[str, Any]) -> Capabilities:
    """The capabilities in a file.

    Raises:
        ConfigError: It is not JSON, has an unknown key or a wrong value; every message says where.
    """
    data = _check(_unwrap(_parse(document)))
    made: Capabilities = _converter()(data, Capabilities)
    problems = _problems(made)
    if problems:
        raise ConfigError([f"capabilities: {problem}" for problem in problems])
    return attrs.evolve(made, **_cut(made), warnings=tuple(_lint(made)))


def schema() -> dict[str, Any]:
    """The JSON Schema of capabilities files."""
    text = resources.files("hardpoint_wasm").joinpath("capabilities.schema.json").read_text()
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def _parse(document: str | bytes | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(document, Mapping):
        return dict(document)
    if len(document) > MAX_FILE:
        raise ConfigError(f"a capabilities file has at most {MAX_FILE} bytes")
    try:
        data = json.loads(document, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the capabilities file is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError("a capabilities file holds one JSON object")
    return data


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Two readers of one file must not see two different grants.
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return data


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _unwrap(data: dict[str, Any]) -> dict[str, Any]:
    """Lift the keys of a nested `capabilities` object; what stands outside wins."""
    for _ in range(_MAX_NESTING):
        inner = data.pop("capabilities", None)
        if inner is None:
            return data
        if not isinstance(inner, dict):
            raise ConfigError("capabilities.capabilities must be an object")
        data = {**inner, **data}
    raise ConfigError(f"capabilities are nested more than {_MAX_NESTING} deep")


def _check(data: dict[str, Any]) -> dict[str, Any]:
    import fastjsonschema

    if data.get("type") == "channel":
        raise ConfigError(
            "this is a channel, not a tool", hint="channels are plugins: see the how-to on plugins"
        )
    try:
        checked: dict[str, Any] = _validator()(json.loads(json.dumps(data)))
    except fastjsonschema.JsonSchemaValueException as error:
        name = error.name or "data"
        where = name.removeprefix("data").lstrip(".") or "the file"
        text = error.message.removeprefix(name).strip()
        raise ConfigError(f"capabilities: {where} {text}") from error
    return checked


@functools.cache
def _validator() -> Callable[[Any], Any]:
    import fastjsonschema

    compiled: Callable[[Any], Any] = fastjsonschema.compile(schema())
    return compiled


@functools.cache
def _converter() -> Callable[[Any, type[Any]], Any]:
    import cattrs

    converter = cattrs.Converter(forbid_extra_keys=False, detailed_validation=False)
    # The schema has checked every type by now; nothing may be turned into another.
    for plain in (str, int, float, bool):
        converter.register_structure_hook(plain, lambda value, _: value)
    return converter.structure


# what is wrong, and what is doubtful ------------------------------------------------------------


def _problems(asked: Capabilities) -> list[str]:
    problems = list(asked.auth.problems) if asked.auth else []
    problems += asked.webhook.problems if asked.webhook else ()
    if asked.http:
        problems += asked.http.allow_list().problems
        for credential in asked.http.credentials.values():
            location = credential.location
            if location.type in ("header", "query_param") and not (
                location.name or location.header_name
            ):
                problems.append(f"{location.type} of {credential.secret_name!r} needs a name")
        try:
            asked.http.bindings()
        except ConfigError as error:
            problems += error.problems
    return problems


def _cut(asked: Capabilities) -> dict[str, Any]:
    cut: dict[str, Any] = {}
    if asked.description and len(asked.description) > MAX_DESCRIPTION:
        cut["description"] = asked.description[:MAX_DESCRIPTION]
    if asked.parameters is not None and len(json.dumps(asked.parameters)) > MAX_PARAMETERS:
        cut["parameters"] = None
    return cut


def _lint(asked: Capabilities) -> list[str]:
    warnings: list[str] = []
    if asked.http:
        for size, cap, word in (
            (asked.http.max_request_bytes, MAX_REQUEST, "max_request_bytes"),
            (asked.http.max_response_bytes, MAX_RESPONSE, "max_response_bytes"),
        ):
            if size > cap:
                warnings.append(f"http.{word} asks for {size}; at most {cap} are given")
        if asked.http.timeout_secs > MAX_TIMEOUT:
            warnings.append(f"http.timeout_secs is cut to {MAX_TIMEOUT:g}")
        for credential in asked.http.credentials.values():
            if not credential.host_patterns:
                warnings.append(
                    f"the credential {credential.secret_name!r} has no host_patterns,"
                    " so it goes nowhere"
                )
        for endpoint in asked.http.allowlist:
            if endpoint.host.startswith("*."):
                warnings.append(f"http asks for every name below {endpoint.host[2:]}")
    if asked.parameters is not None and len(json.dumps(asked.parameters)) > MAX_PARAMETERS:
        warnings.append("parameters is larger than 64 KiB and is ignored")
    if asked.description and len(asked.description) > MAX_DESCRIPTION:
        warnings.append(f"description is cut to {MAX_DESCRIPTION} characters")
    if asked.workspace and not asked.workspace.allowed_prefixes:
        warnings.append("workspace asks for every document: allowed_prefixes is empty")
    if asked.webhook is not None and not asked.webhook.secrets:
        warnings.append("webhook names no secret, so every request to it is refused")
    if asked.config:
        warnings.append("config is not used: no version of the world gives it to a tool")
    return warnings + _lint_setup(asked)


def _lint_setup(asked: Capabilities) -> list[str]:
    warnings: list[str] = []
    wanted = asked.setup.secrets if asked.setup else ()
    if wanted and asked.auth is None:
        warnings.append("setup without auth: nobody can say how to get them")
    warnings += [
        f"the prompt for {secret.name!r} is too short to help anybody"
        for secret in wanted
        if len(secret.prompt) < 30
    ]
    if asked.auth is not None and asked.auth.oauth is None:
        missing = [key for key in ("setup_url", "instructions") if not getattr(asked.auth, key)]
        if missing:
            warnings.append(f"auth by hand without {' and '.join(missing)}")
    return warnings
