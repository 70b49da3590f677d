"""Which requests may leave a sandbox, and which rules it would have needed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardpoint.errors import NotAuthorized
from hardpoint.net import AllowList, AllowPattern, Url
from hardpoint_container.config import EgressConfig, EgressRule


class EgressRules:
    """The rules of the configuration, and what they were missing."""

    def __init__(self, config: EgressConfig) -> None:
        self.config = config
        inspected = [rule for rule in config.allow if not rule.tunnel]
        self._requests = AllowList(_patterns(inspected))
        self._plain = AllowList(
            _patterns([rule for rule in inspected if rule.plain]), allow_http=True
        )
        self._hosts = AllowList([AllowPattern(rule.host) for rule in inspected])
        self._tunnels = AllowList([AllowPattern(rule.host) for rule in config.allow if rule.tunnel])
        self._missing: dict[str, set[str]] = {}

    @property
    def problems(self) -> list[str]:
        """Rules that could never match."""
        return [*self._requests.problems, *self._hosts.problems, *self._tunnels.problems]

    def is_tunnel(self, host: str, port: int) -> bool:
        """Whether a connection goes straight through, unseen."""
        return self._tunnels.judge("GET", _url(host, port)).allowed

    def require_host(self, host: str, port: int) -> None:
        """Pass when any rule is about this host; what is asked of it comes later.

        Raises:
            NotAuthorized: None is.
        """
        if self.config.mode == "enforce":
            self._hosts.require("GET", _url(host, port))

    def require(self, method: str, url: Url) -> bool:
        """Judge one request.

        Returns:
            Whether a rule allows it; False only in audit mode.

        Raises:
            NotAuthorized: No rule does.
        """
        rules = self._plain if url.scheme == "http" else self._requests
        verdict = rules.judge(method, url)
        if not verdict.allowed:
            if self.config.mode == "enforce":
                rules.require(method, url)
            self._missing.setdefault(url.authority, set()).add(method.upper())
        return verdict.allowed

    def proposals(self) -> list[Mapping[str, Any]]:
        """The smallest rules by host and method that would have covered what audit mode saw."""
        return [
            {"host": host, "methods": sorted(methods)}
            for host, methods in sorted(self._missing.items())
        ]

    def keep_proposals(self, path: Path) -> None:
        """Add the proposals to those of earlier sandboxes in a file."""
        known = {rule["host"]: set(rule["methods"]) for rule in read_proposals(path)}
        for host, methods in self._missing.items():
            known[host] = known.get(host, set()) | methods
        if known:
            path.parent.mkdir(parents=True, exist_ok=True)
            rules = [{"host": host, "methods": sorted(known[host])} for host in sorted(known)]
            path.write_text(json.dumps(rules, indent=1), encoding="utf-8")


def read_proposals(path: Path) -> list[dict[str, Any]]:
    """The rules that audit mode has proposed so far."""
    try:
        found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return found


def proposals_file(folder: Path) -> Path:
    """Where the proposals are kept."""
    return folder / "egress-proposals.json"


def _patterns(rules: list[EgressRule]) -> list[AllowPattern]:
    return [
        AllowPattern(rule.host, path, rule.methods)
        for rule in rules
        for path in rule.paths or (None,)
    ]


def _url(host: str, port: int) -> str:
    if not host or any(char in host for char in "/?#@\\"):
        raise NotAuthorized(f"{host!r} is not a host")
    shown = f"[{host}]" if ":" in host else host
    return f"https://{shown}:{port}/"
