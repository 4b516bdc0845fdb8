"""The requests of webhooks: signed, to addresses that were checked, without redirects, with nothing read but a status.

The host is looked up for each request, and the connection goes to the address that was checked. A connection that is
still open to such an address is used again. What an endpoint answers is not passed on: failures have a category.
Sources: SEP-3415, Webhook security; Standard Webhooks, specification (signatures); CWE-918.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from hashlib import sha256
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from patchbay.client.errors import Unreachable
from patchbay.client.public_hosts import resolve_host, resolve_public_addresses
from patchbay.errors import CallbackFailed, InvalidParams
from patchbay.protocol.webhooks.kept_connections import (
    KEPT_SECONDS,
    MAX_KEPT_OF_DESTINATION,
    Destination,
    KeptConnections,
)
from patchbay.protocol.webhooks.timed_connections import bound_requests, ends_within

if TYPE_CHECKING:
    import httpx2

MAX_URL_CHARACTERS = 2048
ANSWER_SECONDS = 5.0
"""Seconds within which an endpoint has to send each part of its head, and its whole body."""

REQUEST_SECONDS = 10.0
"""Seconds from the beginning of a request to the end of the head of its answer."""

MAX_CHALLENGE_BYTES = 4096
"""Bytes that are read of the answer to a challenge."""

SECRET_PREFIX = "whsec_"
MIN_SECRET_BYTES, MAX_SECRET_BYTES = 24, 64
"""Bytes of a secret."""

REFUSED_FOR_GOOD = frozenset((410, 413))
"""Statuses after which the same delivery is not tried again."""


def check_url(url: Any) -> str:
    """Return a callback URL. Raises InvalidParams for one that is not plain https."""
    if not isinstance(url, str) or len(url) > MAX_URL_CHARACTERS:
        raise InvalidParams(f"params.delivery.url has to be a string of at most {MAX_URL_CHARACTERS} characters")
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if (
        not is_usable
        or "@" in parts.netloc
        or parts.fragment
        or not url.isascii()
        or not url.isprintable()
        or " " in url
    ):
        raise InvalidParams(
            "params.delivery.url has to begin with https:// and name a host, without a user, a password or a fragment"
        )
    return url


def check_secret(secret: Any) -> str:
    """Return a secret of Standard Webhooks. Raises InvalidParams."""
    try:
        if not isinstance(secret, str) or not secret.startswith(SECRET_PREFIX):
            raise ValueError
        size = len(base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True))
        if not MIN_SECRET_BYTES <= size <= MAX_SECRET_BYTES:
            raise ValueError
    except (ValueError, binascii.Error):
        raise InvalidParams(
            f"params.delivery.secret has to be {SECRET_PREFIX} and the base64 of"
            f" {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes"
        ) from None
    return str(secret)


def signature(secret: str, id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a body (Standard Webhooks, `v1`)."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    made = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, sha256)
    return f"v1,{base64.b64encode(made).decode()}"


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to a callback URL. `keys` sign it; `timestamp` is in seconds of Unix time."""

    url: str
    subscription: str
    id: str
    keys: Sequence[str]
    body: bytes
    timestamp: int

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 443

    def headers(self) -> dict[str, str]:
        """Return its headers, with the signatures of the body."""
        made = (signature(key, self.id, self.timestamp, self.body) for key in self.keys)
        return {
            "Host": urlsplit(self.url).netloc,
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            "webhook-id": self.id,
            "webhook-timestamp": str(self.timestamp),
            "webhook-signature": " ".join(made),
            "X-MCP-Subscription-Id": self.subscription,
        }


class _Attempt:
    """One attempt to send a request. It may open a connection (`has_connected`), and get an answer (`has_answered`)."""

    def __init__(self) -> None:
        self.has_connected = self.has_answered = False

    def send(self, client: httpx2.Client, address: str, request: _Request) -> tuple[int, bytes]:
        """Return the status and the beginning of the answer. Raises the errors of httpx2."""
        place = f"[{address}]" if ":" in address else address
        where = urlsplit(request.url)._replace(netloc=f"{place}:{request.port}").geturl()
        more = {"sni_hostname": request.host, "trace": self._note}
        made = client.build_request("POST", where, content=request.body, headers=request.headers(), extensions=more)
        with ends_within(REQUEST_SECONDS):
            reply = client.send(made, stream=True)
        self.has_answered = True
        with closing(reply), ends_within(ANSWER_SECONDS):
            return reply.status_code, _read_beginning(reply)

    def _note(self, event: str, _: object) -> None:
        """Receive an event of httpcore (its extension `trace`)."""
        self.has_connected = self.has_connected or event.startswith("connection.connect_tcp")


