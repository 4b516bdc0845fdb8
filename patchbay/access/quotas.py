"""Quotas: how many calls and streams each principal, and each server, may have at once and in a minute.

The rows are `quotas` of the variable `access`. A call is counted three times, as far as rows apply: for its principal,
for its principal on its server, and for its server. Each worker counts in its own memory, against its share of each
limit, so that a call waits for no other process; all workers together never pass a limit by more than rounding.
Sources: RFC 6585, section 4 (429); MCP specification, server/tools (servers rate limit tool invocations).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from patchbay.access.call_rates import CallRates, RateLimit
from patchbay.access.decisions import is_member
from patchbay.access.principals import OPERATOR_ID, Principal
from patchbay.boot.grants import Grants, Quota
from patchbay.catalogue.contents import ledger
from patchbay.errors import OverQuota
from patchbay.events import Mailbox
from patchbay.patterns.entries import EVERYTHING, covers

CALLS_IN_FLIGHT, CALLS_PER_MINUTE = "calls_in_flight", "calls_per_minute"
BYTES_STORED, STREAMS = "bytes_stored", "streams"
WEBSOCKETS = "websockets"
THINGS_STORED, SESSION_CHANGES, CALL_IDS = "things_stored", "session_changes", "call_ids"
SUBSCRIPTION_BYTES, ROOMS = "subscription_bytes", "rooms"
ROOM_BYTES, ROOM_BYTES_PER_SECOND, STATE_BYTES = "room_bytes", "room_bytes_per_second", "state_bytes"

LEDGER_LIMITS: Mapping[str, tuple[str | None, str | None]] = {
    ledger.STORED: (BYTES_STORED, THINGS_STORED),
    ledger.SESSION_CHANGES: (SUBSCRIPTION_BYTES, SESSION_CHANGES),
    ledger.CALL_IDS: (None, CALL_IDS),
    ledger.REPEATS: (None, CALL_IDS),
    ledger.ROOMS: (None, ROOMS),
    ledger.ROOM_BYTES: (ROOM_BYTES, None),
    ledger.STATE_BYTES: (STATE_BYTES, None),
}
"""The limits on the bytes and on the things of each account of the ledger, by name."""

STORED_LIMITS = frozenset(name for pair in LEDGER_LIMITS.values() for name in pair if name is not None)
"""Limits that count in the store, so that each process has the whole limit and not a share."""

RETRY_SECONDS = {CALLS_IN_FLIGHT: 1, STREAMS: 5, WEBSOCKETS: 5}
"""Seconds after which a caller may try again, where the hub cannot compute them."""

PACE_RETRY_SECONDS = 3
"""A caller that may try again so soon may have calls left in its minute: it began too many at once."""

_FIXED = STORED_LIMITS | {CALLS_PER_MINUTE, ROOM_BYTES_PER_SECOND}
"""Limits that do not grow with the number of machines."""

WORDS = {
    CALLS_IN_FLIGHT: "calls at the same time",
    CALLS_PER_MINUTE: "calls in a minute",
    STREAMS: "open streams",
    WEBSOCKETS: "open WebSockets",
}

MAX_CACHED_ACCOUNTS = 4096
"""Pairs of principal and server whose limits are remembered; and principals whose groups are."""

SWEEP_CALLS = 10_000
"""Counted calls and streams after which counters that count nothing are removed."""


OWN, OWN_ON_SERVER = "principal ", "principal on server "
"""How the keys of the accounts of a principal begin: for all that it does, and on one server."""


class Account(NamedTuple):
    """What is counted together: its key, its description for people, and the limits of this worker by name."""

    key: str
    whose: str
    limits: Mapping[str, int]


PlaceLimit = tuple[set[int], int, Account]
"""The ids of the places that an account has now, its limit, and the account."""


class Counters(NamedTuple):
    """The counters of the accounts of a principal on a server.

    `own_rates` are the rates of the principal, `of_server` the counters of the server alone, `on_server` all but those
    of the principal for everything that it does.
    """

    flying: tuple[PlaceLimit, ...] = ()
    streams: tuple[PlaceLimit, ...] = ()
    websockets: tuple[PlaceLimit, ...] = ()
    rates: tuple[RateLimit, ...] = ()
    accounts: tuple[Account, ...] = ()
    of_server: Counters | None = None
    own_rates: tuple[RateLimit, ...] = ()
    on_server: Counters | None = None


UNCOUNTED = Counters()
"""Of a sender without quotas."""


class QuotaPlace:
    """A call or a stream that is counted until `release`, which every thread may call, and more than once.

    A call may begin `delay` seconds after it was counted. Its id is in the set of each account that counts it. To
    release takes no lock: the garbage collector may do it in a thread that holds the lock.
    """

    __slots__ = ("_limits", "delay")

    def __init__(self, limits: tuple[PlaceLimit, ...]) -> None:
        self.delay = 0.0
        self._limits = limits

    def while_waiting(self, mailbox: Mailbox) -> Mailbox:
        """Return the mailbox as it is: a call counts, too, while it waits without a thread."""
        return mailbox

    def release(self) -> None:
        """Stop counting."""
        for places, _, _ in self._limits:
            places.discard(id(self))
        self._limits = ()

    def __del__(self) -> None:
        # The events of a call that were never read have no end.
        if self._limits:
            self.release()


class Quotas:
    """The quotas of one worker. Safe to use from many threads.

    `grants` returns the document in force; `defaults` are the limits of a principal without a row, for the whole hub,
    by name; `workers` is the number of processes that share each limit. `stored` limits what is stored for a principal
    to which no quota applies.
    """

    def __init__(
        self,
        grants: Callable[[], Grants | None],
        defaults: Mapping[str, int],
        workers: int = 1,
        stored: ledger.Limit = ledger.NO_LIMIT,
    ) -> None:
        self._grants = grants
        self.defaults = defaults
        self._own_defaults = defaults
        self._stored = stored
        self._own_workers = self._workers = workers
        self._lock = threading.Lock()
        self._in_use: dict[str, set[int]] = {}
        self._rates = CallRates()
        self._counted = 0
        self._cached_for: Grants | None = None
        self._cached: dict[tuple[Principal, str], Counters] = {}
        self._seen: dict[str, Principal] = {}
        self.refused: Counter[str] = Counter()
        """How many calls and streams were refused since the start, by name of the limit."""

    @property
    def processes(self) -> int:
        """The number of processes that share each limit."""
        return self._workers

    def share(self, processes: int) -> None:
        """Divide each limit by this number of processes, on all machines; what is counted stays counted.

        The defaults for calls in flight and for streams come from the threads of one machine, so they grow with the
        machines.
        """
        with self._lock:
            if processes == self._workers:
                return
            self._workers = processes
            self.defaults = {
                name: limit if name in _FIXED else -(-limit * processes // self._own_workers)
                for name, limit in self._own_defaults.items()
            }
            self._sweep(self._cached_for)

    def begin_call(
        self, sender: Principal | None, server: str, is_nested: bool = False, is_origin: bool = False
    ) -> QuotaPlace | None:
        """Count a call until the place is released; None where no limit applies. Raises OverQuota.

        `sender` is None for the hub's own work. A nested call, of a tool by a tool, is part of its caller's call: it
        counts for the server alone. A call through a toolset counts on the toolset like any other; on the server behind
        it (`is_origin`) it counts for its principal on that server, and for the server.
        """
        grants = self._grants()
        if sender is None or (not self.defaults and (grants is None or not grants.quotas)):
            return None
        # Every call of a shared hub comes here, so both checks and both counts take the lock once.
        with self._lock:
            counters = self._find_counters(sender, server, grants)
            if is_nested:
                counters = counters.of_server or UNCOUNTED
            elif is_origin:
                counters = counters.on_server or UNCOUNTED
            rates = counters.rates
            if not rates and not counters.flying:
                return None
            place = self._take_place(CALLS_IN_FLIGHT, counters.flying)
            if rates:
                delay = self._rates.count(rates)
                if isinstance(delay, str):
                    place.release()
                    self.refused[CALLS_PER_MINUTE] += 1
                    raise self._over_rate(delay, counters)
                place.delay = delay
            return place

    def count_script_call(self, sender: Principal | None, server: str) -> float:
        """Count a call of a script against the rates of its sender; return the seconds that it has to wait.

        The script itself is one call in flight. What counts for the server alone is counted with the call, as for each
        call inside another one. Raises OverQuota.
        """
        grants = self._grants()
        if sender is None or (not self.defaults and (grants is None or not grants.quotas)):
            return 0.0
        with self._lock:
            counters = self._find_counters(sender, server, grants)
            if not counters.own_rates:
                return 0.0
            delay = self._rates.count(counters.own_rates)
            if isinstance(delay, str):
                self.refused[CALLS_PER_MINUTE] += 1
                raise self._over_rate(delay, counters)
            return delay

    def open_stream(self, sender: Principal, server: str = "") -> QuotaPlace | None:
        """Count a stream until the place is released; None where no limit applies. Raises OverQuota."""
        with self._lock:
            streams = self._find_counters(sender, server, self._grants()).streams
            return self._take_place(STREAMS, streams) if streams else None

    def open_websocket(self, sender: Principal) -> QuotaPlace | None:
        """Count a WebSocket until the place is released; None where no limit applies. Raises OverQuota."""
        with self._lock:
            websockets = self._find_counters(sender, "", self._grants()).websockets
            return self._take_place(WEBSOCKETS, websockets) if websockets else None

    def limits(self, id: str) -> Mapping[str, int]:
        """Return the limits of the principal of an id for the whole of what it does, by name; empty without limits."""
        return self.limits_of(self._seen.get(id) or Principal(id))

    def limits_of(self, sender: Principal) -> Mapping[str, int]:
        """Return the limits of a principal, as `limits` does, with the groups that its own credential asserts."""
        with self._lock:
            accounts = self._find_counters(sender, "", self._grants()).accounts
        return next((account.limits for account in accounts if account.key.startswith("principal ")), {})

    def remember(self, sender: Principal) -> None:
        """Remember the groups that an outside issuer asserts of a sender, for `limits`, which knows its id alone."""
        if self._seen.get(sender.id) is not sender:
            with self._lock:
                self._remember(sender)

    def whole_limits(self, id: str) -> dict[str, int]:
        """Return the limits of the principal of an id as all processes together have them, up to rounding."""
        shares = {} if id == OPERATOR_ID else self.limits(id)
        return {name: limit * (1 if name in STORED_LIMITS else self._workers) for name, limit in shares.items()}

    def in_use(self) -> dict[str, dict[str, int]]:
        """Return what this process counts now, by principal and name of the limit; what is stored is not among it."""
        found: dict[str, dict[str, int]] = {}
        with self._lock:
            counted = [(key.partition(" "), len(places)) for key, places in self._in_use.items()]
            counted += [((CALLS_PER_MINUTE, "", key), number) for key, number in self._rates.in_last_minute()]
        for (name, _, key), number in counted:
            if number and key.startswith(OWN) and not key.startswith(OWN_ON_SERVER):
                found.setdefault(key.removeprefix(OWN), {})[name] = number
        return found

    def stored_limit(self, id: str, account: str) -> ledger.Limit:
        """Return the limits of an account of the ledger, for the principal of an id."""
        limits, (size, things) = {} if id == OPERATOR_ID else self.limits(id), LEDGER_LIMITS[account]
        most = self._stored if account == ledger.STORED else ledger.Limit()
        return ledger.Limit(limits.get(size or "", most.bytes), limits.get(things or "", most.things))

    def refusal(self, sender: Principal, server: str) -> OverQuota | None:
        """Return the error that a call would get now, without counting one; None for a call that may begin."""
        with self._lock:
            counters = self._find_counters(sender, server, self._grants())
            for places, limit, account in counters.flying:
                if len(places) >= limit:
                    return _over(account, CALLS_IN_FLIGHT, RETRY_SECONDS[CALLS_IN_FLIGHT])
            for rate in counters.rates:
                if not self._rates.has_room(rate.key, rate.limit):
                    return self._over_rate(rate.key, counters)
        return None

    def _take_place(self, what: str, limits: tuple[PlaceLimit, ...]) -> QuotaPlace:
        """Count a place of each account. Raises OverQuota. The caller holds the lock."""
        place = QuotaPlace(limits)
        for places, limit, account in limits:
            if len(places) >= limit:
                place.release()
                self.refused[what] += 1
                raise _over(account, what, RETRY_SECONDS[what])
            places.add(id(place))
        self._counted += 1
        return place

    def _over_rate(self, key: str, counters: Counters) -> OverQuota:
        """Return the error of a call that the rate of an account refuses. The caller holds the lock."""
        account = next(account for account in counters.accounts if account.key == key)
        seconds = self._rates.seconds_until_room(key, account.limits[CALLS_PER_MINUTE])
        return _over(account, CALLS_PER_MINUTE, seconds)

    def _find_counters(self, sender: Principal, server: str, grants: Grants | None) -> Counters:
        """Return the counters of a principal on a server (empty: on no server alone). The caller holds the lock."""
        if self._cached_for is not grants or self._counted >= SWEEP_CALLS or len(self._cached) >= MAX_CACHED_ACCOUNTS:
            self._sweep(grants)
        counters = self._cached.get((sender, server))
        if counters is None:
            counters = self._cached[sender, server] = self._make_counters(sender, server, grants)
        return counters

    def _sweep(self, grants: Grants | None) -> None:
        """Forget the counters that count nothing, and which counters count whom. The caller holds the lock.

        A counter that goes on stays the same object, which every later call finds by its key. The groups of principals
        stay, because what is stored and sent later is limited by the id alone.
        """
        self._cached, self._cached_for, self._counted = {}, grants, 0
        self._in_use = {key: places for key, places in self._in_use.items() if places}
        self._rates.forget_idle_keys()

    def _make_counters(self, sender: Principal, server: str, grants: Grants | None) -> Counters:
        """Return the counters of a principal on a server, and remember the principal. The caller holds the lock."""
        if sender.is_operator or (not self.defaults and (grants is None or not grants.quotas)):
            return UNCOUNTED
        self._remember(sender)
        accounts = self._find_accounts(sender, server, grants)
        of_server = tuple(account for account in accounts if account.key.startswith("server "))
        on_server = tuple(account for account in accounts if account.key != OWN + sender.id)
        own = tuple(account for account in accounts if account not in of_server)
        return self._counters_of(accounts)._replace(
            own_rates=self._counters_of(own).rates,
            of_server=self._counters_of(of_server),
            on_server=self._counters_of(on_server),
        )

    def _remember(self, sender: Principal) -> None:
        """Keep the groups of a principal; beyond MAX_CACHED_ACCOUNTS the oldest goes. The caller holds the lock."""
        if sender.issuer:  # a principal without one has no groups, or is made of an id alone
            self._seen.pop(sender.id, None)
        if sender.groups:
            self._seen[sender.id] = sender
            if len(self._seen) > MAX_CACHED_ACCOUNTS:
                del self._seen[next(iter(self._seen))]

    def _counters_of(self, accounts: tuple[Account, ...]) -> Counters:
        return Counters(
            self._places_of(CALLS_IN_FLIGHT, accounts),
            self._places_of(STREAMS, accounts),
            self._places_of(WEBSOCKETS, accounts),
            tuple(
                self._rates.make_limit(account.key, account.limits[CALLS_PER_MINUTE])
                for account in accounts
                if CALLS_PER_MINUTE in account.limits
            ),
            accounts,
        )

    def _places_of(self, what: str, accounts: tuple[Account, ...]) -> tuple[PlaceLimit, ...]:
        return tuple(
            (self._in_use.setdefault(f"{what} {account.key}", set()), account.limits[what], account)
            for account in accounts
            if what in account.limits
        )

    def _find_accounts(self, sender: Principal, server: str, grants: Grants | None) -> tuple[Account, ...]:
        rows = grants.quotas if grants is not None and grants.quotas else ()
        own = [row for row in rows if row.to and not row.on]
        here = [row for row in rows if row.on and server and any(covers(pattern, server, "") for pattern in row.on)]
        total = {**self.defaults, **_limits_for(sender, own, grants)}
        on_server = _limits_for(sender, [row for row in here if row.to], grants)
        of_server = _largest([row for row in here if not row.to])
        found = (
            Account(OWN + sender.id, "each caller", self._shares(total)),
            Account(f"{OWN_ON_SERVER}{server} {sender.id}", f"each caller on {server}", self._shares(on_server)),
            Account(f"server {server}", f"all callers of {server} together", self._shares(of_server)),
        )
        return tuple(account for account in found if account.limits)

    def _shares(self, limits: Mapping[str, int]) -> dict[str, int]:
        """Return the share of this worker in each limit, at least 1; the store counts what is stored."""
        return {name: limit if name in STORED_LIMITS else -(-limit // self._workers) for name, limit in limits.items()}


def _limits_for(sender: Principal, rows: list[Quota], grants: Grants | None) -> dict[str, int]:
    """Return the limits of a principal: by the rows of `*`, over them those of its groups, over them its own."""
    assert grants is not None or not rows
    found: dict[str, int] = {}
    if grants is not None:
        anybody = [row for row in rows if EVERYTHING in row.to]
        own = [row for row in rows if sender.id in row.to and sender.id not in grants.groups]
        groups = [row for row in rows if any(name != EVERYTHING and is_member(sender, name, grants) for name in row.to)]
        for layer in (anybody, [row for row in groups if row not in own], own):
            found |= _largest(layer)
    return found


def _largest(rows: list[Quota]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        for name, limit in row.limits.items():
            found[name] = max(limit, found.get(name, 0))
    return found


def _over(account: Account, what: str, seconds: int) -> OverQuota:
    unit = "second" if seconds == 1 else "seconds"
    pace = ", and not all of them at once" if what == CALLS_PER_MINUTE and seconds <= PACE_RETRY_SECONDS else ""
    limit = f"{account.whose} may have {account.limits[what]} {WORDS[what]}{pace}"
    if what in (STREAMS, WEBSOCKETS):
        named = "WebSockets" if what == WEBSOCKETS else "streams"
        return OverQuota(f"too many {named}: {limit}; close one first", seconds)
    return OverQuota(f"too many calls: {limit}; try again in {seconds} {unit}", seconds)
