"""Connect to the addresses that were judged, and to no others, while TLS still speaks to the name.

This module imports httpx2 and is itself imported at the first request. What may be contacted is
decided before: a request arrives here with its addresses in `extensions[PINNED]`.
"""

from __future__ import annotations

import importlib.util
import ssl
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Final

import httpcore2
import httpx2

PINNED: Final = "hardpoint.pinned"
"""Request extension: a tuple of the addresses that may be connected to."""

ERRORS: Final = (
    httpx2.HTTPError,
    httpx2.InvalidURL,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
    OSError,
)
"""What a request can fail with that is nobody's mistake here."""

_SEPARATOR: Final = "|"


class PinnedTransport(httpx2.AsyncBaseTransport):
    """A pool of connections, each known by its name and the addresses it was opened to.

    The pool's key is both together. A connection is therefore used again only while the name still
    leads to the same addresses, and never for another name that happens to share an address, whose
    certificate it did not check.
    """

    def __init__(self, ssl_context: ssl.SSLContext, *, max_connections: int = 100) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_context,
            max_connections=max_connections,
            max_keepalive_connections=20,
            keepalive_expiry=15.0,
            network_backend=_PinnedBackend(),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        addresses: tuple[str, ...] = request.extensions[PINNED]
        name = request.url.raw_host.decode("ascii")
        response = await self._pool.handle_async_request(
            httpcore2.Request(
                request.method,
                httpcore2.URL(
                    scheme=request.url.raw_scheme,
                    host=(",".join(addresses) + _SEPARATOR + name).encode("ascii"),
                    port=request.url.port,
                    target=request.url.raw_path,
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions={**request.extensions, "sni_hostname": name},
            )
        )
        return httpx2.Response(
            response.status, headers=response.headers, stream=_Body(response.stream)
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _PinnedBackend(httpcore2.AnyIOBackend):
    """Opens connections to the addresses in the pool's key, the first that answers."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = host.partition(_SEPARATOR)[0].split(",")
        for address in addresses[:-1]:
            try:
                return await super().connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await super().connect_tcp(
            addresses[-1], port, timeout, local_address, socket_options
        )


class _Body(httpx2.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def tls_context(verify: ssl.SSLContext | str | Path | None = None) -> ssl.SSLContext:
    """The context that checks certificates: the system's authorities, or those of a file or folder.

    The environment has no say (`SSL_CERT_FILE` and the like), and there is no way to turn it off.
    """
    if isinstance(verify, ssl.SSLContext):
        return verify
    if verify is None:
        return httpx2.create_ssl_context(trust_env=False)
    place = Path(verify)
    if place.is_dir():
        return ssl.create_default_context(capath=str(place))
    return ssl.create_default_context(cafile=str(place))


def content_codings() -> tuple[str, ...]:
    """The content codings that can be undone here, to be asked for."""
    has_zstd = sys.version_info >= (3, 14) or _is_installed("backports.zstd")
    has_brotli = _is_installed("brotli") or _is_installed("brotlicffi")
    return ("gzip", "deflate", *["br"] * has_brotli, *["zstd"] * has_zstd)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
