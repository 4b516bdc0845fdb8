"""Delivers the events of webhook subscriptions: one process of all hubs on a store does it, in order for each.

An event is behind the subscription only when its endpoint accepted it, or refused it for good (410, 413); the next one
waits for that. A failed delivery is tried again with growing pauses; after `MAX_ATTEMPTS` the subscription is paused
with its reason, and goes on where it was when its subscriber refreshes it or the operator sends again. What was
accepted and not yet written when a process was killed is sent again with the same id.
Source: SEP-3415, Webhook event delivery and Subscription Termination.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from patchbay.coordination.leases import Lease
from patchbay.coordination.mailbox_loop import MailboxLoop
from patchbay.errors import CallbackFailed, PatchbayError
from patchbay.jsonrpc import dump_json
from patchbay.occurrences.sources import Batch, EventQuery, EventSource
from patchbay.protocol.webhooks.sending import REFUSED_FOR_GOOD, Sender, control_id
from patchbay.protocol.webhooks.subscriptions import GRACE_SECONDS, Progress, Webhook, Webhooks
from patchbay.store import Subscription
from patchbay.topics import ACCESS_ENDED, ENDING, EVENT_SUBSCRIPTIONS, EVENTS, NAMES_CHANGED

log = logging.getLogger(__name__)

LEASE_SECONDS = 6.0
"""Life of the lease of the process that delivers; another one takes over after it."""

LOOK_SECONDS = 1.0
"""Seconds between two looks at the subscriptions without news."""

IDLE_SECONDS = 30.0
"""The same for a hub without live subscriptions: the bus tells of the first one."""

EVENTS_AT_ONCE = 50
"""Events that are read for one subscription before another one may have its turn."""

SENDERS = 8
"""Subscriptions that are served at once."""

MAX_ATTEMPTS = 12
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.1, 60.0
"""Failures of one delivery before the subscription is paused, and the seconds between them."""

SHORT_PAUSE = 2.0
"""Seconds for which a thread waits for the next try of a delivery; for longer ones it serves others."""

Check = Callable[[Webhook], PatchbayError | None]
"""Returns why a subscription has to end now: rights, event type, schemas; None if it goes on."""

Open = Callable[[Webhook], EventSource]
"""Returns the source of the events of a subscription."""


class WebhookDelivery:
    """The thread that delivers. The hub gives `check` and `open_source`."""

    def __init__(self, webhooks: Webhooks, sender: Sender, check: Check, open_source: Open) -> None:
        self._webhooks = webhooks
        self._store = webhooks.store
        self._sender = sender
        self._check = check
        self._open = open_source
        self._lease = Lease(self._store, "webhooks", LEASE_SECONDS, is_always_needed=True)
        topics = [EVENT_SUBSCRIPTIONS, f"{EVENTS}*", NAMES_CHANGED, ACCESS_ENDED, ENDING]
        self._loop = MailboxLoop(
            "webhooks", self._store.bus, topics, self._run, "webhooks are not delivered for a moment", size=1024
        )
        self._ending = self._loop.ending
        self._is_new = True
        self._busy: set[str] = set()
        self._known: tuple[float, list[Webhook]] = (-LOOK_SECONDS, [])
        self._polls: dict[str, float] = {}
        self._pool = ThreadPoolExecutor(SENDERS, "webhook")

    def start(self) -> None:
        """Begin to deliver, as soon as this process holds the lease."""
        self._loop.start()

    def close(self) -> None:
        """Stop after the deliveries that are under way."""
        self._loop.stop()
        self._webhooks.announce()
        self._loop.join(LOOK_SECONDS * 2)
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._sender.close()
        self._lease.release()

    def _run(self, mailbox: Subscription) -> None:
        pause = LOOK_SECONDS
        try:
            pause = LOOK_SECONDS if self._look(self._is_new) else IDLE_SECONDS
        except PatchbayError as problem:
            log.warning("webhooks are not delivered for a moment: %s", problem)
        self._sender.close_unused()
        mailbox.wait(pause)
        self._is_new = False
        while (got := mailbox.get(0)) is not None:
            self._is_new = self._is_new or got[0] == EVENT_SUBSCRIPTIONS

    def _look(self, is_new: bool) -> bool:
        """Give each subscription with something to do to a thread; return whether there are live subscriptions.

        Without one, no lease is taken.
        """
        now, mono = self._store.now(), time.monotonic()
        if is_new or mono - self._known[0] >= LOOK_SECONDS:
            self._known = mono, self._webhooks.all()
        live = [one for one in self._known[1] if one.is_live(now)]
        if not (live and self._lease.take()):
            return bool(live)
        for one in live:
            if one.id in self._busy or self._polls.get(one.id, 0.0) > mono:
                continue
            progress, _ = self._webhooks.progress(one.id)
            if progress is None or not progress.is_active or progress.retry_at > now:
                continue
            self._busy.add(one.id)
            self._pool.submit(self._serve, one)
        return True

    def _serve(self, webhook: Webhook) -> None:
        """Deliver what is due for one subscription."""
        try:
            while not self._ending.is_set() and self._lease.take():
                if not (self._deliver_batch(webhook) or self._waits_shortly(webhook)):
                    return
                fresh = self._webhooks.find(webhook.id)
                if fresh is None or not fresh.is_live(self._store.now()):
                    return
                webhook = fresh
        except PatchbayError as problem:
            log.info("the webhook %s waits: %s", webhook.id, problem)
            self._note_failure(webhook, None)
        except Exception:
            log.exception("the webhook %s waits", webhook.id)
            self._note_failure(webhook, None)
        finally:
            self._busy.discard(webhook.id)

    def _waits_shortly(self, webhook: Webhook) -> bool:
        """Wait for the next try after a failure, if it is soon; return whether to try now."""
        progress, _ = self._webhooks.progress(webhook.id)
        if progress is None or not progress.attempts or not progress.is_active:
            return False
        seconds = progress.retry_at - self._store.now()
        return seconds <= SHORT_PAUSE and not self._ending.wait(max(0.0, seconds))

    def _deliver_batch(self, webhook: Webhook) -> bool:
        """Deliver the next events; return whether there may be more to do at once."""
        reason = self._check(webhook)
        if reason is not None:
            self._terminate(webhook, reason)
            return False
        progress, _ = self._webhooks.progress(webhook.id)
        if progress is None or not progress.is_active:
            return False
        batch = self._read(webhook, progress)
        if batch.truncated and progress.delivered > 0 and progress.attempts == 0:
            self._post(webhook, control_id("gap"), {"type": "gap", "cursor": batch.cursor})
        for event, cursor in batch.events:
            if self._ending.is_set() or not self._lease.take():
                return False
            if event is not batch.events[0][0] and self._check(webhook) is not None:
                return True  # the next batch says why it ended
            try:
                status = self._post(webhook, event["eventId"], {**event, "cursor": cursor})
            except CallbackFailed as failure:
                self._note_failure(webhook, failure.reason)
                return False
            if not 200 <= status < 300 and status not in REFUSED_FOR_GOOD:
                self._note_failure(webhook, "http_5xx" if status >= 500 else "http_4xx")
                return False
            self._note_success(webhook, cursor)
        if not batch.events and batch.cursor != progress.cursor and batch.has_more:
            self._move(webhook, lambda old: replace(old, cursor=batch.cursor))
        return batch.has_more or bool(batch.events)

    def _read(self, webhook: Webhook, progress: Progress) -> Batch:
        age = None
        if webhook.not_before is not None:
            age = max(0, int((self._store.now() - webhook.not_before) * 1000))
        wanted = EventQuery(webhook.name, webhook.arguments, age)
        source = self._open(webhook)
        batch = source.read(progress.cursor, wanted, EVENTS_AT_ONCE)
        if source.waits_for_network and not batch.events:
            self._polls[webhook.id] = time.monotonic() + batch.poll_ms / 1000
        return batch

    def _post(self, webhook: Webhook, id: str, body: dict[str, Any]) -> int:
        now = self._store.now()
        data = dump_json(body)
        return self._sender.post(webhook.url, webhook.id, id, webhook.secrets(now), data, now)

    def _terminate(self, webhook: Webhook, reason: PatchbayError) -> None:
        """Tell the endpoint that the subscription ends, once, and end it."""
        data = {"data": reason.data} if isinstance(reason.data, dict) else {}
        error = {"code": reason.code, "message": reason.message, **data}
        try:
            self._post(webhook, control_id("terminated"), {"type": "terminated", "error": error})
        except CallbackFailed as failure:
            log.info("the webhook %s ended; its endpoint was not told: %s", webhook.id, failure.message)
        self._webhooks.end(webhook.id, reason.message)

    def _note_success(self, webhook: Webhook, cursor: str | None) -> None:
        now = self._store.now()

        def moved(old: Progress) -> Progress:
            return Progress(old.generation, cursor, old.delivered + 1, last_delivery=now)

        self._move(webhook, moved)

    def _note_failure(self, webhook: Webhook, reason: str | None) -> None:
        """Plan the next try; after the last one pause the subscription. Without a reason the hub itself failed."""
        now = self._store.now()

        def moved(old: Progress) -> Progress:
            attempts = old.attempts + 1
            pause = min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(attempts - 1, 20)) * random.uniform(0.8, 1.2)
            is_over = reason is not None and attempts >= MAX_ATTEMPTS
            if is_over:
                log.warning("the webhook %s is paused after %d tries: %s", webhook.id, attempts, reason)
            return replace(
                old,
                attempts=attempts,
                retry_at=now + pause,
                is_active=not is_over,
                last_error=reason or old.last_error,
                failed_since=old.failed_since or now,
            )

        self._move(webhook, moved)

    def _move(self, webhook: Webhook, change: Callable[[Progress], Progress]) -> None:
        """Change the progress, unless the subscription began anew meanwhile."""

        def changed(old: Progress | None) -> Progress | None:
            return None if old is None or old.generation != webhook.generation else change(old)

        keep = None if webhook.until is None else max(0.0, webhook.until - self._store.now()) + GRACE_SECONDS
        self._webhooks.advance(webhook.id, changed, keep)
