"""The runner as one argument, so that any image with Python will do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

MODULES: Final = ("opening", "walking", "files", "forward", "facts", "jobs", "runner")
"""The modules of `inside`, each after those that it imports."""


def runner_arguments(expected: Mapping[str, Any]) -> list[str]:
    """The command that makes an interpreter inside the sandbox its runner.

    The sources travel as one argument, so that any image with Python will do.
    """
    package = files("hardpoint_container.inside")
    sources = {name: package.joinpath(f"{name}.py").read_text(encoding="utf-8") for name in MODULES}
    bootstrap = (
        "import sys,types\n"
        "P='hardpoint_container.inside'\n"
        "for n in ('hardpoint_container',P): sys.modules[n]=types.ModuleType(n)\n"
        f"S={sources!r}\n"
        "for n in S:\n"
        "    m=types.ModuleType(P+'.'+n); sys.modules[P+'.'+n]=m; setattr(sys.modules[P],n,m)\n"
        "    exec(compile(S[n],'<'+n+'>','exec'),m.__dict__)\n"
        "sys.modules[P+'.runner'].main()\n"
    )
    return ["python3", "-ISc", bootstrap, json.dumps(dict(expected))]
