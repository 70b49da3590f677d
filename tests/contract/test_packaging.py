"""What every distribution of this repository promises."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT / "core", *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]


def project_of(folder):
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))


def name_of(requirement):
    return re.match(r"[A-Za-z0-9._-]+", requirement)[0].lower()


def test_the_core_depends_on_these_libraries_and_no_others():
    dependencies = project_of(ROOT / "core")["project"]["dependencies"]

    assert sorted(map(name_of, dependencies)) == [
        "ahocorasick-rs", "attrs", "cattrs", "click", "fastjsonschema", "httpx2",
        "importlib-metadata", "jsonschema-rs", "platformdirs", "pluggy", "tree-sitter",
        "tree-sitter-bash",
    ]  # fmt: skip


def test_the_workspace_knows_every_package():
    root = project_of(ROOT)
    members = root["tool"]["uv"]["workspace"]["members"]
    names = [project_of(folder)["project"]["name"] for folder in PACKAGES]

    assert sorted(members) == sorted(p.relative_to(ROOT).as_posix() for p in PACKAGES)
    assert sorted(root["tool"]["uv"]["sources"]) == sorted(names)
    sources = {path.relative_to(ROOT).as_posix() + "/src" for path in PACKAGES}
    assert set(root["tool"]["mypy"]["mypy_path"]) == sources


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_a_distribution_is_complete(folder):
    project = project_of(folder)["project"]
    package = folder / "src" / project["name"].replace("-", "_")

    assert project["version"] == project_of(ROOT)["project"]["version"]
    assert project["requires-python"] == ">=3.11"
    assert project["license"] == "Apache-2.0"
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (folder / project["readme"]).read_text("utf-8").startswith("# ")
    assert (package / "py.typed").exists()


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_a_wheel_holds_its_package_typed_and_nothing_else(folder, tmp_path):
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    package = project_of(folder)["project"]["name"].replace("-", "_")

    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()

    assert f"{package}/py.typed" in names
    assert {name.split("/")[0].partition("-")[0] for name in names} == {package}
    inside = [name for name in names if "/_template/" not in name]
    assert [name for name in inside if re.search(r"(^|/)(tests?/|test_|conftest)", name)] == []
    assert [name for name in names if name.endswith((".pyc", ".so", ".orig"))] == []


@pytest.mark.parametrize("folder", PACKAGES[1:], ids=lambda folder: folder.name)
def test_a_plugin_has_one_entry_point_and_needs_the_core(folder):
    project = project_of(folder)["project"]
    module = project["name"].replace("-", "_")

    assert project["entry-points"]["hardpoint"] == {folder.name: f"{module}.plugin"}
    assert "hardpoint" in map(name_of, project["dependencies"])
    others = {f"hardpoint-{other.name}" for other in PACKAGES[1:]}
    assert not others & set(map(name_of, project["dependencies"]))


def test_constraints_are_pins_and_name_what_is_needed():
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]

    assert all(re.fullmatch(r"[a-z0-9._-]+==[A-Za-z0-9.+!]+", pin) for pin in pins)
    pinned = {name_of(pin) for pin in pins}
    for folder in PACKAGES:
        for requirement in project_of(folder)["project"]["dependencies"]:
            name = name_of(requirement)
            assert name in pinned or name.startswith("hardpoint"), requirement


def test_no_lock_file_is_tracked():
    shown = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if shown.returncode:
        pytest.skip("not a git checkout")

    assert not re.findall(
        r"^(?:.*/)?(?:uv|poetry|pdm)\.lock$|package-lock\.json$", shown.stdout, re.M
    )


def test_the_template_is_part_of_the_package_and_linked_for_copier():
    link = ROOT / "plugin-template"

    assert link.resolve() == (ROOT / "core/src/hardpoint/_template").resolve()
    assert (link / "copier.yml").exists()


def test_importing_the_tools_does_not_import_what_is_heavy():
    heavy = (
        "httpx2 jsonschema_rs tree_sitter pydantic cattrs rich zoneinfo difflib importlib.resources"
    )
    code = (
        "import sys, hardpoint_builtin\n"
        "hardpoint_builtin.EchoTool(), hardpoint_builtin.TimeTool(), hardpoint_builtin.JsonTool()\n"
        f"print([name for name in {heavy.split()} if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "[]"


def test_every_module_of_the_core_is_open_or_closed_to_plugins():
    contracts = project_of(ROOT)["tool"]["importlinter"]["contracts"]
    (closed,) = (each["forbidden_modules"] for each in contracts if each["type"] == "forbidden")
    folder = ROOT / "core/src/hardpoint"
    modules = {path.stem for path in folder.glob("*.py")}
    modules |= {path.parent.name for path in folder.glob("*/__init__.py")}

    listed = {name.removeprefix("hardpoint.") for name in closed}

    assert modules - listed == {"__init__", "errors", "interfaces", "net", "testing"}
    assert listed <= modules
