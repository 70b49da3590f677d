"""`grep` and `glob`: find text and files in the workspace."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from hardpoint import ApprovalRequirement, JobContext, ToolOutput
from hardpoint.errors import ExecutionFailed, InvalidParameters, ToolTimeout
from hardpoint_container.globs import compile_glob
from hardpoint_container.paths import Operation, is_sensitive
from hardpoint_container.tooling import (
    KIB,
    PathTool,
    boolean,
    integer,
    sandbox_of,
    schema,
    shown_name,
    string,
)

if TYPE_CHECKING:
    from hardpoint_container.execution import Execution

HEAD_LIMIT: Final = 250
GLOB_RESULTS: Final = 200
LONGEST_LINE: Final = 500
SEARCH_OUTPUT: Final = 8 * KIB * KIB
GREP_TIMEOUT: Final = timedelta(seconds=30)
DEPTH: Final = 100


class GrepTool(PathTool):
    """Search file contents."""

    name = "grep"
    subject_kind = "path"
    description = (
        "Search the files of the workspace by a regular expression. Ignored files (.gitignore),"
        " binary files and files that usually hold secrets are left out."
    )
    operation: ClassVar[Operation] = "search"

    def parameters_schema(self) -> dict[str, Any]:
        return schema(
            "pattern",
            pattern=string("Regular expression.", minLength=1, maxLength=4096),
            path=string("File or folder to search.", default="."),
            glob=string("Only files that match, for example *.py or src/**/*.ts."),
            output_mode={
                "type": "string",
                "enum": ["content", "files_with_matches", "count"],
                "description": "What to give back.",
                "default": "content",
            },
            literal=boolean("Take the pattern as plain text.", default=False),
            ignore_case=boolean("Letter case does not matter.", default=False),
            multiline=boolean("A match may span lines.", default=False),
            context=integer("Lines around each match.", minimum=0, maximum=50, default=0),
            head_limit=integer(
                f"Most matches given back; 0 for all. Default {HEAD_LIMIT}.", minimum=0
            ),
        )

    def output_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "matches": {"type": "array", "items": {"type": "string"}},
                "count": {"type": "integer"},
                "truncated": {"type": "boolean"},
                "notice": {"type": "string"},
            },
            "required": ["matches", "count", "truncated"],
        }

    def requires_approval(self, params: Any) -> ApprovalRequirement:
        return ApprovalRequirement.UNLESS_AUTO_APPROVED

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        result = await sandbox_of(ctx).exec(
            _ripgrep(params), timeout=GREP_TIMEOUT, max_bytes=SEARCH_OUTPUT
        )
        _check(result)
        found, total, cut = _collect(params, result.stdout)
        answer: dict[str, Any] = {"matches": found, "count": total, "truncated": cut}
        if result.truncated:
            answer["notice"] = "there was too much to search all of it; narrow path or glob"
            answer["truncated"] = True
        return ToolOutput.success(answer)


def _ripgrep(params: Mapping[str, Any]) -> list[str]:
    command = ["rg", "--json", "--no-config", "--hidden", "--no-require-git", "--sort=path"]
    command += ["--glob=!.git", f"--max-filesize={64 * KIB}K"]
    for name, flag in (
        ("literal", "--fixed-strings"),
        ("ignore_case", "--ignore-case"),
        ("multiline", "--multiline"),
    ):
        if params.get(name):
            command.append(flag)
    if params.get("glob"):
        if params["glob"].startswith("!"):
            raise InvalidParameters("glob says which files to search, not which to leave out")
        command.append(f"--glob={params['glob']}")
    if params.get("context") and params.get("output_mode", "content") == "content":
        command.append(f"--context={params['context']}")
    return [*command, "-e", params["pattern"], "--", params.get("path", ".")]


def _check(result: Execution) -> None:
    if result.exit_code == 127:
        raise ExecutionFailed(
            "the sandbox image has no ripgrep", hint="run: hardpoint sandbox build, or use shell"
        )
    if result.timed_out:
        raise ToolTimeout(GREP_TIMEOUT, "the search took too long; narrow path or glob")
    if result.exit_code == 2 and not result.stdout.strip():
        said = result.stderr.decode(errors="replace").strip()[:500]
        if "No such file" in said:
            raise ExecutionFailed(said)
        raise InvalidParameters(f"the pattern cannot be used: {said}")


@attrs.frozen
class _Line:
    text: str
    is_match: bool


@attrs.define
class _File:
    path: str
    lines: list[_Line] = attrs.field(factory=list)
    count: int = 0


def _collect(params: Mapping[str, Any], out: bytes) -> tuple[list[str], int, bool]:
    """What was found, how many matches there were, and whether some are not shown."""
    mode = params.get("output_mode", "content")
    limit = params.get("head_limit", HEAD_LIMIT)
    lines: list[_Line] = []
    for file in _files(out):
        if mode == "content":
            lines += file.lines
        else:
            text = file.path if mode == "files_with_matches" else f"{file.path}:{file.count}"
            lines.append(_Line(text, True))
    total = sum(line.is_match for line in lines)
    if not limit or total <= limit:
        return [line.text for line in lines], total, False
    return _first(lines, limit), total, True


def _first(lines: list[_Line], matches: int) -> list[str]:
    """The lines up to a number of matches."""
    taken = []
    for line in lines:
        matches -= line.is_match
        if matches < 0:
            break
        taken.append(line.text)
    return taken


def _files(out: bytes) -> Iterator[_File]:
    """The files of ripgrep's JSON lines, without those that are left alone."""
    file: _File | None = None
    for line in out.split(b"\n"):
        try:
            event = json.loads(line)
        except ValueError:
            continue  # the last line, cut at the cap
        data = event["data"]
        match event["type"]:
            case "begin":
                path = _text(data["path"]).removeprefix("./")
                file = None if is_sensitive(path.split("/")) else _File(shown_name(path))
            case "match" | "context" if file is not None:
                is_match = event["type"] == "match"
                sign = ":" if is_match else "-"
                file.count += is_match
                number = data["line_number"]
                text = _text(data["lines"]).rstrip("\r\n").replace("\n", "\n    ")[:LONGEST_LINE]
                file.lines.append(_Line(f"{file.path}{sign}{number}{sign} {text}", is_match))
            case "end" if file is not None:
                yield file
                file = None
    if file is not None and file.count:
        yield file


