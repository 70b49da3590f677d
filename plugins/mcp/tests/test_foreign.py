"""Servers in other programs' files: read in every form, taken over, and the gateway put in."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from hardpoint.errors import ConfigError
from hardpoint_mcp import clients, edit
from hardpoint_mcp.foreign import choose, discover, parse, places, read_file, without_comments

STDIO = {"command": "npx", "args": ["-y", "thing"], "env": {"A": "b"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "work" / "project"
    place.mkdir(parents=True)
    return place


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    return tmp_path / "home"


def put(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


def only(folder: Path, home: Path) -> Any:
    (found,) = discover(folder, home, "linux")
    return found


@pytest.mark.parametrize(
    ("source", "place", "table"),
    [
        ("claude-desktop", "home/.config/Claude/claude_desktop_config.json", "mcpServers"),
        ("claude-code", "project/.mcp.json", "mcpServers"),
        ("claude-code", "home/.claude.json", "mcpServers"),
        ("cursor", "project/.cursor/mcp.json", "mcpServers"),
        ("cursor", "project/../.cursor/mcp.json", "mcpServers"),
        ("cursor", "home/.cursor/mcp.json", "mcpServers"),
        ("vscode", "project/.vscode/mcp.json", "servers"),
        ("vscode", "home/.config/Code/User/mcp.json", "servers"),
        ("gemini", "project/.gemini/settings.json", "mcpServers"),
        ("gemini", "home/.gemini/settings.json", "mcpServers"),
        ("copilot", "home/.copilot/mcp-config.json", "mcpServers"),
        ("mcp-json", "project/mcp.json", "mcpServers"),
        ("mcp-json", "project/mcp.json", "servers"),
        ("windsurf", "home/.codeium/windsurf/mcp_config.json", "mcpServers"),
        ("lm-studio", "home/.lmstudio/mcp.json", "mcpServers"),
    ],
)
def test_every_known_place_is_read(source, place, table, folder, home):
    root, _, rest = place.partition("/")
    put({"home": home, "project": folder}[root] / rest, {table: {"thing": STDIO}})

    found = only(folder, home)

    assert (found.source, found.name, found.problem) == (source, "thing", None)
    assert dict(found.settings) == STDIO
    assert found.config().command == "npx"


@pytest.mark.parametrize(
    ("platform", "place"),
    [
        ("darwin", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", "AppData/Roaming/Claude/claude_desktop_config.json"),
    ],
)
def test_places_differ_by_system(platform, place, folder, home, monkeypatch):
    monkeypatch.delenv("APPDATA", raising=False)

    assert home / place in [one.path for one in places(folder, home, platform)]


def test_a_projects_server_wins_over_the_global_one(folder, home):
    put(
        home / ".claude.json",
        {
            "mcpServers": {"a": {"command": "global"}, "b": {"command": "b"}},
            "projects": {str(folder.resolve()): {"mcpServers": {"a": {"command": "project"}}}},
        },
    )

    commands = {one.name: one.settings["command"] for one in discover(folder, home, "linux")}

    assert commands == {"a": "project", "b": "b"}


def test_codex_is_read(folder, home):
    put(
        home / ".codex" / "config.toml",
        """
        [mcp_servers.docs]
        url = "https://docs.example/mcp"
        bearer_token_env_var = "DOCS_TOKEN"
        env_http_headers = { "X-Team" = "TEAM" }
        enabled_tools = ["search"]
        disabled_tools = ["delete"]
        tool_timeout_sec = 90
        startup_timeout_sec = 20
        enabled = false
        """,
    )

    assert dict(only(folder, home).settings) == {
        "url": "https://docs.example/mcp",
        "headers": {"X-Team": "${TEAM}", "Authorization": "Bearer ${DOCS_TOKEN}"},
        "enabled": False,
        "include": ["search"],
        "exclude": ["delete"],
        "timeout": 90.0,
        "startup_timeout": 20.0,
    }


def test_goose_is_read(folder, home):
    put(
        home / ".config" / "goose" / "config.yaml",
        """
extensions:
  developer: {type: builtin, enabled: true}
  thing:
    type: stdio
    cmd: uvx
    args: [thing, "--flag"]
    envs: {A: b}
    enabled: false
  far:
    type: streamable_http
    uri: https://far.example/mcp
