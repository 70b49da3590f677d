from hardpoint import JobContext
from hardpoint_builtin.echo import EchoTool


async def test_echo_gives_the_message_back():
    output = await EchoTool().execute({"message": "hi"}, JobContext(user_id="ana"))

    assert output.result == "hi"


def test_echo_changes_nothing_and_needs_no_approval():
    tool = EchoTool()

    assert tool.effects({"message": "hi"}) == frozenset()
    assert tool.requires_approval({}) == "never"
    assert tool.rate_limit_config() is None
