"""Read the arguments of `http`, in every shape that models write them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import attrs

from hardpoint import InvalidParameters
from hardpoint.net import check_headers, check_method, parse_url

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")
DEFAULT_TIMEOUT = 30
MAX_TIMEOUT = 300


@attrs.frozen
class Arguments:
    """One request as the caller meant it."""

    method: str
    url: str
    """In canonical form."""
    headers: tuple[tuple[str, str], ...] = ()
    body: Any = None
    timeout: int = DEFAULT_TIMEOUT
    save_to: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it carries nothing that could be meant for one host alone."""
        return self.method == "GET" and not self.headers and self.body is None

    def to_params(self) -> dict[str, Any]:
        """The arguments in their one canonical shape."""
        params: dict[str, Any] = {"method": self.method, "url": self.url}
        if self.headers:
            params["headers"] = [{"name": name, "value": value} for name, value in self.headers]
        if self.body is not None:
            params["body"] = self.body
        params["timeout_secs"] = self.timeout
        if self.save_to is not None:
            params["save_to"] = self.save_to
        return params

    def encoded(self) -> tuple[tuple[tuple[str, str], ...], bytes | None]:
        """Headers and body as they are sent; a body without a content type is given one."""
        if self.body is None:
            return self.headers, None
        given = next((v for name, v in self.headers if name.lower() == "content-type"), None)
        content, content_type = _encode(self.body, given or "")
        if given is not None:
            return self.headers, content
        return (*self.headers, ("Content-Type", content_type)), content


def read_arguments(params: Mapping[str, Any]) -> Arguments:
    """Check and normalise.

    Raises:
        InvalidParameters: When the request could not be sent.
    """
    method = check_method(read_method(params))
    if method not in METHODS:
        raise InvalidParameters(f"the method {method!r} is not one of {', '.join(METHODS)}")
    url = parse_url(params.get("url", ""))
    body = params.get("body")
    arguments = Arguments(
        method=method,
        url=str(url),
        headers=read_headers(params.get("headers")),
        body=None if body == "" else body,
        timeout=_read_timeout(params.get("timeout_secs")),
        save_to=params.get("save_to") or None,
    )
    headers, content = arguments.encoded()
    check_headers(headers, url=url, body=content)
    return arguments


def read_method(params: Mapping[str, Any]) -> str:
    return str(params.get("method") or "GET").upper()


def read_headers(given: Any) -> tuple[tuple[str, str], ...]:
    """A list of `{name, value}`, an object, or either as JSON text.

    Raises:
        InvalidParameters: For any other shape.
    """
    if isinstance(given, str) and given:
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            given = False
        if isinstance(given, str):
            raise InvalidParameters("headers are JSON text within JSON text; encode them once")
    if not given and not isinstance(given, bool | int):
        return ()
    if isinstance(given, Mapping):
        pairs = [*given.items()]
    elif isinstance(given, list) and all(
        isinstance(item, Mapping) and {"name", "value"} <= item.keys() for item in given
    ):
        pairs = [(item["name"], item["value"]) for item in given]
    else:
        raise InvalidParameters("headers must be a list of {name, value} objects, or one object")
    if not all(isinstance(name, str) and _is_scalar(value) for name, value in pairs):
        raise InvalidParameters("each header needs a text name and a text value")
    return tuple((name, str(value)) for name, value in pairs)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _read_timeout(given: Any) -> int:
    if given is None or given == "":
        return DEFAULT_TIMEOUT
    try:
        seconds = int(given)
    except (TypeError, ValueError):
        seconds = 0
    if not 1 <= seconds <= MAX_TIMEOUT or isinstance(given, bool):
        raise InvalidParameters(f"timeout_secs must be from 1 to {MAX_TIMEOUT} seconds")
    return seconds


def _encode(body: Any, content_type: str) -> tuple[bytes, str]:
    """The bytes of a body, and the content type to say where the caller said none."""
    try:
        if isinstance(body, str):
            return body.encode(), "application/json" if _is_json(body) else "text/plain"
        if isinstance(body, Mapping) and "x-www-form-urlencoded" in content_type.lower():
            return urlencode(body, doseq=True).encode(), content_type
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode(), "application/json"
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidParameters(f"the body cannot be sent: {error}") from error


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
