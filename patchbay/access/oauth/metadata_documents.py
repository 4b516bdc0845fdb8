"""Fetches the metadata document of a client, whose URL is the id of the client.

The URL comes from a stranger, so the connection goes to a public address that was checked, in one request without
redirects, with limits on size and time. Documents are cached in the worker for a short time, failures too.
Source: draft-ietf-oauth-client-id-metadata-document, sections 3 to 6; CWE-918 (server-side request forgery).
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2

from patchbay.access.oauth.clients import BadClientMetadata, Client, parse_metadata
from patchbay.client.errors import Unreachable
from patchbay.client.public_hosts import resolve_host, resolve_public_address
from patchbay.errors import InvalidParams, ParseError
from patchbay.jsonrpc import parse

MAX_DOCUMENT_BYTES = 16 * 1024
FETCH_SECONDS = 8.0
"""Seconds that one document may take, from the look-up of its host to its last byte."""

MAX_FETCHES_AT_ONCE = 4
CACHE_SECONDS, FAILURE_SECONDS = 300.0, 20.0
MAX_CACHED = 256
MAX_URL_CHARACTERS = 300

_URL = re.compile(r"https://[A-Za-z0-9.-]+(?::[0-9]{1,5})?/[A-Za-z0-9._~!$&'()*+,;=:@%/-]+", re.ASCII)


class BadDocument(InvalidParams):
    """The metadata document of a client cannot be used; the message gives the reason."""


class MetadataDocuments:
    """The documents of clients, fetched when needed. `private_hosts` may have addresses that are not public."""

    def __init__(self, private_hosts: tuple[str, ...] = ()) -> None:
        self._private_hosts = private_hosts
        self._slots = threading.BoundedSemaphore(MAX_FETCHES_AT_ONCE)
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, tuple[float, Client | BadDocument]] = OrderedDict()

    def load(self, url: str) -> Client:
        """Return the client whose document is at this URL. Raises BadDocument."""
        check_document_url(url)
        with self._lock:
            until, known = self._cache.get(url, (0.0, None))
        if known is None or until < time.monotonic():
            known = self._fetch(url)
            seconds = FAILURE_SECONDS if isinstance(known, BadDocument) else CACHE_SECONDS
            with self._lock:
                self._cache[url] = (time.monotonic() + seconds, known)
                self._cache.move_to_end(url)
                while len(self._cache) > MAX_CACHED:
                    self._cache.popitem(last=False)
        if isinstance(known, BadDocument):
            raise BadDocument(known.message)
        return known

    def _fetch(self, url: str) -> Client | BadDocument:
        if not self._slots.acquire(timeout=FETCH_SECONDS):
            return BadDocument("too many metadata documents are being fetched: try again later")
        try:
            return parse_document(url, anyio.run(self._download, url))
        except BadDocument as problem:
            return problem
        except Unreachable as problem:
            return BadDocument(problem.message)
        except TimeoutError:
            return BadDocument(f"the metadata document of the client did not arrive within {FETCH_SECONDS:g} seconds")
        except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
            return BadDocument(f"the metadata document of the client cannot be fetched: {str(problem)[:200]}")
        finally:
            self._slots.release()

    async def _download(self, url: str) -> bytes:
        with anyio.fail_after(FETCH_SECONDS):
            return await self._read(url)

    async def _read(self, url: str) -> bytes:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
        address = await anyio.to_thread.run_sync(self._resolve, host, port, abandon_on_cancel=True)
        place = f"[{address}]" if ":" in address else address
        headers = {"Host": parts.netloc, "Accept": "application/json", "Accept-Encoding": "identity"}
        async with (
            httpx2.AsyncClient(follow_redirects=False, trust_env=False, verify=_certificates()) as client,
            client.stream(
                "GET",
                parts._replace(netloc=f"{place}:{port}").geturl(),
                headers=headers,
                extensions={"sni_hostname": host},
            ) as answer,
        ):
            if answer.status_code != 200:
                raise BadDocument(f"the metadata document of the client has HTTP status {answer.status_code}, not 200")
            if answer.headers.get("content-encoding", "identity").strip().lower() != "identity":
                raise BadDocument("the metadata document of the client is compressed, which was not asked for")
            data = bytearray()
            async for piece in answer.aiter_raw():
                data += piece
                if len(data) > MAX_DOCUMENT_BYTES:
                    raise BadDocument(f"the metadata document of the client is larger than {MAX_DOCUMENT_BYTES} bytes")
            return bytes(data)

    def _resolve(self, host: str, port: int) -> str:
        if host in self._private_hosts:
            return str(resolve_host(host, port)[0])
        remedy = "the operator can allow the host: --client-hosts"
        return resolve_public_address(host, port, "the metadata document of the client", remedy)


def check_document_url(url: str) -> None:
    """Check the id of a client with a metadata document. Raises BadDocument."""
    parts = urlsplit(url) if len(url) <= MAX_URL_CHARACTERS and _URL.fullmatch(url) else None
    if parts is None or {".", ".."} & set(parts.path.split("/")) or "%2e" in url.lower():
        raise BadDocument(
            "expected a client_id that begins with https:// and has a path, without dot segments or a query"
        )


def parse_document(url: str, data: bytes) -> Client:
    """Return the client of a metadata document. Raises BadDocument."""
    try:
        found = parse(data)
    except ParseError as problem:
        raise BadDocument(f"the metadata document of the client is not JSON: {problem.message}") from problem
    if not isinstance(found, dict) or found.get("client_id") != url:
        raise BadDocument("the metadata document of the client has another client_id than its URL")
    if "client_secret" in found or "client_secret_expires_at" in found:
        raise BadDocument("the metadata document of the client has a client_secret, which a document cannot have")
    if found.get("token_endpoint_auth_method", "none") != "none":
        raise BadDocument("the metadata document of the client has to name the token_endpoint_auth_method none")
    try:
        return parse_metadata(url, found)
    except BadClientMetadata as problem:
        raise BadDocument(f"the metadata document of the client has a wrong value: {problem.message}") from problem


def _certificates() -> Any:
    return httpx2.create_ssl_context(trust_env=True)
