"""Budgets of calls, seconds, bytes, tokens and money: reserve before a call, settle after it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import attrs

from hardpoint.calls import CallOutcome
from hardpoint.config import Budget, BudgetConfig
from hardpoint.context import JobContext
from hardpoint.errors import BudgetExceeded
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
)


@attrs.frozen
class Reservation:
    """What a running call holds back in its accounts."""

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


class Budgets:
    """The ledger of one store, shared by all processes on it."""

    def __init__(self, config: BudgetConfig, store: Store, clock: Clock) -> None:
        self._config = config
        self._tables = store.namespace("budgets", MIGRATIONS)
        self._clock = clock

    async def reserve(self, context: JobContext, tool: str, cost: Decimal | None) -> Reservation:
        """Hold back one call and its estimated cost in every account, or in none.

        Raises:
            BudgetExceeded: An account has no room; the message names it.
        """
        amounts = {"calls": 1, "seconds": 0, "bytes": 0, "tokens": 0, "money": _micro(cost)}
        return await self._tables.run(self._reserve, context, tool, amounts)

    def _reserve(self, context: JobContext, tool: str, amounts: Mapping[str, int]) -> Reservation:
        accounts = list(self._accounts(context))
        with self._tables.transaction() as transaction:
            for name, budget in accounts:
                for account in self._state(transaction, name, budget):
                    wanted = amounts[account.dimension]
                    taken = account.used + account.reserved
                    full = taken >= account.limit if wanted == 0 else taken + wanted > account.limit
                    if full:
                        raise self._exceeded(account, tool, wanted)
            for name, _ in accounts:
                for dimension, amount in amounts.items():
                    if amount:
                        _add(transaction, name, dimension, 0, amount)
        return Reservation(tuple(name for name, _ in accounts), dict(amounts))

    async def settle(self, reservation: Reservation, outcome: CallOutcome) -> None:
        """Replace what was held back by what was really used. A call that never ran is refunded."""
        await self._tables.run(self._settle, reservation, outcome)

    def _settle(self, reservation: Reservation, outcome: CallOutcome) -> None:
        used = dict.fromkeys(DIMENSIONS, 0) if _never_ran(outcome) else _used(outcome)
        with self._tables.transaction() as transaction:
            for name in reservation.accounts:
                for dimension in DIMENSIONS:
                    held = reservation.amounts[dimension]
                    if held or used[dimension]:
                        _add(transaction, name, dimension, used[dimension], -held)

    def refund(self, reservation: Reservation) -> None:
        """Give back what was held for a call that was cancelled; the call itself stays counted."""
        with self._tables.transaction() as transaction:
            for name in reservation.accounts:
                for dimension, held in reservation.amounts.items():
                    if held:
                        used = held if dimension == "calls" else 0
                        _add(transaction, name, dimension, used, -held)

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
    if limit is None:
        return None
    return _micro(limit) if dimension in ("money", "seconds") else int(limit)


def _micro(amount: Decimal | float | None) -> int:
    return 0 if amount is None else int((Decimal(str(amount)) * MICRO).to_integral_value())


def _shown(dimension: str, amount: int) -> str:
    return str(Decimal(amount) / MICRO) if dimension in ("money", "seconds") else str(amount)


def _never_ran(outcome: CallOutcome) -> bool:
    kinds = ("rate_limited", "not_authorized", "approval_required", "domain_unavailable")
    return outcome.error is not None and outcome.error.kind in kinds


def _used(outcome: CallOutcome) -> dict[str, int]:
    output = outcome.output or outcome.partial
    text = "" if output is None else json.dumps(output.result, default=str, ensure_ascii=False)
    tokens = 0 if output is None else output.meta.get("tokens", 0)
    return {
        "calls": 1,
        "seconds": _micro(outcome.duration.total_seconds()),
        "bytes": len(text.encode("utf-8", "surrogatepass")),
        "tokens": tokens if isinstance(tokens, int) else 0,
        "money": _micro(output.cost if output is not None else None),
    }


def _add(transaction: Transaction, account: str, dimension: str, used: int, reserved: int) -> None:
    transaction.execute(
        "INSERT INTO budgets_accounts (account, dimension, used, reserved) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (account, dimension) DO UPDATE SET used = budgets_accounts.used + ?,"
        " reserved = budgets_accounts.reserved + ?",
        (account, dimension, used, max(reserved, 0), used, reserved),
    )
