"""What this distribution registers."""

from __future__ import annotations

from typing import Any

from hardpoint import hookimpl
from hardpoint_builtin import (
    BuiltinConfig,
    MessageTool,
    builtin_tools,
    discovery_tools,
    job_tools,
    memory_tools,
    routine_tools,
    secret_tools,
)

HARDPOINT_API = 1


@hookimpl
def hardpoint_config_type() -> type:
    return BuiltinConfig


@hookimpl
def hardpoint_register_tools(registry: Any, config: BuiltinConfig) -> None:
    from hardpoint_builtin.extensions import extension_tools

    for tool in (
        *builtin_tools(config),
        *memory_tools(),
        *job_tools(),
        MessageTool(),
        *secret_tools(),
        *discovery_tools(),
        *routine_tools(),
        *extension_tools(),
    ):
        registry.register(tool)


@hookimpl
def hardpoint_register_extensions(registry: Any, config: BuiltinConfig) -> None:
    from hardpoint_builtin.channels.config import ChannelConfig
    from hardpoint_builtin.channels.making import make_channel
    from hardpoint_builtin.memory import MemoryWorkspace
    from hardpoint_builtin.routines import RoutineEngine

    embeddings = config.embeddings
    if embeddings.provider == "local":
        from hardpoint_builtin.embeddings.local import LocalEmbeddings

        registry.register("embedding_provider", "local", LocalEmbeddings())
    if embeddings.url is not None and embeddings.model is not None:
        from hardpoint_builtin.embeddings.endpoint import EndpointEmbeddings

        registry.register("embedding_provider", "endpoint", EndpointEmbeddings(embeddings))
    channels = config.channels or {"console": ChannelConfig("console")}
    for name, channel in channels.items():
        registry.register("channel", name, make_channel(name, channel))
    registry.register("job_worker", "routine", RoutineEngine())
    registry.register("workspace", "memory", MemoryWorkspace(embeddings.provider))