def _text(field: Mapping[str, str]) -> str:
    if "text" in field:
        return field["text"]
    return base64.b64decode(field["bytes"]).decode(errors="replace")


class GlobTool(PathTool):
    """Find files by name."""

    name = "glob"
    subject_kind = "path"
    description = (
        "Find files of the workspace by a pattern such as **/*.py or src/{a,b}*.ts; the newest come"
        " first. Folders of other people's code and of generated files are left out."
    )
    operation: ClassVar[Operation] = "list"

    def parameters_schema(self) -> dict[str, Any]:
        return schema(
            "pattern",
            pattern=string("Pattern, relative to path; ** spans folders.", minLength=1),
            path=string("Folder to search.", default="."),
        )

    def output_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "files": {"type": "array", "items": {"type": "string"}},
                "count": {"type": "integer"},
                "truncated": {"type": "boolean"},
                "limit_reason": {"type": "string"},
            },
            "required": ["files", "count", "truncated"],
        }

    def requires_sanitization(self) -> bool:
        return False

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        matches = compile_glob(params["pattern"])
        path = params.get("path", ".")
        found, complete = await sandbox_of(ctx).walk(path, depth=DEPTH)
        hits = [entry for entry in found if entry.kind == "file" and matches(entry.path)]
        hits.sort(key=lambda entry: (-entry.mtime, entry.path))
        prefix = "" if path == "." else f"{path}/"
        answer: dict[str, Any] = {
            "files": [shown_name(prefix + entry.path) for entry in hits[:GLOB_RESULTS]],
            "count": len(hits),
            "truncated": len(hits) > GLOB_RESULTS or not complete,
        }
        if len(hits) > GLOB_RESULTS:
            answer["limit_reason"] = f"more than {GLOB_RESULTS} files match"
        elif not complete:
            answer["limit_reason"] = "there are too many files to look at all of them"
        return ToolOutput.success(answer)
