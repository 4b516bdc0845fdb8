"""The requests of webhooks: signed, to addresses that were checked, without redirects, with nothing read but a status.

The host is looked up for each request, and the connection goes to the address that was checked. What an endpoint
answers is not passed on: failures have a category.
Sources: SEP-3415, Webhook security; Standard Webhooks, specification (signatures); CWE-918.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import ssl
from collections.abc import Collection, Sequence
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from patchbay.client.errors import Unreachable
from patchbay.client.public_hosts import resolve_host, resolve_public_address
from patchbay.errors import CallbackFailed, InvalidParams

if TYPE_CHECKING:
    import httpx2

MAX_URL_CHARACTERS = 2048
ANSWER_SECONDS = 5.0
"""Seconds within which an endpoint has to answer."""

MAX_CHALLENGE_BYTES = 4096
"""Bytes that are read of the answer to a challenge."""

SECRET_PREFIX = "whsec_"
LEAST_SECRET, MOST_SECRET = 24, 64
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
        if not LEAST_SECRET <= size <= MOST_SECRET:
            raise ValueError
    except (ValueError, binascii.Error):
        raise InvalidParams(
            f"params.delivery.secret has to be {SECRET_PREFIX} and the base64 of {LEAST_SECRET} to {MOST_SECRET} bytes"
        ) from None
    return str(secret)


def signature(secret: str, id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a body (Standard Webhooks, `v1`)."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    made = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, sha256)
    return f"v1,{base64.b64encode(made).decode()}"


class Sender:
    """Sends the requests of webhooks. `private_hosts` may have addresses that are not public."""

    def __init__(self, private_hosts: Collection[str]) -> None:
        self._private_hosts = frozenset(private_hosts)

    @cached_property
    def _certificates(self) -> ssl.SSLContext:
        import httpx2

        found = httpx2.create_ssl_context(trust_env=True)
        assert isinstance(found, ssl.SSLContext)
        return found

    def client(self) -> httpx2.Client:
        """Return a client for a few deliveries to one host."""
        import httpx2

        return httpx2.Client(
            follow_redirects=False, trust_env=False, verify=self._certificates, timeout=httpx2.Timeout(ANSWER_SECONDS)
        )

    def verify(self, url: str, subscription: str, keys: Sequence[str], now: float) -> None:
        """Ask a callback URL for the echo of a challenge. Raises CallbackFailed."""
        challenge = secrets.token_urlsafe(32)
        body = orjson.dumps({"type": "verification", "challenge": challenge})
        with self.client() as client:
            status, answer = self.post(client, url, subscription, control_id("verification"), keys, body, now, True)
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

    def post(
        self,
        client: httpx2.Client,
        url: str,
        subscription: str,
        id: str,
        keys: Sequence[str],
        body: bytes,
        now: float,
        reads_answer: bool = False,
    ) -> tuple[int, bytes]:
        """Send one signed request; return the status and, if asked, the beginning of the answer.

        Raises CallbackFailed without a status.
        """
        import httpx2

        timestamp = int(now)
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
        headers = {
            "Host": parts.netloc,
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            "webhook-id": id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": " ".join(signature(key, id, timestamp, body) for key in keys),
            "X-MCP-Subscription-Id": subscription,
        }
        try:
            address = self._resolve(host, port)
            place = f"[{address}]" if ":" in address else address
            where = parts._replace(netloc=f"{place}:{port}").geturl()
            with client.stream(
                "POST", where, content=body, headers=headers, extensions={"sni_hostname": host}
            ) as reply:
                answer = bytearray()
                for piece in reply.iter_raw():  # a connection is used again only after the whole answer was read
                    answer += piece
                    if len(answer) > MAX_CHALLENGE_BYTES:
                        break
                return reply.status_code, bytes(answer) if reads_answer else b""
        except Unreachable as problem:
            raise CallbackFailed(problem.message, "connection_refused") from problem
        except httpx2.TimeoutException as problem:
            raise CallbackFailed(f"the callback URL did not answer within {ANSWER_SECONDS:g} s", "timeout") from problem
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as problem:
            is_tls = "certificate" in str(problem).lower() or "ssl" in str(problem).lower()
            reason = "tls_error" if is_tls else "connection_refused"
            raise CallbackFailed("the callback URL cannot be reached", reason) from problem

    def _resolve(self, host: str, port: int) -> str:
        if host in self._private_hosts:
            return str(resolve_host(host, port)[0])
        try:
            return resolve_public_address(host, port, "the webhook")
        except Unreachable as problem:
            # One message for a private address and for none: another one would show which names the network has.
            raise Unreachable(
                f"the webhook leads to {host}, which is not a public address;"
                " the operator can allow the host: --webhook-hosts"
            ) from problem


def control_id(kind: str) -> str:
    """Return the id of a message that is not an event."""
    return f"msg_{kind}_{secrets.token_urlsafe(12)}"
