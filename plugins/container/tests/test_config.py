"""What the table may say."""

from __future__ import annotations

from typing import Any

import pytest

from hardpoint_container.config import (
    ContainerConfig,
    EgressConfig,
    EgressRule,
    SandboxSecret,
    size_in_bytes,
)


@pytest.mark.parametrize(
    ("text", "size"), [("512m", 512 << 20), ("1G", 1 << 30), ("10", 10), ("64 kb", 65536)]
)
def test_sizes_are_read_with_their_units(text: str, size: int) -> None:
    assert size_in_bytes(text) == size


@pytest.mark.parametrize(
    "fields",
    [
        {"memory": "lots"},
        {"memory": "0m"},
        {"timeout": 700.0},
        {"policy": "full_access"},
        {"user": "ana"},
        {"egress": EgressConfig(allow=(EgressRule("example.com"),))},
        {"cpus": 0.0},
        {"network": "open"},
        {
            "network": "proxy",
            "egress": EgressConfig(
                allow=(EgressRule("a.example", tunnel=True),),
                secrets=(SandboxSecret("k", "K", ("a.example",)),),
            ),
        },
    ],
)
def test_a_setting_that_cannot_be_meant_is_an_error(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        ContainerConfig(**fields)


def test_a_tunnel_cannot_look_at_paths() -> None:
    with pytest.raises(ValueError, match="tunnel"):
        EgressRule("a.example", paths=("/v1",), tunnel=True)
