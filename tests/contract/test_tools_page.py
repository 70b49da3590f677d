"""docs/reference/tools.md is made from the registry; run this file to write it anew."""

import json
from pathlib import Path

from hardpoint import Config, Runtime

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tools.md"

HEAD = """\
# All tools

Every first-party tool, made from the registry with all plugins installed. What a call of it really
does is decided by rules, limits and settings; `hardpoint tools info NAME` shows a tool as it is
here, `hardpoint explain NAME ARGUMENTS` what a call would meet.

`*` marks required parameters. Approval is what a call without arguments needs; some tools ask for
more by their arguments. Effects likewise.

"""
APPROVAL = {
    "never": "never asks",
    "unless_auto_approved": "asks unless auto-approved",
    "always": "always asks",
}


def make_page():
    entries = Runtime(Config(), installed_plugins=True).registry.entries()
    owners = sorted({entry.owner for entry in entries})
    rows = ["| Tool | Package | Runs in | Approval | Limit | Effects |", f"|{'---|' * 6}"]
    rows += [overview(entry) for owner in owners for entry in entries if entry.owner == owner]
    return HEAD + "\n".join([*rows, "", *map(section, entries)])


def overview(entry):
    tool = entry.tool
    limit = tool.rate_limit_config()
    calls = f"{limit.requests_per_minute}/min {limit.requests_per_hour}/h" if limit else ""
    effects = " ".join(sorted(tool.effects({})))
    cells = [link(entry.name), entry.owner, entry.definition.domain, approval(tool), calls, effects]
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def link(name):
    return f"[`{name}`](#{name})"


def approval(tool):
    asked = (tool.requires_approval({}), tool.approval_requirement({}))
    return APPROVAL[max(asked, key=lambda each: each.rank)]


def section(entry):
    tool, definition = entry.tool, entry.definition
    lines = [f"## `{entry.name}`", "", tool.description, ""]
    schema = tool.discovery_schema()
    properties = schema.get("properties", {})
    if properties:
        lines += ["| Parameter | Type | Default | |", "|---|---|---|---|"]
        required = schema.get("required", [])
        lines += [parameter(name, facts, name in required) for name, facts in properties.items()]
    else:
        lines.append("No parameters.")
    if definition.output_schema and definition.output_schema.get("properties"):
        names = ", ".join(f"`{name}`" for name in definition.output_schema["properties"])
        lines += ["", f"Result: {names}."]
    seconds = tool.execution_timeout().total_seconds()
    lines += ["", f"Time-out {seconds:g} s; results are {tool.provenance}.", ""]
    return "\n".join(lines)


def parameter(name, facts, required):
    star = "*" if required else ""
    default = f"`{json.dumps(facts['default'])}`" if "default" in facts else ""
    about = " ".join(facts.get("description", "").split()).replace("|", "\\|")
    return f"| `{name}`{star} | {kind(facts)} | {default} | {about} |".replace("|  |", "| |")


def kind(facts):
    if "enum" in facts:
        return " ".join(f"`{value}`" for value in facts["enum"])
    types = facts.get("type", "any")
    word = types if isinstance(types, str) else " or ".join(types)
    if word == "array" and isinstance(facts.get("items"), dict):
        return f"list of {facts['items'].get('type', 'any')}"
    if word == "object" and facts.get("properties"):
        return "object: " + ", ".join(f"`{name}`" for name in facts["properties"])
    return word


def test_the_page_of_all_tools_is_up_to_date():
    assert PAGE.read_text("utf-8") == make_page(), f"write it anew: python {Path(__file__).name}"


if __name__ == "__main__":
    PAGE.write_text(make_page(), "utf-8")
