"""A plugin of somebody else: built as a wheel, installed with plain pip, switched off and on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hatchling")

ROOT = Path(__file__).parents[2]

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "acme-{name}"
version = "1.2"
dependencies = ["hardpoint>=0.1"]

[project.entry-points.hardpoint]
{name} = "acme_{name}"

[tool.hatch.build.targets.wheel]
packages = ["acme_{name}"]
"""

WORDS = """
import os
import pathlib

import hardpoint

# Proof of every import.
with pathlib.Path(os.environ["IMPORTS"]).open("a") as file:
    file.write(f"{__name__}\\n")

HARDPOINT_API = 1

def count_words(text: str) -> int:
    '''Count the words in a text.'''
    return len(text.split())

@hardpoint.hookimpl
def hardpoint_register_tools(registry):
    registry.register(hardpoint.tool(count_words))
"""

CRASH = """
import missing_library
"""


def run(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=300, **options
    )


def build(project: Path, dist: Path) -> None:
    done = run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", dist], cwd=project)
    assert done.returncode == 0, done.stderr


def third_party(folder: Path, name: str, module: str, dist: Path) -> None:
    """Build the wheel of a plugin that nobody here has seen."""
    package = folder / f"acme_{name}"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT.replace("{name}", name))
    (package / "__init__.py").write_text(textwrap.dedent(module))
    build(folder, dist)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels of the core and of two plugins."""
    dist = tmp_path_factory.mktemp("dist")
    build(ROOT / "core", dist)
    third_party(tmp_path_factory.mktemp("words"), "words", WORDS, dist)
    third_party(tmp_path_factory.mktemp("crash"), "crash", CRASH, dist)
    return dist


Hardpoint = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def environment(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the libraries of this one, and nothing of ours."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder / "venv", with_pip=True)
    libraries = folder / "libraries"
    libraries.mkdir()
    for path in Path(attrs_place()).iterdir():
        if "hardpoint" not in path.name and path.suffix != ".pth":
            (libraries / path.name).symlink_to(path)
    site = next((folder / "venv").glob("lib*/python*/site-packages"))
    (site / "libraries.pth").write_text(f"{libraries}\n")
    pip(folder / "venv", "install", *wheels.glob("hardpoint-*.whl"))
    return folder / "venv"


def attrs_place() -> Path:
    import attrs

    return Path(attrs.__file__).parents[1]


def pip(environment: Path, *arguments: str | Path) -> None:
    done = run([environment / "bin/pip", "-q", *arguments, *offline(arguments)])
    assert done.returncode == 0, done.stderr


def offline(arguments: Sequence[str | Path]) -> Sequence[str]:
    return ["--no-index", "--no-deps"] if arguments[0] == "install" else ["-y"]


@pytest.fixture
def hardpoint(environment: Path, tmp_path: Path) -> Hardpoint:
    """The installed program, on its first day."""
    variables = {
        "PATH": os.environ["PATH"],
        "HARDPOINT_HOME": str(tmp_path / "home"),
        "IMPORTS": str(tmp_path / "imports"),
    }

    def command(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return run(
            [environment / "bin/hardpoint", *arguments],
            cwd=tmp_path,
            env={**variables, **more},
            stdin=subprocess.DEVNULL,
        )

    return command


def records(hardpoint: Hardpoint) -> dict[str, Any]:
    return {
        each["name"]: each for each in json.loads(hardpoint("plugins", "list", "--json").stdout)
    }


def test_a_plugins_whole_life(
    hardpoint: Hardpoint, environment: Path, wheels: Path, tmp_path: Path
) -> None:
    imports = tmp_path / "imports"
    assert records(hardpoint) == {}

    # Installed: found, listed, callable.
    pip(environment, "install", *wheels.glob("acme_words-*.whl"))
    found = records(hardpoint)["words"]
    assert (found["status"], found["distribution"], found["version"]) == (
        "active", "acme-words", "1.2",
    )  # fmt: skip
    assert found["tools"] == ["count_words"]
    assert hardpoint("call", "count_words", "text=a b c").stdout == "3\n"
    assert imports.read_text().splitlines() == ["acme_words"] * 2

    # Switched off: listed with the reason, and not even imported.
    assert hardpoint("plugins", "disable", "words").returncode == 0
    imports.unlink()
    off = records(hardpoint)["words"]
    called = hardpoint("call", "count_words", "text=a")
    assert off["status"] == "blocked"
    assert "config.toml:2" in off["reason"]
    assert called.returncode == 127
    assert not imports.exists()

    # Switched on again.
    assert hardpoint("plugins", "enable", "words").returncode == 0
    assert hardpoint("call", "count_words", "text=a b").stdout == "2\n"

    # Uninstalled: gone without a trace.
    pip(environment, "uninstall", "acme-words")
    assert records(hardpoint) == {}


@pytest.fixture
def operator(tmp_path: Path) -> dict[str, str]:
    """What makes a command without a terminal a person's."""
    token = tmp_path / "home" / "config" / "operator-token"
    token.parent.mkdir(parents=True)
    token.write_text("let-me")
    token.chmod(0o600)
    return {"HARDPOINT_OPERATOR_TOKEN": "let-me"}


