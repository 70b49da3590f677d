"""Configuration files: order, errors, what an untrusted one may do, how they are edited."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint.config import Config
from hardpoint.config.edit import set_toml_value, with_toml_value
from hardpoint.config.files import load_config, settings_of
from hardpoint.config.positions import spans_of
from hardpoint.config.trust import trust
from hardpoint.errors import ConfigError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARDPOINT_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "config").mkdir(parents=True)
    (tmp_path / "project" / ".hardpoint").mkdir(parents=True)
    return tmp_path


class Files:
    """The files of one test."""

    def __init__(self, root: Path) -> None:
        self.user = root / "home" / "config" / "config.toml"
        self.project = root / "project" / ".hardpoint" / "config.toml"
        self.managed = root / "managed" / "config.toml"
        self.root = root

    def load(self, **options: Any) -> Config:
        options = {"environ": {}, "managed": self.managed, **options}
        return load_config(project=self.root / "project", **options)


@pytest.fixture
def files(home: Path) -> Files:
    return Files(home)


def test_without_any_file_everything_is_default(files: Files) -> None:
    assert files.load() == Config()


def test_the_stronger_layer_wins(files: Files) -> None:
    files.user.write_text("[output]\nmax_bytes = 2000\nkeep_seconds = 1.0\n")
    files.project.write_text("[output]\nmax_bytes = 3000\n")
    trust(files.project)

    config = files.load(
        overrides={"output": {"keep_bytes": 7}},
        environ={"HARDPOINT_OUTPUT__KEEP_BYTES": "9", "HARDPOINT_OUTPUT__LEAK_SCAN": "false"},
    )

    assert config.output.max_bytes == 3000
    assert config.output.keep_seconds == 1.0
    assert config.output.keep_bytes == 7
    assert config.output.leak_scan is False
    assert str(config.sources["output.max_bytes"]) == f"{files.project}:2"


def test_rules_of_all_layers_count_and_know_their_line(files: Files) -> None:
    files.user.write_text('[policy]\ndeny = [\n  "a",\n  "b",\n]\n')
    files.project.write_text('[policy]\nallow = ["c"]\n')
    trust(files.project)

    rules = files.load().policy.rules

    assert [(r.decision, r.spec, str(r.source)) for r in rules] == [
        ("allow", "c", f"{files.project}:2"),
        ("deny", "a", f"{files.user}:3"),
        ("deny", "b", f"{files.user}:4"),
    ]


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("[polcy]\n", ["config.toml:1", "polcy", "policy"]),
        ("[policy]\ndenny = []\n", ["config.toml:2", "policy.denny", "unknown"]),
        ('[output]\nmax_bytes = "many"\n', ["config.toml:2", "output.max_bytes", "whole number"]),
        ("[output]\nmax_bytes = 3\n", ["config.toml:2", "output.max_bytes"]),
        (
            "[tools.http]\nrate_limit = { requests_per_minute = 0 }\n",
            ["config.toml:2", "tools.http.rate_limit.requests_per_minute"],
        ),
        ("[tools.http]\nenable = false\n", ["tools.http.enable", "enabled"]),
        ("[policy]\ndeny = [3]\n", ["config.toml:2", "policy.deny"]),
        ("[policy]\ndeny = 'x'\n", ["config.toml:2", "policy.deny", "list"]),
        ("[policy]\nmode = 'yolo'\n", ["policy.mode"]),
        ("[plugins]\nrequired = ['a']\ndisabled = ['a']\n", ["'a'", "required", "disabled"]),
        ("[mcp]\nx = 1\n[plugin.mcp]\ny = 1\n", ["[mcp]", "[plugin.mcp]"]),
        ("not toml", ["config.toml"]),
    ],
)
def test_what_is_wrong_is_named_with_file_and_line(
    files: Files, text: str, mentions: list[str]
) -> None:
    files.user.write_text(text)

    with pytest.raises(ConfigError) as refused:
        files.load()

    for word in mentions:
        assert word in str(refused.value)


def test_every_problem_is_listed(files: Files) -> None:
    files.user.write_text(
        "[output]\nmax_bytes = 3\n[audit]\nfsync = 'yes'\n[tols]\n"
        "[policy]\nfoo = 1\nask = 2\n[tools.echo]\nrate_limit = 3\n"
    )

    with pytest.raises(ConfigError) as refused:
        files.load()

    places = [problem.split(": ", 1)[0].rpartition(":")[2] for problem in refused.value.problems]
    assert set(places) == {"2", "4", "5", "7", "8", "10"}


def test_mcp_is_another_spelling(files: Files) -> None:
    files.user.write_text("[mcp.servers.time]\ncommand = 'x'\n")

    assert files.load().plugin == {"mcp": {"servers": {"time": {"command": "x"}}}}


# an untrusted project --------------------------------------------------------------------------


def test_an_untrusted_project_can_only_take_away(files: Files) -> None:
    files.user.write_text("[tools.a]\nrate_limit = { requests_per_minute = 5 }\n")
    files.project.write_text(
        '[policy]\nallow = ["shell"]\nask = ["x"]\ndeny = ["curl"]\nmode = "auto"\n'
        "[plugin.evil]\nx = 1\n[network]\nallow_http = true\n"
        "[tools.a]\nrate_limit = { requests_per_minute = 1000 }\ntimeout = 999\n"
        "[tools.b]\nenabled = false\n[tools.c]\nenabled = true\n"
    )

    config = files.load()

    assert [(rule.decision, rule.spec) for rule in config.policy.rules] == [("deny", "curl")]
    assert config.policy.mode is None
    assert config.plugin == {}
    assert config.network.allow_http is False
    limit = config.tools["a"].rate_limit
    assert limit is not None
    assert limit.requests_per_minute == 5
    assert config.tools["a"].timeout is None
    assert config.tools["b"].enabled is False
    assert "trust" in config.warnings[0]


def test_trust_is_for_one_content(files: Files) -> None:
    files.project.write_text('[policy]\nallow = ["a"]\n')
    trust(files.project)
    trusted = files.load()
    files.project.write_text('[policy]\nallow = ["a", "b"]\n')
    changed = files.load()

    assert len(trusted.policy.rules) == 1
    assert changed.policy.rules == ()
    assert changed.warnings


def test_a_project_is_found_from_below_and_in_pyproject(files: Files) -> None:
    files.project.parent.rmdir()
    pyproject = files.root / "project" / "pyproject.toml"
    pyproject.write_text('[project]\nname = "x"\n\n[tool.hardpoint.policy]\ndeny = ["a"]\n')
    below = files.root / "project" / "src" / "deep"
    below.mkdir(parents=True)

    config = load_config(project=below, environ={}, managed=files.managed)

    assert str(config.policy.rules[0].source) == f"{pyproject}:5"


# the administrator -----------------------------------------------------------------------------


def managed(files: Files, text: str, mode: int = 0o644) -> None:
    files.managed.parent.mkdir(mode=0o755)
    files.managed.write_text(text)
    files.managed.chmod(mode)


needs_root = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="only root can make a file that belongs to root"
)


@needs_root
def test_the_administrators_file_is_final(files: Files) -> None:
    managed(files, '[tools.http]\nenabled = false\n[policy]\ndeny = ["curl"]\n')
    files.user.write_text("[tools.http]\nenabled = true\n")

    config = files.load(overrides={"tools": {"http": {"enabled": True}}})

    assert config.tools["http"].enabled is False
    assert config.policy.rules[0].source.level == "managed"


@needs_root
@pytest.mark.parametrize(("ours", "theirs"), [("required", "disabled"), ("disabled", "required")])
def test_a_conflict_with_the_administrator_is_an_error(
    files: Files, ours: str, theirs: str
) -> None:
    managed(files, f'[plugins]\n{ours} = ["container"]\n')
    files.user.write_text(f'[plugins]\n{theirs} = ["container"]\n')

    with pytest.raises(ConfigError, match="container"):
        files.load()


@needs_root
def test_an_administrators_file_that_others_can_write_is_refused(files: Files) -> None:
    managed(files, "", mode=0o666)

    with pytest.raises(ConfigError, match="root"):
        files.load()


# variables -------------------------------------------------------------------------------------


def test_variables_become_tables() -> None:
    found = settings_of(
        {
            "HARDPOINT_TOOLS__HTTP__TIMEOUT": "5",
            "HARDPOINT_POLICY__MODE": "locked",
            "HARDPOINT_PLUGINS__DISABLED": '["wasm"]',
            "HARDPOINT_SECRET_A__B": "x",
            "HARDPOINT_HOME": "/x",
            "OTHER__X": "1",
        }
    )

    assert found == {
        "tools": {"http": {"timeout": 5}},
        "policy": {"mode": "locked"},
        "plugins": {"disabled": ["wasm"]},
    }


@pytest.mark.parametrize(("value", "names"), [("", frozenset()), ("a, b", frozenset("ab"))])
def test_the_load_variable_names_plugins(files: Files, value: str, names: frozenset[str]) -> None:
    assert files.load(environ={"HARDPOINT_LOAD_PLUGINS": value}).load_only == names


# editing ---------------------------------------------------------------------------------------


def test_an_edit_keeps_comments_and_order(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '# mine\n[plugins]   # on and off\ndisabled = ["a"] # why\n\n[policy]\ndeny = []\n'
    )

    set_toml_value(file, ["plugins"], "disabled", ["a", "b"])
    set_toml_value(file, ["plugins"], "strict", True)
    set_toml_value(file, ["tools", "web fetch"], "enabled", False)

    text = file.read_text()
    assert text.startswith("# mine\n[plugins]   # on and off\n")
    assert 'disabled = ["a", "b"] # why' in text
    assert tomllib.loads(text) == {
        "plugins": {"disabled": ["a", "b"], "strict": True},
        "policy": {"deny": []},
        "tools": {"web fetch": {"enabled": False}},
    }


def test_an_edit_that_cannot_be_made_loses_nothing(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("plugins = { strict = true }\n")

    with pytest.raises(ConfigError):
        set_toml_value(file, ["plugins"], "disabled", ["a"])

    assert file.read_text() == "plugins = { strict = true }\n"


def test_an_edit_of_a_broken_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("broken")

    with pytest.raises(ConfigError, match="mend"):
        set_toml_value(file, ["plugins"], "disabled", [])

    assert file.read_text() == "broken"


texts = st.text(st.characters(blacklist_categories=("Cs",)), max_size=20)


@given(texts, texts)
def test_any_text_survives_an_edit(key: str, value: str) -> None:
    changed = with_toml_value('[a]\nb = 1 # "x"\n', ["a"], key, [value])

    assert tomllib.loads(changed)["a"][key] == [value]


def test_positions_of_every_kind_of_value() -> None:
    text = (
        'a.b = """x\n[no]\n"""\n[t]\nk = [ # c\n  1,\n  { z = "]" },\n]\n'
        "[[l]]\nd = 1979-05-27 07:32:00\n[[l]]\n'q.r' = '}'\n"
    )

    spans = spans_of(text)

    assert spans["t", "k", 1, "z"].line == 7
    assert spans["l", 1, "q.r"].line == 12
    assert text[spans["l", 0, "d"].start : spans["l", 0, "d"].end] == "1979-05-27 07:32:00"
