"""What several test modules share: packages as pip leaves them, and a home of one's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hardpoint.config import StoreConfig
from hardpoint.store import Store

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


# where state is kept ---------------------------------------------------------------------------


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The URL of a server that listens on a socket in its own folder only."""
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("psycopg")
    initdb, pg_ctl = shutil.which("initdb"), shutil.which("pg_ctl")
    if initdb is None or pg_ctl is None:
        pytest.skip("PostgreSQL's server programs are not installed")
    # The server refuses to run as root, and a socket's path must be short.
    as_user = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    if as_user:
        shutil.chown(folder, **as_user)
    data = str(folder / "data")
    options: dict[str, Any] = {**as_user, "cwd": folder, "capture_output": True, "timeout": 60}
    subprocess.run([initdb, "-D", data, "-U", "tests", "-A", "trust", "-N"], check=True, **options)
    settings = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    # Its standard streams would keep ours open.
    start = [pg_ctl, "-D", data, "-w", "-l", str(folder / "log"), "-o", settings, "start"]
    subprocess.run(start, check=True, **options)
    yield f"postgresql+psycopg://tests@/postgres?host={folder}"
    subprocess.run([pg_ctl, "-D", data, "-w", "-m", "immediate", "stop"], check=True, **options)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database(postgresql: str) -> Iterator[str]:
    """The URL of an empty database."""
    yield postgresql
    import sqlalchemy

    engine = sqlalchemy.create_engine(postgresql)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> StoreConfig:
    """Where a store may be: a file, or a database. Both are empty."""
    if request.param == "sqlite":
        return StoreConfig(path=tmp_path / "state.db")
    return StoreConfig(url=request.getfixturevalue("database"))


@pytest.fixture
def open_store(place: StoreConfig) -> Iterator[Callable[[], Store]]:
    """Open that place once more, as another process would."""
    with ExitStack() as stack:

        def make() -> Store:
            store = Store(place.url or place.path or "")
            stack.callback(store.close)
            return store

        yield make
