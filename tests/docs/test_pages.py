"""Every code block of the README and of docs/ runs, page by page, each in an empty folder.

| Block | What happens |
|---|---|
| `python` | runs, with top-level `await`; the names live on in the page's later blocks |
| `console` | each `$ command` runs and prints what stands below it; `...` is any text |
| `sh` | runs and succeeds |
| `toml` | is parsed; a Hardpoint configuration is checked like a user's |
| `json` | is parsed |
| `text`, `mermaid` | nothing: not code |

A command ends with `# exit 3` when it is meant to. `<!-- file: NAME -->` on the line before writes
the block into that file first; Python and TOML are then left to the page's commands.
`<!-- not run: WHY -->` leaves a block alone. Any other language is an error.
"""

import ast
import asyncio
import difflib
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import attrs
import pytest

from hardpoint import Config, HardpointError, Runtime

Failed = pytest.fail.Exception
ROOT = Path(__file__).parents[2]
PAGES = sorted([
    *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "core/README.md",
    *ROOT.glob("plugins/*/README.md"),
])  # fmt: skip
BLOCK = re.compile(
    r"(?:^<!-- (?P<remark>file|not run): (?P<detail>[^\n]+?) -->\n)?"
    r"^(?P<indent> *)```(?P<language>[\w+-]*)[^\n]*\n(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


def blocks_of(page):
    text = page.read_text("utf-8")
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("code"))
        code = inspect.cleandoc("\n" + match["code"]) + "\n" if match["indent"] else match["code"]
        yield match["language"], code, match["remark"], match["detail"], line


def page_id(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    names = {"__name__": "__page__"}
    for language, code, remark, detail, line in blocks_of(page):
        if remark == "not run":
            continue
        if remark == "file":
            path = tmp_path / detail
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code, "utf-8")
            if language == "toml":
                tomllib.loads(code)  # a command of the page reads it; what it means shows there
        if remark != "file" or language not in ("python", "toml"):
            run_block(language, code, names, f"{page_id(page)}:{line}")


def environment(folder):
    """A person's first day: no configuration, the programs of this environment."""
    home = folder / ".home"
    home.mkdir()
    return {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }


def run_block(language, code, names, place):
    match language:
        case "python":
            run_python(code, names, place)
        case "console":
            run_console(code, place)
        case "sh":
            run_shell(code, place)
        case "toml":
            check_toml(code, place)
        case "json":
            json.loads(code)
        case "text" | "mermaid":
            pass
        case _:
            pytest.fail(f"{place}: nothing runs a {language or 'nameless'} block; see {__name__}")


def run_python(code, names, place):
    compiled = compile(code, place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(compiled, names)
    if inspect.isawaitable(result):
        asyncio.run(_finish(result))


async def _finish(awaitable):
    await awaitable


def run_console(code, place):
    for command, expected in commands_of(code):
        wanted = int(found[1]) if (found := re.search(r"# exit (\d+)\s*$", command)) else 0
        shown = run_shell(command, place, wanted)
        if expected.strip() and not matches(expected, shown):
            difference = "\n".join(difflib.ndiff(expected.splitlines(), shown.splitlines()))
            pytest.fail(f"{place}: {command!r} printed something else:\n{difference}")


def run_shell(command, place, wanted=0):
    done = subprocess.run(
        ["sh", "-ec", command],
        capture_output=True,
        text=True,
        timeout=110,
        stdin=subprocess.DEVNULL,
    )
    shown = done.stdout + done.stderr
    assert done.returncode == wanted, f"{place}: {command!r} ended {done.returncode}:\n{shown}"
    return shown


def commands_of(code):
    """The commands of a console block, each with the output that is shown below it."""
    parts = re.split(r"^\$ ", code, flags=re.MULTILINE)
    assert not parts[0].strip(), "a console block starts with `$ `"
    for part in parts[1:]:
        lines = part.splitlines()
        end = next(at for at, line in enumerate(lines) if not line.endswith("\\")) + 1
        yield "\n".join(lines[:end]), "\n".join(lines[end:])


def matches(expected, shown):
    pattern = ".*".join(map(re.escape, expected.strip().split("...")))
    return re.fullmatch(pattern, shown.strip(), re.DOTALL) is not None


def check_toml(code, place):
    """Parse it; settings of Hardpoint must also be settings that a runtime takes."""
    tables = tomllib.loads(code).keys()
    if not tables & {*(field.name for field in attrs.fields(Config)), "mcp"}:
        return
    file = Path(".settings.toml")
    file.write_text(code, "utf-8")
    failed = asyncio.run(failed_plugins(file))
    assert not failed, f"{place}: {failed}"


async def failed_plugins(file):
    async with Runtime.from_config(file, in_memory=True) as runtime:
        return [each.reason for each in runtime.plugins() if each.status == "failed"]


def test_the_runner_notices_what_is_wrong(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    run_block("python", "import asyncio\nx = await asyncio.sleep(0, 5)\n", names, "here")
    assert names["x"] == 5
    run_block("console", "$ echo a; echo b; exit 3  # exit 3\na\n...\n", names, "here")
    for language, code in (
        ("python", "1 / 0"),
        ("console", "$ echo a\nb\n"),
        ("console", "$ false\n"),
        ("json", "{"),
        ("toml", "x ="),
        ("toml", "[policy]\nallows = []"),
        ("sh", "false"),
        ("ruby", "puts 1"),
    ):
        with pytest.raises((ArithmeticError, AssertionError, ValueError, HardpointError, Failed)):
            run_block(language, code, names, "here")
