"""Jobs in the store: every change is one transaction, and a running job belongs to one owner.

A write for a running job names its owner, so that a process that lost its lease changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from hardpoint.jobs.model import Job, JobEvent, PlannedCall, Prompt
from hardpoint.jobs.owner import has_died

MAX_EVENTS: Final = 10_000
"""Of one job; what comes after is dropped, the last ones excepted."""
FINAL_EVENTS: Final = frozenset(("completed", "failed", "cancelled"))

MIGRATIONS: Final = (
    """CREATE TABLE jobs_jobs (
        id TEXT NOT NULL PRIMARY KEY, user_id TEXT NOT NULL, session_id TEXT NOT NULL,
        title TEXT NOT NULL, description TEXT NOT NULL, state TEXT NOT NULL, worker TEXT,
        calls TEXT NOT NULL, input TEXT NOT NULL, keep_going BIGINT NOT NULL,
        context TEXT NOT NULL, depth BIGINT NOT NULL,
        created REAL NOT NULL, started REAL, finished REAL,
        done REAL NOT NULL, total REAL, message TEXT NOT NULL,
        result TEXT, error TEXT, cost TEXT, cancelling BIGINT NOT NULL,
        owner TEXT, lease_until REAL, events BIGINT NOT NULL
    )""",
    "CREATE INDEX jobs_jobs_state ON jobs_jobs (state, created)",
    "CREATE INDEX jobs_jobs_user ON jobs_jobs (user_id, created)",
    """CREATE TABLE jobs_events (
        job_id TEXT NOT NULL, number BIGINT NOT NULL, user_id TEXT NOT NULL, at REAL NOT NULL,
        kind TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (job_id, number)
    )""",
    """CREATE TABLE jobs_prompts (
        job_id TEXT NOT NULL, number BIGINT NOT NULL, user_id TEXT NOT NULL,
        content TEXT NOT NULL, done BIGINT NOT NULL, taken BIGINT NOT NULL,
        PRIMARY KEY (job_id, number)
    )""",
    "ALTER TABLE jobs_jobs ADD COLUMN approval TEXT",
    "ALTER TABLE jobs_jobs ADD COLUMN project_dir TEXT",
)
_MINE: Final = "owner = ? AND state IN ('in_progress', 'waiting')"
"""A job that runs, or stands still in a worker that waits for an approval."""
_COLUMNS: Final = (
    "id, user_id, session_id, title, description, state, worker, calls, input, keep_going, context,"
    " depth, created, started, finished, done, total, message, result, error, cost, cancelling,"
    " owner, lease_until, approval, project_dir"
)


class JobTables:
    """The rows. Nothing here waits for anything but the database."""

    def __init__(self, services: Any) -> None:
        self.tables = services.store("jobs", MIGRATIONS)
        # A job that was accepted survives a loss of power; its progress need not.
        self._durable = services.store("jobs", MIGRATIONS, durable=True)

    # making and reading ------------------------------------------------------------------------

    def add(self, job: Job) -> None:
        values = {
            "id": job.id,
            "user_id": job.user_id,
            "session_id": job.session_id,
            "title": job.title,
            "description": job.description,
            "worker": job.worker,
            "calls": _json([{"tool": c.tool, "params": dict(c.params)} for c in job.calls]),
            "input": _json(job.input),
            "keep_going": int(job.keep_going),
            "context": _json(dict(job.context)),
            "depth": job.depth,
            "created": job.created,
            "total": job.total,
            "project_dir": job.project_dir,
        }
        with self._durable.transaction() as transaction:
            transaction.execute(
                "INSERT INTO jobs_jobs (id, user_id, session_id, title, description, state, worker,"
                " calls, input, keep_going, context, depth, created, done, total, message,"
                " cancelling, events, project_dir) VALUES (:id, :user_id, :session_id, :title,"
                " :description, 'pending', :worker, :calls, :input, :keep_going, :context, :depth,"
                " :created, 0, :total, '', 0, 0, :project_dir)",
                values,
            )
            _add_event(transaction, job.id, job.user_id, job.created, "created", {})

    def get(self, job_id: str) -> Job | None:
        rows = self.tables.query(f"SELECT {_COLUMNS} FROM jobs_jobs WHERE id = ?", (job_id,))  # noqa: S608
        return _job(rows[0]) if rows else None

    def matching(self, user_id: str | None, prefix: str, limit: int = 5) -> Sequence[str]:
        """The ids that begin so, of one user or, for the operator, of all."""
        rows = self.tables.query(
            "SELECT id FROM jobs_jobs WHERE substr(id, 1, ?) = ? AND (user_id = ? OR ? = 1)"
            " ORDER BY id LIMIT ?",
            (len(prefix), prefix, user_id or "", int(user_id is None), limit),
        )
        return [row["id"] for row in rows]

    def list(
        self, user_id: str | None, states: Collection[str] = (), limit: int = 100
    ) -> Sequence[Job]:
        """Jobs, the newest first."""
        marks = ", ".join("?" * len(states))
        rows = self.tables.query(
            f"SELECT {_COLUMNS} FROM jobs_jobs WHERE (user_id = ? OR ? = 1)"  # noqa: S608
            + (f" AND state IN ({marks})" if states else "")
            + " ORDER BY created DESC, id LIMIT ?",
            (user_id or "", int(user_id is None), *states, limit),
        )
        return [_job(row) for row in rows]

    def counts(self, user_id: str | None) -> dict[str, int]:
        """How many jobs there are in each state."""
        rows = self.tables.query(
            "SELECT state, COUNT(*) AS n FROM jobs_jobs WHERE (user_id = ? OR ? = 1)"
            " GROUP BY state",
            (user_id or "", int(user_id is None)),
        )
        return {row["state"]: row["n"] for row in rows}

    # running -----------------------------------------------------------------------------------

    def claim(
        self,
        owner: str,
        workers: Collection[str],
        now: float,
        lease: float,
        *,
        per_user: int,
        job_id: str | None = None,
    ) -> Job | None:
        """Take the oldest pending job that can run here; None when there is none.

        Args:
            owner: Who takes it.
            workers: The workers that are known here.
            now: The time.
            lease: Seconds until it counts as abandoned.
            per_user: How many jobs of one user may run at one time, everywhere.
            job_id: Only this one, whatever else its user has running.
        """
        marks = ", ".join("?" * len(workers)) or "NULL"
        with self.tables.transaction() as transaction:
            rows = transaction.query(
                "SELECT j.id, j.user_id, j.started, j.approval FROM jobs_jobs j"  # noqa: S608
                f" WHERE j.state = 'pending' AND (j.worker IS NULL OR j.worker IN ({marks}))"
                " AND (j.id = ? OR (? = 1 AND j.user_id NOT IN ("
                "   SELECT user_id FROM jobs_jobs WHERE state = 'in_progress'"
                "   GROUP BY user_id HAVING COUNT(*) >= ?)))"
                " ORDER BY j.created, j.id LIMIT 1",
                (*workers, job_id or "", int(job_id is None), per_user),
            )
            if not rows:
                return None
            found, user_id, awaited = rows[0]["id"], rows[0]["user_id"], rows[0]["approval"]
            transaction.execute(
                "UPDATE jobs_jobs SET state = 'in_progress', started = COALESCE(started, ?),"
                " owner = ?, lease_until = ?, approval = NULL WHERE id = ? AND state = 'pending'",
                (now, owner, now + lease, found),
            )
            kind = "started" if rows[0]["started"] is None else "resumed"
            _add_event(transaction, found, user_id, now, kind, {})
            rows = transaction.query(f"SELECT {_COLUMNS} FROM jobs_jobs WHERE id = ?", (found,))  # noqa: S608
        return _job({**rows[0], "approval": awaited})

    def renew(self, owner: str, until: float) -> None:
        self.tables.execute(
            f"UPDATE jobs_jobs SET lease_until = ? WHERE {_MINE}",  # noqa: S608
            (until, owner),
        )

    # waiting for an approval -------------------------------------------------------------------

    def park(
        self, job: Job, approval: str, *, now: float, done: float, result: Any, cost: Decimal | None
    ) -> bool:
        """Lay a running job aside until a request is answered; False when it must end instead."""
        with self._durable.transaction() as transaction:
            changed = transaction.execute(
                "UPDATE jobs_jobs SET state = 'waiting', approval = ?, done = ?, result = ?,"
                " cost = ?, owner = NULL, lease_until = NULL"
                " WHERE id = ? AND owner = ? AND state = 'in_progress' AND cancelling = 0",
                (
                    approval,
                    done,
                    _json(result),
                    None if cost is None else str(cost),
                    job.id,
                    job.owner,
                ),
            )
            if changed == 1:
                data = {"approval_id": approval}
                _add_event(transaction, job.id, job.user_id, now, "waiting", data)
        return bool(changed == 1)

    def hold(self, job: Job, approval: str | None, *, now: float) -> bool:
        """Say that a worker waits for a request, or for None any more; False as for `event`."""
        kind, data = ("resumed", {}) if approval is None else ("waiting", {"approval_id": approval})
        with self.tables.transaction() as transaction:
            changed = transaction.execute(
                f"UPDATE jobs_jobs SET state = ?, approval = ? WHERE id = ? AND {_MINE}",  # noqa: S608
                ("in_progress" if approval is None else "waiting", approval, job.id, job.owner),
            )
            if changed == 1:
                _add_event(transaction, job.id, job.user_id, now, kind, data)
        return bool(changed == 1)

    def parked(self) -> Sequence[tuple[str, str]]:
        """The jobs that were laid aside, each with the request that it waits for."""
        rows = self.tables.query(
            "SELECT id, approval FROM jobs_jobs WHERE state = 'waiting' AND owner IS NULL"
        )
        return [(row["id"], row["approval"]) for row in rows]

    def unpark(self, job_id: str, approval: str) -> bool:
        """Let a job go on: its request was answered, or cannot be any more."""
        changed = self.tables.execute(
            "UPDATE jobs_jobs SET state = 'pending'"
            " WHERE id = ? AND approval = ? AND state = 'waiting' AND owner IS NULL",
            (job_id, approval),
        )
        return bool(changed == 1)

    def to_cancel(self, owner: str) -> Sequence[str]:
        """The running jobs of an owner that somebody wants to end."""
        rows = self.tables.query(
            f"SELECT id FROM jobs_jobs WHERE {_MINE} AND cancelling = 1",  # noqa: S608
            (owner,),
        )
        return [row["id"] for row in rows]

    def progress(
        self, job: Job, done: float, total: float | None, message: str, *, now: float
    ) -> bool:
        """Say how far a job is; False when the job is no longer this owner's."""
        with self.tables.transaction() as transaction:
            changed = transaction.execute(
                f"UPDATE jobs_jobs SET done = ?, total = ?, message = ? WHERE id = ? AND {_MINE}",  # noqa: S608
                (done, total, message[:500], job.id, job.owner),
            )
            if changed == 1:
                data = {"done": done, "total": total, "message": message[:500]}
                _add_event(transaction, job.id, job.user_id, now, "progress", data)
        return bool(changed == 1)

    def event(self, job: Job, kind: str, data: Mapping[str, Any], *, now: float) -> bool:
        """Write down what happened; False when the job is no longer this owner's."""
        with self.tables.transaction() as transaction:
            mine = transaction.query(
                f"SELECT 1 AS mine FROM jobs_jobs WHERE id = ? AND {_MINE}",  # noqa: S608
                (job.id, job.owner),
            )
            if mine:
                _add_event(transaction, job.id, job.user_id, now, kind, data)
        return bool(mine)

    def finish(
        self,
        job: Job,
        state: str,
        *,
        now: float,
        result: Any = None,
        error: Mapping[str, Any] | None = None,
        cost: Decimal | None = None,
        done: float | None = None,
    ) -> bool:
        """End a running job; False when it is no longer this owner's."""
        with self._durable.transaction() as transaction:
            changed = transaction.execute(
                "UPDATE jobs_jobs SET state = ?, finished = ?, result = ?, error = ?, cost = ?,"  # noqa: S608
                " done = COALESCE(?, done), owner = NULL, lease_until = NULL, approval = NULL"
                f" WHERE id = ? AND {_MINE}",
                (
                    state,
                    now,
                    _json(result),
                    None if error is None else _json(dict(error)),
                    None if cost is None else str(cost),
                    done,
                    job.id,
                    job.owner,
                ),
            )
            if changed == 1:
                data = {} if error is None else {"error": dict(error)}
                _add_event(transaction, job.id, job.user_id, now, state, data)
        return bool(changed == 1)

    def recover(self, now: float, own: str = "") -> Sequence[str]:
        """Mark the jobs failed whose process has died or no longer renews its lease."""
        rows = self.tables.query(
            f"SELECT {_COLUMNS} FROM jobs_jobs WHERE owner <> ?"  # noqa: S608
            " AND state IN ('in_progress', 'waiting')",
            (own,),
        )
        lost = []
        for job in map(_job, rows):
            expired = job.lease_until is not None and job.lease_until < now
            if expired or has_died(job.owner):
                calls = f" after {job.done:g} of {job.total:g} calls" if job.calls else ""
                error = {
                    "kind": "interrupted",
                    "message": f"the process that ran the job ended{calls}; its events say what was"
                    " done, and nothing is done again by itself",
                }
                if self.finish(job, "failed", now=now, error=error, result=job.result):
                    lost.append(job.id)
        return lost

    def cancel(self, job: Job, now: float) -> str:
        """End a job that nobody has, or ask the owner of one to end it; the state it then has."""
        with self._durable.transaction() as transaction:
            if transaction.execute(
                "UPDATE jobs_jobs SET state = 'cancelled', finished = ?, approval = NULL"
                " WHERE id = ? AND state IN ('pending', 'waiting') AND owner IS NULL",
                (now, job.id),
            ):
                _add_event(transaction, job.id, job.user_id, now, "cancelled", {})
                return "cancelled"
            if transaction.execute(
                "UPDATE jobs_jobs SET cancelling = 1"
                " WHERE id = ? AND state IN ('in_progress', 'waiting') AND cancelling = 0",
                (job.id,),
            ):
                _add_event(transaction, job.id, job.user_id, now, "cancelling", {})
            rows = transaction.query("SELECT state FROM jobs_jobs WHERE id = ?", (job.id,))
        return str(rows[0]["state"])

    def keep_result(self, job: Job, result: Any) -> None:
        """What a running job has so far, in case it does not come to its end."""
        self.tables.execute(
            f"UPDATE jobs_jobs SET result = ? WHERE id = ? AND {_MINE}",  # noqa: S608
            (_json(result), job.id, job.owner),
        )

    # events and prompts ------------------------------------------------------------------------

    def events(self, job_id: str, limit: int, after: int = 0) -> Sequence[JobEvent]:
        """The latest events, oldest first."""
        rows = self.tables.query(
            "SELECT number, at, kind, data FROM jobs_events WHERE job_id = ? AND number > ?"
            " ORDER BY number DESC LIMIT ?",
            (job_id, after, limit),
        )
        return [JobEvent(**{**row, "data": json.loads(row["data"])}) for row in reversed(rows)]

    def add_prompt(self, job: Job, prompt: Prompt, now: float) -> bool:
        """Queue something for a worker; False when the job has ended or takes nothing more."""
        with self._durable.transaction() as transaction:
            rows = transaction.query(
                "SELECT state, (SELECT COALESCE(MAX(number), 0) FROM jobs_prompts WHERE job_id = ?)"
                " AS number, (SELECT COALESCE(MAX(done), 0) FROM jobs_prompts WHERE job_id = ?)"
                " AS closed FROM jobs_jobs WHERE id = ?",
                (job.id, job.id, job.id),
            )
            if rows[0]["state"] not in ("pending", "in_progress", "waiting") or rows[0]["closed"]:
                return False
            transaction.execute(
                "INSERT INTO jobs_prompts (job_id, number, user_id, content, done, taken)"
                " VALUES (?, ?, ?, ?, ?, 0)",
                (job.id, rows[0]["number"] + 1, job.user_id, prompt.content, int(prompt.done)),
            )
            data = {"content": prompt.content[:500], "done": prompt.done}
            _add_event(transaction, job.id, job.user_id, now, "prompt", data)
        return True

    def take_prompt(self, job_id: str) -> Prompt | None:
        """The next prompt that nobody has taken."""
        with self.tables.transaction() as transaction:
            rows = transaction.query(
                "SELECT number, content, done FROM jobs_prompts WHERE job_id = ? AND taken = 0"
                " ORDER BY number LIMIT 1",
                (job_id,),
            )
            if not rows:
                return None
            transaction.execute(
                "UPDATE jobs_prompts SET taken = 1 WHERE job_id = ? AND number = ?",
                (job_id, rows[0]["number"]),
            )
        return Prompt(rows[0]["content"], bool(rows[0]["done"]))

    def prune(self, before: float) -> int:
        """Delete jobs that ended before a time, with all that belongs to them."""
        ended = "SELECT id FROM jobs_jobs WHERE finished IS NOT NULL AND finished < ?"
        with self.tables.transaction() as transaction:
            for table in ("jobs_events", "jobs_prompts"):
                transaction.execute(f"DELETE FROM {table} WHERE job_id IN ({ended})", (before,))  # noqa: S608
            return int(
                transaction.execute(
                    "DELETE FROM jobs_jobs WHERE finished IS NOT NULL AND finished < ?", (before,)
                )
            )


