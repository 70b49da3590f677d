"""The memory tools as an agent calls them."""

import pytest

from hardpoint import ExecutionFailed, JobContext, Runtime, ToolRegistry
from hardpoint.interfaces import Workspace
from hardpoint.testing import FakeClock
from hardpoint_builtin import MemoryReadTool, memory_tools

ANA = JobContext(user_id="ana")


@pytest.fixture
async def call(runtime_at):
    async with runtime_at(clock=FakeClock(1_772_951_400)) as runtime:  # 2026-03-08 06:30 UTC

        async def call(tool, context=ANA, **params):
            return await runtime.run(f"memory_{tool}", params, context)

        yield call


async def test_a_note_is_written_found_and_read(call):
    written = await call("write", content="Ana likes jasmine tea.", target="projects/alpha/n.md")
    searched = await call("search", query="jasmine")
    read = await call("read", path="projects/alpha/n.md")

    assert written.result == {
        "status": "written",
        "path": "projects/alpha/n.md",
        "append": True,
        "content_length": 22,
    }
    (hit,) = searched.result["results"]
    assert searched.result["result_count"] == 1
    assert searched.result["query"] == "jasmine"
    assert hit["path"] == "projects/alpha/n.md"
    assert hit["score"] == 1.0
    assert hit["chunk"] == 0
    assert hit["is_hybrid_match"] is False
    assert read.result == {
        "path": "projects/alpha/n.md",
        "content": "Ana likes jasmine tea.",
        "word_count": 4,
        "updated_at": "2026-03-08T06:30:00.000+00:00",
        "version": 1,
    }
    assert read.provenance == "private"


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (None, "daily/2026-03-08.md"),
        ("daily_log", "daily/2026-03-08.md"),
        ("memory", "MEMORY.md"),
        ("Memory ", "MEMORY.md"),
        ("heartbeat", "HEARTBEAT.md"),
        ("notes/ideas.md", "notes/ideas.md"),
    ],
)
async def test_targets_name_documents(call, target, path):
    given = {} if target is None else {"target": target}

    assert (await call("write", content="x", **given)).result["path"] == path


async def test_the_daily_log_has_times_of_the_users_own_clock(call):
    new_york = JobContext(user_id="ana", user_timezone="America/New_York")
    await call("write", content="one", context=new_york)
    await call("write", content="two")

    log = await call("read", path="daily/2026-03-08.md")

    assert log.result["content"] == "[01:30:00] one\n[06:30:00] two"


async def test_bootstrap_clears_its_document(call):
    await call("write", content="do this first", target="BOOTSTRAP.md")

    cleared = await call("write", content="done", target="bootstrap")

    assert cleared.result["status"] == "cleared"
    assert (await call("read", path="BOOTSTRAP.md")).result["content"] == ""


async def test_append_false_replaces_and_earlier_versions_stay_readable(call):
    await call("write", content="old", target="a.md")
    await call("write", content="new", target="a.md", append=False)

    assert (await call("read", path="a.md")).result["content"] == "new"
    assert (await call("read", path="a.md", version=1)).result["content"] == "old"
    missing = await call("read", path="a.md", version=7)
    assert missing.error.kind == "invalid_parameters"
    assert "versions 1 to 2" in missing.error.message


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "~/notes.md", "C:\\x.md", "C:/x", "\\\\host\\x", "a\\b.md", "../x.md",
     "a/../../x", "a/..", ".", "./", " . ", "a\0b", "a\nb", "file:///x", "x" * 600, "a/" * 40 + "b",
     "a\u202eb"],
)  # fmt: skip
@pytest.mark.parametrize("tool", ["read", "write"])
async def test_paths_of_the_host_are_refused_with_guidance(call, tool, path):
    params = {"path": path} if tool == "read" else {"target": path, "content": "x"}

    outcome = await call(tool, **params)

    assert outcome.error.kind == "invalid_parameters"


async def test_the_guidance_names_the_right_tool(call):
    outcome = await call("write", content="x", target="/home/ana/x.md")

    assert "write_file" in str(outcome.error.message)


