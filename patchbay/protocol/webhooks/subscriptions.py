"""The webhook subscriptions of a hub: sealed records in the journal, which all its processes and machines share.

A subscription is determined by its principal, its endpoint, the event, the arguments and the callback URL; its id is a
digest of these. Its secret is sealed with the key of the hub. How far its events are delivered is a record of its own,
written by the one process that delivers.
Source: SEP-3415, Subscription identity and Subscription TTL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import orjson

from patchbay.access.principals import Principal
from patchbay.access.upstreams.sealed_records import SealedRecords
from patchbay.coordination.records import Records
from patchbay.errors import StaleUpdate
from patchbay.jsonrpc import dump_json
from patchbay.store import Store
from patchbay.topics import EVENT_CALLBACKS, EVENT_DELIVERIES, EVENT_SUBSCRIPTION_IDS, EVENT_SUBSCRIPTIONS

ROTATION_SECONDS = 600.0
"""Seconds during which deliveries are signed with the old secret too."""

GRACE_SECONDS = 3600.0
"""Seconds for which the records of a subscription stay after its end, so that its page can show it."""

VERIFIED_SECONDS = 7 * 24 * 3600.0
"""How long a principal's callback URL counts as verified."""

REMOVAL_INTERVAL = 16
"""A record of progress whose number this divides deletes those before it: each deletion is a transaction."""

MAX_SUBSCRIPTIONS = 10_000
"""Subscriptions that a hub reads."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A subscription. Times are Unix times in seconds; `until` is None for one without expiry.

    The fields from `subject` to `is_operator`, and `credential`, are those of its principal. `server` and `own_name`
    name the event type, `name` is its name for the subscriber. `schemas` is the digest of its schemas. `not_before` is
    the time before which events are skipped. `generation` grows with each new beginning.
    """

    id: str
    subject: str
    issuer: str
    title: str
    groups: tuple[str, ...]
    agent: str
    scopes: tuple[str, ...] | None
    is_operator: bool
    server: str
    own_name: str
    name: str
    arguments: dict[str, Any]
    url: str
    secret: str
    old_secret: str
    old_secret_until: float
    until: float | None
    schemas: str
    not_before: float | None
    generation: int
    ended: str = ""
    credential: str = ""

    @property
    def principal(self) -> Principal:
        """The principal whose rights the subscription has."""
        return Principal(
            self.subject,
            self.issuer,
            self.title,
            frozenset(self.groups),
            self.agent,
            None if self.scopes is None else frozenset(self.scopes),
            self.is_operator,
            self.credential,
        )

    def is_live(self, now: float) -> bool:
        """Whether events are delivered, as far as time and its end tell."""
        return not self.ended and (self.until is None or self.until > now)

    def secrets(self, now: float) -> list[str]:
        """Return the secrets that a delivery is signed with now."""
        return [self.secret, self.old_secret] if self.old_secret and now < self.old_secret_until else [self.secret]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a subscription is delivered: every event up to `cursor` was accepted or refused for good.

    `attempts` counts the failures since the last success; `retry_at` is the time of the next try; `is_active` is False
    when the hub has given up until the subscriber, or the operator, begins again.
    """

    generation: int
    cursor: str | None
    delivered: int = 0
    is_active: bool = True
    attempts: int = 0
    retry_at: float = 0.0
    last_delivery: float | None = None
    last_error: str | None = None
    failed_since: float | None = None

    def status(self) -> dict[str, Any]:
        """Return the fields that do not depend on the form of times."""
        return {"active": self.is_active, "lastError": self.last_error}


def subscription_id(principal: Principal, endpoint: str, name: str, arguments: Mapping[str, Any], url: str) -> str:
    """Return the id of a subscription, the same for the same key."""
    key = dump_json([principal.id, endpoint, name, dict(arguments), url], is_sorted=True)
    return f"sub_{sha256(key).hexdigest()[:32]}"


@dataclass(slots=True)
class Webhooks:
    """The subscriptions in a store. Safe to use from many threads. `key` is the secret key of the hub."""

    store: Store
    key: bytes
    _records: SealedRecords[Webhook] = field(init=False)
    _progress: Records[Progress] = field(init=False)

    def __post_init__(self) -> None:
        self._records = SealedRecords(self.store.journal, Webhook, self.key)
        self._progress = Records(self.store.journal, Progress)

    def find(self, id: str) -> Webhook | None:
        """Return a subscription, even if it has ended recently; None for an unknown id."""
        return self._records.load(f"{EVENT_SUBSCRIPTIONS}{id}")[0]

    def all(self) -> list[Webhook]:
        """Return all subscriptions, in the order of their ids."""
        entries = self.store.journal.read(EVENT_SUBSCRIPTION_IDS, 0, MAX_SUBSCRIPTIONS)
        found = (self.find(id) for id in sorted({entry.data.decode() for entry in entries}))
        return [one for one in found if one is not None]

    def save(self, id: str, change: Callable[[Webhook | None], Webhook | None]) -> Webhook | None:
        """Replace a subscription by what `change` makes of it, and announce that; None changes nothing."""
        fresh = change(self.find(id))
        if fresh is None:
            return None
        keep: float | None = GRACE_SECONDS
        if not fresh.ended:
            keep = None if fresh.until is None else max(0.0, fresh.until - self.store.now()) + GRACE_SECONDS
        if not self._records.update(f"{EVENT_SUBSCRIPTIONS}{id}", change, keep):
            return None
        self.store.journal.append(EVENT_SUBSCRIPTION_IDS, id.encode(), keep)
        self.announce()
        return self.find(id)

    def end(self, id: str, reason: str) -> bool:
        """End a subscription; return whether it was live."""
        now = self.store.now()
        return self.save(id, lambda old: replace(old, ended=reason) if old and old.is_live(now) else None) is not None

    def progress(self, id: str) -> tuple[Progress | None, int]:
        """Return how far a subscription is delivered, and the number of that record."""
        return self._progress.load(f"{EVENT_DELIVERIES}{id}")

    def advance(self, id: str, change: Callable[[Progress | None], Progress | None], keep: float | None = None) -> None:
        """Replace the progress by what `change` makes of it; now and then, delete what was replaced."""
        topic = f"{EVENT_DELIVERIES}{id}"
        if (
            self._progress.update(topic, change, keep)
            and (last := self.store.journal.last(topic)) % REMOVAL_INTERVAL == 0
        ):
            self.store.journal.remove(topic, last)

    def restart(self, id: str) -> None:
        """Try again at once what the hub had given up."""
        self.advance(id, lambda old: replace(old, is_active=True, attempts=0, retry_at=0.0) if old else None)
        self.announce()

    def announce(self) -> None:
        """Tell the process that delivers to look at the subscriptions."""
        self.store.bus.publish(EVENT_SUBSCRIPTIONS)

    def is_verified(self, principal: Principal, url: str) -> bool:
        """Whether this principal's URL has answered a challenge."""
        return self.store.journal.last(_callback(principal, url)) > 0

    def note_verified(self, principal: Principal, url: str) -> None:
        """Remember that the URL has answered the challenge of this principal."""
        topic = _callback(principal, url)
        try:
            self.store.journal.append_all([(topic, b"verified", VERIFIED_SECONDS)], {topic: 0})
        except StaleUpdate:
            return  # another request was first


def _callback(principal: Principal, url: str) -> str:
    return EVENT_CALLBACKS + sha256(orjson.dumps([principal.id, url])).hexdigest()
