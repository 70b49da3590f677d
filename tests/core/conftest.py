"""What several test modules share: packages as pip leaves them, and a home of one's own."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Install = Callable[..., str]

ONE_TOOL = """
    import hardpoint

    HARDPOINT_API = 1

    def {tool}(text: str) -> int:
        '''Count the words in a text.'''
        return len(text.split())

    @hardpoint.hookimpl
    def hardpoint_register_tools(registry):
        registry.register(hardpoint.tool({tool}))
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a distribution with one plugin module on the path."""
    place = tmp_path / "site"
    place.mkdir()
    monkeypatch.syspath_prepend(str(place))
    made: list[str] = []

    def put(
        name: str,
        source: str = ONE_TOOL,
        *,
        distribution: str | None = None,
        tool: str | None = None,
    ) -> str:
        distribution = distribution or f"acme-{name}"
        module = f"plugin_{distribution.replace('-', '_')}"
        text = textwrap.dedent(source).replace("{name}", name)
        text = text.replace("{tool}", tool or f"{name}_words")
        (place / f"{module}.py").write_text(f"# imported: {module}\n{text}")
        add_distribution(place, distribution, f"[hardpoint]\n{name} = {module}\n")
        made.append(module)
        return module

    yield put
    for module in made:
        sys.modules.pop(module, None)


def add_distribution(place: Path, name: str, entry_points: str = "") -> None:
    """The metadata of an installed distribution."""
    info = place / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    if entry_points:
        (info / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's first day: no configuration, no state, an empty current folder."""
    folder = tmp_path / "home"
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("HARDPOINT_HOME", str(folder))
    monkeypatch.chdir(work)
    return folder