def _add_event(
    transaction: Any, job_id: str, user_id: str, at: float, kind: str, data: Mapping[str, Any]
) -> None:
    rows = transaction.query("SELECT events FROM jobs_jobs WHERE id = ?", (job_id,))
    number = rows[0]["events"] + 1
    if number > MAX_EVENTS and kind not in FINAL_EVENTS:
        return
    transaction.execute("UPDATE jobs_jobs SET events = ? WHERE id = ?", (number, job_id))
    transaction.execute(
        "INSERT INTO jobs_events (job_id, number, user_id, at, kind, data)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (job_id, number, user_id, at, kind, _json(dict(data))),
    )


def _json(value: Any) -> str:
    # ASCII, so that neither NUL nor half a character meets the database.
    return json.dumps(value, default=str)


def _job(row: Mapping[str, Any]) -> Job:
    fields = dict(row)
    for name in ("calls", "input", "context", "result", "error"):
        fields[name] = None if fields[name] is None else json.loads(fields[name])
    fields["calls"] = tuple(PlannedCall(**call) for call in fields["calls"])
    fields["keep_going"] = bool(fields["keep_going"])
    fields["cancelling"] = bool(fields["cancelling"])
    fields["cost"] = None if fields["cost"] is None else Decimal(fields["cost"])
    return Job(**fields)
