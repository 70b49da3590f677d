"""A server that does what its caller asks, and that is seldom good."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any


def send(message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(request: Any, result: Any) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def text(value: str) -> Any:
    return {"content": [{"type": "text", "text": value}]}


def call(request: Any) -> None:
    how = request["params"]["arguments"].get("how", "")
    match how:
        case "die":
            os._exit(9)
        case "hang":
            return
        case "freeze":
            time.sleep(60)
        case "garbage":
            os.write(
                1, os.urandom(5000).replace(b"\n", b"") + b"\n{]\n[[[[\n" + b"\0" * 100 + b"\n"
            )
        case "half":
            os.write(1, b'{"jsonrpc": "2.0", "id": ')
            os._exit(1)
        case "wrong":
            return send({"jsonrpc": "2.0", "id": request["id"], "result": "text"})
        case "unasked":
            for number in range(50):
                send({"jsonrpc": "2.0", "id": 10_000 + number, "result": {}})
                send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        case "stderr":
            os.write(2, b"noise " * 20_000)
        case "child":
            if os.fork() == 0:
                os.setsid()
                time.sleep(300)
        case "big":
            return answer(request, text("x" * 2_000_000))
        case "error":
            return send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": 1}})
        case "slow":
            time.sleep(0.2)
    answer(request, text(how))


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                answer(
                    request,
                    {
                        "protocolVersion": "2025-11-25",
                        "capabilities": {"tools": {"listChanged": True}},
                        "serverInfo": {"name": "chaos", "version": "0"},
                    },
                )
            case "tools/list":
                schema = {"type": "object", "properties": {"how": {"type": "string"}}}
                answer(request, {"tools": [{"name": "do", "inputSchema": schema}]})
            case "tools/call":
                if request["params"]["arguments"].get("how") in ("freeze", "child"):
                    call(request)
                else:
                    threading.Thread(target=call, args=(request,), daemon=True).start()
            case "server/discover":
                error = {"code": -32601, "message": "Method not found"}
                send({"jsonrpc": "2.0", "id": request["id"], "error": error})


main()
