"""How many tokens definitions cost a model, all of them and in search mode.

`python -m tests.bench.tokens`, with `pip install bpe-openai` for the counting. The tools are
those of known MCP servers, under new names as often as it takes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bpe_openai

from hardpoint import Config, JobContext, Runtime, Tool, ToolOutput

SCHEMAS = Path(__file__).parents[1] / "data" / "mcp-schemas"
SIZES = (0, 100, 1000)


class Copy(Tool):
    """A tool of a server, as far as a model sees it."""

    def __init__(self, name: str, known: dict[str, Any]) -> None:
        self.name = name
        self.description = known.get("description") or ""
        self._schema = known["inputSchema"]

    def parameters_schema(self) -> dict[str, Any]:
        return self._schema

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        raise AssertionError("only its definition is counted")


def main() -> None:
    encoding = bpe_openai.get_encoding("o200k_base")
    known = []
    for path in sorted(SCHEMAS.glob("*.json")):
        data = json.loads(path.read_text("utf-8"))
        known += data if isinstance(data, list) else data["tools"]
    print("| Tools | All definitions | Search mode |\n|---|---|---|")
    for size in SIZES:
        copies = [
            Copy(f"s{number // len(known)}__{each['name']}", each)
            for number, each in ((n, known[n % len(known)]) for n in range(size))
        ]
        config = Config(load_only=frozenset({"builtin"}))
        runtime = Runtime(config, tools=copies, installed_plugins=True)
        counts = [
            len(encoding.encode(json.dumps(runtime.definitions("openai", search=search))))
            for search in (False, True)
        ]
        own = len(runtime.registry) - size
        print(f"| {own} of ours and {size} | {counts[0]:,} | {counts[1]:,} |")


if __name__ == "__main__":
    main()
