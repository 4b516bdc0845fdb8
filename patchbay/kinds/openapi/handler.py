"""Run a call of a mounted API: build its request, add credentials, send it, and read the pages of its answer.

A safe request that the API delays (429 or 503 with `Retry-After`) is sent once more when that is within the deadline.
An answer with a status of 400 or above is a failure with its body. Streams become text and progress as they arrive.
Cancelling a call cancels its request. Messages do not show credentials.

Sources: RFC 9110 sections 9.2.1 (safe methods) and 10.2.3 (Retry-After); RFC 6585 section 4.
"""

from __future__ import annotations

import asyncio
import queue
import re
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from patchbay.activation import PAUSE, Call, Events, Handler, pauses, pauses_for
from patchbay.caller_accounts.accounts import CallersAccounts
from patchbay.caller_accounts.credentials import CallerCredential
from patchbay.client.addresses.targets import mask_secrets, mask_url
from patchbay.client.addresses.variables import UnsetVariable
from patchbay.client.auth.methods import RequestParts
from patchbay.client.connection.event_loop import get_shared_loop
from patchbay.client.errors import SignInNeeded, Unreachable
from patchbay.client.openapi.api_connection import ApiConnection, ApiExchange, Piece
from patchbay.client.openapi.http_client import Reply, RequestRules, get_origin
from patchbay.client.openapi.requests import HttpRequest, build_request
from patchbay.errors import PatchbayError, ToolFailed
from patchbay.events import Content, Event, Failed, Log, Progress, Text
from patchbay.kinds.openapi import credentials
from patchbay.kinds.openapi.answers import (
    STREAMED,
    StreamDecoder,
    decode_json,
    describe_failure,
    list_body_events,
    list_value_events,
)
from patchbay.kinds.openapi.caller_sign_in import needs_credential
from patchbay.kinds.openapi.credentials import PrivateParts
from patchbay.kinds.openapi.files import load_files
from patchbay.kinds.openapi.next_page import find_next_url, join_pages, make_continuation
from patchbay.kinds.openapi.standing_api import MAX_ANSWER_BYTES, StandingApi
from patchbay.kinds.openapi.tools import NEXT, ApiTool, ApiTools
from patchbay.upstreams.standing import describe_unset

SAFE_METHODS = ("GET", "HEAD", "OPTIONS", "QUERY")
DELAYED = (429, 503)
TOKEN_MARGIN_SECONDS = 30.0
"""Seconds before its end at which a token is not used any more."""

DEFAULT_TOKEN_SECONDS = 300.0

ReplyEvents = Generator[Event, Any, Reply]

_LOGGER = "openapi"
_SAME_PAGE = "the pages never end: an answer leads to a page that was read before; the result has the pages up to it"


def api_handler(standing: StandingApi, tools: ApiTools) -> Handler:
    """Return the handler of targets `{"tool"}`: the operations of an API."""

    def run(call: Call) -> Events:
        own = _ApiCall(standing, tools, tools.tools[str(call.target["tool"])], call)
        try:
            yield from _run_tool(own)
        except UnsetVariable as problem:
            lacks = f"{standing.mount.name} needs the variable {problem.variable}, which is not set"
            raise ToolFailed(f"{lacks}: {describe_unset(problem)}") from problem
        except PatchbayError as problem:
            problem.message = mask_secrets(problem.message, own.list_secrets())
            raise

    return run


