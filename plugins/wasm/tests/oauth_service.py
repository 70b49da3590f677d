"""A service with OAuth on loopback, over TLS: logins, tokens that end, data for who has one."""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import trustme

CLIENT_ID, CLIENT_SECRET = "synthetic-client", "synthetic" + "-client-secret"


class Service:
    """Use as a context manager. `browse` is the person's browser."""

    def __init__(self, folder: Path, authority: trustme.CA) -> None:
        self.ca_file = folder / "service-ca.pem"
        authority.cert_pem.write_to_path(str(self.ca_file))
        self.trust = ssl.create_default_context()
        authority.configure_trust(self.trust)
        self.codes: dict[str, dict[str, str]] = {}
        self.access: set[str] = set()
        self.refresh: set[str] = set()
        self.asked: list[tuple[str, dict[str, str]]] = []
        """Each token request: its grant type and its form."""
        self.expires_in: Any = 3600
        self.gives_refresh = True
        self.nested = False
        self.form_encoded = False
        self.token_answer: tuple[int, str] | None = None
        self._number = 0
        self._lock = threading.Lock()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                service._get(self)

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                service._token(self, self.rfile.read(length).decode())

            def log_message(self, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def __enter__(self) -> Service:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"https://{self.host}"

    def capabilities(self, **oauth: Any) -> dict[str, Any]:
        """A capabilities file whose tool logs in here."""
        return {
            "http": {
                "allowlist": [{"host": self.host}],
                "credentials": {
                    "token": {
                        "secret_name": "service_token",
                        "location": {"type": "bearer"},
                        "host_patterns": [self.host],
                    }
                },
            },
            "auth": {
                "secret_name": "service_token",
                "display_name": "The Service",
                "instructions": "Log in as yourself",
                "setup_url": f"{self.url}/keys",
                "validation_endpoint": {"url": f"{self.url}/me", "headers": {"x-version": "7"}},
                "oauth": {
                    "authorization_url": f"{self.url}/authorize",
                    "token_url": f"{self.url}/token",
                    "client_id": CLIENT_ID,
                    "client_secret": CLIENT_SECRET,
                    "scopes": ["read"],
                    "extra_params": {"access_type": "offline"},
                    **oauth,
                },
            },
        }

    def browse(self, address: str, *, follow: bool = True, **changes: str) -> str:
        """Open a login and agree; the address that the browser ends at."""
        with httpx2.Client(verify=self.trust) as client:
            answer = client.get(address)
            assert answer.status_code == 302, answer.text
            target = answer.headers["location"]
            if changes:
                parts = urlsplit(target)
                query = {k: v[0] for k, v in parse_qs(parts.query).items()} | changes
                target = f"{parts.scheme}://{parts.netloc}{parts.path}?{urlencode(query)}"
            if follow:
                client.get(target)
        return target

    def end_tokens(self) -> None:
        """No token that was given is valid any more."""
        self.access.clear()

    # what it answers ----------------------------------------------------------------------------

    def _get(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        token = handler.headers.get("authorization", "").removeprefix("Bearer ")
        match parts.path:
            case "/authorize":
                code = self._new("code")
                self.codes[code] = query
                back = urlencode({"code": code, "state": query["state"]})
                self._answer(handler, 302, "", location=f"{query['redirect_uri']}?{back}")
            case "/me" if handler.headers.get("x-version") != "7":
                self._answer(handler, 400, "no version")
            case _ if token not in self.access:
                self._answer(handler, 401, "who are you")
            case path:
                self._answer(handler, 200, f"data of {path}")

    def _token(self, handler: BaseHTTPRequestHandler, body: str) -> None:
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self.asked.append((form["grant_type"], form))
        status, answer = self.token_answer or self._judge(form)
        self._answer(handler, status, answer)

    def _judge(self, form: dict[str, str]) -> tuple[int, str]:
        if (form.get("client_id"), form.get("client_secret")) != (CLIENT_ID, CLIENT_SECRET):
            return 401, json.dumps({"error": "invalid_client"})
        if form["grant_type"] == "refresh_token":
            with self._lock:
                if form["refresh_token"] not in self.refresh:
                    return 400, json.dumps({"error": "invalid_grant"})
                self.refresh.discard(form["refresh_token"])  # each works once
            return 200, self._tokens()
        begun = self.codes.pop(form["code"], None)
        if begun is None or begun["redirect_uri"] != form["redirect_uri"]:
            return 400, json.dumps({"error": "invalid_grant", "error_description": "bad code"})
        challenge = begun.get("code_challenge")
        if challenge is not None:
            hashed = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            if base64.urlsafe_b64encode(hashed).rstrip(b"=").decode() != challenge:
                return 400, json.dumps({"error": "invalid_grant"})
        return 200, self._tokens()

    def _tokens(self) -> str:
        given: dict[str, Any] = {"access_token": self._new("access")}
        self.access.add(given["access_token"])
        if self.expires_in is not None:
            given["expires_in"] = self.expires_in
        if self.gives_refresh:
            given["refresh_token"] = self._new("refresh")
            self.refresh.add(given["refresh_token"])
        if self.form_encoded:
            return urlencode(given)
        return json.dumps({"ok": True, "authed_user": given} if self.nested else given)

    def _new(self, kind: str) -> str:
        with self._lock:
            self._number += 1
            return f"synthetic-{kind}-value-{self._number:04}"

    def _answer(
        self, handler: BaseHTTPRequestHandler, status: int, text: str, **headers: str
    ) -> None:
        data = text.encode()
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)
