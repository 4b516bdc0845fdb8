"""Requests to an HTTP API, with limits on the size of answers and on the servers that may be contacted.

Credentials go only to the origins that the caller named; redirects are followed inside one origin only. Every other
server that a fetched document names has to be public, and the connection goes to the address that was checked. Bodies
beyond the limit and compressed bodies, which were not asked for, are refused.

Sources: RFC 9110; RFC 9457 (problem details); CWE-918 (server-side request forgery).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2

from patchbay.client.addresses.targets import check_headers, mask_url
from patchbay.client.certificates import load_certificates
from patchbay.client.errors import ServerTimeout, Unreachable
from patchbay.client.network_failures import describe_failure
from patchbay.client.openapi.requests import HttpRequest
from patchbay.client.public_hosts import resolve_public_address
from patchbay.errors import ParseError, PatchbayError
from patchbay.jsonrpc import parse

MAX_REDIRECTS = 5
_MAX_ERROR_BYTES = 500
_DEFAULT_PORTS = {"http": 80, "https": 443}


class ApiFailure(PatchbayError):
    """The API answered with a status of 400 or above; `data` has `status` and the answer's `body`."""

    status = 502


class RedirectRefused(Unreachable):
    """A redirect that is not followed: to another origin, of a request that may change something, or one too many."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that was read to its end."""

    url: str
    status: int
    headers: httpx2.Headers
    body: bytes

    @property
    def media_type(self) -> str:
        """The media type, without its parameters."""
        return str(self.headers.get("content-type", "")).partition(";")[0].strip().lower()

    def find_link(self, relation: str) -> str:
        """Find the URL of a link with this relation in the header `Link` (RFC 8288); it may be relative; "" without."""
        links = httpx2.Response(self.status, headers=self.headers).links.values()
        return next((one["url"] for one in links if relation in one.get("rel", "").lower().split()), "")


