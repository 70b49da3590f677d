"""What differs between two surfaces, in words, and which tools that concerns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import attrs

from hardpoint.lockfile import LockedDistribution, LockedThing, LockedTool, Surface


@attrs.frozen
class Difference:
    """One thing that is not as it was written down."""

    change: Literal["added", "removed", "changed"]
    kind: str
    name: str
    detail: str = ""
    tools: Sequence[str] = ()
    """The tools that it concerns."""

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.change:<8} {self.kind} {self.name}{detail}"


def compare(before: Surface, now: Surface) -> Sequence[Difference]:
    """Every difference, sorted by kind and name."""
    return [*_distributions(before, now), *_tools(before, now), *_things(before, now)]


def _distributions(before: Surface, now: Surface) -> Iterator[Difference]:
    for name in sorted({*before.distributions, *now.distributions}):
        then, here = before.distributions.get(name), now.distributions.get(name)
        detail = distribution_difference(then, here)
        if detail is not None:
            yield Difference(_change(then, here), "distribution", name, detail)


def distribution_difference(
    then: LockedDistribution | None, now: LockedDistribution | None
) -> str | None:
    """How an installed distribution differs; None when it does not."""
    if then == now:
        return None
    if then is None or now is None:
        there = then or now
        assert there is not None
        return there.version
    if then.version != now.version:
        return f"version {then.version} became {now.version}"
    if then.editable != now.editable:
        return f"version {now.version} is {'now' if now.editable else 'no longer'} editable"
    return f"version {now.version} has other files"


def _tools(before: Surface, now: Surface) -> Iterator[Difference]:
    for name in sorted({*before.tools, *now.tools}):
        then, here = before.tools.get(name), now.tools.get(name)
        detail = tool_difference(then, here)
        if detail is not None:
            yield Difference(_change(then, here), "tool", name, detail, (name,))


def tool_difference(then: LockedTool | None, now: LockedTool | None) -> str | None:
    """How a tool differs; None when it does not."""
    if then == now:
        return None
    if then is None or now is None:
        there = then or now
        assert there is not None
        return f"of {there.owner}"
    parts = []
    if then.owner != now.owner:
        parts.append(f"its owner {then.owner} became {now.owner}")
    if then.description != now.description:
        parts.append("its description changed")
    if then.parameters != now.parameters:
        parts.append("its parameters changed")
    if then.definition != now.definition and not parts:
        parts.append("its output schema or domain changed")
    return ", ".join(parts)


def _things(before: Surface, now: Surface) -> Iterator[Difference]:
    for kind in sorted({*before.things, *now.things}):
        earlier, later = before.things.get(kind, {}), now.things.get(kind, {})
        for name in sorted({*earlier, *later}):
            then, here = earlier.get(name), later.get(name)
            detail = thing_difference(then, here)
            if detail is not None:
                tools = sorted({*(then.tools if then else ()), *(here.tools if here else ())})
                yield Difference(_change(then, here), kind, name, detail, tools)


def thing_difference(then: LockedThing | None, now: LockedThing | None) -> str | None:
    """How a module, image or server differs; None when it does not."""
    if then is None or now is None:
        return None if then is now else ""
    parts = []
    if then.digest != now.digest:
        parts.append(f"{_short(then.digest)} became {_short(now.digest)}")
    parts += [f"+ may {each}" for each in sorted(set(now.granted) - set(then.granted))]
    parts += [f"- may {each}" for each in sorted(set(then.granted) - set(now.granted))]
    if then.tools != now.tools and not parts:
        parts.append(f"its tools {', '.join(then.tools)} became {', '.join(now.tools)}")
    return ", ".join(parts) or None


def _change(then: object, now: object) -> Literal["added", "removed", "changed"]:
    if then is None:
        return "added"
    return "removed" if now is None else "changed"


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12] or "nothing"
