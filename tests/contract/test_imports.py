"""What is imported when: the root by name, the heavy at first use, nothing twice under one name."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hardpoint

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "core/src/hardpoint"

# Never imported for a listing, whatever is installed.
HEAVY = ("mcp", "podman", "wasmtime", "httpx2", "pydantic", "sqlalchemy", "tree_sitter", "rich")


def modules_after(code: str, home: Path) -> set[str]:
    """The modules that a fresh interpreter has after running the code."""
    report = "import json, sys\nprint('\\n' + json.dumps([*sys.modules]))"
    place = home / "work"
    place.mkdir(exist_ok=True)
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=place,
        env={**os.environ, "HARDPOINT_HOME": str(home)},
    )
    return set(json.loads(shown.stdout.splitlines()[-1]))


def command(*arguments: str) -> str:
    return (
        "import contextlib\n"
        "from hardpoint.cli import main\n"
        "with contextlib.suppress(SystemExit):\n"
        f"    main({list(arguments)!r})"
    )


def test_importing_the_package_imports_nothing_to_speak_of(tmp_path: Path) -> None:
    bare = modules_after("", tmp_path)

    ours = modules_after("import hardpoint", tmp_path) - bare

    assert not {"asyncio", "typing", "attr", "attrs", "click", "pluggy", *HEAVY} & ours
    assert len(ours) < 10


def test_the_version_needs_no_command_line_library(tmp_path: Path) -> None:
    loaded = modules_after(command("--version"), tmp_path)

    assert not {"click", "asyncio", "typing", "attr", "pathlib", *HEAVY} & loaded


@pytest.mark.parametrize("listing", [("plugins", "list"), ("tools", "list"), ("tools", "--help")])
def test_a_first_listing_imports_nothing_heavy(listing: tuple[str, str], tmp_path: Path) -> None:
    assert not set(HEAVY) & modules_after(command(*listing), tmp_path)


@pytest.mark.parametrize("listing", [("plugins", "list"), ("tools", "list")])
def test_a_listing_from_the_cache_needs_no_plugin(listing: tuple[str, str], tmp_path: Path) -> None:
    modules_after(command(*listing), tmp_path)

    loaded = modules_after(command(*listing), tmp_path)

    unneeded = {"asyncio", "attr", "cattrs", "click", "pluggy", "importlib_metadata", *HEAVY}
    assert not unneeded & loaded
    assert not [name for name in loaded if name.startswith("hardpoint_")]


def test_a_call_of_a_plain_tool_imports_no_other_plugins_engine(tmp_path: Path) -> None:
    loaded = modules_after(command("call", "echo", "message=hi"), tmp_path)

    assert not {*HEAVY, "redis", "zoneinfo"} & loaded


def test_every_name_of_the_root_can_be_imported_and_the_lists_agree() -> None:
    names = hardpoint.__all__

    assert len(set(names)) == len(names)
    assert set(names) == {*hardpoint._EXPORTS, "__version__"}
    for name in names:
        assert getattr(hardpoint, name) is not None
    assert set(dir(hardpoint)) == set(names)
    with pytest.raises(AttributeError, match="nonsense"):
        hardpoint.nonsense


def test_the_exports_stand_in_order() -> None:
    # As ruff sorts them: constants, classes, functions.
    def kind(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)

    assert list(hardpoint.__all__) == sorted(hardpoint.__all__, key=kind)
    assert list(hardpoint._EXPORTS) == sorted(hardpoint._EXPORTS)


def test_a_type_checker_sees_what_the_table_says() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    (block,) = (n for n in tree.body if isinstance(n, ast.If))
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert seen == {name: f"hardpoint.{where}" for name, where in hardpoint._EXPORTS.items()}


def test_no_module_shares_a_name_with_a_root_export() -> None:
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    modules |= {path.parent.name for path in PACKAGE.glob("*/__init__.py")}

    assert not modules & set(hardpoint.__all__)


def test_importing_a_module_does_no_work() -> None:
    """Every module can be imported alone, first, and prints nothing."""
    names = [
        ".".join(("hardpoint", *path.relative_to(PACKAGE).with_suffix("").parts))
        for path in sorted(PACKAGE.rglob("*.py"))
        if "_template" not in path.parts
    ]
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"

    shown = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *(n.removesuffix(".__init__") for n in names)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "", "")


@pytest.mark.parametrize("name", ["errors", "interfaces", "net", "testing"])
def test_the_open_modules_say_what_is_public(name: str) -> None:
    module = importlib.import_module(f"hardpoint.{name}")
    public = getattr(module, "__all__", None) or [n for n in vars(module) if n[0].isupper()]

    assert public
    for each in public:
        assert getattr(module, each) is not None


def test_the_version_is_one_everywhere() -> None:
    import tomllib
    from importlib.metadata import version

    written = tomllib.loads((ROOT / "core/pyproject.toml").read_text("utf-8"))["project"]

    assert hardpoint.__version__ == written["version"] == version("hardpoint")
