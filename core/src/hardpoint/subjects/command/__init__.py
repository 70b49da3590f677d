"""Understand a command line before it runs, and say how strict to be with it."""

from hardpoint.subjects.command.decide import CommandAnswer, CommandReason, decide_command
from hardpoint.subjects.command.judge import judge_command
from hardpoint.subjects.command.model import UNRESOLVED, CommandVerdict, Segment, Unresolved
from hardpoint.subjects.command.patterns import CommandPattern

__all__ = [
    "UNRESOLVED",
    "CommandAnswer",
    "CommandPattern",
    "CommandReason",
    "CommandVerdict",
    "Segment",
    "Unresolved",
    "decide_command",
    "judge_command",
]
