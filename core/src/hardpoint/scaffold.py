"""Write a new plugin from the template in this package: what `hardpoint new` does.

The template is a copier template that uses plain variables only, so that it renders here without
copier and there with all of copier's comfort, to the same bytes.
"""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from hardpoint.errors import HardpointError

_SUFFIX = ".jinja"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_VARIABLE = re.compile(r"\{\{ (\w+) \}\}")


def new_plugin(name: str, folder: Path | None = None) -> list[Path]:
    """Write a plugin into a new folder and return its files.

    Args:
        name: The name of the distribution, for example `acme-weather`.
        folder: Where; a folder of that name in the current one when absent.

    Raises:
        HardpointError: The name cannot be used, or the folder is not empty.
    """
    variables = template_variables(name)
    target = Path(name) if folder is None else folder
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise HardpointError(
            f"{str(target)!r} exists and is not an empty folder",
            hint="choose another name, or remove it first",
        )
    written = []
    for source in _files(_template()):
        relative = source.relative_to(_template()).as_posix()
        path = target / _fill_in(relative, variables).removesuffix(_SUFFIX)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        path.write_text(_fill_in(text, variables) if relative.endswith(_SUFFIX) else text, "utf-8")
        written.append(path)
    return written


def template_variables(name: str) -> dict[str, str]:
    """What the template's variables are for a plugin of this name.

    Raises:
        HardpointError: The name cannot be that of a distribution and of a package of its own.
    """
    package = name.replace("-", "_")
    taken = package in sys.stdlib_module_names or package in ("hardpoint", "tests")
    if not _NAME.fullmatch(name) or taken or keyword.iskeyword(package):
        raise HardpointError(
            f"{name!r} is not a name for a plugin",
            hint="use lower-case words joined by hyphens, for example acme-weather",
        )
    return {
        "name": name,
        "package": package,
        "tool": f"{package}_greet",
        "class_name": name.replace("-", " ").title().replace(" ", ""),
    }


def _template() -> Path:
    return Path(__file__).parent / "_template" / "template"


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from _files(path)
        elif not path.name.endswith(".pyc"):
            yield path


def _fill_in(text: str, variables: dict[str, str]) -> str:
    return _VARIABLE.sub(lambda match: variables[match[1]], text)
