"""`hardpoint wasm auth`, as a person uses it: from adding a tool to its first answer."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from oauth_service import Service
from test_auth import getter

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path, trustme.CA()) as service:
        yield service


@pytest.fixture
def environment(tmp_path: Path, service: Service) -> dict[str, str]:
    config = tmp_path / "home/config"
    config.mkdir(parents=True)
    (config / "operator-token").write_text("synthetic-operator")
    (config / "operator-token").chmod(0o600)
    (config / "config.toml").write_text(f"""
[secrets]
stores = ["file"]
key = "passphrase"

[network]
allow_private = ["127.0.0.0/8"]
ca_file = "{service.ca_file}"
""")
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    return kept | {
        "HARDPOINT_HOME": str(tmp_path / "home"),
        "HARDPOINT_LOAD_PLUGINS": "wasm",
        "HARDPOINT_OPERATOR_TOKEN": "synthetic-operator",
        "HARDPOINT_PASSPHRASE": "synthetic passphrase of a test",
    }


@pytest.fixture
def hardpoint(tmp_path: Path, environment: dict[str, str]) -> Run:
    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        options = {"input": "", "env": environment, **options}
        return subprocess.run(
            [sys.executable, "-m", "hardpoint", *arguments],
            cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False, **options,
        )  # fmt: skip

    return run


def write(folder: Path, service: Service, asked: Any) -> str:
    (folder / "get.wasm").write_bytes(getter(service))
    (folder / "get.capabilities.json").write_text(json.dumps(asked))
    return str(folder / "get.wasm")


def log_in(environment: dict[str, str], service: Service, *options: str) -> tuple[int, str, str]:
    """Run `wasm auth get`, and be the browser for the address that it shows."""
    with subprocess.Popen(
        [sys.executable, "-m", "hardpoint", "wasm", "auth", "get", "--no-browser", *options],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        shown = ""
        for line in process.stderr:
            shown += line
            if line.startswith(f"{service.url}/authorize"):
                service.browse(line.strip())
        assert process.stdout is not None
        said = process.stdout.read()
    return process.returncode, said, shown


def test_from_adding_a_tool_to_its_first_answer(
    tmp_path: Path, service: Service, environment: dict[str, str], hardpoint: Run
) -> None:
    added = hardpoint("wasm", "add", write(tmp_path, service, service.capabilities()), "--yes")
    before = hardpoint("call", "get", "--yes")
    code, said, shown = log_in(environment, service, "--user", "ana")
    after = hardpoint("call", "get", "--yes", "--user", "ana")
    out = hardpoint("wasm", "logout", "get", "--user", "ana")
    names = hardpoint("secrets", "list", "--user", "ana", "--json")

    assert f"login:{service.host}" in added.stdout
    assert "it needs a login or a secret: hardpoint wasm auth get" in added.stdout
    assert "is not set" in before.stdout
    assert code == 0, shown
    assert "The Service:\nLog in as yourself\n" in shown
    assert "service_token of ana is in file" in said
    assert f"{service.host} takes it" in said
    assert "got: data of /data" in after.stdout
    assert out.returncode == 0, out.stderr
    assert json.loads(names.stdout) == []
    for token in (*service.access, *service.refresh):
        assert token not in said + shown + after.stdout + after.stderr


def test_what_was_not_granted_is_not_used(tmp_path: Path, service: Service, hardpoint: Run) -> None:
    source = write(tmp_path, service, service.capabilities())
    hardpoint("wasm", "add", source, "--grant", f"http:{service.host}")

    refused = hardpoint("wasm", "auth", "get", "--no-browser")

    assert refused.returncode == 1
    assert f"not granted 'login:{service.host}'" in refused.stderr
    assert service.asked == []


def test_a_secret_by_hand_is_read_from_a_pipe_and_tried(
    tmp_path: Path, service: Service, hardpoint: Run
) -> None:
    asked = service.capabilities()
    del asked["auth"]["oauth"]
    asked["auth"] |= {"token_hint": "begins with synthetic\x1b[2J", "env_var": "THEIR_TOKEN"}
    asked["setup"] = {
        "required_secrets": [
            {"name": "service_token", "prompt": "The token of the service, from its page"},
            {"name": "region", "prompt": "The region in which your account of the service is"},
            {"name": "extra", "prompt": "Something that hardly anybody needs", "optional": True},
        ]
    }
    hardpoint("wasm", "add", write(tmp_path, service, asked), "--yes")
    service.access.add("synthetic-by-hand-1")

    wrong = hardpoint("wasm", "auth", "get", input="synthetic-wrong-1\n")
    right = hardpoint("wasm", "auth", "get", input="synthetic-by-hand-1\nnorth-of-here\n\n")
    names = json.loads(hardpoint("secrets", "list", "--json").stdout)

    assert wrong.returncode == 3
    assert "status 401" in wrong.stderr
    assert right.returncode == 0, right.stderr
    assert re.search(r"it looks like this: begins with synthetic[^\x1b]*\n", right.stderr)
    assert f"{service.host} takes it" in right.stdout
    assert [each["name"] for each in names] == ["region", "service_token"]


def test_a_granted_variable_gives_the_secret(
    tmp_path: Path, service: Service, environment: dict[str, str], hardpoint: Run
) -> None:
    asked = service.capabilities()
    del asked["auth"]["oauth"]
    asked["auth"]["env_var"] = "THEIR_TOKEN"
    hardpoint("wasm", "add", write(tmp_path, service, asked), "--yes")
    service.access.add("synthetic-of-variable-1")

    done = hardpoint(
        "wasm", "auth", "get", env=environment | {"THEIR_TOKEN": "synthetic-of-variable-1"}
    )

    assert done.returncode == 0, done.stderr
    assert "the variable THEIR_TOKEN has it" in done.stderr


def test_a_secret_that_is_there_is_not_replaced_unasked(
    tmp_path: Path, service: Service, hardpoint: Run
) -> None:
    """A stranger's file may name a secret that belongs to something else."""
    hardpoint("wasm", "add", write(tmp_path, service, service.capabilities()), "--yes")
    hardpoint("secrets", "set", "service_token", input="synthetic-of-another-1")

    refused = hardpoint("wasm", "auth", "get", "--by-hand", input="n\n")

    assert refused.returncode != 0
    assert "replace it?" in refused.stderr


def test_a_tool_without_a_login_says_so(tmp_path: Path, service: Service, hardpoint: Run) -> None:
    hardpoint("wasm", "add", write(tmp_path, service, {}), "--yes")

    done = hardpoint("wasm", "auth", "get")

    assert done.returncode == 1
    assert "get needs no login" in done.stderr
