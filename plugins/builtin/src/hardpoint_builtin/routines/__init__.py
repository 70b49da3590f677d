"""Routines: prompts and tool calls that run on a schedule or on an event, as background jobs."""

from hardpoint_builtin.routines.engine import RoutineEngine
from hardpoint_builtin.routines.events import EventEmitTool
from hardpoint_builtin.routines.making import RoutineCreateTool, RoutineUpdateTool
from hardpoint_builtin.routines.tools import (
    RoutineDeleteTool,
    RoutineFireTool,
    RoutineHistoryTool,
    RoutineListTool,
)

__all__ = [
    "EventEmitTool",
    "RoutineCreateTool",
    "RoutineDeleteTool",
    "RoutineEngine",
    "RoutineFireTool",
    "RoutineHistoryTool",
    "RoutineListTool",
    "RoutineUpdateTool",
]
