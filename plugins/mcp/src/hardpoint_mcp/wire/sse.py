"""A server behind HTTP+SSE, the transport of 2024: one stream to read, one address to post to."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from hardpoint_mcp.wire.channel import DEFAULT_MAX_MESSAGE, Message
from hardpoint_mcp.wire.duplex import DuplexChannel
from hardpoint_mcp.wire.errors import AuthRequired, ConnectionLost, plain

if TYPE_CHECKING:
    import httpx2

_PATIENCE = 30.0


class SseChannel(DuplexChannel):
    """HTTP+SSE, deprecated and still in use."""

    def __init__(
        self,
        url: str,
        make_client: Callable[[], httpx2.AsyncClient],
        headers: Mapping[str, str] | None = None,
        *,
        max_message: int = DEFAULT_MAX_MESSAGE,
    ) -> None:
        super().__init__()
        self._url = url
        self._make_client = make_client
        self._headers = dict(headers or {})
        self._max_message = max_message
        self._client: httpx2.AsyncClient | None = None
        self._endpoint: asyncio.Future[str] | None = None

    async def start(self) -> None:
        self._client = self._make_client()
        self._endpoint = asyncio.get_running_loop().create_future()
        self._keep_task(self._listen(self._client, self._endpoint))
        try:
            async with asyncio.timeout(_PATIENCE):
                await asyncio.shield(self._endpoint)
        except TimeoutError:
            await self.aclose()
            raise ConnectionLost("the server named no address to post to", sent=False) from None
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        tasks = list(self._tasks)
        self._end_tasks()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(2):
                await asyncio.gather(*tasks, return_exceptions=True)
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):
                await client.aclose()
        if self._endpoint is not None:
            self._endpoint.cancel()

    async def _listen(self, client: httpx2.AsyncClient, endpoint: asyncio.Future[str]) -> None:
        import httpx2

        reason = "the server ended its event stream"
        try:
            headers = self._headers | {"accept": "text/event-stream"}
            async with client.stream(
                "GET", self._url, headers=headers, follow_redirects=False
            ) as response:
                if response.status_code in (401, 403):
                    raise AuthRequired(
                        f"the server asks for authentication (HTTP {response.status_code})",
                        challenge=response.headers.get("www-authenticate", ""),
                    )
                if response.status_code != 200:
                    raise ConnectionLost(
                        f"no event stream at {self._url.partition('?')[0]}:"
                        f" HTTP {response.status_code}",
                        sent=False,
                    )
                source = httpx2.EventSource(response, max_event_size=self._max_message)
                async for event in source:
                    if event.event == "endpoint" and not endpoint.done():
                        endpoint.set_result(self._checked(urljoin(self._url, event.data.strip())))
                    elif event.event == "message" and event.data:
                        self.received(event.data)
        except ConnectionLost as error:
            reason = error.message
            if not endpoint.done():
                endpoint.set_exception(error)
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, httpx2.SSEError) as error:
            reason = f"the event stream broke: {plain(str(error)) or type(error).__name__}"
        if not endpoint.done():
            endpoint.set_exception(ConnectionLost(reason, sent=False))
        self._lost(reason)

    def _checked(self, address: str) -> str:
        """Credentials go to the server that was configured, and nowhere else."""
        here, there = urlsplit(self._url), urlsplit(address)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise ConnectionLost(
                f"the server wants messages posted to another origin, {there.scheme}://{there.netloc}",
                sent=False,
            )
        return address

    async def _send(self, message: Message) -> None:
        import httpx2

        if self._gone is not None or self._client is None or self._endpoint is None:
            raise ConnectionLost(self._gone or "the connection is closed", sent=False)
        body = json.dumps(message, separators=(",", ":")).encode()
        headers = self._headers | {"content-type": "application/json"}
        try:
            response = await self._client.post(
                self._endpoint.result(), content=body, headers=headers, follow_redirects=False
            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise ConnectionLost(f"cannot reach the server: {error}", sent=False) from error
        except httpx2.HTTPError as error:
            raise ConnectionLost(f"the connection broke: {plain(str(error))}") from error
        if response.status_code in (401, 403):
            raise AuthRequired(
                f"the server asks for authentication (HTTP {response.status_code})",
                challenge=response.headers.get("www-authenticate", ""),
            )
        if response.status_code >= 300:
            text = plain(response.text, 200)
            raise ConnectionLost(f"the server answers HTTP {response.status_code}: {text}")