def get_origin(url: str) -> str:
    """Get scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)}"


class RequestRules:
    """Where requests may go and what they carry. `chosen` are the URLs that the caller named; `headers` go to their
    origins only. `setting` names the base URL in messages. With `chosen` empty, the document is a file of the caller's
    own, and every host may be contacted.

    Raises InvalidParams for a header that cannot be sent.
    """

    def __init__(self, chosen: tuple[str, ...], headers: Mapping[str, str], setting: str = "launch.base_url=") -> None:
        self._named_origins = {get_origin(url) for url in chosen if url}
        self._headers = dict(check_headers(headers, ", ".join(mask_url(url) for url in chosen) or "the API"))
        self._setting = setting

    def check_private(self, url: str) -> None:
        """Check that credentials may go to a URL: the caller named its origin. Raises Unreachable."""
        if get_origin(url) not in self._named_origins:
            raise Unreachable(
                f"the document names a server at {get_origin(url)}; headers go only to a server that you name;"
                f" expected {self._setting}{mask_url(url.partition('?')[0])} or its beginning"
            )

    def prepare(self, call: HttpRequest) -> dict[str, Any]:
        """Return the arguments of `build_request` of a client. Looks up hosts that have to be public.

        Raises Unreachable for a server that may not be contacted.
        """
        mine = get_origin(call.url) in self._named_origins
        if self._headers:
            self.check_private(call.url)
        headers = {"Accept": "application/json, */*;q=0.5", "Accept-Encoding": "identity"}
        given = {name.lower() for name in call.headers}
        headers |= {name: value for name, value in self._headers.items() if mine and name.lower() not in given}
        headers |= call.headers
        url, extensions = (call.url, {}) if mine else self._pin_address(call.url, headers)
        return {
            "method": call.method,
            "url": url,
            "headers": headers,
            "content": call.content,
            "files": list(call.files) or None,
            "extensions": extensions or None,
        }

    def find_redirect(self, call: HttpRequest, status: int, location: str | None) -> HttpRequest | None:
        """Return the request that follows a redirect; None for an answer without one. Raises RedirectRefused.

        307 and 308 keep the method and the body, 303 becomes GET, and 301 and 302 are followed for GET and HEAD only,
        because clients differ in the method of others (RFC 9110, sections 15.4.2 to 15.4.9).
        """
        if status not in (301, 302, 303, 307, 308) or location is None:
            return None
        url, is_reading = urljoin(call.url, location), call.method in ("GET", "HEAD")
        if get_origin(url) != get_origin(call.url) or not (is_reading or status in (303, 307, 308)):
            raise RedirectRefused(f"{mask_url(call.url)} redirects to {mask_url(url)}, which is not followed")
        if is_reading or status != 303:
            return replace(call, url=url)
        headers = {name: value for name, value in call.headers.items() if not name.lower().startswith("content-")}
        return HttpRequest("GET", url, headers)

    def _pin_address(self, url: str, headers: dict[str, str]) -> tuple[str, dict[str, Any]]:
        """Replace the host of a URL that has to be public by the address to connect to."""
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
        if not self._named_origins:
            return url, {}  # the document is a file of the caller's own
        remedy = f"to allow it, name it with {self._setting}{mask_url(url.partition('?')[0])} or its beginning"
        address = resolve_public_address(host, port, "the document", remedy)
        headers |= {"Host": parts.netloc.rpartition("@")[2], "Connection": "close"}
        place = f"[{address}]" if ":" in address else address
        return parts._replace(netloc=f"{place}:{port}").geturl(), {"sni_hostname": host}


class ApiClient:
    """A client for one API. `chosen` and `headers` are as in RequestRules.

    `timeout` limits each step of a request in seconds, `whole_time` the reading of one answer, `limit` its bytes.
    Raises InvalidParams for a header that cannot be sent.
    """

    def __init__(
        self,
        chosen: tuple[str, ...],
        headers: Mapping[str, str],
        timeout: float,
        limit: int,
        whole_time: float = math.inf,
        setting: str = "launch.base_url=",
    ) -> None:
        self._rules = RequestRules(chosen, headers, setting)
        self._limit = limit
        self._timeout = timeout
        self._whole_time = whole_time
        self._client = httpx2.Client(timeout=timeout, follow_redirects=False, verify=load_certificates())

    def __enter__(self) -> ApiClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def send(self, call: HttpRequest, unread: str = "") -> Reply:
        """Send a request. A body of the media type `unread`, which may never end, is not read.

        Raises ApiFailure for a status of 400 or above, Unreachable, ServerTimeout.
        """
        reply = self._follow_redirects(call, unread)
        if reply.status >= 400:
            raise _make_failure(call, reply)
        return reply

    def _follow_redirects(self, call: HttpRequest, unread: str) -> Reply:
        for _ in range(MAX_REDIRECTS):
            reply = self._send_once(call, unread)
            following = self._rules.find_redirect(call, reply.status, reply.headers.get("location"))
            if following is None:
                return reply
            call = following
        raise RedirectRefused(f"{mask_url(call.url)} redirects more than {MAX_REDIRECTS} times")

    def _send_once(self, call: HttpRequest, unread: str) -> Reply:
        prepared = self._rules.prepare(call)
        shown, has_answered = mask_url(call.url), False
        try:
            answer = self._client.send(self._client.build_request(**prepared), stream=True)
            has_answered = True
            try:
                empty = Reply(call.url, answer.status_code, answer.headers, b"")
                skipped = bool(unread) and empty.media_type == unread
                return empty if skipped else replace(empty, body=self._read_body(answer, shown))
            finally:
                answer.close()
        except httpx2.TimeoutException as problem:
            raise ServerTimeout(f"{shown} did not answer within {self._timeout:g} s") from problem
        except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
            raise Unreachable(f"{shown} cannot be reached: {describe_failure(problem, has_answered)}") from problem

    def _read_body(self, answer: httpx2.Response, shown: str) -> bytes:
        if answer.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise Unreachable(f"{shown} sent a compressed body, which was not asked for")
        pieces, size, end = [], 0, time.monotonic() + self._whole_time
        for piece in answer.iter_raw():
            size += len(piece)
            if time.monotonic() > end:
                raise ServerTimeout(f"{shown} did not end its answer within {self._whole_time:g} s")
            if size > self._limit:
                raise Unreachable(f"{shown} sent more than {self._limit} bytes")
            pieces.append(piece)
        return b"".join(pieces)


def _make_failure(call: HttpRequest, reply: Reply) -> ApiFailure:
    text = reply.body[:_MAX_ERROR_BYTES].decode("utf-8", "replace").strip()
    body: Any = text
    if "json" in reply.media_type:
        try:
            body = parse(reply.body)
        except ParseError:
            body = text
    problem = body if isinstance(body, dict) else {}
    words = next((str(problem[key]) for key in ("detail", "message", "title", "error") if problem.get(key)), text)
    where = f"{call.method} {mask_url(call.url)}"
    return ApiFailure(
        f"{where}: HTTP {reply.status}{f': {words}' if words else ''}", {"status": reply.status, "body": body}
    )
