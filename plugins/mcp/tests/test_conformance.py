"""The official conformance suite, offline: against the gateway and against the client.

No failure is expected anywhere: every scenario that a revision requires must pass.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent / "conformance"
REQUIRED = {"2025-11-25": (30, 18), "2026-07-28": (37, 32)}
"""How many scenarios each revision requires of servers and of clients."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def suite(assets: Any, tmp_path: Path) -> Any:
    """Run the suite; its exit code and what it wrote."""
    package = assets.npm_package("@modelcontextprotocol/conformance")
    command = [assets.node(), str(package / "dist" / "index.js")]

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [*command, *arguments, "-o", str(tmp_path / "out")],
            capture_output=True,
            text=True,
            timeout=280,
            cwd=tmp_path,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def passed(output: str) -> int:
    """How many scenarios passed all their checks."""
    return len(re.findall(r"^✓ [\w/-]+: [1-9]\d* passed, 0 failed", output, re.MULTILINE))


def failures(output: str) -> str:
    return "\n".join(line for line in output.splitlines() if line.startswith("✗"))


@pytest.mark.parametrize("beside", ["alone", "beside others"])
async def test_the_gateway_passes_every_required_scenario_of_both_revisions(
    beside, suite, assets, run_program, write_config
):
    fixture = run_program(lambda port: [sys.executable, str(HERE / "server.py"), str(port)])
    servers: dict[str, Any] = {
        "fixture": {"url": f"http://127.0.0.1:{fixture}/mcp", "trusted": True, "read_only": ["*"]}
    }
    if beside == "beside others":
        everything = assets.npm_package("@modelcontextprotocol/server-everything")
        servers["everything"] = {
            "command": assets.node(),
            "args": [str(everything / "dist" / "index.js")],
            "prefix": "server",
        }
        servers["time"] = {"command": assets.python_server("mcp-server-time")[0]}
    config = write_config({"prefix": "none", "servers": servers}, limits={"backend": "memory"})
    gateway = run_program(
        lambda port: [
            *(sys.executable, "-m", "hardpoint", "--config", str(config)),
            *("serve", "--http", f"127.0.0.1:{port}"),
        ]
    )

    for revision, (required, _) in REQUIRED.items():
        url = f"http://localhost:{gateway}/mcp"
        code, output = suite("server", "--url", url, "--requirements", revision)

        assert code == 0, failures(output)
        assert passed(output) >= required


@pytest.mark.parametrize("revision", REQUIRED)
async def test_the_client_passes_every_required_scenario(revision, suite):
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    program = f"{sys.executable} {HERE / 'client.py'}"

    code, output = suite(
        *("client", "--command", program, "--requirements", revision, "--timeout", "180000")
    )

    assert code == 0, failures(output)
    assert passed(output) >= REQUIRED[revision][1]
