"""Measure everything and write `docs/reference/benchmarks.md`: `nox -s bench`."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.bench import many, peers, startup

PAGE = Path(__file__).parents[2] / "docs/reference/benchmarks.md"
LIBRARIES = ("openai-agents", "pydantic-ai-slim", "langchain-core", "fastmcp")

HEAD = """\
# Benchmarks

Written by `nox -s bench`, which measures everything on this page in one run. Look at the ratios:
the figures themselves belong to one machine.

{machine}

Times are processor time, the least of several rounds, so that other programs do not count.
"""


def machine() -> str:
    libraries = []
    for name in LIBRARIES:
        try:
            libraries.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            libraries.append(f"{name} not installed")
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {python},"
        f" Hardpoint {version('hardpoint')}; {', '.join(libraries)}."
    )


def calls() -> str:
    figures = asyncio.run(peers.guarded_call())
    ours = figures[peers.EVERYTHING]
    rows = [
        f"| {name} | {figure:.1f} µs | {figure / ours:.2f} | {peers.LEAVES_OUT[name]} |"
        for name, figure in figures.items()
    ]
    agents = figures.get("openai-agents on_invoke_tool")
    fastmcp = figures.get("fastmcp in-memory client")
    said = [
        """
The target is to be no slower than OpenAI Agents' `on_invoke_tool`, and fifty times faster than
FastMCP's in-memory client.
"""
    ]
    if agents is not None:
        said.append(_verdict("OpenAI Agents", ours / agents, 1.0, "times as long"))
    if fastmcp is not None:
        said.append(_verdict("FastMCP", fastmcp / ours, 50.0, "times faster", more=True))
    return f"""
## A call of a trivial async tool

| | A call | Beside ours | Leaves out |
|---|---|---|---|
{chr(10).join(rows)}
{"".join(said)}

The peers' calls turn arguments into types and run a function. What ours does beyond that is spread
over many small things, with no hot spot: two audit records (redacted, scanned, encoded, hashed)
are about a third, judging two rules a fifth, counting and cleaning a tenth each. To come near a
bare function call, the whole path would have to be written in a compiled language.
"""


def _verdict(peer: str, ratio: float, target: float, words: str, *, more: bool = False) -> str:
    met = ratio >= target if more else ratio <= target
    missed = target / ratio if more else ratio / target
    return f"\n- {peer}: {ratio:.1f} {words}; " + (
        "met." if met else f"missed by a factor of {missed:.1f}."
    )


def start() -> str:
    figures = startup.startup()
    bare = figures["python -c pass"]
    targets = {
        "hardpoint --version": 3,
        "hardpoint tools list, cached": 8,
        "hardpoint tools list, cold": 15,
    }
    rows = [f"| `python -c pass` | {bare * 1e3:.0f} ms | 1 | |"]
    for name, target in targets.items():
        ratio = figures[name] / bare
        met = "met" if ratio <= target else f"missed by a factor of {ratio / target:.1f}"
        rows.append(f"| {name} | {figures[name] * 1e3:.0f} ms | {ratio:.1f} | ≤ {target}: {met} |")
    return f"""
## Starting

With every first-party plugin installed.

| | Time | Beside Python | Target |
|---|---|---|---|
{chr(10).join(rows)}

A cold listing imports every plugin with what it registers: some 600 modules, in which making
attrs classes is the largest part. To be quicker plugins would have to register names of classes
instead of objects. It happens once after each change of what is installed or configured.
"""


def sizes() -> str:
    figures = many.many_tools()
    limit = many.limiter()
    leaks = many.leak_scan()
    made, search = figures["register"], figures["search"]
    size = figures["bytes a tool"]
    rows = [
        ("registering 10,000 tools", f"{made:.2f} s", "1 s", made <= 1),
        ("their definitions, sorted", f"{figures['listing'] * 1e6:.0f} µs", "from a cache", True),
        ("a search among them", f"{search * 1e3:.2f} ms", "5 ms", search <= 5e-3),
        ("memory of one", f"{size / 1e3:.1f} KB", "5 KB", size <= 5e3),
        ("a check of the limiter in memory", f"{limit * 1e6:.2f} µs", "1 µs", limit <= 1e-6),
        ("leak scan, no findings", f"{leaks / 1e6:.0f} MB/s", "200 MB/s", leaks >= 200e6),
    ]
    shown = [
        f"| {what} | {figure} | {target}: {'met' if met else 'missed'} |"
        for what, figure, target, met in rows
    ]
    return f"""
## Many tools, many calls

| | | Target |
|---|---|---|
{chr(10).join(shown)}
"""


def main() -> None:
    parts = [HEAD.format(machine=machine()), calls(), start(), sizes()]
    PAGE.write_text("".join(parts), "utf-8")
    sys.stdout.write(PAGE.read_text("utf-8"))


if __name__ == "__main__":
    main()