class _ApiCall:
    """One call: its tool, and the request that it makes."""

    def __init__(self, standing: StandingApi, tools: ApiTools, tool: ApiTool, call: Call) -> None:
        self.standing, self.tool, self.call = standing, tool, call
        self.api = tools.api
        self.place = f"{tool.operation.method.upper()} {tool.operation.path}"
        self._first_secrets = standing.secrets
        self.private = PrivateParts()
        self.of_caller: _CallerParts | None = None

    def list_secrets(self) -> frozenset[str]:
        """Return the values that no message of this call shows; they may have changed several times since its start."""
        own = self.of_caller.secrets if self.of_caller is not None else frozenset[str]()
        return self._first_secrets | self.standing.secrets | own

    def build_request(self) -> HttpRequest:
        """Build the request without credentials. Raises InvalidParams, ToolFailed."""
        arguments = dict(self.call.arguments)
        following = arguments.pop(NEXT, None) if self.tool.has_next else None
        for name in self.tool.files & arguments.keys():
            arguments[name] = load_files(arguments[name], self.call)
        base = self.standing.substitute(self.tool.base, "base").rstrip("/")
        request = build_request(self.tool.operation, base, arguments)
        if following is not None:
            if not str(following).startswith("?"):
                raise ToolFailed(f"{NEXT}: expected the value of an earlier result, which begins with ?")
            request = replace(request, url=request.url.partition("?")[0] + str(following))
        return request

    def add_credentials(self) -> Events:
        """Collect what every request of this call carries beside its arguments."""
        configured: dict[str, Any] = orjson.loads(self.standing.mount.credentials)
        for name in credentials.choose_schemes(self.tool.operation, self.api, configured):
            value = self.standing.substitute(configured[name], f"credentials.{name}")
            scheme = self.api.authentication[name]
            if credentials.needs_token(value):
                value = yield from self._get_token(name, scheme, value)
            credentials.add_scheme(self.private, scheme, value)
        accounts = self.standing.accounts
        way = self.standing.mount.way
        if (
            accounts is not None
            and way is not None
            and needs_credential(way, self.tool.operation, self.api, configured)
        ):
            self.of_caller = _CallerParts(accounts, self.call)
            yield from self.of_caller.take()
        pairs = self.standing.substitute(dict(self.standing.mount.query), "query")
        self.private.query += pairs.items()

    def send(self, request: HttpRequest) -> Generator[Event, Any, tuple[ApiExchange, Reply]]:
        """Send a request with its credentials; return the running exchange and the head of its answer.

        A request that the API refuses because of the credential of the caller is sent once more with another one.
        """
        connection = self.standing.connection
        retried, is_renewed = request.method not in SAFE_METHODS, False
        while True:
            exchange = connection.start(self._add_private_parts(request), max(0.1, self.call.left()))
            head = yield from _receive_head(exchange, self.call)
            if head.status == 401 and self.of_caller is not None and not is_renewed:
                exchange.close()
                yield from self.of_caller.renew()
                is_renewed = True
                continue
            wait = _get_delay(head) if head.status in DELAYED and not retried else None
            if wait is None or wait >= self.call.left():
                return exchange, head
            exchange.close()
            retried = True
            yield from _wait(wait, self.call)

    def _add_private_parts(self, request: HttpRequest) -> HttpRequest:
        """Add the credentials to a request. Raises Unreachable for an origin that gets none."""
        if self.private:
            self.standing.connection.rules.check_private(request.url)
            request = self.private.add_to(request)
        if self.of_caller is None:
            return request
        own = get_origin(self.standing.substitute(self.standing.mount.base, "base"))
        if get_origin(request.url) != own:
            raise Unreachable(f"{get_origin(request.url)} gets no credential of the caller, only {own} does")
        parts = self.of_caller.parts
        return PrivateParts(dict(parts.headers), list(parts.query)).add_to(request)

    def _get_token(self, name: str, scheme: Mapping[str, Any], value: Mapping[str, Any]) -> Generator[Event, Any, str]:
        known = self.standing.tokens.get(name)
        if known is not None and known[1] > time.monotonic():
            return known[0]
        url, is_named = credentials.find_token_url(scheme, value)
        connection = self.standing.connection
        if is_named:
            connection = ApiConnection(RequestRules((url,), {}, "token_url: "), MAX_ANSWER_BYTES)
        connection.rules.check_private(url)
        try:
            exchange = connection.start(credentials.make_token_request(url, value), max(0.1, self.call.left()))
            with _closing(exchange):
                head = yield from _receive_head(exchange, self.call)
                reply = yield from _receive_body(exchange, head, self.call)
        finally:
            if is_named:
                connection.close()
        _, found = decode_json(reply)
        token = found.get("access_token") if isinstance(found, Mapping) else None
        if reply.status >= 400 or not isinstance(token, str):
            raise ToolFailed(describe_failure(reply, f"{mask_url(url)}, for a token,"))
        seconds = found.get("expires_in")
        seconds = float(seconds) if isinstance(seconds, int | float) else DEFAULT_TOKEN_SECONDS
        self.standing.tokens[name] = token, time.monotonic() + max(0.0, seconds - TOKEN_MARGIN_SECONDS)
        return token


