"""Fetches the metadata document of a client, whose URL is the id of the client, and the client's public keys.

The URL comes from a stranger, so the connection goes to a public address that was checked, in one request without
redirects, with limits on size and time. What is fetched is cached in the worker for a short time, failures too. Keys
come from the host of the document alone, and are fetched for clients that a person has approved.
Source: draft-ietf-oauth-client-id-metadata-document, sections 3 to 6; CWE-918 (server-side request forgery).
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
import httpx2
import orjson

from patchbay.access.oauth.clients import (
    DOCUMENT_AUTH_METHODS,
    PRIVATE_KEY_JWT,
    BadClientMetadata,
    Client,
    parse_metadata,
)
from patchbay.access.oauth.public_keys import parse_public_keys
from patchbay.client.certificates import load_certificates
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


Found = TypeVar("Found")


class BadDocument(InvalidParams):
    """The metadata document of a client cannot be used; the message gives the reason."""


class _Cache(OrderedDict[str, tuple[float, Found | BadDocument]]):
    """What was found at URLs, each with the time of the fetch (`time.monotonic`)."""


DOCUMENT, KEYS = "the metadata document of the client", "the key set of the client"


class MetadataDocuments:
    """What clients publish, fetched when needed. `private_hosts` may have addresses that are not public."""

    def __init__(self, private_hosts: tuple[str, ...] = ()) -> None:
        self._private_hosts = private_hosts
        self._slots = threading.BoundedSemaphore(MAX_FETCHES_AT_ONCE)
        self._lock = threading.Lock()
        self._documents = _Cache[Client]()
        self._keys = _Cache[str]()

    def load(self, url: str) -> Client:
        """Return the client whose document is at this URL. Raises BadDocument."""
        check_document_url(url)
        return self._load(self._documents, url, DOCUMENT, lambda data: parse_document(url, data), CACHE_SECONDS)

    def load_keys(self, client: Client, max_age: float = CACHE_SECONDS) -> str:
        """Return the JWK set of a client that signs, as JSON, at most `max_age` seconds old. Raises BadDocument."""
        if client.public_keys:
            return client.public_keys
        return self._load(self._keys, client.keys_url, KEYS, parse_keys, max_age)

    def _load(
        self, cache: _Cache[Found], url: str, what: str, parse_data: Callable[[bytes], Found], max_age: float
    ) -> Found:
        with self._lock:
            at, known = cache.get(url, (0.0, None))
        if known is None or time.monotonic() - at >= (FAILURE_SECONDS if isinstance(known, BadDocument) else max_age):
            known = self._fetch(url, what, parse_data)
            with self._lock:
                cache[url] = (time.monotonic(), known)
                cache.move_to_end(url)
                while len(cache) > MAX_CACHED:
                    cache.popitem(last=False)
        if isinstance(known, BadDocument):
            raise BadDocument(known.message)
        return known

    def _fetch(self, url: str, what: str, parse_data: Callable[[bytes], Found]) -> Found | BadDocument:
        if not self._slots.acquire(timeout=FETCH_SECONDS):
            return BadDocument("too many metadata documents are being fetched: try again later")
        try:
            return parse_data(anyio.run(self._download, url, what))
        except BadDocument as problem:
            return problem
        except Unreachable as problem:
            return BadDocument(problem.message)
        except TimeoutError:
            return BadDocument(f"{what} did not arrive within {FETCH_SECONDS:g} seconds")
        except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
            return BadDocument(f"{what} cannot be fetched: {str(problem)[:200]}")
        finally:
            self._slots.release()

    async def _download(self, url: str, what: str) -> bytes:
        with anyio.fail_after(FETCH_SECONDS):
            return await self._read(url, what)

    async def _read(self, url: str, what: str) -> bytes:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
        address = await anyio.to_thread.run_sync(self._resolve, host, port, what, abandon_on_cancel=True)
        place = f"[{address}]" if ":" in address else address
        headers = {"Host": parts.netloc, "Accept": "application/json", "Accept-Encoding": "identity"}
        async with (
            httpx2.AsyncClient(follow_redirects=False, trust_env=False, verify=load_certificates()) as client,
            client.stream(
                "GET",
                parts._replace(netloc=f"{place}:{port}").geturl(),
                headers=headers,
                extensions={"sni_hostname": host},
            ) as answer,
        ):
            if answer.status_code != 200:
                raise BadDocument(f"{what} has HTTP status {answer.status_code}, not 200")
            if answer.headers.get("content-encoding", "identity").strip().lower() != "identity":
                raise BadDocument(f"{what} is compressed, which was not asked for")
            data = bytearray()
            async for piece in answer.aiter_raw():
                data += piece
                if len(data) > MAX_DOCUMENT_BYTES:
                    raise BadDocument(f"{what} is larger than {MAX_DOCUMENT_BYTES} bytes")
            return bytes(data)

    def _resolve(self, host: str, port: int, what: str) -> str:
        if host in self._private_hosts:
            return str(resolve_host(host, port)[0])
        remedy = "the operator can allow the host: --client-hosts"
        return resolve_public_address(host, port, what, remedy)


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
    method = found.get("token_endpoint_auth_method", "none")
    if method not in DOCUMENT_AUTH_METHODS:
        expected = " or ".join(DOCUMENT_AUTH_METHODS)
        raise BadDocument(f"the metadata document of the client has to name the token_endpoint_auth_method {expected}")
    try:
        client = parse_metadata(url, {**found, "token_endpoint_auth_method": "none"})
        return client if method == "none" else client.model_copy(update=_find_keys(url, found))
    except BadClientMetadata as problem:
        raise BadDocument(f"the metadata document of the client has a wrong value: {problem.message}") from problem


def parse_keys(data: bytes) -> str:
    """Return the JWK set of a client, as JSON. Raises BadDocument."""
    try:
        return parse_public_keys(data)
    except InvalidParams as problem:
        raise BadDocument(f"{KEYS} cannot be used: {problem.message}") from problem


def _find_keys(url: str, metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a client that signs: its keys, or where they are. Raises BadDocument.

    The keys have to be on the host of the document, which is what people approve.
    """
    keys, place = metadata.get("jwks"), metadata.get("jwks_uri")
    if (keys is None) == (place is None):
        raise BadDocument("the metadata document of the client has to name either jwks or jwks_uri for private_key_jwt")
    if keys is not None:
        return {"auth_method": PRIVATE_KEY_JWT, "public_keys": parse_keys(orjson.dumps(keys))}
    try:
        check_document_url(place if isinstance(place, str) else "")
    except BadDocument as problem:
        raise BadDocument("jwks_uri: expected a URL that begins with https:// and has a path") from problem
    if urlsplit(str(place)).netloc != urlsplit(url).netloc:
        raise BadDocument("jwks_uri: expected the host of the metadata document")
    return {"auth_method": PRIVATE_KEY_JWT, "keys_url": str(place)}
