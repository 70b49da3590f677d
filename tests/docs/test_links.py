"""Links lead somewhere, and reference pages name everything that there is."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

import hardpoint
from hardpoint.cli.app import COMMANDS
from hardpoint.cli.exits import BY_KIND
from hardpoint.config import Config, PolicyConfig, ToolConfig

ROOT = Path(__file__).parents[2]
PAGES = sorted([
    *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "core/README.md",
    *ROOT.glob("plugins/*/README.md"),
])  # fmt: skip
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for target in LINK.findall(CODE.sub("", page.read_text("utf-8"))):
        if target.startswith(("https://", "http://", "mailto:")):
            continue
        file, _, anchor = target.partition("#")
        place = (page.parent / file).resolve() if file else page
        if not place.exists() or (anchor and anchor not in anchors(place)):
            dead.append(target)

    assert dead == []


def test_every_page_can_be_reached_from_the_index() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "docs/index.md"]
    while waiting:
        page = waiting.pop()
        if page in seen:
            continue
        seen.add(page)
        for target in LINK.findall(page.read_text("utf-8")):
            file = target.partition("#")[0]
            if file.endswith(".md") and "://" not in file:
                waiting.append((page.parent / file).resolve())

    assert set(ROOT.glob("docs/**/*.md")) - seen == set()


def words(page: str) -> set[str]:
    """Everything on a page that is set as code."""
    text = (ROOT / "docs/reference" / page).read_text("utf-8")
    return {word for code in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"\w+", code)}


def test_the_configuration_page_names_every_setting() -> None:
    known = words("config.md")
    facts = {"load_only", "blocked", "sources", "warnings", "rules", "plugin"}
    missing = set()
    for field in attrs.fields(Config):
        if field.name in facts:
            continue
        missing |= {field.name} - known
        inner = type(field.default)
        types = [inner] if attrs.has(inner) else []
        types += [ToolConfig] if field.name == "tools" else []
        for type_ in types:
            missing |= {f.name for f in attrs.fields(type_)} - known - facts

    assert missing == set()
    assert {f.name for f in attrs.fields(PolicyConfig)} - facts <= known


def test_the_command_line_page_names_every_command() -> None:
    assert set(COMMANDS) <= words("cli.md")


def test_the_errors_page_names_every_error_and_kind() -> None:
    text = (ROOT / "docs/reference/errors.md").read_text("utf-8")
    classes = [
        name
        for name, value in vars(hardpoint.errors).items()
        if isinstance(value, type) and issubclass(value, hardpoint.HardpointError)
    ]

    assert [name for name in classes if not re.search(rf"\b{name}\b", text)] == []
    assert set(BY_KIND) <= words("errors.md")


def test_the_python_page_names_every_export() -> None:
    text = "".join(
        (ROOT / "docs/reference" / page).read_text("utf-8")
        for page in ("api.md", "errors.md", "hooks.md", "functions-as-tools.md", "config.md")
    )

    missing = [name for name in hardpoint.__all__ if not re.search(rf"\b{name}\b", text)]
    assert missing == []
