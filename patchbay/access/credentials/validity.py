"""Whether the credential behind a principal is still good: one question for everything that stays open.

Streams, WebSockets, rooms, webhooks and jobs outlive the request that began them, so they ask again: after each
notice that credentials have ended (ACCESS_ENDED), and at their own intervals. A process looks for such ends
several times a second with one short read of the journal, whichever process or machine wrote them, and then tells its
streams. Between two looks an answer costs one lookup in a dictionary.

While the store is away nothing can end there, so the last answers stay.
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

from patchbay.access.credentials.names import (
    KEY,
    OPERATOR,
    SESSION,
    SIGN_IN,
    TOKEN,
    end_of_token,
    key_of_token,
    note_end,
)
from patchbay.access.keys import PersonalKeys
from patchbay.access.operator_token import OperatorToken
from patchbay.access.principals import KEY_IDS, LOCAL_ID, OPERATOR_ID, Principal
from patchbay.background import BackgroundLoop
from patchbay.errors import ConfigError, ContentError, StoreAway
from patchbay.store import Store
from patchbay.topics import ACCESS_ENDED, ACCESS_ENDS, ENDED_OPERATORS, OPERATOR_SESSIONS

if TYPE_CHECKING:
    from patchbay.access.credentials.people import PeopleCredentials

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
"""Seconds between two looks for credentials that have ended."""

RECHECK_SECONDS = 5.0
"""Seconds for which a good answer counts without an end: some credentials end by time alone."""

MAX_ANSWERS = 20_000
"""Maximum number of good answers, and of bad ones, that are remembered."""

Version = tuple[int, int, int, str]
"""What changes when credentials end: the state of the keys, the notes of ends, the operator's token."""