class _CallerParts:
    """What the requests of one call carry of the caller's own credential; empty before it is taken."""

    def __init__(self, accounts: CallersAccounts, call: Call) -> None:
        self.accounts, self.call, self.parts = accounts, call, RequestParts()
        self.credential: CallerCredential | None = None
        self.secrets = frozenset[str]()
        """The values that no message shows, also of earlier credentials of this call."""

    def take(self, refused: str = "") -> Events:
        """Take the caller's credential, not the one with the id `refused`; the caller is asked for it if needed.

        Raises ToolFailed with what the caller does, Unreachable.
        """
        self.credential = yield from self.accounts.require(self.call, refused)
        try:
            yield from self._read(self.credential, None)
        except SignInNeeded as problem:
            raise ToolFailed(self.accounts.explain(self.call)) from problem

    def renew(self) -> Events:
        """Take other parts in place of those that the API has refused: fresh tokens, or another credential.

        Raises ToolFailed with what the caller does, Unreachable.
        """
        assert self.credential is not None
        try:
            yield from self._read(self.credential, self.parts)
        except SignInNeeded:
            yield from self.take(self.credential.id)

    def counted(self) -> AbstractContextManager[None]:
        """Count the call as running with the credential: the end of the credential ends it."""
        return self.accounts.using(self.call, lambda: self.credential.id if self.credential is not None else "")

    def _read(self, credential: CallerCredential, refused: RequestParts | None) -> Events:
        """Read the parts of a credential, on another thread, because a token may have to be refreshed first."""
        assert credential.source is not None
        taken = get_shared_loop().start(asyncio.to_thread(credential.source.get_parts, refused))
        try:
            for wait in pauses(self.call):
                with suppress(TimeoutError):
                    self.parts = taken.result(wait)
                    self.secrets |= self.parts.secrets
                    return
                yield PAUSE
        finally:
            taken.cancel()


def _run_tool(run: _ApiCall) -> Events:
    request = run.build_request()
    yield from run.add_credentials()
    with run.of_caller.counted() if run.of_caller is not None else nullcontext():
        yield from _send_request(run, request)


def _send_request(run: _ApiCall, request: HttpRequest) -> Events:
    exchange, head = yield from run.send(request)
    with _closing(exchange):
        if head.status < 300 and head.media_type in STREAMED:
            yield from _read_stream(exchange, head, run.call)
            return
        reply = yield from _receive_body(exchange, head, run.call)
    if reply.status >= 300:
        message = mask_secrets(describe_failure(reply, run.place), run.list_secrets())
        if reply.status == 401 and run.of_caller is not None:
            yield Failed(f"{message}\n{run.of_caller.accounts.explain(run.call)}")
            return
        yield Failed(message + _describe_missing_credentials(run, reply.status))
        return
    is_json, value = decode_json(reply)
    if not is_json:
        yield from list_body_events(reply, run.tool.descriptor)
        return
    value, following = yield from _read_pages(run, request, reply, value)
    yield from list_value_events(value, run.tool.descriptor)
    if following:
        yield Content({"type": "text", "text": f'There are more: call again with "{NEXT}": "{following}".'})


