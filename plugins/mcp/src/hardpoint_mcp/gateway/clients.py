"""Who is in front of the gateway: which user, which tools, what can be asked, and how."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Mapping
from typing import Any, Final

import attrs
import mcp.types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import ConfigDict

from hardpoint_mcp.config import ClientIdentity, ServeConfig
from hardpoint_mcp.gateway.parking import ASKABLE, refuse_undeclared
from hardpoint_mcp.wire.channel import Message
from hardpoint_mcp.wire.errors import RpcError
from hardpoint_mcp.wire.session import Era
from hardpoint_mcp.wire.versions import CAPABILITIES_KEY

Context = ServerRequestContext[Any, Any]
IDENTITY_CLAIM: Final = "hardpoint_identity"


@attrs.frozen
class Client:
    """Whose request it is."""

    user: str
    session: str
    tools: tuple[str, ...] = ("*",)

    def may_see(self, tool: str) -> bool:
        return any(fnmatch.fnmatchcase(tool, glob) for glob in self.tools)


def identify(ctx: Context, config: ServeConfig, stdio_session: str, modern: bool) -> Client:
    """The client of a request; its rights come from its token, its session from the transport."""
    request = ctx.request
    if request is None:
        return Client(config.user, stdio_session)
    # Without a handshake nobody has checked the header: it could name a stranger's session.
    session = None if modern else request.headers.get("mcp-session-id")
    user = request.scope.get("user")
    token = getattr(user, "access_token", None)
    claims: Mapping[str, Any] = (getattr(token, "claims", None) or {}) if token else {}
    identity = claims.get(IDENTITY_CLAIM)
    if isinstance(identity, ClientIdentity):
        named = identity.session or session or f"client:{identity.user}"
        return Client(identity.user, named, identity.tools)
    if token is not None:
        who = token.subject or token.client_id
        return Client(who, session or f"client:{who}")
    return Client(config.user, session or "http")


def declared(ctx: Context, modern: bool) -> Mapping[str, Any]:
    """What the client says it can answer, in its own words."""
    if modern:
        raw = ((ctx.params or {}).get("_meta") or {}).get(CAPABILITIES_KEY)
    else:
        known = ctx.session.client_capabilities
        raw = known.model_dump(by_alias=True, mode="json", exclude_none=True) if known else None
    if not isinstance(raw, Mapping):
        return {}
    return {name: value for name, value in raw.items() if name in ASKABLE}


class _Anything(types.Result):
    """A client's answer as it is: what its fields mean is for whoever asked."""

    model_config = ConfigDict(extra="allow")


_REQUESTS: Final[Mapping[str, Any]] = {
    "elicitation/create": types.ElicitRequest,
    "sampling/createMessage": types.CreateMessageRequest,
    "roots/list": types.ListRootsRequest,
}


@attrs.define(eq=False)
class HandshakeAsker:
    """Asks a client of the handshake era with requests of our own, on the stream of its request."""

    session: ServerSession
    request_id: Any
    capabilities: Mapping[str, Any]
    owner: object
    era: Era = "handshake"

    async def ask(self, questions: Mapping[str, Message]) -> Mapping[str, Message]:
        refuse_undeclared(self.capabilities, questions)
        answers = await asyncio.gather(*(self._one(one) for one in questions.values()))
        return dict(zip(questions, answers, strict=True))

    async def _one(self, question: Message) -> Message:
        model = _REQUESTS[question["method"]]
        request = model.model_validate(
            {"method": question["method"], "params": question.get("params") or {}}
        )
        metadata = ServerMessageMetadata(related_request_id=self.request_id)
        try:
            result = await self.session.send_request(request, _Anything, metadata=metadata)
        except MCPError as error:
            raise RpcError(error.code, error.message, error.data) from error
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)
