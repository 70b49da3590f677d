"""Guarded network access: judge URLs, pin connections to judged addresses, inject credentials last.

One mechanism for every tool, toolset and domain that talks HTTP. Importing this package is cheap;
httpx2 is loaded at the first request.
"""

from hardpoint.net.allowlist import AllowList, AllowPattern, Denial, Verdict
from hardpoint.net.binding import (
    Basic,
    Bearer,
    Binding,
    Header,
    Location,
    Query,
    UrlPath,
    inject,
    matching,
)
from hardpoint.net.client import PinnedClient
from hardpoint.net.exchange import BeforeSend, Reveal
from hardpoint.net.guard import UrlGuard, parse_networks
from hardpoint.net.masking import MASK, Masker
from hardpoint.net.messages import Headers, HttpRequest, HttpResponse, check_headers, check_method
from hardpoint.net.resolve import Resolver, SystemResolver
from hardpoint.net.url import Url, canonical_host, parse_url

__all__ = [
    "MASK",
    "AllowList",
    "AllowPattern",
    "Basic",
    "Bearer",
    "BeforeSend",
    "Binding",
    "Denial",
    "Header",
    "Headers",
    "HttpRequest",
    "HttpResponse",
    "Location",
    "Masker",
    "PinnedClient",
    "Query",
    "Resolver",
    "Reveal",
    "SystemResolver",
    "Url",
    "UrlGuard",
    "UrlPath",
    "Verdict",
    "canonical_host",
    "check_headers",
    "check_method",
    "inject",
    "matching",
    "parse_networks",
    "parse_url",
]