def _read_pages(
    run: _ApiCall, request: HttpRequest, reply: Reply, value: Any
) -> Generator[Event, Any, tuple[Any, str]]:
    """Read the following pages up to the limit; return all of them as one value, and what `next` is after them."""
    if request.method != "GET":
        return value, ""
    seen, last = {request.url}, value
    for _ in range(run.standing.mount.pages):
        url = find_next_url(reply, last, request.url, run.tool.operation)
        if url in seen:
            yield Log("warning", f"{run.place}: {_SAME_PAGE}", _LOGGER)
        if not url or url in seen:
            return value, ""
        if len(seen) == run.standing.mount.pages:
            private = frozenset(name for name, _ in run.private.query)
            return value, make_continuation(url, request.url, private) if run.tool.has_next else ""
        seen.add(url)
        request = replace(request, url=url)
        exchange, head = yield from run.send(request)
        with _closing(exchange):
            reply = yield from _receive_body(exchange, head, run.call)
        before, (is_json, last) = last, decode_json(reply)
        if last == before and find_next_url(reply, last, request.url, run.tool.operation) in seen:
            yield Log("warning", f"{run.place}: {_SAME_PAGE}", _LOGGER)
            return value, ""
        joined = join_pages(value, last) if is_json and reply.status < 400 else None
        if joined is None:
            return value, ""
        value = joined
        yield Progress(len(seen), run.standing.mount.pages, f"read page {len(seen)}")
    return value, ""


def _read_stream(exchange: ApiExchange, head: Reply, call: Call) -> Events:
    decoder, count = StreamDecoder(head.media_type), 0
    while (piece := (yield from _receive(exchange, call))) is not None:
        for text in decoder.feed(piece if isinstance(piece, bytes) else b""):
            count += 1
            yield Text(text)
            yield Progress(count, message=text.strip()[:200])
    for text in decoder.end():
        yield Text(text)


def _receive(exchange: ApiExchange, call: Call) -> Generator[Event, Any, Piece]:
    """Return the next piece. Raises PatchbayError for a failure."""
    for pause in pauses_for(call, exchange):
        try:
            piece = exchange.get(0)
        except queue.Empty:
            yield pause
            continue
        if isinstance(piece, PatchbayError):
            raise piece
        return piece
    raise AssertionError("pauses never end")


def _receive_head(exchange: ApiExchange, call: Call) -> ReplyEvents:
    try:
        head = yield from _receive(exchange, call)
    except BaseException:
        exchange.close()
        raise
    assert isinstance(head, Reply), head
    return head


def _receive_body(exchange: ApiExchange, head: Reply, call: Call) -> ReplyEvents:
    pieces: list[bytes] = []
    while (piece := (yield from _receive(exchange, call))) is not None:
        if isinstance(piece, bytes):
            pieces.append(piece)
    return replace(head, body=b"".join(pieces))


@contextmanager
def _closing(exchange: ApiExchange) -> Iterator[None]:
    try:
        yield
    finally:
        exchange.close()


def _get_delay(head: Reply) -> float | None:
    """Return the seconds of the header Retry-After; None without one."""
    text = str(head.headers.get("retry-after", ""))
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def _wait(seconds: float, call: Call) -> Events:
    end = time.monotonic() + seconds
    for wait in pauses(call):
        left = end - time.monotonic()
        if left <= 0:
            return
        call.cancelled.wait(min(wait, left))
        yield PAUSE


def _describe_missing_credentials(run: _ApiCall, status: int) -> str:
    """Return which credentials the configuration lacks, as the end of the message of a refusal.

    Empty for a call through a toolset, whose caller may not know the server.
    """
    configured = orjson.loads(run.standing.mount.credentials)
    if run.call.shown or status not in (401, 403) or configured or not run.api.authentication:
        return ""
    first, *others = run.api.authentication
    name = run.call.server
    line = f'"credentials": {{"{first}": "${{{_variable_name(name, first)}}}"}}'
    also = f" The API also knows {', '.join(others)}." if others else ""
    return f"\nAdd the line {line} to servers/{name}.json, and set this variable for the hub.{also}"


def _variable_name(server: str, scheme: str) -> str:
    """Return a name for the environment variable of a credential: `SHOP_KEY` for the scheme `key` of `shop`."""
    return re.sub(r"[^A-Z0-9]+", "_", f"{server}_{scheme}".upper()).strip("_")
