"""The ways with an account that the caller connects on a page of the hub, before the first call or during it.

A caller without an account is asked to open the page: by elicitation in URL mode, or by a link in the error for clients
that cannot show it. The same holds for an account that the server has refused.
Source: MCP specification 2025-11-25 and 2026-07-28, client/elicitation (URL mode).
"""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Generator, Mapping
from typing import Any
from urllib.parse import quote

from patchbay.activation import PAUSE, Call, Cancelled, pauses
from patchbay.caller_accounts.credentials import PAGE, CallerCredential, CallerCredentials, StoredAccount, Upstream
from patchbay.caller_accounts.pages import CONNECT_SECONDS, can_open_pages
from patchbay.caller_accounts.way import Require, WayContext
from patchbay.client.errors import SignInNeeded
from patchbay.errors import ServerFailed, ToolFailed
from patchbay.events import Ask, Event, Question
from patchbay.topics import UPSTREAM_SIGN_INS_CHANGED

ASK = "elicitation/create"


class ConnectedAccounts:
    """The accounts of callers at one mount; a subclass says what a stored account is at the server."""

    is_stored = True
    needs_caller_for_lists = True

    def __init__(self, context: WayContext) -> None:
        self._context = context

    @abstractmethod
    def convert(self, account: StoredAccount, upstream: Upstream) -> CallerCredential | None:
        """Return the credential of an account; None for one that was connected in another way."""

    @property
    def upstream(self) -> Upstream:
        """Where callers connect accounts. Raises ConfigError for a missing profile or variable."""
        return self._context.find_upstream()

    @property
    def credentials(self) -> CallerCredentials:
        """The accounts of callers. Raises ToolFailed for a hub that keeps none."""
        if self._context.credentials is None:
            raise ServerFailed(f"{self._context.name} needs an account of each caller, and no caller can sign in here")
        return self._context.credentials

    def require(self, call: Call, refused: str = "") -> Require:
        """Return the credential of a caller, who is asked to connect an account first if needed.

        Raises ToolFailed with the link when the caller's client cannot be asked, or no account is connected in time.
        """
        credentials, upstream = self.credentials, self.upstream
        if refused:
            credentials.note_refusal(call.principal, upstream, refused)
        found = self._find(call.principal, upstream, refused)
        if found is not None and not self._is_being_replaced(call, upstream):
            return found
        refused = refused or (found.id if found is not None else "")
        words = describe_need(upstream, bool(refused))
        if call.can_wait:  # the run of a script waits for the account, without this call
            question = _page_question(words, self._page_url(upstream, call))
            yield Ask({_key_of(upstream): question}, (upstream.key, refused))
        if call.can_wait or not can_open_pages(call):
            raise ToolFailed(f"{words} {self._lead(upstream, call)}")
        yield from _ask(upstream, words, self._page_url(upstream, call), call)
        found = yield from self._wait(upstream, call, refused)
        if found is None:
            raise ToolFailed(f"{words} {self._lead(upstream, call)}")
        return found

    def _is_being_replaced(self, call: Call, upstream: Upstream) -> bool:
        """Whether the caller was asked for another account in place of a refused one, and repeats the call.

        With the refused one, the call would be ended by the account that takes its place.
        """
        account = self.credentials.find(call.principal, upstream)
        return account is not None and account.is_refused and _key_of(upstream) in call.answered

    def explain(self, call: Call) -> str:
        """Say where a caller connects an account in place of one that was refused."""
        upstream = self.upstream
        return f"{describe_need(upstream, is_refused=True)} {self._lead(upstream, call)}"

    def is_current(self, principal: str, id: str) -> bool:
        """Whether an account is still connected."""
        found = self._find(principal, self.upstream)
        return found is not None and found.id == id

    def has_for_lists(self) -> bool:
        """Whether a principal has connected an account."""
        return self._context.credentials is not None and bool(self._context.credentials.list_principals(self.upstream))

    def find_for_lists(self, tries: int) -> CallerCredential:
        """Return the credential of the first principal, after failures that of the next one. Raises SignInNeeded."""
        upstream = self.upstream
        names = self.credentials.list_principals(upstream)
        found = self._find(names[tries % len(names)], upstream) if names else None
        if found is None:
            raise SignInNeeded(f"no caller has connected an account at {upstream.label}")
        return found

    def _find(self, principal: str, upstream: Upstream, refused: str = "") -> CallerCredential | None:
        account = self.credentials.find(principal, upstream)
        return None if account is None or account.id == refused else self.convert(account, upstream)

    def _page_url(self, upstream: Upstream, call: Call) -> str:
        """Return the URL of the page where the caller connects its account.

        The URL proves nothing: the page connects the person who opens it. Only an administrator connects for a key.
        """
        whose = f"?for={quote(call.principal, safe='')}" if call.principal.startswith("key:") else ""
        return self.credentials.page_url(f"{PAGE}/{quote(upstream.server, safe='')}{whose}", call.find_base_url())

    def _lead(self, upstream: Upstream, call: Call) -> str:
        """Say to a caller, or to the model of its client, how to connect an account."""
        return (
            "Open this page in a browser in which you are signed in to the hub, connect the account, then send the same"
            f" call again: {self._page_url(upstream, call)}"
        )

    def _wait(self, upstream: Upstream, call: Call, refused: str) -> Generator[Event, Any, CallerCredential | None]:
        """Wait until the caller has connected an account that was not refused; None after CONNECT_SECONDS.

        The deadline moves with the wait.
        """
        begun = call.left()
        call.deadline += CONNECT_SECONDS
        try:
            with self.credentials.bus.subscribe([UPSTREAM_SIGN_INS_CHANGED]) as mailbox:
                for seconds in pauses(call):
                    if (found := self._find(call.principal, upstream, refused)) is not None:
                        return found
                    if (left := call.left() - begun) <= 0:
                        return None
                    mailbox.get(min(seconds, left))
                    yield PAUSE
                    if call.cancelled:
                        raise Cancelled(call.cancelled.describe())
        finally:
            # The call keeps the time that it had before.
            call.deadline -= max(0.0, call.left() - begun)
        return None


def describe_need(upstream: Upstream, is_refused: bool = False) -> str:
    """Say why a caller has to connect an account."""
    if is_refused:
        return f"{upstream.server} refused your account at {upstream.label}: it wants another credential of yours."
    return f"{upstream.server} needs your own account at {upstream.label}."


def _key_of(upstream: Upstream) -> str:
    """Return the key of the question for an account."""
    return f"sign-in-{upstream.key}"


def _page_question(words: str, url: str) -> Question:
    params = {
        "mode": "url",
        "message": f"{words} Connect it on a page of this hub.",
        "url": url,
        "elicitationId": secrets.token_urlsafe(16),
    }
    return Question(ASK, params)


def _ask(upstream: Upstream, words: str, url: str, call: Call) -> Generator[Event, Any, None]:
    """Ask the client to open the URL. Raises ToolFailed if the person does not want to."""
    key = _key_of(upstream)
    answers = yield Ask({key: _page_question(words, url)})
    answer = answers.get(key) if isinstance(answers, Mapping) else None
    if not isinstance(answer, Mapping) or answer.get("action") != "accept":
        raise ToolFailed(f"not called: you did not connect your account at {upstream.label}")