class Validity:
    """The credentials of one hub. Safe to use from many threads.

    `operator` is the token of the operator on this machine: another machine on the same store has its own.
    """

    def __init__(self, store: Store, operator: OperatorToken) -> None:
        self._store = store
        self._journal = store.journal
        self.keys = PersonalKeys(store)
        self.operator = operator
        self._version: Version = (-1, -1, -1, "")
        self._looked = -LOOK_SECONDS
        self._good: dict[str, float] = {}
        self._ended: set[str] = set()
        self._token_ends: list[float] = []  # the ends that open streams wait for, the soonest first
        self._ends_lock = threading.Lock()  # each envelope of a room asks: it waits for no read of the store
        self._lock = threading.Lock()
        self._loop = BackgroundLoop(
            "credentials", self._look_and_tell, "no look for ended credentials", first_after=LOOK_SECONDS
        )
        self._told = self._version
        """The version that the streams know."""

    def is_good(self, sender: Principal) -> bool:
        """Whether the credential of a sender is still good, as far as this hub itself can tell.

        An answer may be LOOK_SECONDS old. What was good when the store went away stays so until it is back.
        """
        name = sender.credential or _name_without_credential(sender)
        if name == LOCAL_ID:
            return True
        self.watch()
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._try_to_look()
        good = self._good  # an end replaces it, so that an answer from before the end is not kept
        if good.get(name, 0.0) > now:
            return True
        try:
            is_good = self._check(sender)
        except StoreAway:
            return name not in self._ended
        except ContentError as problem:  # what cannot be read loosens nothing
            log.warning("the credential of %s counts as ended: %s", sender.id, problem.message)
            is_good = False
        if not is_good:
            if len(self._ended) >= MAX_ANSWERS:
                self._ended.clear()
            self._ended.add(name)
        else:
            if len(good) >= MAX_ANSWERS:
                good.clear()
            good[name] = now + RECHECK_SECONDS
        return is_good

    def has_expired(self, sender: Principal) -> bool:
        """Whether the token of an outside issuer that proved a sender is refused by now; False for other senders.

        What only listens ends then, because the issuer tells the hub of nothing else that ends. A call that began
        before, a task and a webhook go on.
        """
        end = end_of_token(sender.credential)
        if end is None:
            return False
        if self._journal.now() >= end:
            return True
        self.watch()
        self._wait_for(end)
        return False

    def _wait_for(self, end: float) -> None:
        """Wake the streams at this end of a token.

        Beyond MAX_ANSWERS the latest end is forgotten: its stream asks again when a sooner one wakes it.
        """
        with self._ends_lock:
            ends = self._token_ends
            place = bisect_left(ends, end)
            if place == MAX_ANSWERS or (place < len(ends) and ends[place] == end):
                return
            ends.insert(place, end)
            del ends[MAX_ANSWERS:]

    def watch(self) -> None:
        """Tell the streams of this process when credentials end, from now on."""
        if not self._loop.is_started:
            with self._lock:
                if not self._loop.is_started:
                    self._told = self._version
                    self._loop.start()

    def close(self) -> None:
        """Stop looking."""
        self._loop.close(LOOK_SECONDS * 8)

    def _look_and_tell(self) -> float:
        self._try_to_look()
        if self._forget_ended_tokens() or self._version != self._told:
            self._told = self._version
            self._store.bus.publish_here(ACCESS_ENDED)
        return LOOK_SECONDS

    def _forget_ended_tokens(self) -> bool:
        """Forget the ends of tokens that are over; return whether there were any."""
        if not self._token_ends:
            return False
        now = self._journal.now()
        with self._ends_lock:
            over = bisect_right(self._token_ends, now)
            del self._token_ends[:over]
        return over > 0

    def _try_to_look(self) -> None:
        try:
            self._look()
        except ContentError as problem:
            log.debug("no look for ended credentials: %s", problem.message)

    def _look(self) -> None:
        """Look for credentials that have ended; after an end, forget which credentials were valid."""
        with self._lock:
            if time.monotonic() - self._looked < LOOK_SECONDS:
                return
            generation = self._find_generation()
            keys = self.keys.look()
            version = (*keys, self._journal.last(ACCESS_ENDS), generation)
            if version != self._version:
                self._note_operator_ends(self._version[3], generation)
                self._version, self._good = version, {}
            self._looked = time.monotonic()

    def _find_generation(self) -> str:
        try:
            return self.operator.generation()
        except ConfigError:
            return ""  # no token is right while the file is damaged

    def _note_operator_ends(self, before: str, now: str) -> None:
        """Tell the hubs of other machines which tokens of this machine's operator have ended."""
        if not self._store.is_shared or before == now:
            return
        for generation in {*self.operator.ended_generations(), before} - {"", now}:
            if not self._journal.last(ENDED_OPERATORS + generation):
                self._journal.append(ENDED_OPERATORS + generation, b"ended")
                note_end(self._journal, "a token of the operator")

    def _check(self, sender: Principal) -> bool:
        """Return whether the store of this kind of credential still has it. Raises ContentError."""
        kind, _, rest = sender.credential.partition(":")
        if kind == KEY:
            return self.keys.is_current(sender)
        if kind == SESSION:
            return self._people.has_session(sender.account, rest)
        if kind == SIGN_IN:
            return self._people.has_sign_in(sender.account, rest)
        if kind == OPERATOR:
            return self._is_operator(rest)
        if key := key_of_token(sender.credential):
            return self.keys.has_digest(key)
        # Stored by an earlier version of the hub, or of an outside issuer: of its tokens the hub knows the end alone,
        # for which what only listens asks (`has_expired`).
        if kind == TOKEN or sender.issuer or sender.id == OPERATOR_ID:
            return True
        return self.keys.is_current(sender) if sender.id.startswith(KEY_IDS) else not self._people.is_removed(sender.id)

    def _is_operator(self, token: str) -> bool:
        """Whether a token of the operator, named `GENERATION.NONCE`, is the present one and its session goes on."""
        generation, _, nonce = token.partition(".")
        own = self._find_generation()
        if generation != own:
            is_of_another_machine = self._store.is_shared and generation not in self.operator.ended_generations()
            if not own or not is_of_another_machine or self._journal.last(ENDED_OPERATORS + generation):
                return False
        return not nonce or not self._journal.last(OPERATOR_SESSIONS + nonce)

    @cached_property
    def _people(self) -> PeopleCredentials:
        from patchbay.access.credentials.people import PeopleCredentials

        return PeopleCredentials(self._journal)


def _name_without_credential(sender: Principal) -> str:
    """Return a name for the answer about a sender that an earlier version stored: its id, and its scopes if any."""
    return sender.id if sender.scopes is None else f"{sender.id} {' '.join(sorted(sender.scopes))}"
