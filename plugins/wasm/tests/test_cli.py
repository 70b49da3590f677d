"""`hardpoint wasm`, as a person uses it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import wasmtime
from wasm_guests import wat

TOUR = bytes(wasmtime.wat2wasm(wat.tour()))
ASKED = {
    "http": {"allowlist": [{"host": "api.example.com"}], "max_response_bytes": 10_485_760},
    "workspace": {"allowed_prefixes": ["notes"]},
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "tour.wasm").write_bytes(TOUR)
    (folder / "tour.capabilities.json").write_text(json.dumps(ASKED))
    return tmp_path


@pytest.fixture
def hardpoint(home: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line in a home of its own."""

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(
            [sys.executable, "-m", "hardpoint", *arguments],
            cwd=home,
            env=environment(home),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            **options,
        )

    return run


def environment(home: Path) -> dict[str, str]:
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    return kept | {"HARDPOINT_HOME": str(home / "home"), "HARDPOINT_LOAD_PLUGINS": "wasm"}


def in_terminal(home: Path, typed: str, *arguments: str) -> tuple[int, str]:
    """Run a command at a terminal at which somebody types."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hardpoint", *arguments],
        cwd=home, env=environment(home), stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    shown, lines = b"", typed.splitlines(keepends=True)
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end was closed
            break
        shown += piece
        if lines and shown.rstrip().endswith((b"[y/N]:", b"[Y/n]:")):
            os.write(ours, lines.pop(0).encode())
            shown += b"\n"
    os.close(ours)
    return process.wait(timeout=10), shown.decode()


def test_adding_shows_what_is_asked_and_grants_what_a_person_says(
    home: Path, hardpoint: Any
) -> None:
    code, shown = in_terminal(home, "n\ny\n", "wasm", "add", "src/tour.wasm")

    assert code == 0, shown
    assert "http:api.example.com" in shown
    assert "10485760" in shown
    [tool] = json.loads(hardpoint("wasm", "list", "--json").stdout)
    assert tool["granted"] == ["workspace:notes"]
    assert tool["not_granted"] == ["http:api.example.com"]
    assert tool["digest"].startswith("sha256:")


def test_without_a_person_nothing_is_granted(hardpoint: Any) -> None:
    refused = hardpoint("wasm", "add", "src/tour.wasm", "--yes")
    added = hardpoint("wasm", "add", "src/tour.wasm", "--grant-nothing", "--json")

    assert refused.returncode == 3
    assert "terminal" in refused.stderr
    assert added.returncode == 0, added.stderr
    assert json.loads(added.stdout)["granted"] == []
    assert hardpoint("wasm", "grant", "tour", "workspace:notes").returncode == 3


@pytest.mark.parametrize("name", ["shell", "read-file"])
def test_names_of_first_party_tools_are_refused(hardpoint: Any, name: str) -> None:
    done = hardpoint("wasm", "add", "src/tour.wasm", "--grant-nothing", "--name", name)

    assert done.returncode == 1
    assert repr(name) in done.stderr
    assert json.loads(hardpoint("wasm", "list", "--json").stdout) == []


@pytest.mark.parametrize("name", ["my_tool", "My-Tool"])
def test_names_that_the_registry_takes_for_one_are_refused(hardpoint: Any, name: str) -> None:
    hardpoint("wasm", "add", "src/tour.wasm", "--grant-nothing", "--name", "my-tool")

    done = hardpoint("wasm", "add", "src/tour.wasm", "--grant-nothing", "--name", name)

    assert done.returncode == 1
    assert "'my-tool' comes from 'my-tool' already" in done.stderr


def test_granting_and_revoking(home: Path, hardpoint: Any) -> None:
    hardpoint("wasm", "add", "src/tour.wasm", "--grant-nothing")

    code, shown = in_terminal(home, "", "wasm", "grant", "tour", "workspace:notes")
    granted = json.loads(hardpoint("wasm", "info", "tour", "--json").stdout)["granted"]
    revoked = hardpoint("wasm", "revoke", "tour", "workspace:notes")
    after = json.loads(hardpoint("wasm", "info", "tour", "--json").stdout)["granted"]

    assert code == 0, shown
    assert granted == ["workspace:notes"]
    assert revoked.returncode == 0
    assert after == []


def test_an_unknown_permission_is_an_error_that_names_the_known(home: Path, hardpoint: Any) -> None:
    hardpoint("wasm", "add", "src/tour.wasm", "--grant-nothing")

    code, shown = in_terminal(home, "", "wasm", "grant", "tour", "tool:shell")

    assert code == 1
    assert "http:api.example.com" in shown


def test_a_tool_is_called_removed_and_gone(hardpoint: Any) -> None:
    hardpoint("wasm", "add", "src/tour.wasm", "--grant-nothing")

    called = hardpoint("call", "tour", "--input", "{}", "--json")
    removed = hardpoint("wasm", "remove", "tour")
    again = hardpoint("call", "tour", "--input", "{}", "--json")

    assert json.loads(called.stdout)["ok"], called.stdout + called.stderr
    assert removed.returncode == 0
    assert again.returncode == 127


def test_running_a_strangers_file_grants_nothing(hardpoint: Any) -> None:
    done = hardpoint("wasm", "run", "src/tour.wasm")

    assert done.returncode == 0, done.stderr
    assert "may not make requests" in done.stdout


def test_what_is_no_module_is_an_error_without_a_traceback(home: Path, hardpoint: Any) -> None:
    (home / "x.wasm").write_bytes(b"not a module")

    for arguments in (("add", "x.wasm"), ("run", "x.wasm"), ("add", "nowhere.wasm"),
                      ("info", "nothing"), ("remove", "nothing"), ("build", "src"),
                      ("add", "https://127.0.0.1/x.wasm")):  # fmt: skip
        done = hardpoint("wasm", *arguments)
        assert done.returncode in (1, 3, 78), (arguments, done)
        assert done.stderr.startswith("error: "), (arguments, done.stderr)
        assert "Traceback" not in done.stderr


def test_a_module_with_control_characters_does_not_redraw_the_terminal(
    home: Path, hardpoint: Any
) -> None:
    wasm = wasmtime.wat2wasm(wat.tool(description="nice\x1b[2J\x1b]0;x\x07 tool"))
    (home / "odd.wasm").write_bytes(wasm)

    done = hardpoint("wasm", "add", "odd.wasm")

    assert done.returncode == 0
    assert "\x1b" not in done.stdout


def test_listing_loads_no_engine(home: Path, hardpoint: Any) -> None:
    hardpoint("wasm", "add", "src/tour.wasm", "--grant-nothing")
    program = """
import sys
from hardpoint.cli import main
sys.argv = ["hardpoint", "tools"]
try:
    main()
except SystemExit:
    pass
print([name for name in ("wasmtime", "hardpoint_wasm.module") if name in sys.modules])
"""

    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(home), capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip

    assert "tour" in done.stdout
    assert done.stdout.rstrip().endswith("[]"), done.stdout + done.stderr


def test_the_schema_of_capabilities_files_is_printed(hardpoint: Any) -> None:
    schema = json.loads(hardpoint("wasm", "schema").stdout)

    assert schema["properties"]["http"]["additionalProperties"] is False
