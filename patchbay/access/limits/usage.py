"""What each principal uses of its limits: the numbers of `/access/usage`, of `patchbay key usage` and of the metrics.

Nothing is counted for them. They are read from the counters of the quotas and from the accounts of the ledger at the
moment of the question, so that a call costs the same with and without a reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from patchbay.access import quotas as limits
from patchbay.access.principals import OPERATOR_ID
from patchbay.access.quotas import LEDGER_LIMITS, STORED_LIMITS, Quotas
from patchbay.catalogue.contents import ledger
from patchbay.catalogue.contents.ledger import Ledger, Used

BYTES = frozenset(
    (
        limits.BYTES_STORED,
        limits.SUBSCRIPTION_BYTES,
        limits.ROOM_BYTES,
        limits.ROOM_BYTES_PER_SECOND,
        limits.STATE_BYTES,
    )
)
"""Limits in bytes; the others count things."""

REPEATS = "repeats"
"""The name of the second account that has the limit `call_ids`."""

LABELS: Mapping[str, str] = {
    limits.CALLS_IN_FLIGHT: "calls that run now",
    limits.CALLS_PER_MINUTE: "calls in the last minute",
    limits.STREAMS: "open streams",
    limits.WEBSOCKETS: "open WebSockets",
    limits.BYTES_STORED: "stored results and answers, bytes",
    limits.THINGS_STORED: "stored results and answers",
    limits.SESSION_CHANGES: "subscriptions and other changes of sessions",
    limits.SUBSCRIPTION_BYTES: "URIs of subscriptions, bytes",
    limits.CALL_IDS: "remembered calls with an id",
    REPEATS: "remembered calls that equal ones join",
    limits.ROOMS: "created rooms",
    limits.ROOM_BYTES: "logs of rooms, bytes",
    limits.STATE_BYTES: "state of tools in 24 hours, bytes",
}
"""What is counted, for people, by the name of the limit."""

NEAR = 0.9
"""A principal is near its limit when it uses this part of it."""


class Use(NamedTuple):
    """What a principal has of one thing. `limit` is None without one."""

    name: str
    used: int
    limit: int | None

    @property
    def part(self) -> float:
        """The used part of the limit: 0 without a limit, 1 at the limit."""
        return self.used / self.limit if self.limit else 0.0


class Total(NamedTuple):
    """One limit in one process: the largest part of it that a principal uses, and how many principals are near it."""

    name: str
    largest: float
    near: int


class Usage:
    """The numbers of one process. Safe to use from many threads."""

    def __init__(self, quotas: Quotas, accounts: Ledger) -> None:
        self._quotas = quotas
        self._ledger = accounts

    def running(self) -> dict[str, dict[str, int]]:
        """Return what is in the memory of this process now, by principal and name of the limit."""
        return self._quotas.in_use()

    def principals(self) -> set[str]:
        """Return the principals that this process remembers, without the operator."""
        known = {one.principal for one in self._ledger.known()}
        return (known | self._quotas.in_use().keys()) - {OPERATOR_ID, ""}

    def of(self, id: str, running: Iterable[Mapping[str, int]]) -> list[Use]:
        """Return what a principal uses, the nearest to its limit first; what it has none of comes without a limit only.

        `running` is what each process has of it. The accounts are counted in the store: the same for all processes.
        """
        most = self._quotas.whole_limits(id)
        here = list(running)
        live = [name for name in LABELS if name not in STORED_LIMITS and name != REPEATS]
        found = [Use(name, sum(one.get(name, 0) for one in here), most.get(name)) for name in live]
        for account in ledger.ACCOUNTS:
            limit = self._quotas.stored_limit(id, account)
            found += _uses(account, self._ledger.used(id, account), limit)
        return sorted((use for use in found if use.used or use.limit is not None), key=lambda use: -use.part)

    def totals(self) -> list[Total]:
        """Return each limit with what this process remembers of its principals. It reads no store."""
        parts: dict[str, list[float]] = {name: [] for name in LABELS}
        for use in self._remembered():
            parts[use.name].append(use.part)
        return [
            Total(name, max(found, default=0.0), sum(part >= NEAR for part in found)) for name, found in parts.items()
        ]

    def refusals(self) -> dict[str, int]:
        """Return how many requests this process has refused since its start, by name of the limit."""
        found = dict.fromkeys((*LABELS, limits.ROOM_BYTES_PER_SECOND), 0)
        for name, number in self._quotas.refused.items():
            found[name] += number
        for account, number in self._ledger.refused.items():
            found[REPEATS if account == ledger.REPEATS else next(filter(None, LEDGER_LIMITS[account]))] += number
        return found

    def _remembered(self) -> Iterator[Use]:
        for id, counted in self._quotas.in_use().items():
            shares = self._quotas.limits(id)
            yield from (Use(name, used, shares.get(name)) for name, used in counted.items())
        for one in self._ledger.known():
            yield from _uses(one.account, one.used, self._quotas.stored_limit(one.principal, one.account))


def _uses(account: str, used: Used, limit: ledger.Limit) -> Iterator[Use]:
    size, things = LEDGER_LIMITS[account]
    if size is not None:
        yield Use(size, used.bytes, limit.bytes)
    if things is not None:
        yield Use(REPEATS if account == ledger.REPEATS else things, used.things, limit.things)
