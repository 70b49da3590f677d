"""Routines and their runs in the store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

MIGRATIONS: Final = (
    """CREATE TABLE routines_routines (
        id TEXT NOT NULL PRIMARY KEY, user_id TEXT NOT NULL, name TEXT NOT NULL,
        description TEXT NOT NULL, prompt TEXT NOT NULL, kind TEXT NOT NULL, request TEXT NOT NULL,
        execution TEXT NOT NULL, delivery TEXT NOT NULL, cooldown REAL NOT NULL,
        enabled BIGINT NOT NULL, context TEXT NOT NULL, created REAL NOT NULL,
        next_fire REAL, last_fire REAL, runs BIGINT NOT NULL, UNIQUE (user_id, name)
    )""",
    "CREATE INDEX routines_routines_due ON routines_routines (enabled, next_fire)",
    """CREATE TABLE routines_runs (
        id TEXT NOT NULL PRIMARY KEY, routine_id TEXT NOT NULL, user_id TEXT NOT NULL,
        cause TEXT NOT NULL, fired REAL NOT NULL, job_id TEXT, problem TEXT
    )""",
    "CREATE INDEX routines_runs_routine ON routines_runs (routine_id, fired)",
)
KEPT_RUNS: Final = 500
_COLUMNS: Final = (
    "id, user_id, name, description, prompt, kind, request, execution, delivery, cooldown, enabled,"
    " context, created, next_fire, last_fire, runs"
)
_JSON: Final = ("request", "execution", "delivery", "context")


@attrs.frozen
class Routine:
    """A routine as it stands in the store."""

    id: str
    user_id: str
    name: str
    description: str
    prompt: str
    kind: str
    """`cron`, `manual`, `message_event` or `system_event`."""
    request: Mapping[str, Any]
    """What the kind needs: `schedule` and `timezone`; `pattern` and `channel`; `source`,
    `event_type` and `filters`."""
    execution: Mapping[str, Any]
    delivery: Mapping[str, Any]
    cooldown: float
    enabled: bool
    context: Mapping[str, Any]
    """The rights of whoever made it."""
    created: float
    next_fire: float | None = None
    last_fire: float | None = None
    runs: int = 0


@attrs.frozen
class Run:
    """One time that a routine fired."""

    id: str
    routine_id: str
    user_id: str
    cause: str
    fired: float
    job_id: str | None
    problem: str | None
    """Why no job could be made."""


class RoutineTables:
    def __init__(self, services: Any) -> None:
        self.tables = services.store("routines", MIGRATIONS, durable=True)

    def add(self, routine: Routine) -> bool:
        """Keep a routine; False when its user has one of this name."""
        fields = attrs.asdict(routine, recurse=False)
        values = {name: _value(name, fields[name]) for name in _names()}
        marks = ", ".join(f":{name}" for name in _names())
        changed = self.tables.execute(
            f"INSERT INTO routines_routines ({_COLUMNS}) VALUES ({marks})"  # noqa: S608
            " ON CONFLICT (user_id, name) DO NOTHING",
            values,
        )
        return bool(changed == 1)

    def change(self, routine: Routine) -> None:
        """Keep what may change of a routine."""
        self.tables.execute(
            "UPDATE routines_routines SET description = ?, prompt = ?, request = ?, enabled = ?,"
            " next_fire = ? WHERE id = ?",
            (
                routine.description,
                routine.prompt,
                json.dumps(dict(routine.request)),
                int(routine.enabled),
                routine.next_fire,
                routine.id,
            ),
        )

    def delete(self, user_id: str, name: str) -> bool:
        with self.tables.transaction() as transaction:
            transaction.execute(
                "DELETE FROM routines_runs WHERE routine_id IN ("
                " SELECT id FROM routines_routines WHERE user_id = ? AND name = ?)",
                (user_id, name),
            )
            gone = transaction.execute(
                "DELETE FROM routines_routines WHERE user_id = ? AND name = ?", (user_id, name)
            )
        return bool(gone == 1)

    def get(self, user_id: str, name: str) -> Routine | None:
        rows = self.tables.query(
            f"SELECT {_COLUMNS} FROM routines_routines WHERE user_id = ? AND name = ?",  # noqa: S608
            (user_id, name),
        )
        return _routine(rows[0]) if rows else None

    def by_id(self, routine_id: str) -> Routine | None:
        rows = self.tables.query(
            f"SELECT {_COLUMNS} FROM routines_routines WHERE id = ?",  # noqa: S608
            (routine_id,),
        )
        return _routine(rows[0]) if rows else None

    def of_user(self, user_id: str, kind: str | None = None) -> Sequence[Routine]:
        rows = self.tables.query(
            f"SELECT {_COLUMNS} FROM routines_routines WHERE user_id = ? ORDER BY name",  # noqa: S608
            (user_id,),
        )
        return [each for each in map(_routine, rows) if kind in (None, each.kind)]

    def due(self, now: float) -> Sequence[Routine]:
        rows = self.tables.query(
            f"SELECT {_COLUMNS} FROM routines_routines"  # noqa: S608
            " WHERE enabled = 1 AND next_fire <= ? ORDER BY next_fire LIMIT 100",
            (now,),
        )
        return [_routine(row) for row in rows]

    def soonest(self) -> float | None:
        rows = self.tables.query(
            "SELECT MIN(next_fire) AS soonest FROM routines_routines WHERE enabled = 1"
        )
        soonest: float | None = rows[0]["soonest"]
        return soonest

    def take(
        self, routine: Routine, now: float, next_fire: float | None, *, cooled: bool = False
    ) -> bool:
        """Win the right to fire it now against every other process.

        Args:
            routine: As it was read.
            now: The time.
            next_fire: When it is due again.
            cooled: Also refuse while it cools down.
        """
        changed = self.tables.execute(
            "UPDATE routines_routines SET next_fire = ?, last_fire = ?, runs = runs + 1"
            " WHERE id = ? AND enabled = 1 AND runs = ?"
            " AND (? = 0 OR last_fire IS NULL OR last_fire + cooldown <= ?)",
            (next_fire, now, routine.id, routine.runs, int(cooled), now),
        )
        return bool(changed == 1)

    # runs --------------------------------------------------------------------------------------

    def add_run(self, run: Run) -> None:
        with self.tables.transaction() as transaction:
            transaction.execute(
                "INSERT INTO routines_runs (id, routine_id, user_id, cause, fired, job_id, problem)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                attrs.astuple(run),
            )
            transaction.execute(
                "DELETE FROM routines_runs WHERE routine_id = ? AND id NOT IN (SELECT id FROM"
                " routines_runs WHERE routine_id = ? ORDER BY fired DESC, id LIMIT ?)",
                (run.routine_id, run.routine_id, KEPT_RUNS),
            )

    def runs(self, routine_id: str, limit: int) -> Sequence[Run]:
        """The latest runs, the newest first."""
        rows = self.tables.query(
            "SELECT id, routine_id, user_id, cause, fired, job_id, problem FROM routines_runs"
            " WHERE routine_id = ? ORDER BY fired DESC, id LIMIT ?",
            (routine_id, limit),
        )
        return [Run(**row) for row in rows]


def _names() -> list[str]:
    return [name.strip() for name in _COLUMNS.split(",")]


def _value(name: str, value: Any) -> Any:
    if name in _JSON:
        return json.dumps(dict(value))
    return int(value) if name == "enabled" else value


def _routine(row: Mapping[str, Any]) -> Routine:
    fields = dict(row)
    for name in _JSON:
        fields[name] = json.loads(fields[name])
    fields["enabled"] = bool(fields["enabled"])
    return Routine(**fields)
