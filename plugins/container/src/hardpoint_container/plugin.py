"""Hooks of hardpoint-container."""

from __future__ import annotations

from typing import Any

from hardpoint import hookimpl

HARDPOINT_API = 1


@hookimpl
def hardpoint_config_type() -> type:
    from hardpoint_container.config import ContainerConfig

    return ContainerConfig


@hookimpl
def hardpoint_register_tools(registry: Any, config: Any) -> None:
    from hardpoint_container import container_tools

    for tool in container_tools(config):
        registry.register(tool)


@hookimpl
def hardpoint_register_domains(registry: Any, config: Any) -> None:
    from hardpoint_container.domain import ContainerDomain

    registry.register("container", ContainerDomain(config))


@hookimpl
def hardpoint_register_extensions(registry: Any, config: Any) -> None:
    from hardpoint_container.checks import SandboxCheck

    registry.register("check", "container", SandboxCheck(config))


@hookimpl
def hardpoint_register_commands(registry: Any) -> None:
    registry.register(
        "sandbox", "hardpoint_container.cli:sandbox", "Sandboxes of the container tools"
    )