def test_a_person_installs_a_plugin_and_sees_what_came(
    hardpoint: Hardpoint, environment: Path, wheels: Path, operator: dict[str, str]
) -> None:
    (wheel,) = wheels.glob("acme_words-*.whl")
    alone = ("--yes", "--no-index", "--no-deps")
    try:
        unasked = hardpoint("plugins", "install", str(wheel), "--no-index", **operator)
        none = records(hardpoint)
        done = hardpoint("plugins", "install", str(wheel), *alone, **operator)
        again = hardpoint("plugins", "install", str(wheel), *alone, "--json", **operator)
        called = hardpoint("call", "count_words", "text=a b c")
    finally:
        pip(environment, "uninstall", "acme-words")

    assert (unasked.returncode, none) == (2, {})
    assert "--yes" in unasked.stderr
    assert done.returncode == 0, done.stderr
    assert done.stdout == "words: active, acme-words 1.2, tools: count_words\n"
    assert json.loads(again.stdout) == []
    assert called.stdout == "3\n"


@pytest.mark.parametrize(
    "requirement",
    ["--index-url=https://x.example", "-r", "words @ https://x.example/w.whl", "no/such.whl",
     "git+https://x.example/w", "a b", ""],
)  # fmt: skip
def test_what_is_no_requirement_never_reaches_pip(
    hardpoint: Hardpoint, operator: dict[str, str], requirement: str
) -> None:
    refused = hardpoint("plugins", "install", "--yes", "--", requirement, **operator)

    assert refused.returncode != 0
    assert "neither a requirement nor a file" in refused.stderr


def test_nobody_but_a_person_installs_a_plugin(
    hardpoint: Hardpoint, wheels: Path, operator: dict[str, str]
) -> None:
    (wheel,) = wheels.glob("acme_words-*.whl")
    for more in ({}, {**operator, "HARDPOINT_INSIDE_CALL": "1"}):
        refused = hardpoint("plugins", "install", "--yes", str(wheel), **more)
        assert refused.returncode == 3
    assert records(hardpoint) == {}


def test_a_plugin_that_crashes_harms_nobody_else(
    hardpoint: Hardpoint, environment: Path, wheels: Path
) -> None:
    pip(environment, "install", *wheels.glob("acme_*.whl"))
    try:
        found = records(hardpoint)
        works = hardpoint("call", "count_words", "text=a b")
        doctor = hardpoint("doctor", "plugins")
        strict = hardpoint("call", "count_words", "text=a", HARDPOINT_STRICT_PLUGINS="1")
    finally:
        pip(environment, "uninstall", "acme-words", "acme-crash")

    assert {name: each["status"] for name, each in found.items()} == {
        "crash": "failed",
        "words": "active",
    }
    assert "missing_library" in found["crash"]["reason"]
    assert (works.returncode, works.stdout) == (0, "2\n")
    assert doctor.returncode == 1
    assert strict.returncode == 78


def test_a_new_plugin_from_the_installed_template(
    hardpoint: Hardpoint, environment: Path, tmp_path: Path
) -> None:
    made = hardpoint("new", "acme-greetings")
    assert made.returncode == 0, made.stderr
    build(tmp_path / "acme-greetings", tmp_path / "dist")

    pip(environment, "install", *(tmp_path / "dist").glob("*.whl"))
    try:
        shown = hardpoint("call", "acme_greetings_greet", "name=Ada", "excited=true")
    finally:
        pip(environment, "uninstall", "acme-greetings")

    assert (shown.returncode, shown.stdout) == (0, "Hello Ada!\n")


def test_the_core_alone_works(hardpoint: Hardpoint) -> None:
    missing = hardpoint("call", "echo", "message=hi")

    assert hardpoint("--version").stdout.startswith("hardpoint ")
    assert missing.returncode == 127
    assert hardpoint("doctor").returncode == 0
    assert json.loads(hardpoint("tools", "list", "--json").stdout)[0]["name"] == "result_read"
