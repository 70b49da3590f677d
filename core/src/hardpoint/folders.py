"""Where configuration, data, state and cache live on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

Kind = Literal["config", "data", "state", "cache"]


def folder(kind: Kind) -> Path:
    """The folder of one kind: `HARDPOINT_CONFIG_DIR` and so on, else the platform's place.

    `HARDPOINT_HOME` moves all four into one folder, for tests and for portable installations.
    """
    chosen = os.environ.get(f"HARDPOINT_{kind.upper()}_DIR")
    if chosen:
        return Path(chosen).expanduser()
    home = os.environ.get("HARDPOINT_HOME")
    if home:
        return Path(home).expanduser() / kind
    import platformdirs

    found = {
        "config": platformdirs.user_config_dir,
        "data": platformdirs.user_data_dir,
        "state": platformdirs.user_state_dir,
        "cache": platformdirs.user_cache_dir,
    }[kind]("hardpoint", appauthor=False)
    return Path(found)
