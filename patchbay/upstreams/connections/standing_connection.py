"""One mount: its standing connection, its last valid lists, announced changes, and reconnection.

Each mount has one thread. While the upstream is away, calls fail at once and its last lists stay. It is tried again
after half a second, then after twice the time each, up to half a minute. A list that leads back to this mount is a
cycle and is not served. The upstream's errors are part of the health, without secrets; standard error of a program goes
to the log.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from patchbay.background import BackgroundLoop, run_in_background
from patchbay.caller_accounts.credentials import CallerCredential
from patchbay.client.addresses.targets import Target, mask_secrets
from patchbay.client.addresses.variables import UnsetVariable
from patchbay.client.connection.list_pages import find_events
from patchbay.client.errors import McpFailure, ServerTimeout, describe_briefly, get_retry_after, list_output
from patchbay.errors import PatchbayError
from patchbay.pins.observation import observe
from patchbay.processes.confinement.program_denials import explain_denial
from patchbay.processes.confinement.programs import ProgramConfinement
from patchbay.topics import UPDATED
from patchbay.upstreams.configuration import Mount
from patchbay.upstreams.connections.call_connections import CallConnection, CallConnections
from patchbay.upstreams.connections.caller_accounts import MountAccounts, without_resources
from patchbay.upstreams.connections.event_queue import EventQueue, RefreshBudget
from patchbay.upstreams.connections.opening import Opener
from patchbay.upstreams.connections.sessions import EndedSessions
from patchbay.upstreams.lists import snapshots
from patchbay.upstreams.lists.snapshots import MAX_MOUNTS_IN_ROW, Snapshot
from patchbay.upstreams.lists.unread_lists import UnreadLists
from patchbay.upstreams.liveness import Liveness, Patience
from patchbay.upstreams.pushing.pushed_events import PushedEvents
from patchbay.upstreams.standing import Health, MountContext, PinnedMount, State, describe_unset

if TYPE_CHECKING:
    from patchbay.client.connection.connection import Connection

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS, JITTER = 0.5, 30.0, 0.2
"""Seconds until the next attempt, and the random part of it."""

MAX_AWAITED_SECONDS = 2.0
"""A call waits for the next start of a program that ended, when that start is at most this far away."""

MAX_RETRY_AFTER_SECONDS = 300.0
"""Seconds until the next attempt, at most, when the upstream asks to wait with `Retry-After`."""

MAX_URIS, MAX_URI_CHARACTERS = 1024, 8192
CHANGES = frozenset(f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts", "events"))

LOOK_SECONDS, QUIET_SECONDS = 0.2, 3.0
"""Seconds between two looks at a replaced connection, and those without a request after which it is closed."""

FOLDERS_SECONDS = 60.0
"""Seconds between two looks for folders of ended accounts, beside the one after the end of each process."""

LOST, SUSPECT, ENDING, WANTED, SESSION_ENDED = "lost", "suspect", "ending", "wanted", "session ended"
OUTDATED = "outdated"
"""Events beside the methods of notifications."""


class MountCycle(PatchbayError):
    """A mounted server leads back to the mount."""


class StandingConnection(PinnedMount[Mount]):
    """Maintains one mount once it is started. Thread-safe."""

    patience = Patience()

    def __init__(self, mount: Mount, context: MountContext) -> None:
        super().__init__(mount, context)
        self.id = f"{context.hub}/{mount.name}"
        self.health = Health()
        self.connection: Connection | None = None
        self.asking = threading.Lock()
        """Held by the call without a session that uses the standing connection and whose caller can be asked."""
        limits = (mount.session_limit, mount.session_idle)
        self.call_connections = CallConnections(self._open_for_call, *limits, self._remove_ended_folders)
        self.roots = context.roots
        self._opener = Opener(mount, context, self._on_notification, self._refresh_soon)
        self.pushed = PushedEvents(context.store, mount.name, self._opener.open)
        self._events = EventQueue()
        self._ended_sessions = EndedSessions(context.store.bus, partial(self._events.put, SESSION_ENDED))
        self._uris: dict[str, None] = {}
        failure = f"the upstream {mount.name} is reconnected"
        self._loop = BackgroundLoop(f"upstream {mount.name}", self._run, failure, finish=self._close)
        self._ending = self._loop.ending
        self._tries = 0
        self._is_outdated = False
        """Whether a secret has changed since the standing connection was opened."""
        self._credential: CallerCredential | None = None
        """The credential of a caller with which the standing connection reads the lists."""
        self._is_revoked = False
        """Whether this credential has ended since the standing connection was opened."""
        self._next_look = 0.0
        """When the folders of callers are looked at again whose processes have ended before their account."""
        self._closing = 0
        """Standing connections that were replaced and are still open."""
        self._earlier_secrets = frozenset[str]()
        self._lock = threading.Lock()
        self._refreshes = RefreshBudget()
        self._is_current = False
        self._liveness = Liveness(self.patience)
        self._unread = UnreadLists(self.patience)

    @property
    def accounts(self) -> MountAccounts | None:
        """The credentials of callers, None for a mount that uses the hub's."""
        return self._opener.accounts

    @property
    def asks_for_roots(self) -> bool:
        return self._opener.asks_for_roots

    @property
    def reach(self) -> Target | None:
        """How it was reached last; before that, how the address alone reaches it, None for a profile."""
        return self._opener.reach

    @property
    def confinement(self) -> ProgramConfinement | None:
        """What the program of the mount may do; None where it has all rights of this process."""
        return self._opener.confinement

    @property
    def is_program(self) -> bool:
        """Whether the hub starts the server."""
        return self._opener.is_program

    def start(self) -> None:
        """Start the thread; does nothing the second time."""
        with self._lock:
            if not (self._loop.is_started or self._ending.is_set()):
                self.started_at = time.monotonic()
                self._loop.start()

    def stop(self) -> None:
        """Stop the thread. The connections of the mount and their processes end with it; `join` waits for that."""
        self._loop.stop()
        self.pushed.stop()
        self._events.put(ENDING)

    def join(self, seconds: float) -> None:
        """Wait up to this many seconds for the end."""
        self._loop.join(seconds)

    def make_current(self) -> None:
        """Say that this is the mount of a served server; only then its lists are recorded as those of the server.

        A connection for an older version of the server changes no pins.
        """
        became_current, self._is_current = not self._is_current, True
        if became_current and self._loop.is_started:
            self._refresh_soon()

    def _refresh_soon(self) -> None:
        """Read all lists again soon."""
        for notification in CHANGES:
            self._events.put(notification)

    def renew(self) -> None:
        """Connect anew with the present secrets; running calls end on the connections that they use."""
        present = self._present_secrets
        with self._lock:
            # After a second change, a connection that is still open may show a value from before the first one.
            is_older_open = self._is_outdated or self._closing or self.call_connections.has_replaced
            self._earlier_secrets = present | self._earlier_secrets if is_older_open else present
            self._is_outdated = True
        self.call_connections.renew("because a secret of its configuration has changed")
        self.pushed.renew()
        self._events.put(OUTDATED)
        self._loop.wake()

    def end_outdated_credentials(self) -> None:
        """End what uses a credential of a caller that has ended: running calls, connections and programs."""
        accounts, used = self.accounts, self._credential
        if accounts is None:
            return
        accounts.end_outdated()
        reason = "because the account of its caller was disconnected"
        self.call_connections.end_credentials(lambda key: accounts.is_current(key.principal, key.sign_in), reason)
        self.call_connections.end_callers("because its caller may no longer use this server")
        if self.is_program and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + FOLDERS_SECONDS
            run_in_background("removing folders of ended accounts", self._remove_ended_folders)
        if used is not None and not (used.may_continue() and accounts.is_current(used.principal, used.id)):
            self._is_revoked = True
            self._events.put(OUTDATED)
            self._loop.wake()

    def _remove_ended_folders(self) -> None:
        """Remove what programs kept for callers whose account has ended; again after each of their processes ended."""
        if not self._ending.is_set():
            self._opener.remove_ended_folders(self.call_connections.list_accounts())

    def check_soon(self) -> None:
        """Check the connection, because a call got no answer."""
        self._events.put(SUSPECT)

    def subscribe(self, uris: Iterable[str]) -> None:
        """Subscribe to updates of these resources. Beyond MAX_URIS, the oldest are dropped."""
        if self.accounts is not None:
            return
        with self._lock:
            fresh = [uri for uri in uris if uri not in self._uris]
            self._uris |= dict.fromkeys(fresh)
            while len(self._uris) > MAX_URIS:
                del self._uris[next(iter(self._uris))]
        if fresh:
            self._events.put(WANTED)

    # methods of the thread

    def _run(self) -> float:
        """Connect and follow the upstream until it is gone; return the seconds until the next attempt."""
        problem: PatchbayError | None = None
        try:
            self._live(self._tries)
        except PatchbayError as failure:
            problem = failure
        except Exception as failure:
            log.exception("the upstream %s is reconnected", self.mount.name)
            problem = PatchbayError(f"{type(failure).__name__} in its thread")
        finally:
            answered = self.connection is not None
            if answered and self.is_program:
                # Some programs end after each call: the next call waits for the new process.
                self.state_known.clear()
            self.connection = None
        if problem is None or self._ending.is_set():
            return 0.0
        self._tries = 1 if answered else self._tries + 1
        seconds = self._record_failure(problem, self._tries)
        if not (answered and seconds <= MAX_AWAITED_SECONDS and self.is_program):
            self.state_known.set()
        return seconds * random.uniform(1 - JITTER, 1 + JITTER)

    def _close(self) -> None:
        self.state_known.set()
        # A running call keeps its connection; later ones have none.
        self.call_connections.close()
        self._ended_sessions.close()

    def _live(self, tries: int) -> None:
        """Hold a connection, and after each change of a secret the next one, until the mount ends.

        A replaced connection serves until the next one is there, and then finishes its calls.
        """
        while not self._ending.is_set():
            self._credential, self._is_revoked = None, False
            if self.accounts is not None:
                self._wait_for_principal(self.accounts)
                if self._ending.is_set():
                    return
                self._credential = self.accounts.find_for_lists(tries)
            self._is_outdated = False
            # It declares every question, so that the upstream lists everything for callers that can answer.
            connection = self._opener.open(credential=self._credential)
            try:
                self._hold(connection)
            finally:
                if self._is_outdated and not self._ending.is_set():
                    with self._lock:
                        self._closing += 1
                    run_in_background("closing an upstream", self._close_when_quiet, connection)
                else:
                    connection.close()
                    self._remove_ended_folders()
                if self._is_revoked:
                    self.connection = None

    def _hold(self, connection: Connection) -> None:
        """Serve a connection until the mount ends, or a secret changes. Raises PatchbayError when it is gone."""
        self._prepare(connection)
        self._refresh(connection)
        self.connection = connection
        self._record_answer(connection)
        self.state_known.set()
        log.info("the upstream %s answers, in revision %s", self.mount.name, connection.revision)
        missed, subscribed = connection.modern, set[str]()
        while not (self._ending.is_set() or self._is_outdated or self._is_revoked):
            missed = self._follow(connection, missed, subscribed)

    def _close_when_quiet(self, connection: Connection) -> None:
        """Close a replaced connection once it has had no request for QUIET_SECONDS, at the latest with the mount.

        A call that chose it just before the change has not sent its request yet.
        """
        quiet_at = time.monotonic() + QUIET_SECONDS
        while not (connection.closed or self._ending.wait(LOOK_SECONDS)) and time.monotonic() < quiet_at:
            if connection is self.connection or connection.is_busy():
                quiet_at = time.monotonic() + QUIET_SECONDS
        try:
            connection.close()
        finally:
            with self._lock:
                self._closing -= 1

    def _record_answer(self, connection: Connection) -> None:
        self.health = Health("up", revision=connection.revision, note=self._liveness.note)

    def _wait_for_principal(self, accounts: MountAccounts) -> None:
        """Wait until a caller has a credential for reading the lists."""
        if not accounts.has_for_lists():
            self.health = Health("sign-in")
            self.state_known.set()
            accounts.wait_for_principal(self._events, self._ending)

    def _open_for_call(self, reserved: CallConnection) -> Connection:
        shared, era = self.connection, self.mount.era
        if self.accounts is None and era == "auto" and shared is not None:
            era = "modern" if shared.modern and not reserved.key.is_exclusive else "legacy"
        connection = self._opener.open_for_call(reserved, era)
        self._prepare(connection)
        self._subscribe(connection, [*self._uris])
        return connection

    def _prepare(self, connection: Connection) -> None:
        if not connection.modern and "logging" in connection.capabilities:
            # All levels: the level of each caller is applied here.
            self._try_request(connection, "logging/setLevel", {"level": "debug"})

    def _subscribe(self, connection: Connection, uris: Iterable[str]) -> None:
        """Subscribe to resources one by one, where the server offers that (before 2026-07-28)."""
        if (connection.capabilities.get("resources") or {}).get("subscribe") and not connection.modern:
            for uri in uris:
                self._try_request(connection, "resources/subscribe", {"uri": uri})

    def _on_notification(self, method: str, params: Mapping[str, Any]) -> None:
        uri = params.get("uri")
        if method in CHANGES:
            self._events.put(method)
        elif method == "notifications/resources/updated" and isinstance(uri, str) and len(uri) <= MAX_URI_CHARACTERS:
            self._events.put(method, uri)

    def _follow(self, connection: Connection, missed: bool, subscribed: set[str]) -> bool:
        """Handle events until the upstream must be subscribed to anew. Raises when it is gone.

        `missed` means that there was no subscription since the lists were read. Returns whether that is so again:
        always in 2026-07-28, where the list of resources is part of the subscription. `subscribed` are the resources
        that this connection has been subscribed to, one by one (before 2026-07-28).
        """
        uris = list(self._uris)
        fresh = [uri for uri in uris if uri not in subscribed]
        for one in (connection, *self.call_connections.list_open()) if fresh else ():
            self._subscribe(one, fresh)
        subscribed |= {*fresh}
        listens = threading.Event()
        listens.set()
        try:
            with self._listening(connection, uris) as future:
                if future is not None:
                    future.add_done_callback(lambda _: self._events.put(LOST) if listens.is_set() else None)
                if missed and future is not None:
                    self._refresh(connection)
                self._handle_events(connection)
                listens.clear()
        except (McpFailure, ServerTimeout) as problem:
            # It may answer requests still: only its changes are unknown for a while.
            log.info("the upstream %s does not announce changes: %s", self.mount.name, problem.message)
            self._probe(connection)
            self._ending.wait(self.patience.probe)
            return True
        return connection.modern

    def _handle_events(self, connection: Connection) -> None:
        """Handle events until a new subscription is needed."""
        while not self._ending.is_set():
            for session in self._ended_sessions.take():
                self.call_connections.end_session(session)
            events = self._events.get_all(min(self.patience.probe, self._unread.seconds_left()))
            self.call_connections.reap()
            words = {what for what, _ in events}
            self._publish_updates(uri for what, uri in events if what == "notifications/resources/updated")
            retried = frozenset() if connection.is_busy() else self._unread.get_due()
            if retried:
                self._refresh(connection, retried)
            elif not words or words & {LOST, SUSPECT}:
                self._probe(connection)
            if words & CHANGES:
                self._refresh(connection, words & CHANGES)
                self._ending.wait(self._refreshes.spend())
            if LOST in words:
                # Pause, for an upstream that ends each subscription at once.
                self._ending.wait(FIRST_RETRY_SECONDS)
            if words & {LOST, WANTED, OUTDATED}:
                return

    def _listening(
        self, connection: Connection, uris: list[str]
    ) -> AbstractContextManager[Future[None]] | AbstractContextManager[None]:
        if not connection.modern:
            return connection.listen()
        offered = connection.capabilities
        kinds = [kind for kind in ("tools", "resources", "prompts") if (offered.get(kind) or {}).get("listChanged")]
        kinds += ["events"] if (find_events(offered) or {}).get("listChanged") else []
        uris = uris if (offered.get("resources") or {}).get("subscribe") else []
        return connection.listen(kinds, uris) if kinds or uris else nullcontext()

    def _try_request(self, connection: Connection, method: str, params: Mapping[str, Any]) -> None:
        """Send a request that the upstream may refuse or leave without an answer. Raises Unreachable."""
        try:
            connection.get_result(method, params, timeout=self.patience.answer)
        except (McpFailure, ServerTimeout) as problem:
            if connection.closed:
                raise
            log.info("the upstream %s refused %s: %s", self.mount.name, method, problem.message)

    def _probe(self, connection: Connection) -> None:
        """Raise Unreachable when the upstream is dead; show on its page which probe it answers."""
        known = self._liveness.note
        self._liveness.check(connection, self.is_program)
        if self._liveness.note != known:
            self._record_answer(connection)

    def _refresh(self, connection: Connection, changed: Iterable[str] = ()) -> None:
        """Read all lists, or those that these notifications announce; store them when they differ."""
        name, mount, store = self.mount.name, self.mount.digest, self._context.store
        before = snapshots.load_snapshot(store, name, mount)
        fresh = snapshots.read_snapshot(connection, mount, self._unread, before, frozenset(changed), self.id)
        if self.accounts is not None:
            fresh = without_resources(fresh)
        if self.id in fresh.via:
            raise MountCycle("its lists lead back to this mount of this hub")
        if len(fresh.via) > MAX_MOUNTS_IN_ROW:
            raise MountCycle(f"more than {MAX_MOUNTS_IN_ROW} mounts follow each other")
        # Another process may have stored these lists in the meantime: its first sight counts.
        fresh = snapshots.with_first_sight(fresh, snapshots.load_snapshot(store, name, mount), store.now())
        if self._ending.is_set():
            return
        # The pins first: no process serves a list before its entries are compared with them.
        is_pinned_anew = self._observe(fresh)
        if snapshots.store_snapshot(store, name, fresh) or is_pinned_anew:
            self._context.announce()

    def _observe(self, fresh: Snapshot) -> bool:
        """Compare fresh lists with the pins; return whether the pins changed."""
        if self.changes is None or not self._is_current:
            return False
        listed = snapshots.listed_entries(fresh, fresh.descriptors()[0])
        return observe(self._context.store, self.mount.name, listed, self.changes, snapshots.AUTHOR)

    def _publish_updates(self, uris: Iterable[str]) -> None:
        for uri in uris:
            self._context.store.bus.publish(f"{UPDATED}{self.mount.name}", uri.encode("utf-8", "replace"))

    def _record_failure(self, problem: PatchbayError, tries: int) -> float:
        """Record the failure; return the seconds until the next attempt."""
        circle = isinstance(problem, MountCycle)
        retry = MAX_RETRY_SECONDS if circle else min(MAX_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(tries - 1, 10))
        retry = max(retry, min(MAX_RETRY_AFTER_SECONDS, get_retry_after(problem.data) or 0.0))
        whole, reason = self.mask(problem.message), self.describe(problem)
        since = self.health.since if self.health.state in ("down", "circle") else time.time()
        state: State = "circle" if circle else "down"
        output = tuple(list_output(whole))
        variable = problem.variable if isinstance(problem, UnsetVariable) else ""
        self.health = Health(state, reason, tries=tries, retry=retry, since=since, output=output, variable=variable)
        log.warning("the upstream %s: %s (try %d; the next one in %.1f s)", self.mount.name, whole, tries, retry)
        return retry

    @property
    def _secrets(self) -> frozenset[str]:
        """The values that no message shows, with the earlier ones of connections whose answers may still come.

        The credential with which a caller reads the lists is among them; that of a call is masked with its call.
        """
        used = self._credential
        own = used.secrets if used is not None else frozenset[str]()
        return self._present_secrets | self._earlier_secrets | own

    @property
    def _present_secrets(self) -> frozenset[str]:
        used = self._opener.variables
        return self.mount.secrets(self._context.variables(self.mount.name) if used is None else used)

    def mask(self, text: str) -> str:
        """Return a text of the upstream without the secrets of the mount."""
        return mask_secrets(text, self._secrets)

    def describe(self, problem: PatchbayError) -> str:
        """Return why the upstream failed as one line without secrets: the words of its page, its calls and `doctor`."""
        if isinstance(problem, UnsetVariable):
            return describe_unset(problem)
        label = f"{self.reach.label}: " if self.reach is not None else ""
        words = describe_briefly(self.mask(problem.message).removeprefix(self.mask(label)))
        confinement = self.confinement if self.is_program else None
        hint = explain_denial(confinement, problem.message) if confinement is not None else ""
        return f"{words}. {hint}" if hint else words

    def last(self) -> Snapshot | None:
        """Return its offers at its last answer."""
        return snapshots.load_snapshot(self._context.store, self.mount.name, self.mount.digest)
