"""`hardpoint sandbox`: look at sandboxes, build their image, step into one, clean up."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import hardpoint
from hardpoint.errors import ConfigError, DomainUnavailable, HardpointError, InvalidParameters
from hardpoint_container.config import IMAGE, ContainerConfig

if TYPE_CHECKING:
    from hardpoint_container.podman import PodmanEngine

T = TypeVar("T")


@click.group()
def sandbox() -> None:
    """Sandboxes of the container tools."""


@sandbox.command()
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def status(state: Any, as_json: bool) -> None:
    """The engine, the image and the sandboxes that run now."""
    found = _run(_status(_config(state)))
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for name in ("engine", "version", "image", "image_id"):
        click.echo(f"{name:9} {found[name]}")
    for each in found["sandboxes"]:
        click.echo(f"  {each['name']}  {each['state']}  {each['workspace']}")
    if not found["sandboxes"]:
        click.echo("  no sandbox runs")
    if found["problem"]:
        click.echo(f"problem   {found['problem']}\n          {found['hint']}")


async def _status(config: ContainerConfig) -> dict[str, Any]:
    found: dict[str, Any] = {
        "engine": config.engine,
        "version": "",
        "image": config.image,
        "image_id": "",
        "sandboxes": [],
        "problem": "",
        "hint": "",
    }
    if config.engine != "podman":
        return found
    engine = _podman(config)
    try:
        _, found["version"], _ = await engine.run("--version")
        found["version"] = found["version"].strip()
        found["image_id"] = await engine.inspect_image() or "missing"
        found["sandboxes"] = [
            {
                "name": container["Names"][0],
                "state": container.get("State", ""),
                "workspace": (container.get("Labels") or {}).get("hardpoint.workspace", ""),
            }
            for container in await engine.containers()
        ]
        if found["image_id"] == "missing":
            found["problem"] = f"the image {config.image!r} is missing"
            found["hint"] = "run: hardpoint sandbox build"
    except DomainUnavailable as error:
        found["problem"], found["hint"] = error.message, error.hint or ""
    return found


@sandbox.command()
@click.option("--file", "recipe", type=click.Path(path_type=Path), help="Your own Containerfile.")
@click.option("--base", is_flag=True, help="From the pinned public base image; needs the network.")
@click.option("--packages", is_flag=True, help="From this machine's Debian packages; no network.")
@click.option("--print", "show", is_flag=True, help="Print the Containerfile and build nothing.")
@click.pass_obj
def build(state: Any, recipe: Path | None, base: bool, packages: bool, show: bool) -> None:
    """Build the image that sandboxes run.

    Without options: from this machine's packages where that is possible, else from the base.
    """
    from hardpoint_container import image

    if sum((recipe is not None, base, packages)) > 1:
        raise InvalidParameters("--file, --base and --packages exclude each other")
    config = _config(state)
    if recipe is None and config.image != IMAGE:
        raise InvalidParameters(
            f"the configured image is {config.image!r}", hint="give --file to build that one"
        )
    local = packages or (not base and image.can_build_from_packages())
    if show:
        click.echo(
            recipe.read_text() if recipe else image.containerfile("packages" if local else "base")
        )
        return
    if local:
        for program, package in image.missing_programs().items():
            click.echo(f"the image will lack {program}: apt install {package}", err=True)
    click.echo(f"building {config.image} …", err=True)
    started = time.perf_counter()
    engine = _podman(config)
    if recipe is not None:
        made = _run(image.build_from_containerfile(engine, recipe))
    else:
        make = image.build_from_packages if local else image.build_from_base
        made = _run(make(engine))
    click.echo(f"{config.image} is {made} ({time.perf_counter() - started:.1f} s)")


@sandbox.command()
@click.option("--workspace", type=click.Path(path_type=Path), default=Path())
@click.pass_obj
def shell(state: Any, workspace: Path) -> None:
    """A shell in a sandbox of its own, with the limits of the configuration."""
    from hardpoint_container.engine import SandboxSpec
    from hardpoint_container.session import new_name
    from hardpoint_container.workspace import survey

    state.require_operator("sandbox shell")
    config = _config(state)
    ground = survey(workspace, config)
    engine = _podman(config)
    spec = SandboxSpec(new_name(), config, ground.path, ground.uid, ground.gid)
    launch = _run(engine.launch(spec, ["sh"]))
    command = [*launch.command[:2], "--tty", *launch.command[2:]]
    ended = subprocess.run(command, env=launch.environment, cwd=launch.folder, check=False)
    sys.exit(ended.returncode)


@sandbox.command()
@click.option("--forget", is_flag=True, help="Begin anew.")
def egress(forget: bool) -> None:
    """The rules that sandboxes in audit mode would have needed, ready for the configuration."""
    from hardpoint_container.egress_rules import proposals_file, read_proposals
    from hardpoint_container.workspace import data_folder

    path = proposals_file(data_folder())
    for rule in read_proposals(path):
        click.echo("[[plugin.container.egress.allow]]")
        click.echo(f"host = {json.dumps(rule['host'])}\nmethods = {json.dumps(rule['methods'])}\n")
    if forget:
        path.unlink(missing_ok=True)


@sandbox.command()
@click.option("--all", "everything", is_flag=True, help="Also those of running processes.")
@click.option("--image", "with_image", is_flag=True, help="Also the image.")
@click.pass_obj
def clean(state: Any, everything: bool, with_image: bool) -> None:
    """Remove sandboxes that ended processes of Hardpoint left behind."""
    config = _config(state)
    engine = _podman(config)
    for name in _run(_clean(engine, everything)):
        click.echo(f"removed {name}")
    if with_image:
        _run(engine.run("rmi", "--force", config.image))
        click.echo(f"removed {config.image}")


async def _clean(engine: PodmanEngine, everything: bool) -> list[str]:
    if not everything:
        return await engine.reap()
    names = [str(container["Names"][0]) for container in await engine.containers()]
    for name in names:
        await engine.remove(name)
    return names


def _podman(config: ContainerConfig) -> PodmanEngine:
    from hardpoint_container.podman import PodmanEngine
    from hardpoint_container.workspace import data_folder

    if config.engine != "podman":
        raise ConfigError(
            f"[plugin.container] engine is {config.engine!r}; there is nothing to build or clean"
        )
    return PodmanEngine(config, data_folder())


def _config(state: Any) -> ContainerConfig:
    table = dict(state.load_config().plugin.get("container", {}))
    return hardpoint.structure(table, ContainerConfig, "plugin.container")


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(work)
    except HardpointError:
        raise
    except OSError as error:
        raise DomainUnavailable(str(error)) from error
