"""The tools on a real workspace in a real sandbox."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hardpoint.errors import (
    ExecutionFailed,
    InvalidParameters,
    NotAuthorized,
    SandboxError,
    ToolTimeout,
)
from hardpoint_container import (
    ApplyPatchTool,
    FileReadTool,
    FileWriteTool,
    GlobTool,
    GrepTool,
    ListDirTool,
    ShellTool,
)

pytestmark = pytest.mark.podman

read, write, ls = FileReadTool(), FileWriteTool(), ListDirTool()
patch, grep, glob, shell = ApplyPatchTool(), GrepTool(), GlobTool(), ShellTool()


# read_file ---------------------------------------------------------------------------------------


async def test_lines_are_numbered(kit: Any, workspace: Path) -> None:
    (workspace / "f").write_text("one\ntwo")

    result = await kit.tool(read, path="f")

    assert result == {
        "content": "     1│ one\n     2│ two",
        "total_lines": 2,
        "lines_shown": 2,
        "path": "f",
        "truncated": False,
    }


@pytest.mark.parametrize(
    ("params", "content", "next_offset"),
    [
        ({"offset": 3, "limit": 2}, "3\n4\n", 5),
        ({"offset": 9}, "9\n10\n", None),
        ({"offset": 0, "limit": 1}, "1\n", 2),
        ({"limit": 0}, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n", None),
        ({"offset": 11}, "", None),
        ({"offset": 10**15, "limit": 0}, "", None),
    ],
)
async def test_a_window_of_lines(
    kit: Any, workspace: Path, params: dict[str, int], content: str, next_offset: int | None
) -> None:
    (workspace / "f").write_text("".join(f"{n}\n" for n in range(1, 11)))

    result = await kit.tool(read, path="f", line_numbers=False, **params)

    assert (result["content"], result.get("next_offset")) == (content, next_offset)
    assert result["total_lines"] == 10


async def test_a_long_file_is_read_on_by_its_next_offset(kit: Any, workspace: Path) -> None:
    text = "".join(f"line {n} {'x' * (n % 90)}\n" for n in range(30_000))
    (workspace / "f").write_text(text)

    read_back, offset = "", 1
    while offset:
        result = await kit.tool(read, path="f", offset=offset, limit=0, line_numbers=False)
        read_back += result["content"]
        offset = result.get("next_offset", 0)

    assert read_back == text


async def test_the_default_window_says_why_it_ended(kit: Any, workspace: Path) -> None:
    (workspace / "f").write_text("x\n" * 5000)
    (workspace / "wide").write_text("x" * 50_000 + "\n" + "y" * 50_000 + "\n")

    by_lines = await kit.tool(read, path="f")
    by_bytes = await kit.tool(read, path="wide")

    assert (by_lines["truncated_by"], by_lines["lines_shown"]) == ("lines", 2000)
    assert by_lines["truncated_by_default"]
    assert (by_bytes["truncated_by"], by_bytes["next_offset"]) == ("bytes", 2)


async def test_one_overlong_line_is_cut_between_characters(kit: Any, workspace: Path) -> None:
    (workspace / "f").write_text("a" + "é" * 100_000 + "\nnext\n")

    result = await kit.tool(read, path="f", line_numbers=False)

    assert set(result["content"][1:]) == {"é"}
    assert "too long" in result["notice"]
    assert result["next_offset"] == 2


async def test_bytes_that_are_not_utf8_are_shown_as_such(kit: Any, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"ok\n\xff\xfe\nstray \x00 nul\n" + b"x" * 100)

    result = await kit.tool(read, path="f")

    assert "not UTF-8" in result["notice"]
    assert result["total_lines"] == 4


async def test_a_binary_file_is_refused_with_a_way_to_look_at_it(kit: Any, workspace: Path) -> None:
    (workspace / "f").write_bytes(bytes(range(256)) * 4 + b"\0" * 500)

    with pytest.raises(InvalidParameters, match="not text") as caught:
        await kit.tool(read, path="f")

    assert "xxd" in (caught.value.hint or "")


async def test_windows_line_ends_are_not_shown_in_numbered_lines(kit: Any, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"a\r\nb\r\n")

    assert (await kit.tool(read, path="f"))["content"] == "     1│ a\n     2│ b"


async def test_an_empty_file_has_no_lines(kit: Any, workspace: Path) -> None:
    (workspace / "f").touch()

    result = await kit.tool(read, path="f")

    assert (result["content"], result["total_lines"]) == ("", 0)


async def test_a_missing_file_is_said_so(kit: Any) -> None:
    with pytest.raises(ExecutionFailed, match="no such file or folder"):
        await kit.tool(read, path="nope")


# write_file --------------------------------------------------------------------------------------


async def test_a_new_file_and_its_folders_are_made(kit: Any, workspace: Path) -> None:
    result = await kit.tool(write, path="a/b/c.txt", content="héllo")

    assert (workspace / "a/b/c.txt").read_text() == "héllo"
    assert result == {"path": "a/b/c.txt", "bytes_written": 6, "created": True, "success": True}


async def test_a_file_keeps_its_mode_and_its_owner(kit: Any, workspace: Path) -> None:
    (workspace / "run").write_text("old")
    (workspace / "run").chmod(0o750)
    owner = (workspace / "run").stat().st_uid

    await kit.tool(write, path="run", content="new")

    found = (workspace / "run").stat()
    assert (found.st_mode & 0o777, found.st_uid) == (0o750, owner)


async def test_a_second_name_outside_keeps_its_content(
    kit: Any, workspace: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("outside")
    os.link(outside, workspace / "inside")

    await kit.tool(write, path="inside", content="changed")

    assert outside.read_text() == "outside"
    assert (workspace / "inside").read_text() == "changed"


async def test_nothing_is_left_when_a_write_fails(make_kit: Any, workspace: Path) -> None:
    kit = await make_kit(file_size="64k")

    with pytest.raises(ExecutionFailed, match="larger than"):
        await kit.tool(write, path="f", content="x" * 100_000)

    assert list(workspace.iterdir()) == []


async def test_too_much_is_refused(kit: Any) -> None:
    with pytest.raises(InvalidParameters, match="more than"):
        await kit.tool(write, path="f", content="x" * (5 * 1024 * 1024 + 1))


async def test_text_that_is_no_unicode_is_refused(kit: Any, workspace: Path) -> None:
    with pytest.raises(InvalidParameters, match="not valid Unicode"):
        await kit.tool(write, path="f", content="a\ud800")

    assert list(workspace.iterdir()) == []


async def test_names_of_the_agents_memory_point_to_its_tool(kit: Any, workspace: Path) -> None:
    with pytest.raises(InvalidParameters) as caught:
        await kit.tool(write, path="MEMORY.md", content="x")
    assert "memory_write" in (caught.value.hint or "")

    (workspace / "docs").mkdir()
    assert (await kit.tool(write, path="docs/MEMORY.md", content="x"))["success"]
    assert (await kit.tool(write, path="README.md", content="x"))["success"]


async def test_a_read_only_sandbox_writes_nothing(make_kit: Any, workspace: Path) -> None:
    kit = await make_kit(policy="read_only")

    with pytest.raises(SandboxError, match="read-only"):
        await kit.tool(write, path="f", content="x")
    assert not (await kit.sh("touch f")).ok
    assert list(workspace.iterdir()) == []


# list_dir ----------------------------------------------------------------------------------------


async def test_folders_come_first_and_files_have_sizes(kit: Any, workspace: Path) -> None:
    (workspace / "z").mkdir()
    (workspace / "a.txt").write_text("x" * 1234)
    (workspace / "l").symlink_to("/etc")

    result = await kit.tool(ls, path=".")

    assert result["entries"] == ["z/", "a.txt (1.2KB)", "l (link)"]


async def test_recursion_leaves_generated_folders_out(kit: Any, workspace: Path) -> None:
    for name in ("node_modules/x", "src/.venv/y", "src/deep/er/est"):
        (workspace / name).mkdir(parents=True)
        (workspace / name / "f").touch()

    result = await kit.tool(ls, path=".", recursive=True, max_depth=3)

    assert result["entries"] == [
        *("node_modules/", "src/", "src/.venv/", "src/deep/", "src/deep/er/"),
    ]


async def test_a_full_folder_says_that_it_was_cut(kit: Any, workspace: Path) -> None:
    for number in range(600):
        (workspace / f"f{number:03}").touch()
    (workspace / "zzz").mkdir()

    result = await kit.tool(ls, path=".")

    assert (result["count"], len(result["entries"]), result["truncated"]) == (601, 500, True)
    assert result["entries"][0] == "zzz/"


async def test_a_name_that_is_no_text_is_listed(kit: Any, workspace: Path) -> None:
    (Path(os.fsdecode(os.fsencode(workspace) + b"/bad-\xff"))).touch()

    assert (await kit.tool(ls, path="."))["entries"] == ["bad-� (0B)"]


async def test_a_very_deep_tree_is_walked(kit: Any, workspace: Path) -> None:
    await kit.out("python3 -c \"import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')\"")

    result = await kit.tool(ls, path=".", recursive=True, max_depth=50)

    assert result["count"] == 50


# apply_patch -------------------------------------------------------------------------------------


async def test_a_patch_changes_the_file(kit: Any, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"a\r\nb\r\n\xff\n")

    result = await kit.tool(patch, path="f", old_string="b", new_string="c")

    assert (workspace / "f").read_bytes() == b"a\r\nc\r\n\xff\n"
    assert (result["replacements"], result["success"]) == (1, True)


async def test_many_edits_are_made_together(kit: Any, workspace: Path) -> None:
    (workspace / "f").write_text("one two three")
    edits = [
        {"old_string": "one", "new_string": "1"},
        {"old_string": "three", "new_string": "3"},
    ]

    await kit.tool(patch, path="f", edits=edits)

    assert (workspace / "f").read_text() == "1 two 3"


async def test_a_text_found_twice_changes_nothing(kit: Any, workspace: Path) -> None:
    (workspace / "f").write_text("x x")

    with pytest.raises(ExecutionFailed, match="matched 2 times"):
        await kit.tool(patch, path="f", old_string="x", new_string="y")

    assert (workspace / "f").read_text() == "x x"


@pytest.mark.parametrize(
    "params", [{}, {"old_string": "x"}, {"old_string": "x", "new_string": "y", "edits": []}]
)
async def test_half_a_patch_is_refused(kit: Any, workspace: Path, params: dict[str, Any]) -> None:
    (workspace / "f").write_text("x")

    with pytest.raises(InvalidParameters):
        await kit.tool(patch, path="f", **params)


# grep and glob -----------------------------------------------------------------------------------


@pytest.fixture
def tree(workspace: Path) -> Path:
    (workspace / "src").mkdir()
    (workspace / "src/a.py").write_text("import os\n\ndef main():\n    return os.name\n")
    (workspace / "src/b.ts").write_text("export const main = 1\n")
    (workspace / ".env").write_text("main=secret\n")
    (workspace / "out.log").write_text("main\n")
    (workspace / ".gitignore").write_text("*.log\n")
    return workspace


async def test_matches_come_with_file_and_line(kit: Any, tree: Path) -> None:
    result = await kit.tool(grep, pattern=r"main\b", glob="*.py", context=1)

    assert result["matches"] == [
        "src/a.py-2- ",
        "src/a.py:3: def main():",
        "src/a.py-4-     return os.name",
    ]
    assert (result["count"], result["truncated"]) == (1, False)


async def test_secret_and_ignored_files_are_not_searched(kit: Any, tree: Path) -> None:
    result = await kit.tool(grep, pattern="main", output_mode="files_with_matches")

    assert result["matches"] == ["src/a.py", "src/b.ts"]


async def test_a_secret_file_is_not_searched_by_name_either(kit: Any, tree: Path) -> None:
    with pytest.raises(NotAuthorized):
        await kit.tool(grep, pattern="main", path=".env")


async def test_matches_are_counted(kit: Any, tree: Path) -> None:
    result = await kit.tool(grep, pattern="os", output_mode="count")

    assert result["matches"] == ["src/a.py:2"]


async def test_many_matches_are_cut_and_said_so(kit: Any, workspace: Path) -> None:
    (workspace / "f").write_text("x:y - z\n" * 1000)

    cut = await kit.tool(grep, pattern="x:y", head_limit=10)
    whole = await kit.tool(grep, pattern="x", literal=True, head_limit=0)

    assert (len(cut["matches"]), cut["count"], cut["truncated"]) == (10, 1000, True)
    assert (len(whole["matches"]), whole["truncated"]) == (1000, False)


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "*"])
async def test_a_pattern_that_is_none_is_said_so(kit: Any, tree: Path, pattern: str) -> None:
    with pytest.raises(InvalidParameters, match="pattern"):
        await kit.tool(grep, pattern=pattern)


async def test_a_pattern_is_never_an_option(kit: Any, tree: Path) -> None:
    (tree / "f").write_text("--pre=touch x\n")

    result = await kit.tool(grep, pattern="--pre=touch")

    assert result["count"] == 1


async def test_the_newest_files_come_first(kit: Any, tree: Path) -> None:
    os.utime(tree / "src/b.ts", (1, 1))

    result = await kit.tool(glob, pattern="**/*.{py,ts}")

    assert result == {"files": ["src/a.py", "src/b.ts"], "count": 2, "truncated": False}


async def test_too_many_files_say_so(kit: Any, workspace: Path) -> None:
    for number in range(300):
        (workspace / f"f{number}.txt").touch()

    result = await kit.tool(glob, pattern="*.txt")

    assert (result["count"], len(result["files"]), result["truncated"]) == (300, 200, True)
    assert "200" in result["limit_reason"]


# shell -------------------------------------------------------------------------------------------


async def test_a_failing_command_is_a_result(kit: Any) -> None:
    result = await kit.tool(shell, command="echo out; echo err >&2; exit 2")

    assert result == {
        "output": "out\n--- stderr ---\nerr\n",
        "exit_code": 2,
        "success": False,
        "sandboxed": True,
    }


async def test_a_folder_to_run_in(kit: Any, workspace: Path) -> None:
    (workspace / "d").mkdir()

    assert (await kit.tool(shell, command="pwd", workdir="d"))["output"] == "/workspace/d\n"


async def test_a_late_command_gives_what_it_wrote(kit: Any) -> None:
    with pytest.raises(ToolTimeout) as caught:
        await kit.tool(shell, command="echo so far; sleep 100", timeout=1)

    assert caught.value.partial["output"] == "so far\n"


async def test_the_calls_own_limit_comes_with_output_too(kit: Any) -> None:
    with pytest.raises(ToolTimeout) as caught:
        await kit.tool(shell, command="echo so far; sleep 100", within=2)

    assert caught.value.partial["output"] == "so far\n"


@pytest.mark.podman_only
async def test_output_beyond_the_memory_limit_is_explained(kit: Any) -> None:
    with pytest.raises(SandboxError, match="memory"):
        await kit.tool(shell, command=["python3", "-c", "x = bytearray(10**9)"])


async def test_input_reaches_the_command(kit: Any) -> None:
    assert (await kit.tool(shell, command=["tr", "a-z", "A-Z"], stdin="abc"))["output"] == "ABC"
