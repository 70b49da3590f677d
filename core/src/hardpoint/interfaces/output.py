"""What looks at outputs and at records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from hardpoint.calls import ToolCall
from hardpoint.context import JobContext
from hardpoint.parts import ToolOutput


class OutputFilter(ABC):
    """Changes an output after the leak scan and before the cap. An exception fails the call."""

    @abstractmethod
    async def apply(
        self, output: ToolOutput, call: ToolCall, context: JobContext
    ) -> ToolOutput: ...


class AuditSink(ABC):
    """Receives each audit record too, redacted. Quick, and without a say in the call."""

    @abstractmethod
    def write(self, record: Mapping[str, Any]) -> None: ...
