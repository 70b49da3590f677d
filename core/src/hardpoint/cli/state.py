"""What the options before the command say, and the runtime that they lead to."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from hardpoint.config import Config
    from hardpoint.registrars import CommandRef
    from hardpoint.store import Store


class State:
    """Shared by the commands of one run. Everything heavy is imported when it is needed."""

    def __init__(
        self,
        plugin_switches: Sequence[str] = (),
        config_file: str | None = None,
        *,
        verbose: bool = False,
    ) -> None:
        self.plugin_switches = tuple(plugin_switches)
        self.config_file = config_file
        self.verbose = verbose
        self._commands: Mapping[str, CommandRef] | None = None
        self._open = ExitStack()

    def load_config(self) -> Config:
        """The configuration with this run's switches.

        Raises:
            ConfigError: It cannot be used.
        """
        from hardpoint.config.files import load_config

        self._listen()
        return self.with_switches(load_config(path=self.config_file))

    def _listen(self) -> None:
        """Let the log say what is wrong, or with `-v` what happens."""
        import logging

        logging.basicConfig(
            level=logging.DEBUG if self.verbose else logging.ERROR,
            format="%(name)s: %(message)s",
            stream=sys.stderr,
        )

    def with_switches(self, config: Config) -> Config:
        """A configuration with `-p` of this run."""
        import attrs

        off = {name[3:] for name in self.plugin_switches if name.startswith("no:")}
        on = {name for name in self.plugin_switches if not name.startswith("no:")}
        if not off and not on:
            return config
        _require_installed(off | on)
        plugins = attrs.evolve(config.plugins, disabled=config.plugins.disabled - on)
        load_only = None if config.load_only is None else config.load_only | on
        blocked = {**config.blocked, **{name: f"-p no:{name}" for name in off}}
        return attrs.evolve(config, plugins=plugins, load_only=load_only, blocked=blocked)

    def runtime(self, **options: Any) -> Any:
        """A runtime of this configuration."""
        from hardpoint.runtime import Runtime

        options = {"origin": "cli", "in_memory": False, "installed_plugins": True, **options}
        config = self.load_config()
        for warning in config.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        made = Runtime(config, **options)
        self._open.callback(made.services.close_files)
        return made

    def store(self, config: Config) -> Store:
        """The store alone, without a runtime around it."""
        from hardpoint._build import store_location
        from hardpoint.store import Store

        made = Store(store_location(config))
        self._open.callback(made.close)
        return made

    def close(self) -> None:
        """Close the files that this run has opened."""
        self._open.close()

    def require_operator(self, what: str) -> None:
        """Refuse unless a person or the operator's token is there: for commands of plugins.

        Raises:
            NotAuthorized: Neither is.
        """
        from hardpoint.cli.operator import require_operator

        require_operator(what)

    def secret_owner(self, user: str | None, system: bool) -> str:
        """Whose secrets `--user` and `--system` mean: for commands of plugins."""
        from hardpoint.cli.owners import owner_of

        return owner_of(user, system)

    def plugin_commands(self) -> Mapping[str, CommandRef]:
        """The commands that plugins add; none with a broken configuration, reported elsewhere."""
        if self._commands is None:
            from hardpoint.errors import HardpointError
            from hardpoint.plugins import PluginManager
            from hardpoint.registry import ToolRegistry

            try:
                manager = PluginManager(self.load_config(), ToolRegistry(protect=True))
                manager.load()
                self._commands = {name: owned.value for name, owned in manager.commands.items()}
            except HardpointError:
                self._commands = {}
        return self._commands


def _require_installed(names: set[str]) -> None:
    """A switch for a plugin that is not there would change nothing, and its user not know."""
    import click

    from hardpoint.plugins import find_entry_points
    from hardpoint.protected import install_hint

    installed = {entry_point.name for entry_point in find_entry_points()}
    for name in sorted(names - installed):
        raise click.BadParameter(
            f"no plugin {name!r} is installed; {install_hint(name, installed)}",
            param_hint="-p",
        )