""",
    )

    found = {one.name: dict(one.settings) for one in discover(folder, home, "linux")}

    assert found == {
        "thing": {
            "command": "uvx",
            "args": ["thing", "--flag"],
            "env": {"A": "b"},
            "enabled": False,
        },
        "far": {"url": "https://far.example/mcp", "transport": "http"},
    }


def test_variables_and_inputs_of_an_editor_are_translated(folder, home):
    put(
        folder / ".vscode" / "mcp.json",
        """{
          // comments are allowed here
          "inputs": [
            {"id": "key", "type": "promptString", "password": true},
            {"id": "team-name", "type": "promptString"},
          ],
          "servers": {
            "api": {"type": "http", "url": "https://api.example/mcp", /* so */ "headers": {
              "Authorization": "Bearer ${input:key}", "X-Team": "${input:team-name}"}},
            "local": {"command": "run", "args": ["${workspaceFolder}/x", "${env:HOME}"]},
          },
        }""",
    )

    found = {one.name: dict(one.settings) for one in discover(folder, home, "linux")}

    assert found["api"]["headers"] == {
        "Authorization": "Bearer secret:key",
        "X-Team": "${TEAM_NAME}",
    }
    assert found["local"]["args"] == [f"{folder.resolve()}/x", "${HOME}"]


@pytest.mark.parametrize(
    ("entry", "settings"),
    [
        ({"httpUrl": "https://a.example/mcp"},
         {"url": "https://a.example/mcp", "transport": "http"}),
        ({"serverUrl": "https://a.example/sse", "type": "sse"},
         {"url": "https://a.example/sse", "transport": "sse"}),
        ({"url": "https://a.example", "type": "streamableHttp"},
         {"url": "https://a.example", "transport": "http"}),
        ({"url": "https://a.example"}, {"url": "https://a.example"}),
        ({"command": "x", "disabled": True}, {"command": "x", "enabled": False}),
        ({"command": ["x", "y"], "type": "local"}, {"command": "x", "args": ["y"]}),
        ({"command": "x", "timeout": 30000}, {"command": "x", "timeout": 30.0}),
        ({"command": "x", "timeout": 45}, {"command": "x", "timeout": 45.0}),
        ({"command": "x", "includeTools": ["a"], "excludeTools": ["b"]},
         {"command": "x", "include": ["a"], "exclude": ["b"]}),
        ({"command": "x", "available_tools": ["a"]}, {"command": "x", "include": ["a"]}),
        ({"command": "x", "tools": ["a"]}, {"command": "x", "include": ["a"]}),
        ({"command": "x", "startup_timeout_ms": 5000}, {"command": "x", "startup_timeout": 5.0}),
        ({"command": "x", "env": {"A": 1, "B": None}}, {"command": "x", "env": {"A": "1"}}),
    ],
)  # fmt: skip
def test_spellings_of_entries(entry, settings, folder, home):
    put(folder / "mcp.json", {"mcpServers": {"a": entry}})

    found = only(folder, home)

    assert found.problem is None
    assert dict(found.settings) == settings


def test_a_file_of_variables_is_told(folder, home):
    put(folder / "mcp.json", {"mcpServers": {"a": {"command": "x", "envFile": ".env"}}})

    [note] = only(folder, home).notes

    assert "envFile" in note
    assert "name them in env" in note


def test_somebody_elses_trust_is_not_taken_over(folder, home):
    put(folder / "mcp.json", {"mcpServers": {"a": {"command": "x", "trust": True, "odd": 1}}})

    found = only(folder, home)

    assert "trusted" not in found.settings
    assert any("trust is not taken over" in note for note in found.notes)
    assert any("odd" in note for note in found.notes)


def test_one_bad_entry_costs_itself(folder, home):
    put(
        folder / "mcp.json",
        {
            "mcpServers": {
                "good": STDIO,
                "nothing": {},
                "text": "x",
                "a b": STDIO,
                "plain": {"url": "http://far.example/mcp"},
            }
        },
    )

    found = {one.name: one.problem for one in discover(folder, home, "linux")}

    assert found["good"] is None
    assert "neither a command nor an address" in found["nothing"]
    assert found["text"] == "it is not a table"
    assert "not a server name" in found["a b"]
    assert "must use https" in found["plain"]


@pytest.mark.parametrize("text", ["{", "[1, 2", "\x00", '{"mcpServers": 3}', "null", "[]"])
def test_a_broken_file_is_told_and_stops_nothing(text, folder, home):
    put(folder / "mcp.json", text)
    put(home / ".cursor" / "mcp.json", {"mcpServers": {"thing": STDIO}})

    names = [one.name for one in discover(folder, home, "linux") if one.problem is None]

    assert names == ["thing"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "http://x//y", }', {"a": "http://x//y"}),
        ('{"a": [1, 2, ], /* b */ "c": "/* no */"} // end', {"a": [1, 2], "c": "/* no */"}),
        ('{"a": "quote \\" // still text"}', {"a": 'quote " // still text'}),
    ],
)
def test_comments_are_taken_out_of_json_and_not_out_of_texts(text, value):
    assert json.loads(without_comments(text)) == value
    assert parse(text, Path("x.json")) == value


def test_a_name_that_two_programs_use_must_be_qualified(folder, home):
    put(folder / "mcp.json", {"mcpServers": {"thing": STDIO}})
    put(home / ".cursor" / "mcp.json", {"mcpServers": {"thing": {"command": "other"}}})
    found = discover(folder, home, "linux")

    with pytest.raises(ConfigError, match="differ") as caught:
        choose(found, "thing")

    assert "mcp-json:thing, cursor:thing" in str(caught.value.hint)
    assert choose(found, "cursor:thing").settings["command"] == "other"


def test_the_same_server_in_two_places_is_one(folder, home):
    put(folder / "mcp.json", {"mcpServers": {"thing": STDIO}})
    put(home / ".cursor" / "mcp.json", {"mcpServers": {"thing": STDIO}})

    assert choose(discover(folder, home, "linux"), "thing").settings == STDIO


def test_a_missing_name_suggests_near_ones(folder, home):
    put(folder / "mcp.json", {"mcpServers": {"github": STDIO}})

    with pytest.raises(ConfigError, match="there is github"):
        choose(discover(folder, home, "linux"), "gihub")


def test_any_file_can_be_named(folder):
    put(folder / "some.toml", '[mcp_servers.a]\ncommand = "x"\n')

    (found,) = read_file(folder / "some.toml")

    assert found.settings == {"command": "x"}
    with pytest.raises(ConfigError, match="no file"):
        read_file(folder / "none.json")


# our own file ----------------------------------------------------------------------------------

OURS = """\
# kept
[policy]
deny = ["shell"]  # kept too

