"""Every check that a person or CI runs.

`nox` gives each check its own environment. `./dev test` runs them with `--no-venv` in the one that
it has just installed; what needs a bare environment (wheels, lowest, template) always makes one.
"""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import nox
from nox.command import CommandFailed

ROOT = Path(__file__).parent
CORE = ROOT / "core"
PLUGINS = [
    path for path in sorted((ROOT / "plugins").iterdir()) if (path / "pyproject.toml").exists()
]
PACKAGES = [CORE, *PLUGINS]
SOURCES = [str(path / "src") for path in PACKAGES]
CONSTRAINTS = str(ROOT / "constraints.txt")

# Continuous integration has everything that a test could want; elsewhere tests skip and say so.
WHOLE = ["--no-skips"] if os.environ.get("CI") else []

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = [
    "tests", "plugins", "e2e", "lint", "types", "layers", "docs", "wheels", "lowest", "template",
]  # fmt: skip


def prepare(session: nox.Session, *packages: Path, groups: str = "test") -> None:
    """Install packages and tools, unless the session runs in an environment that is ready."""
    if session.venv_backend == "none":
        return
    editable = [part for path in packages for part in ("-e", str(path))]
    session.run_install(
        "uv", "pip", "install", "-q", "--python", session.virtualenv.location,
        "-c", CONSTRAINTS, *editable, *test_groups(packages), "--group", groups,
        external=True,
    )  # fmt: skip


def test_groups(packages: tuple[Path, ...]) -> list[str]:
    """What a package's own tests need beyond the common tools."""
    files = [path / "pyproject.toml" for path in packages]
    has = [
        f
        for f in files
        if "test" in tomllib.loads(f.read_text("utf-8")).get("dependency-groups", {})
    ]
    return [part for file in has for part in ("--group", f"{file}:test")]


def bare_environment(session: nox.Session, name: str, *arguments: str) -> Path:
    """A new environment with only these packages, and its folder of programs."""
    folder = Path(session.create_tmp()).absolute() / name
    session.run("uv", "venv", "-q", "--clear", str(folder), external=True)
    session.run(
        "uv", "pip", "install", "-q", "--python", str(folder), *arguments, external=True
    )  # fmt: skip
    return folder / ("Scripts" if os.name == "nt" else "bin")


# tests -------------------------------------------------------------------------------------------


@nox.session
def tests(session: nox.Session) -> None:
    """The core, the promises of the repository, and the acceptance cases."""
    prepare(session, *PACKAGES)
    folders = [f"tests/{name}" for name in ("core", "contract", "acceptance") if has_tests(name)]
    session.run("pytest", "-q", *WHOLE, *folders, *session.posargs)


@nox.session
def plugins(session: nox.Session) -> None:
    """Each plugin's own tests; without --no-venv beside nothing but the core."""
    failed = []
    for plugin in PLUGINS:
        prepare(session, CORE, plugin)
        try:
            session.run(
                "pytest", "-q", *WHOLE, str(plugin / "tests"), *session.posargs,
                success_codes=[0, 5],
            )  # fmt: skip
        except CommandFailed:
            failed.append(plugin.name)  # the others are still worth knowing about
    if failed:
        session.error(f"failed: {', '.join(failed)}")


