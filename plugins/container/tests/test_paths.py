"""Where a path leads, read on the host only."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint.errors import InvalidParameters, NotAuthorized
from hardpoint_container.paths import is_protected, is_sensitive, resolve


@pytest.fixture
def tree(workspace: Path) -> Path:
    (workspace / "d/e").mkdir(parents=True)
    (workspace / "a.txt").write_text("alpha")
    (workspace / "d/b.txt").write_text("beta")
    return workspace


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("a.txt", "a.txt"),
        ("./d//b.txt", "d/b.txt"),
        ("d/../a.txt", "a.txt"),
        ("/workspace/d/b.txt", "d/b.txt"),
        ("nowhere/../a.txt", "a.txt"),
        ("new/deep/file", "new/deep/file"),
        ("....", "...."),
        ("a.txt ", "a.txt "),
        ("$(id)", "$(id)"),
        ("d\\b.txt", "d\\b.txt"),
    ],
)
def test_a_path_is_taken_literally_and_without_its_dots(
    tree: Path, path: str, leads_to: str
) -> None:
    assert resolve(tree, path, "write").path == leads_to


def test_an_absolute_path_inside_counts_as_relative(tree: Path) -> None:
    assert resolve(tree, f"{tree}/d/b.txt", "read").path == "d/b.txt"


@pytest.mark.parametrize("link", ["../elsewhere", "/etc/passwd", "d/../../x", "/", "d/up/../.."])
@pytest.mark.parametrize("operation", ["read", "write", "list", "search"])
def test_a_link_that_leads_out_is_refused(tree: Path, link: str, operation: str) -> None:
    (tree / "l").symlink_to(link)
    (tree / "d/up").symlink_to("..")

    with pytest.raises(NotAuthorized):
        resolve(tree, "l", operation)  # type: ignore[arg-type]


def test_a_link_into_the_sandbox_mount_is_one_into_the_workspace(tree: Path) -> None:
    (tree / "l").symlink_to("/workspace/d/b.txt")

    assert resolve(tree, "l", "read").path == "d/b.txt"


def test_a_dangling_link_inside_leads_to_its_target(tree: Path) -> None:
    (tree / "l").symlink_to("d/new.txt")

    found = resolve(tree, "l", "write")

    assert (found.path, found.kind) == ("d/new.txt", "missing")


def test_dots_after_something_missing_are_looked_at_again(tree: Path) -> None:
    (tree / "out").symlink_to("/etc")

    with pytest.raises(NotAuthorized):
        resolve(tree, "nowhere/../out/passwd", "read")


def test_links_in_a_circle_end(tree: Path) -> None:
    (tree / "x").symlink_to("y")
    (tree / "y").symlink_to("x")

    with pytest.raises(InvalidParameters, match="too many links"):
        resolve(tree, "x", "read")


@pytest.mark.parametrize(
    "path", ["", "a\0b", "\ud800", "n" * 256, "x/" * 3000, "a.txt/b", "d", "."]
)
def test_what_is_no_file_name_is_said_so(tree: Path, path: str) -> None:
    with pytest.raises(InvalidParameters):
        resolve(tree, path, "read")


def test_pipes_and_sockets_are_no_files(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")
        for name in ("pipe", "sock"):
            with pytest.raises(InvalidParameters, match=name):
                resolve(tree, name, "write")


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        ".env.local",
        "conf/.ENV",
        "id_rsa",
        "deep/er/id_ed25519",
        "server.PEM",
        "a.key",
        ".ssh/config",
        "x/.aws/anything",
        ".config/gh/hosts.yml",
        ".config/gcloud/x/y",
        ".zsh_history",
        ".e\u200bnv",
        "\uff0eenv",
        "a.p12 ",
    ],
)
def test_secret_files_are_known_under_any_spelling(path: str) -> None:
    assert is_sensitive(path.split("/"))


@pytest.mark.parametrize(
    "path",
    [
        ".env.example",
        ".env.d.sample",
        "environment.md",
        "keys.md",
        "docs/netrc.md",
        ".config/app.toml",
        "monkey.txt",
        "ssh/config",
        "a.key.md",
    ],
)
def test_ordinary_files_are_not_taken_for_secrets(path: str) -> None:
    assert not is_sensitive(path.split("/"))


@pytest.mark.parametrize("name", ["l.txt", "sub/l.txt"])
def test_a_secret_file_is_not_read_through_a_second_name(tree: Path, name: str) -> None:
    (tree / ".env").write_text("k")
    (tree / "sub").mkdir()
    os.link(tree / ".env", tree / name)

    with pytest.raises(NotAuthorized, match="secrets"):
        resolve(tree, name, "read")


def test_a_link_whose_own_name_says_secret_is_left_alone(tree: Path) -> None:
    (tree / ".env").symlink_to("a.txt")

    with pytest.raises(NotAuthorized):
        resolve(tree, ".env", "read")


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".git/hooks/pre-commit",
        "sub/.git/config",
        ".GIT/config",
        ".git/modules/x/config",
        ".git/worktrees/w/config.worktree",
        "vendor/.git",
        ".hardpoint/config.toml",
    ],
)
def test_what_makes_programs_run_is_not_written(tree: Path, path: str) -> None:
    assert is_protected(path.split("/"))
    with pytest.raises(NotAuthorized):
        resolve(tree, path, "write")


def test_other_git_files_are_ordinary(tree: Path) -> None:
    assert resolve(tree, ".git/info/exclude", "write").kind == "missing"
    assert resolve(tree, ".gitignore", "write").kind == "missing"


names = st.sampled_from(["..", ".", "", "d", "e", "up", "out", "a.txt", "nope", "~", "\u2025"])


@given(st.lists(names, max_size=8))
def test_no_path_ever_leads_out(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    root = tmp_path_factory.getbasetemp() / "property"
    if not root.exists():
        (root / "ws/d/e").mkdir(parents=True)
        (root / "ws/a.txt").write_text("alpha")
        (root / "ws/d/up").symlink_to("..")
        (root / "ws/out").symlink_to("../..")
    workspace = root / "ws"

    try:
        found = resolve(workspace, "/".join(parts), "list")
    except (InvalidParameters, NotAuthorized):
        return

    assert os.path.realpath(workspace / found.path).startswith(str(workspace.resolve()))
    assert ".." not in found.path.split("/")