[mcp.servers.one]  # the first
command = "one"    # its command

[mcp.servers.one.env]
A = "b"

[mcp.servers."two"]
url = "https://two.example/mcp"

[tools.http]
enabled = false
"""


def test_adding_and_removing_a_server_leaves_the_rest(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(OURS, "utf-8")

    edit.add_server(path, "three", {"command": "x", "args": ["a b", 'q"'], "env": {"K.1": "v"}})
    edit.remove_server(path, "one")

    text = path.read_text("utf-8")
    assert list(edit.servers_in(path)) == ["two", "three"]
    assert tomllib.loads(text)["mcp"]["servers"]["three"]["args"] == ["a b", 'q"']
    assert text.startswith("# kept\n[policy]")
    assert "# kept too" in text
    assert "the first" not in text
    assert tomllib.loads(text)["tools"] == {"http": {"enabled": False}}


def test_an_option_is_set_and_comments_stay(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(OURS, "utf-8")

    edit.set_option(path, "one", "enabled", False)

    text = path.read_text("utf-8")
    assert edit.servers_in(path)["one"]["enabled"] is False
    assert "# the first" in text
    assert "# its command" in text
    with pytest.raises(ConfigError, match="no server 'nine'"):
        edit.set_option(path, "nine", "enabled", True)


def test_a_server_in_an_inline_table_is_not_torn_out(tmp_path):
    path = tmp_path / "config.toml"
    text = '[mcp]\nservers = { one = { command = "x" } }\n'
    path.write_text(text, "utf-8")

    with pytest.raises(ConfigError, match="by hand"):
        edit.remove_server(path, "one")

    assert path.read_text("utf-8") == text


# other programs' files, written ----------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        *("claude-desktop", "claude-code", "claude-code-project", "cursor", "vscode"),
        *("vscode-project", "gemini", "copilot", "codex", "windsurf", "lm-studio"),
    ],
)
def test_the_gateway_is_put_in_and_taken_out_again(program, folder, home):
    target = clients.programs(folder, home, "linux")[program]
    other = (
        '[mcp_servers.x]\ncommand = "x"\n'
        if target.form == "toml"
        else json.dumps({"theme": "dark", target.table[0]: {"x": {"command": "x"}}}, indent=2)
        + "\n"
    )
    put(target.path, other)

    change = clients.install(target, "hardpoint", ["serve"])
    backup = change.write()
    again = clients.install(target, "hardpoint", ["serve"])
    installed = {one.name: one for one in read_file(target.path)}
    clients.uninstall(target).write()

    assert any("hardpoint" in line for line in change.diff)
    assert backup is not None
    assert backup.read_text("utf-8") == other
    assert again.before == again.after
    assert installed["hardpoint"].settings["args"] == ["serve"]
    assert installed["x"].settings["command"] == "x"
    left = parse(target.path.read_text("utf-8"), target.path)
    assert left == parse(other, target.path)


def test_a_file_that_is_not_there_is_made(folder, home):
    target = clients.programs(folder, home, "linux")["cursor"]

    assert clients.install(target, "hardpoint", ["serve"]).write() is None
    assert json.loads(target.path.read_text("utf-8"))["mcpServers"]["hardpoint"]


def test_a_broken_file_is_not_overwritten(folder, home):
    target = clients.programs(folder, home, "linux")["cursor"]
    put(target.path, "{ not json")

    with pytest.raises(ConfigError, match="mend the file first"):
        clients.install(target, "hardpoint", ["serve"])
