"""Budgets of calls, seconds, bytes, tokens and money: reserve before a call, settle after it."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import attrs

from hardpoint.calls import CallOutcome
from hardpoint.config import Budget, BudgetConfig
from hardpoint.context import JobContext
from hardpoint.errors import BudgetExceeded, ToolError
from hardpoint.interfaces import Clock

if TYPE_CHECKING:
    from hardpoint.store import Store, Transaction

# Money is counted in whole millionths, so that sums are exact.
MICRO: Final = 1_000_000
DIMENSIONS: Final = ("calls", "seconds", "bytes", "tokens", "money")

MIGRATIONS: Final = (
    """CREATE TABLE budgets_accounts (
        account TEXT NOT NULL, dimension TEXT NOT NULL, used BIGINT NOT NULL,
        reserved BIGINT NOT NULL, PRIMARY KEY (account, dimension)
    )""",
    """CREATE TABLE budgets_reservations (
        id TEXT NOT NULL PRIMARY KEY, user_id TEXT NOT NULL, accounts TEXT NOT NULL,
        amounts TEXT NOT NULL, ends REAL NOT NULL
    )""",
    "CREATE INDEX budgets_reservations_by_end ON budgets_reservations (ends)",
)

GRACE: Final = 300.0
"""Seconds beyond its time-out after which a call that did not settle is taken for dead."""
MOST: Final = 2**62
"""No sum leaves the range of the database's whole numbers."""


@attrs.frozen
class Reservation:
    """What a running call holds back in its accounts."""

    id: str
    accounts: tuple[str, ...]
    amounts: Mapping[str, int]


@attrs.frozen
class Account:
    """One budget and how much of it is gone."""

    name: str
    dimension: str
    limit: int
    used: int
    reserved: int
    """Limit, used and reserved in whole units; money and seconds in millionths."""

    def shown(self) -> str:
        """What is gone, as people read it."""
        used, limit, held = (
            _shown(self.dimension, n) for n in (self.used, self.limit, self.reserved)
        )
        return f"{used} of {limit}" + (f", {held} held back" if self.reserved else "")


class Budgets:
    """The ledger of one store, shared by all processes on it."""

    def __init__(self, config: BudgetConfig, store: Store, clock: Clock) -> None:
        self._config = config
        self._tables = store.namespace("budgets", MIGRATIONS)
        self._clock = clock

    async def reserve(
        self, context: JobContext, tool: str, cost: Decimal | None, *, seconds: float
    ) -> Reservation:
        """Hold back one call and its estimated cost in every account, or in none.

        Args:
            context: Who calls.
            tool: What is called, for messages.
            cost: The estimate.
            seconds: How long the call may run. One that has not settled long after that was killed;
                what it may have used up is booked.

        Raises:
            BudgetExceeded: An account has no room; the message names it.
            ToolError: The estimate is no amount.
        """
        money = _micro(cost)
        if money is None:
            raise ToolError(f"{tool!r} estimates that it costs {cost}, which is no amount of money")
        amounts = {"calls": 1, "seconds": 0, "bytes": 0, "tokens": 0, "money": money}
        work = asyncio.ensure_future(
            self._tables.run(self._reserve, context, tool, amounts, seconds)
        )
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # The database may already have it; nobody else would give it back.
            with suppress(BudgetExceeded):
                self.cancel(await work, began=False)
            raise

    def _reserve(
        self, context: JobContext, tool: str, amounts: Mapping[str, int], seconds: float
    ) -> Reservation:
        accounts = list(self._accounts(context))
        names = tuple(name for name, _ in accounts)
        now = self._clock.now()
        with self._tables.transaction() as transaction:
            self._book_the_dead(transaction, now)
            for name, budget in accounts:
                for account in self._state(transaction, name, budget):
                    wanted = amounts[account.dimension]
                    taken = account.used + account.reserved
                    full = taken >= account.limit if wanted == 0 else taken + wanted > account.limit
                    if full:
                        raise self._exceeded(account, tool, wanted)
            made = Reservation("rs_" + secrets.token_hex(8), names, dict(amounts))
            transaction.execute(
                "INSERT INTO budgets_reservations (id, user_id, accounts, amounts, ends)"
                " VALUES (?, ?, ?, ?, ?)",
                (
                    made.id,
                    context.user_id,
                    json.dumps(names),
                    json.dumps(made.amounts),
                    now + seconds + GRACE,
                ),
            )
            _move(transaction, made, reserved=1)
        return made

    def _book_the_dead(self, transaction: Transaction, now: float) -> None:
        """A call that was killed may have used what it held back: it is booked, not given back."""
        rows = transaction.query(
            "SELECT id, accounts, amounts FROM budgets_reservations WHERE ends <= ?", (now,)
        )
        for row in rows:
            dead = Reservation(
                row["id"], tuple(json.loads(row["accounts"])), json.loads(row["amounts"])
            )
            _move(transaction, dead, reserved=-1, used=dead.amounts)
            transaction.execute("DELETE FROM budgets_reservations WHERE id = ?", (dead.id,))

    async def settle(self, reservation: Reservation, outcome: CallOutcome, *, began: bool) -> None:
        """Replace what was held back by what was used; a call that never began is refunded."""
        used = _used(outcome, reservation.amounts) if began else {}
        await self._tables.run(self._replace, reservation, used)

    def cancel(self, reservation: Reservation, *, began: bool) -> None:
        """Settle a call that was cancelled; one that had begun may have used what it held back."""
        self._replace(reservation, reservation.amounts if began else {})

    def _replace(self, reservation: Reservation, used: Mapping[str, int]) -> None:
        with self._tables.transaction() as transaction:
            held = transaction.execute(
                "DELETE FROM budgets_reservations WHERE id = ?", (reservation.id,)
            )
            if held:
                _move(transaction, reservation, reserved=-1, used=used)
                return
            # It was taken for dead and booked; what it used after all takes the place of that.
            late = {
                dimension: used.get(dimension, 0) - reservation.amounts.get(dimension, 0)
                for dimension in DIMENSIONS
            }
            _move(transaction, reservation, reserved=0, used=late)

    def list(self, context: JobContext) -> Sequence[Account]:
        """The accounts that a caller's calls are booked in."""
        found: list[Account] = []
        with self._tables.transaction() as transaction:
            for name, budget in self._accounts(context):
                found += self._state(transaction, name, budget)
        return found

    def _accounts(self, context: JobContext) -> Iterator[tuple[str, Budget]]:
        user, session = context.user_id, context.session_id
        today = datetime.fromtimestamp(self._clock.now(), UTC).date().isoformat()
        yield "session " + json.dumps([user, session]), self._config.session
        yield "user " + json.dumps([user]), self._config.user
        yield f"day {today} " + json.dumps([user]), self._config.day

    def _state(self, transaction: Transaction, name: str, budget: Budget) -> Sequence[Account]:
        limits = {
            dimension: limit
            for dimension in DIMENSIONS
            if (limit := _limit(budget, dimension)) is not None
        }
        if not limits:
            return ()
        rows = {
            row["dimension"]: row
            for row in transaction.query(
                "SELECT dimension, used, reserved FROM budgets_accounts WHERE account = ?", (name,)
            )
        }
        return [
            Account(
                name,
                dimension,
                limit,
                int(rows[dimension]["used"]) if dimension in rows else 0,
                int(rows[dimension]["reserved"]) if dimension in rows else 0,
            )
            for dimension, limit in limits.items()
        ]

    def _exceeded(self, account: Account, tool: str, wanted: int) -> BudgetExceeded:
        scope = account.name.split(" ", 1)[0]
        shown = [_shown(account.dimension, n) for n in (account.limit, account.used, wanted)]
        hint = None
        if scope == "day":
            now = datetime.fromtimestamp(self._clock.now(), UTC)
            midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
            hint = (
                f"The budget of the day begins anew in {round((midnight - now).total_seconds())} s."
            )
        return BudgetExceeded(
            f"{tool!r} is refused: the {scope} budget of {account.dimension} is {shown[0]},"
            f" {shown[1]} is used, {_shown(account.dimension, account.reserved)} held back by"
            f" running calls, and this call needs {shown[2]}",
            hint=hint,
        )