@nox.session
def e2e(session: nox.Session) -> None:
    """Whole programs: the command line, several processes, the demo."""
    prepare(session, *PACKAGES, groups="dev")
    if has_tests("e2e"):
        session.run("pytest", "-q", *WHOLE, "tests/e2e", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Every code block of the README and of docs/ runs."""
    prepare(session, *PACKAGES)
    session.run("pytest", "-q", *WHOLE, "tests/docs", *session.posargs)


@nox.session(python=["3.12", "3.13", "3.14"])
def versions(session: nox.Session) -> None:
    """The tests of the core on other Pythons, where they are installed."""
    prepare(session, CORE, ROOT / "plugins" / "builtin")
    session.run("pytest", "-q", "tests/core", "plugins/builtin/tests", *session.posargs)


@nox.session
def lowest(session: nox.Session) -> None:
    """The lowest versions that pyproject.toml promises."""
    programs = bare_environment(
        session, "lowest", "--resolution", "lowest-direct", "-e", str(CORE),
        "-e", str(ROOT / "plugins" / "builtin"), "--group", "test",
    )  # fmt: skip
    # The oldest test plugins leave event loops to the collector; that is nothing of ours.
    quiet = ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]
    session.run(str(programs / "pytest"), "-q", *quiet, "tests/core", external=True)


def has_tests(name: str) -> bool:
    return any((ROOT / "tests" / name).rglob("test_*.py"))


# reading -----------------------------------------------------------------------------------------


@nox.session
def lint(session: nox.Session) -> None:
    """Style, and what a linter can find."""
    prepare(session, groups="lint")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Strict types."""
    prepare(session, *PACKAGES, groups="dev")
    session.run("mypy", *SOURCES)
    session.run("mypy", "noxfile.py", "dev", "hatch_build.py")


@nox.session
def layers(session: nox.Session) -> None:
    """Imports point down, and plugins keep apart."""
    prepare(session, *PACKAGES, groups="lint")
    session.run("lint-imports")


# packages ----------------------------------------------------------------------------------------


@nox.session
def wheels(session: nox.Session) -> None:
    """Each wheel installs alone into a bare environment, and its plugin is found there."""
    prepare(session, groups="release")
    dist = Path(session.create_tmp()).absolute() / "dist"
    for path in PACKAGES:
        session.run("python", "-m", "build", "-q", "--no-isolation", "-o", str(dist), str(path))
    release = {"HARDPOINT_RELEASE": "1"}
    session.run(
        "python", "-m", "build", "-q", "--no-isolation", "-o", str(dist), str(ROOT), env=release
    )  # fmt: skip
    built = sorted(dist.glob("*.whl"))
    filled = [str(wheel) for wheel in built if not wheel.name.startswith("hardpoint_all-")]
    session.run("check-wheel-contents", "--ignore", "W002", *filled)
    # uv would take an earlier wheel of the same version from its cache.
    fresh = [part for path in PACKAGES for part in ("--refresh-package", name_of(path))]
    offered = ["-c", CONSTRAINTS, "--find-links", str(dist), *fresh]
    for wheel in built:
        name = wheel.name.split("-")[0]
        programs = bare_environment(session, name, *offered, str(wheel))
        session.run(str(programs / "hardpoint"), "--version", external=True)
        shown = session.run(
            str(programs / "hardpoint"), "plugins", "list", "--json",
            external=True, silent=True, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        found = {each["name"]: each["status"] for each in json.loads(str(shown))}
        plugin = name.removeprefix("hardpoint_")
        wanted = {"hardpoint": [], "all": [path.name for path in PLUGINS]}.get(plugin, [plugin])
        if found != dict.fromkeys(wanted, "active"):
            session.error(f"{wheel.name} is installed, and these plugins are found: {found}")


@nox.session
def template(session: nox.Session) -> None:
    """A new plugin from the installed package: its tests pass untouched, and it can be called."""
    fresh = ["--refresh-package", "hardpoint"]
    programs = bare_environment(session, "template", "-c", CONSTRAINTS, *fresh, str(CORE))
    folder = Path(session.create_tmp()).absolute() / "acme-weather"
    session.run("python", "-c", f"import shutil; shutil.rmtree({str(folder)!r}, True)")
    with session.chdir(folder.parent):
        session.run(str(programs / "hardpoint"), "new", folder.name, external=True)
    session.run(
        "uv", "pip", "install", "-q", "--python", str(programs.parent), "-c", CONSTRAINTS,
        "--find-links", str(folder.parent), f"{folder}[test]",
        external=True,
    )  # fmt: skip
    with session.chdir(folder):
        session.run(str(programs / "pytest"), "-q", external=True)
        session.run(
            str(programs / "hardpoint"), "call", "acme_weather_greet", "name=Ada", external=True
        )  # fmt: skip


@nox.session
def constraints(session: nox.Session) -> None:
    """Write constraints.txt anew from the newest versions that fit together."""
    groups = [part for path in PACKAGES for part in test_groups((path,))]
    extras = [
        f"{path}[{','.join(known)}]"
        for path in PACKAGES
        if (known := sorted(extras_of(path)))
    ]  # fmt: skip
    programs = bare_environment(
        session, "constraints", ".", *extras, "uv", "--group", "dev", *groups
    )
    frozen = session.run(
        "uv", "pip", "freeze", "--python", str(programs.parent), external=True, silent=True
    )
    pins = [line for line in str(frozen).splitlines() if "==" in line and "hardpoint" not in line]
    heading = "# What CI installs; `nox -s constraints` writes it anew.\n"
    Path(CONSTRAINTS).write_text(heading + "\n".join(pins) + "\n", encoding="utf-8")


def extras_of(path: Path) -> dict[str, list[str]]:
    project = tomllib.loads((path / "pyproject.toml").read_text("utf-8"))["project"]
    return dict(project.get("optional-dependencies", {}))


def name_of(package: Path) -> str:
    project = tomllib.loads((package / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["name"])


# measuring ---------------------------------------------------------------------------------------


@nox.session
def bench(session: nox.Session) -> None:
    """Compare with peers and write the table of the docs."""
    prepare(session, *PACKAGES, groups="bench")
    session.run("python", "-m", "tests.bench", *session.posargs)


@nox.session
def soak(session: nox.Session) -> None:
    """The long counts whole: threads, damaged modules, sandboxes, servers that die."""
    prepare(session, *PACKAGES)
    tests = [
        "plugins/container/tests/test_soak.py",
        "plugins/wasm/tests/test_soak.py",
        "plugins/mcp/tests/test_chaos.py",
    ]
    # One process each: their set-ups share fixture names.
    for test in tests:
        session.run("pytest", "-q", "--timeout=3600", test, env={"HARDPOINT_SOAK": "1"})