def _read_beginning(reply: httpx2.Response) -> bytes:
    """Return what came of an answer in its time, about MAX_CHALLENGE_BYTES at most.

    The status has been read, so a body that breaks off is no failure; its connection is not used again.
    """
    import httpx2

    answer = bytearray()
    with suppress(httpx2.HTTPError, TimeoutError):
        for piece in reply.iter_raw():  # a connection is used again only after the whole answer was read
            answer += piece
            if len(answer) > MAX_CHALLENGE_BYTES:
                break
    return bytes(answer)


class Sender:
    """Sends the requests of webhooks. `private_hosts` may have addresses that are not public."""

    def __init__(self, private_hosts: Collection[str]) -> None:
        self._private_hosts = frozenset(private_hosts)
        self._kept = KeptConnections(self._open_client)

    def _open_client(self) -> httpx2.Client:
        """Return a client for the requests to one destination, of any principal. It takes no cookies."""
        import httpx2

        from patchbay.client.certificates import load_certificates

        limits = httpx2.Limits(max_keepalive_connections=MAX_KEPT_OF_DESTINATION, keepalive_expiry=KEPT_SECONDS)
        return httpx2.Client(
            follow_redirects=False,
            trust_env=False,
            transport=bound_requests(httpx2.HTTPTransport(verify=load_certificates(), limits=limits)),
            timeout=httpx2.Timeout(ANSWER_SECONDS),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )

    def close_unused(self) -> None:
        """Close the connections that no request used for KEPT_SECONDS."""
        self._kept.close_unused()

    def close(self) -> None:
        """Close the kept connections; a later request opens new ones."""
        self._kept.close()

    def verify(self, url: str, subscription: str, keys: Sequence[str], now: float) -> None:
        """Ask a callback URL for the echo of a challenge. Raises CallbackFailed."""
        challenge = secrets.token_urlsafe(32)
        body = orjson.dumps({"type": "verification", "challenge": challenge})
        request = _Request(url, subscription, control_id("verification"), keys, body, int(now))
        with self._open_client() as client:  # not kept: most likely the next event comes much later
            status, answer = self._send(Destination(client), request)
        if not 200 <= status < 300:
            raise CallbackFailed(
                "the callback URL did not accept the challenge: expected 2xx", f"http_{max(4, status // 100)}xx"
            )
        try:
            echo = orjson.loads(answer)["challenge"]
            is_same = hmac.compare_digest(echo.encode(), challenge.encode())
        except (ValueError, KeyError, TypeError, AttributeError):
            is_same = False
        if not is_same:
            raise CallbackFailed(
                'the callback URL did not return {"challenge": ...} with the challenge that it got', "challenge_failed"
            )

    def post(self, url: str, subscription: str, id: str, keys: Sequence[str], body: bytes, now: float) -> int:
        """Send one signed request; return the status of its answer. Raises CallbackFailed without a status."""
        request = _Request(url, subscription, id, keys, body, int(now))
        with self._kept.use(request.host, request.port) as destination:
            return self._send(destination, request)[0]

    def _send(self, destination: Destination, request: _Request) -> tuple[int, bytes]:
        """Send a request; return the status and the beginning of the answer. Raises CallbackFailed.

        An endpoint may close a kept connection at the moment at which it is used again. Then the request is sent once
        more, with the same id, by a new connection.
        """
        import httpx2

        preferred, destination.address = destination.address, ""
        try:
            address = self._resolve(request.host, request.port, preferred)
            attempt = _Attempt()
            try:
                answered = attempt.send(destination.client, address, request)
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
                if attempt.has_connected or attempt.has_answered:
                    raise
                with self._open_client() as client:
                    answered = _Attempt().send(client, address, request)
            destination.address = address
            return answered
        except Unreachable as problem:
            raise CallbackFailed(problem.message, "connection_refused") from problem
        except (httpx2.TimeoutException, TimeoutError) as problem:
            raise CallbackFailed("the callback URL did not answer in time", "timeout") from problem
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as problem:
            is_tls = "certificate" in str(problem).lower() or "ssl" in str(problem).lower()
            reason = "tls_error" if is_tls else "connection_refused"
            raise CallbackFailed("the callback URL cannot be reached", reason) from problem

    def _resolve(self, host: str, port: int, preferred: str) -> str:
        """Return the address to connect to: `preferred` while the host has it. Raises Unreachable."""
        try:
            if host in self._private_hosts:
                found = [str(address) for address in resolve_host(host, port)]
            else:
                found = resolve_public_addresses(host, port, "the webhook")
            return preferred if preferred in found else found[0]
        except Unreachable as problem:
            # One message for a private address and for none: another one would show which names the network has.
            raise Unreachable(
                f"the webhook leads to {host}, which is not a public address;"
                " the operator can allow the host: --webhook-hosts"
            ) from problem


def control_id(kind: str) -> str:
    """Return the id of a message that is not an event."""
    return f"msg_{kind}_{secrets.token_urlsafe(12)}"
