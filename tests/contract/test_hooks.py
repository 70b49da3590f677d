"""Every hook is documented as it is, and tested."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from hardpoint.hookspecs import SPECS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/hooks.md"
HOOKS = {
    name: [p for p in inspect.signature(function).parameters if p != "self"]
    for spec in SPECS
    for name, function in vars(spec).items()
    if name.startswith("hardpoint_")
}


def headings() -> dict[str, list[str]]:
    found = re.findall(r"^### `(\w+)\(([^)]*)\)`", PAGE.read_text("utf-8"), re.M)
    return {name: re.findall(r"\w+", arguments) for name, arguments in found}


def test_every_hook_has_a_heading_with_its_arguments() -> None:
    assert headings() == HOOKS


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_has_an_example_on_the_page(hook: str) -> None:
    section = PAGE.read_text("utf-8").partition(f"### `{hook}(")[2].partition("\n### ")[0]

    assert f"def {hook}(" in section


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_has_a_test(hook: str) -> None:
    tests = (ROOT / "tests/core/test_hooks.py").read_text("utf-8")

    assert re.search(rf"^(async )?def test_{hook}_", tests, re.M)


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_says_what_it_is_for_with_an_example(hook: str) -> None:
    function = next(vars(spec)[hook] for spec in SPECS if hook in vars(spec))

    text = inspect.getdoc(function) or ""
    assert "Example:" in text
    assert f"def {hook}(" in text
