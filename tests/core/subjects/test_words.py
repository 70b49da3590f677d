"""Quoting and expansion, with a real Bash as the judge where there is one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hardpoint.subjects import UNRESOLVED, judge_command

BASH = shutil.which("bash")

PIECES = (
    "a", "r", "m", "-", "'", '"', "\\", " ", "\t", "{", "}", ",", "..", "1", "3", "$'", '$"', "=",
    "\\n", "\\x41", "\\101", "#", "!", "[", "]", "*", "?", "\\\n", "%", "x=", "{a,b}", "{1..3}",
    "''",
)  # fmt: skip


def words(line: str) -> tuple[object, ...]:
    return judge_command(line).segments[0].argv


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("r\\m x", ("rm", "x")),
        ("r''m \"x\"", ("rm", "x")),
        ("'r'\"m\"", ("rm",)),
        ("r\\\nm", ("rm",)),
        ("echo 'a\\b'", ("echo", "a\\b")),
        ('echo "a\\b\\$"', ("echo", "a\\b$")),
        ("echo $'\\x72\\155\\u006d\\cA'", ("echo", "rmm\x01")),
        ("echo $'a\\0b'", ("echo", "a")),
        ("echo a{b,c}d", ("echo", "abd", "acd")),
        ("echo {a,b}{1,2}", ("echo", "a1", "a2", "b1", "b2")),
        ("echo {3..1} {a..c}", ("echo", "3", "2", "1", "a", "b", "c")),
        ("echo '{a,b}' \\{a,b}", ("echo", "{a,b}", "{a,b}")),
        ("echo a#b # c", ("echo", "a#b")),
        ('echo "$x" ${y} $(z) `w`', ("echo", *[UNRESOLVED] * 4)),
        ("echo '$x' \\$x", ("echo", "$x", "$x")),
        ("echo $", ("echo", "$")),
        ("{rm,-rf,x}", ("rm", "-rf", "x")),
        (
            "echo a{},} a{b},c} {},a} {x{y},z}",
            ("echo", "a}", "a", "ab}", "ac", "{},a}", "x{y}", "z"),
        ),
        ("echo {a..} {a..,b} {1..2}}", ("echo", "{a..}", "a..", "b", "1}", "2}")),
        ("{,'rm'} x", ("rm", "x")),
        ("{,rm}'' x", ("", "rm", "x")),
        ("echo {,''} {,\"\"} {,$''}", ("echo", "", "", "")),
        ("echo {'1'..3} {1..'3'}", ("echo", "{1..3}", "{1..3}")),
    ],
)
def test_words_are_what_a_shell_makes_of_them(line: str, expected: tuple[object, ...]) -> None:
    segments = judge_command(line).segments

    assert expected in [segment.argv for segment in segments]


@pytest.mark.skipif(BASH is None, reason="needs Bash to compare with")
@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_bash_reads_the_same_words(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    # Only quotes, braces and blanks: nothing here can start a program or open a file.
    assert BASH is not None
    line = f"printf '%s\\0' {text}"
    ran = subprocess.run(
        [BASH, "--norc", "--noprofile", "-f", "-c", line],
        capture_output=True,
        cwd=tmp_path_factory.getbasetemp(),
        env={"PATH": "/nonexistent"},
        timeout=10,
        check=False,
    )
    verdict = judge_command(line)
    if b"unexpected" in ran.stderr or b"unterminated" in ran.stderr:
        # To a POSIX shell a dollar before a quote is nothing but a dollar.
        assert verdict.requirement != "unless_auto_approved" or "$'" in text or '$"' in text
        return
    assume(ran.returncode == 0 and not ran.stderr)
    assume(not text.endswith("\\"))  # Bash keeps such a backslash, except when it does not.
    ours = verdict.segments[0].argv[2:]
    assume(UNRESOLVED not in ours)
    printed = ran.stdout.decode("utf-8", "replace").split("\0")[:-1]

    # Without arguments printf prints its format once.
    assert list(ours) == printed or (not ours and printed == [""])


@pytest.mark.parametrize(
    "line",
    ["ls 'a", 'ls "a', "ls `a", "ls $(a", "ls ${a", "ls )", "( ls", "()", "{ }", "if a; then",
     "ls &&", "| ls", ";; ls", "case x in", "for", "ls <", "ls > ;", "f() ", "a[1", "[[ a", "fi",
     "<<E", "ls <<<"],
)  # fmt: skip
def test_a_line_no_shell_reads_is_never_ordinary(line: str) -> None:
    assert judge_command(line).requirement != "unless_auto_approved"


def test_scripts_of_this_system_can_be_read() -> None:
    scripts = [
        path
        for folder in ("/usr/bin", "/etc/init.d")
        for path in sorted(Path(folder).glob("*"))
        if path.is_file() and 0 < path.stat().st_size < 20_000
        and path.read_bytes()[:9] in (b"#!/bin/sh", b"#!/bin/ba")
    ][:20]  # fmt: skip
    if not scripts:
        pytest.skip("no shell scripts here")
    unreadable = [
        path
        for path in scripts
        if any("cannot be read" in why for why in judge_command(path.read_text("latin-1")).reasons)
    ]

    assert not unreadable
