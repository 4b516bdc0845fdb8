"""Uploads of files to a hub, whose tools then get them by a link (`POST /blobs` of Patchbay).

A tool says that it takes such a link by `"format": "cid"`. Where an upload is not possible, because the server has no
URL of a hub or refuses it, the caller sends the content itself.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

import httpx2
import orjson

from patchbay.client.addresses.targets import Http
from patchbay.client.errors import Unreachable
from patchbay.errors import TooLarge

UPLOAD_SECONDS = 60.0
"""Seconds that an upload may wait for the hub, at each step."""

_ENDPOINT = re.compile(r"(.*?)/mcp(?:/[^/]+)?")
"""The path of an endpoint of a hub, of which the first part is the path prefix of the hub."""


def find_hub_url(url: str) -> str:
    """Return the URL of the hub with this endpoint, without a slash at its end; empty for one that no hub can have."""
    parts = urlsplit(url)
    found = _ENDPOINT.fullmatch(parts.path)
    return urlunsplit((parts.scheme, parts.netloc, found[1], "", "")) if found is not None else ""


def find_upload_url(url: str) -> str:
    """Return the URL for uploads of the hub with this endpoint; empty for a URL that no hub can have."""
    hub = find_hub_url(url)
    return f"{hub}/blobs" if hub else ""


def upload(target: Http, data: bytes) -> str | None:
    """Upload a content with the headers of a connection; return its link, None where that is not possible.

    Raises TooLarge with the words of a hub whose limit it exceeds, and Unreachable.
    """
    url = find_upload_url(target.url)
    if not url or target.public or target.sign_in is not None:
        return None
    try:
        answer = httpx2.post(
            url,
            content=data,
            headers={**target.headers, "Content-Type": "application/octet-stream", "Accept": "application/json"},
            timeout=UPLOAD_SECONDS,
            trust_env=target.is_proxied,
        )
    except httpx2.HTTPError as problem:
        raise Unreachable(f"{target.label}: the upload failed: {problem}") from problem
    if answer.status_code == 413:
        raise TooLarge(f"{target.label}: {_sentence(answer)}")
    if answer.status_code != 201:
        return None
    try:
        link = orjson.loads(answer.content)["uri"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return link if isinstance(link, str) else None


def _sentence(answer: httpx2.Response) -> str:
    """Return the sentence of a refusal."""
    try:
        return str(orjson.loads(answer.content)["error"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return "the file is too large for the hub"
