"""Fetches the documents of the issuer: its metadata, its keys, its answers about opaque tokens.

Each request goes to the issuer that the operator named, to a host of the setting `issuer_hosts`, or to a public
address: `client/openapi/http_client.py` looks a host up once and connects to the address that it checked. An answer has
a limit of bytes and of seconds; redirects stay inside one origin.
Sources: RFC 8414, section 3 (metadata); OpenID Connect Discovery 1.0, section 4; CWE-918 (server-side request forgery).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from patchbay.access.tokens.issuer import Issuer
from patchbay.access.tokens.problems import IssuerRefused, IssuerUnavailable
from patchbay.client.auth.token_exchange import list_metadata_urls
from patchbay.client.openapi.http_client import ApiClient
from patchbay.client.openapi.requests import HttpRequest
from patchbay.errors import PatchbayError
from patchbay.jsonrpc import parse

FETCH_SECONDS = 10.0
"""Seconds that one answer of the issuer may take, from the first byte to the last."""

MAX_DOCUMENT_BYTES = 512 * 1024


class IssuerDocuments:
    """Fetches from one issuer."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer

    def fetch(self, url: str, token: str = "") -> dict[str, Any]:
        """Fetch a JSON object, with an access token if one is given. Raises IssuerUnavailable; its message is for the
        log.
        """
        return self._send(HttpRequest("GET", url, {"Authorization": f"Bearer {token}"} if token else {}))

    def post(self, url: str, form: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """Send a form, and return the JSON object of the answer. Raises IssuerUnavailable, IssuerRefused."""
        media_type = {"Content-Type": "application/x-www-form-urlencoded"}
        return self._send(HttpRequest("POST", url, {**media_type, **headers}, form))

    def discover(self, urls: Sequence[str] = ()) -> dict[str, Any]:
        """Fetch the metadata of the issuer from the first of these addresses that has it; by default the well-known
        ones.

        Raises IssuerUnavailable when no address has metadata of exactly this issuer.
        """
        problems = []
        for url in urls or list_metadata_urls(self._issuer.url):
            try:
                found = self.fetch(url)
            except IssuerUnavailable as problem:
                problems.append(problem.message)
                continue
            if found.get("issuer") == self._issuer.url:
                return found
            problems.append(
                f"{url} is the metadata of {str(found.get('issuer'))[:200]!r}; write {self._issuer.setting} exactly so"
            )
        raise IssuerUnavailable("; ".join(problems))

    def _send(self, request: HttpRequest) -> dict[str, Any]:
        if not self._issuer.is_safe(request.url):
            raise IssuerUnavailable(f"{request.url[:200]!r} is not an https URL; allow its host with --issuer-hosts")
        is_private = urlsplit(request.url).hostname in self._issuer.private_hosts
        named = (self._issuer.url, request.url) if is_private else (self._issuer.url,)
        try:
            with ApiClient(named, {}, FETCH_SECONDS, MAX_DOCUMENT_BYTES, whole_time=FETCH_SECONDS) as client:
                found = parse(client.send(request).body)
        except PatchbayError as problem:
            error = _find_error_code(problem)
            if error:
                raise IssuerRefused(f"{request.url}: {problem.message}", error) from problem
            raise IssuerUnavailable(f"{request.url}: {problem.message}") from problem
        if not isinstance(found, dict):
            raise IssuerUnavailable(f"{request.url}: expected a JSON object")
        return found


def _find_error_code(problem: PatchbayError) -> str:
    """Return the code of a refusal (RFC 6749, section 5.2); empty for an answer that says nothing of the request."""
    data = problem.data if isinstance(problem.data, dict) else {}
    body = data.get("body")
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, str) and data.get("status") in (400, 401, 403) else ""
