"""The command line. `--version` and kept listings are answered before anything is imported."""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        from hardpoint import __version__

        print(f"hardpoint {__version__}")
        return
    if given[:1] in (["tools"], ["plugins"]):
        from hardpoint.cli.quick import answer

        if answer(given):
            return
    from hardpoint.cli.app import run

    sys.exit(run(given))
