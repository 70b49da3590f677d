"""First-party tools of this process touch no files but Hardpoint's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, json, os, sys

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate")
STARTS = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork")
written, read, started = [], [], []

def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        path, mode, flags = arguments
        changes = (flags or 0) & WRITES or (mode and set(mode) & set("wax+"))
        (written if changes else read).append(os.path.abspath(os.fsdecode(path)))
    elif event == "sqlite3.connect" and arguments[0] != ":memory:":
        written.append(os.path.abspath(os.fsdecode(arguments[0])))
    elif event in CHANGES:
        written.append(os.path.abspath(os.fsdecode(arguments[0])))
    elif event in STARTS:
        started.append(event)

async def main():
    import hardpoint

    context = hardpoint.JobContext(user_id="ana", auto_approve=True, workspace=os.getcwd())
    kinds = {}
    async with hardpoint.Runtime.from_config() as rt:
        sys.addaudithook(watch)
        for definition in rt.visible():
            if definition.domain != "orchestrator":
                continue
            for params in SAMPLES.get(definition.name, [{}]):
                outcome = await rt.run(definition.name, params, context)
                kind = outcome.error.kind if outcome.error else "ok"
                kinds.setdefault(definition.name, []).append(kind)
    return kinds

SAMPLES = {
    "echo": [{"message": "../../etc/passwd"}],
    "time": [{"operation": "now", "timezone": "Europe/Oslo"}],
    "json": [{"operation": "query", "data": {"a": [1]}, "path": "a[0]"}],
    "http": [{"url": "file:///etc/passwd"}, {"url": "https://127.0.0.1/", "save_to": "out.bin"}],
    "web_fetch": [{"url": "file:///etc/passwd"}],
    "result_read": [{"result_ref": "../../secret"}],
    "memory_write": [
        {"content": "hello", "target": "notes/a"}, {"content": "x", "target": "/etc/x"},
    ],
    "memory_read": [{"path": "notes/a"}, {"path": "../../../canary.txt"}],
    "memory_search": [{"query": "hello"}],
    "memory_tree": [{"path": ""}],
}
kinds = asyncio.run(main())
print(json.dumps({"written": written, "read": read, "started": started, "kinds": kinds}))
"""


def test_tools_of_this_process_touch_only_hardpoints_own_folder(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    (work / "canary.txt").write_text("not for tools")
    env = {
        **os.environ,
        "HARDPOINT_HOME": str(home),
        "HARDPOINT_LOAD_PLUGINS": "builtin",
        "HOME": str(tmp_path / "person"),
    }

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        cwd=work,
        env=env,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert {"echo", "time", "json", "http", "web_fetch", "result_read"} <= set(seen["kinds"])
    assert seen["kinds"]["echo"] == ["ok"]
    # Compiled code of modules that are imported at first use.
    written = [path for path in seen["written"] if "__pycache__" not in path]
    elsewhere = (str(work), str(tmp_path / "person"), "/etc/passwd")
    assert [path for path in written if not path.startswith((str(home), os.devnull))] == []
    assert [path for path in seen["read"] if path.startswith(elsewhere)] == []
    assert seen["started"] == []
