"""What every first-party tool may do, how often, and what it asks: one table, no surprises."""

import pytest

from hardpoint import (
    PROTECTED_TOOL_NAMES,
    ApprovalRequirement,
    Config,
    Runtime,
    ToolRateLimitConfig,
)

# tool, approval without arguments, calls a minute and an hour, effects without arguments
TABLE = """
echo             never                 -       -
time             never                 -       -
json             never                 -       -
http             never                 30/500  network read
web_fetch        never                 30/500  network read
message          never                 10/100  network send
memory_search    never                 -       read
memory_read      never                 -       read
memory_tree      never                 -       read
memory_write     never                 20/200  write
create_job       never                 5/30    write
list_jobs        never                 -       read
job_status       never                 -       read
job_events       never                 -       read
cancel_job       unless_auto_approved  -       delete
job_prompt       unless_auto_approved  -       write
routine_create   never                 -       write
routine_list     never                 -       read
routine_update   never                 -       write
routine_delete   never                 -       delete
routine_history  never                 -       read
routine_fire     unless_auto_approved  -       write
event_emit       unless_auto_approved  -       write
secret_list      never                 -       read
secret_delete    unless_auto_approved  -       delete
tool_search      never                 -       read
tool_info        never                 -       read
tool_list        never                 -       read
tool_call        never                 -       -
tool_install     always                -       network process write
tool_upgrade     always                -       network process write
tool_remove      always                -       delete write
tool_auth        unless_auto_approved  -       network write
tool_activate    never                 -       network process write
extension_info   never                 -       read
result_read      never                 -       read
shell            always                30/300  delete process read write
read_file        unless_auto_approved  -       read
write_file       unless_auto_approved  20/200  write
apply_patch      unless_auto_approved  20/200  read write
list_dir         never                 -       read
grep             unless_auto_approved  -       read
glob             never                 -       read
"""
ROWS = [line.split(maxsplit=3) for line in TABLE.strip().splitlines()]
NOT_YET = {
    "build_software", "restart", "image_generate", "image_edit", "image_analyze",
    "skill_list", "skill_search", "skill_install", "skill_remove",
}  # fmt: skip


@pytest.fixture(scope="module")
def registry():
    return Runtime(Config(), installed_plugins=True).registry


def test_the_table_names_every_tool_of_ours(registry):
    assert {row[0] for row in ROWS} == set(registry.list())
    assert {row[0] for row in ROWS} | NOT_YET == PROTECTED_TOOL_NAMES


@pytest.mark.parametrize(
    ("name", "approval", "limit", "effects"), ROWS, ids=[row[0] for row in ROWS]
)
def test_a_tool_asks_counts_and_does_what_the_table_says(registry, name, approval, limit, effects):
    tool = registry.get(name)
    asked = (tool.requires_approval({}), tool.approval_requirement({}))

    assert max(asked, key=lambda each: each.rank) is ApprovalRequirement(approval)
    expected = None if limit == "-" else ToolRateLimitConfig(*map(int, limit.split("/")))
    assert tool.rate_limit_config() == expected
    assert " ".join(sorted(tool.effects({}))) == effects.replace("-", "")


@pytest.mark.parametrize(
    ("name", "params", "effects"),
    [
        ("http", {"method": "POST"}, "network send write"),
        ("http", {"method": "DELETE"}, "delete network send"),
        ("tool_search", {"query": "x", "discover": True}, "network read"),
        ("create_job", {"calls": [{"tool": "shell"}]}, "write"),
    ],
)
def test_effects_follow_the_arguments(registry, name, params, effects):
    assert " ".join(sorted(registry.get(name).effects(params))) == effects


@pytest.mark.parametrize("name", [row[0] for row in ROWS])
def test_a_definition_is_the_same_each_time_and_short(registry, name):
    tool = registry.get(name)

    assert tool.definition() == tool.definition()
    assert len(tool.description) < 1000
