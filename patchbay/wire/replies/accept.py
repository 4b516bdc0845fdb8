"""Answers three questions about an `Accept` header: JSON or a stream, which native form, and whether a person asks.

Source: RFC 9110, section 12.5.1.
"""

from __future__ import annotations

from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from patchbay.text_cache import cached_by_text

JSON, STREAM, NDJSON = "application/json", "text/event-stream", "application/x-ndjson"
HTML_TYPES = ("text/html", "application/xhtml+xml")

MAX_READ_CHARACTERS = 4096
"""Maximum number of characters of an `Accept` header that are read: to read 30,000 takes as long as a hundred calls."""


def _read_qualities(accept: str) -> dict[str, float]:
    """Return the quality of each media type in the beginning of an `Accept` header."""
    return dict(parse_accept_header(accept[:MAX_READ_CHARACTERS], MIMEAccept))


@cached_by_text(256)
def accepted_forms(accept: str) -> tuple[bool, bool]:
    """Return whether an `Accept` header accepts JSON and whether it accepts a stream.

    A wildcard accepts JSON; a stream must be named. A missing header accepts neither.
    """
    qualities = _read_qualities(accept)
    json = any(qualities.get(kind, 0) > 0 for kind in (JSON, "application/*", "*/*"))
    return json, qualities.get(STREAM, 0) > 0


@cached_by_text(256)
def preferred_form(accept: str) -> str | None:
    """Return the form that an `Accept` header prefers; of equally preferred forms, the one that streams the most.

    A wildcard, or no header, accepts a JSON document; a stream must be named. Returns None if no form is accepted.
    """
    if not accept.strip():
        return JSON
    qualities = _read_qualities(accept)
    json = max((qualities.get(kind, 0) for kind in (JSON, "application/*", "*/*")), default=0)
    likes = {STREAM: qualities.get(STREAM, 0), NDJSON: qualities.get(NDJSON, 0), JSON: qualities.get(JSON, json)}
    best = max(likes, key=lambda form: likes[form])
    return best if likes[best] > 0 else None


@cached_by_text(256)
def wants_html(accept: str) -> bool:
    """Whether an `Accept` header names HTML with at least the quality of JSON and event streams.

    A wildcard alone is not enough: curl and other programs send it.
    """
    qualities = _read_qualities(accept)
    html = max((qualities.get(kind, 0) for kind in HTML_TYPES), default=0)
    return html > 0 and html >= max(qualities.get(kind, 0) for kind in (JSON, STREAM))
