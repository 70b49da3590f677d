"""Where every test must run, none can pass by being left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SKIPS = "import pytest\n\ndef test_left_out():\n    pytest.skip('no server')\n"
LACKS = "import pytest\n\npytest.importorskip('not_there')\n\ndef test_left_out():\n    pass\n"
FAILS_AS_SAID = (
    "import pytest\n\n@pytest.mark.xfail(reason='known')\ndef test_known():\n    assert False\n"
)


@pytest.mark.parametrize(
    ("source", "options", "code", "told"),
    [
        (SKIPS, ["--no-skips"], 1, "no server"),
        (LACKS, ["--no-skips"], 2, "not_there"),
        (SKIPS, [], 0, "1 skipped"),
        (FAILS_AS_SAID, ["--no-skips"], 0, "1 xfailed"),
    ],
)
def test_a_skip_fails_where_it_is_not_allowed(
    source: str, options: list[str], code: int, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(source)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", *options, str(file)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )

    assert done.returncode == code, done.stdout
    assert told in done.stdout