def _limit(budget: Budget, dimension: str) -> int | None:
    limit = getattr(budget, dimension)
    if limit is None or dimension not in ("money", "seconds"):
        return limit if limit is None else int(limit)
    return _micro(limit)


def _micro(amount: Decimal | float | None) -> int | None:
    """Whole millionths; None for what is no amount: negative, NaN, infinite."""
    if amount is None:
        return 0
    exact = Decimal(str(amount))
    if not exact.is_finite() or exact < 0:
        return None
    return min(int((min(exact, Decimal(MOST)) * MICRO).to_integral_value()), MOST)


def _shown(dimension: str, amount: int) -> str:
    return str(Decimal(amount) / MICRO) if dimension in ("money", "seconds") else str(amount)


def _used(outcome: CallOutcome, estimate: Mapping[str, int]) -> dict[str, int]:
    output = outcome.output or outcome.partial
    text = "" if output is None else json.dumps(output.result, default=str, ensure_ascii=False)
    tokens = 0 if output is None else output.meta.get("tokens", 0)
    money = _micro(None if output is None else output.cost)
    unknown = outcome.error is not None and outcome.error.kind == "timeout" and not money
    # What nobody knows, or what is said and cannot be, is as much as was held back for it.
    if money is None or unknown:
        money = estimate["money"]
    return {
        "calls": 1,
        "seconds": _micro(outcome.duration.total_seconds()) or 0,
        "bytes": len(text.encode("utf-8", "surrogatepass")),
        "tokens": tokens if type(tokens) is int and 0 <= tokens < MOST else 0,
        "money": money,
    }


def _move(
    transaction: Transaction,
    reservation: Reservation,
    *,
    reserved: int,
    used: Mapping[str, int] | None = None,
) -> None:
    """Add to what the accounts of a reservation hold back, and to what is used in them."""
    for name in reservation.accounts:
        for dimension in DIMENSIONS:
            held = reserved * reservation.amounts.get(dimension, 0)
            gone = (used or {}).get(dimension, 0)
            if held or gone:
                _add(transaction, name, dimension, gone, held)


def _add(transaction: Transaction, account: str, dimension: str, used: int, reserved: int) -> None:
    transaction.execute(
        "INSERT INTO budgets_accounts (account, dimension, used, reserved) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (account, dimension) DO UPDATE SET used = budgets_accounts.used + ?,"
        " reserved = budgets_accounts.reserved + ?",
        (account, dimension, used, reserved, used, reserved),
    )