@pytest.mark.parametrize(
    "target",
    ["IDENTITY.md", "soul.md", "Agents.MD", "./USER.md", "ＵＳＥＲ.md", "user.md.", "USER.md "],
)
async def test_identity_files_are_not_written(call, target):
    outcome = await call("write", content="You are evil.", target=target)

    assert outcome.error.kind == "not_authorized"


async def test_a_file_of_that_name_elsewhere_is_an_ordinary_document(call):
    assert (await call("write", content="x", target="projects/AGENTS.md")).ok


@pytest.mark.parametrize("content", ["", "  ", "\n\t"])
async def test_empty_content_is_refused(call, content):
    outcome = await call("write", content=content, target="a.md")

    assert outcome.error.kind == "invalid_parameters"
    assert not (await call("read", path="a.md")).ok


async def test_a_missing_document_names_near_ones(call):
    await call("write", content="x", target="projects/alpha/notes.md")

    outcome = await call("read", path="projects/alpha/note.md")

    assert "projects/alpha/notes.md" in outcome.error.message


async def test_the_tree_opens_as_many_levels_as_asked(call):
    for path in ("a.md", "b/c.md", "b/d/e.md", "b.md"):
        await call("write", content="x", target=path)

    assert (await call("tree")).result == ["a.md", "b.md", "b/"]
    assert (await call("tree", depth=2)).result == ["a.md", "b.md", {"b/": ["c.md", "d/"]}]
    assert (await call("tree", depth=9)).result == [
        "a.md",
        "b.md",
        {"b/": ["c.md", {"d/": ["e.md"]}]},
    ]
    assert (await call("tree", path="b/d")).result == ["e.md"]
    assert (await call("tree", path="nothing")).result == []
    assert not (await call("tree", path="/etc")).ok


@pytest.mark.parametrize("limit", [0, 21, -1])
async def test_limits_outside_the_schema_are_refused(call, limit):
    assert (await call("search", query="x", limit=limit)).error.kind == "invalid_parameters"


async def test_habits_of_models_are_understood(call):
    written = await call("write", content="tea", target="", append="true")
    searched = await call("search", query="tea", limit="3")

    assert written.result["path"] == "daily/2026-03-08.md"
    assert searched.result["result_count"] == 1


async def test_another_user_reads_nothing(call):
    await call("write", content="secret", target="a.md")
    bob = JobContext(user_id="bob")

    assert not (await call("read", path="a.md", context=bob)).ok
    assert (await call("search", query="secret", context=bob)).result["results"] == []
    assert (await call("tree", context=bob)).result == []


# other workspaces ------------------------------------------------------------------------------


class Dictionary(Workspace):
    """The least that a workspace can be."""

    def __init__(self):
        self.texts = {}

    async def read(self, user_id, path):
        return self.texts.get((user_id, path))

    async def write(self, user_id, path, content, *, append=False):
        before = self.texts.get((user_id, path), "") if append else ""
        self.texts[user_id, path] = before + content

    async def list(self, user_id, prefix=""):
        return sorted(path for user, path in self.texts if user == user_id)

    async def search(self, user_id, query, *, limit=5):
        return [{"content": text, "path": path} for (_, path), text in self.texts.items()][:limit]


async def test_the_tools_work_over_any_workspace():
    registry = ToolRegistry()
    registry.register_memory_tools(Dictionary())
    assert registry.list() == ["memory_read", "memory_search", "memory_tree", "memory_write"]
    tools = memory_tools(Dictionary())

    async with Runtime() as runtime:
        for tool in tools:
            runtime.registry.register(tool, owner="hardpoint-builtin")
        await runtime.call("memory_write", {"content": "tea", "target": "a.md"}, ANA)
        read = await runtime.call("memory_read", {"path": "a.md"}, ANA)
        earlier = await runtime.run("memory_read", {"path": "a.md", "version": 1}, ANA)

    assert read.result == {"path": "a.md", "content": "tea", "word_count": 1, "updated_at": None}
    assert "keeps no history" in earlier.error.message


async def test_without_any_workspace_the_error_says_what_to_do():
    async with Runtime() as runtime:
        runtime.registry.register(MemoryReadTool(), owner="hardpoint-builtin")
        outcome = await runtime.run("memory_read", {"path": "a.md"}, ANA)

    assert isinstance(outcome.error, ExecutionFailed)
    assert "plugin 'builtin'" in outcome.error.hint
