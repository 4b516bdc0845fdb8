"""Answers with a JSON document that programs read before they connect. The ETag of a document is its CID.

Web pages of other origins may read these documents where every reader gets the same (`wire/requests/security.py`).
Source: Fetch standard, section 3.3 (CORS).
"""

from __future__ import annotations

from typing import Any

import orjson
from flask import Response, request

from patchbay.cid import cid_of

FRESH_SECONDS = 300
"""Seconds for which a document that is the same for all may be used without asking again."""


def answer_document(document: dict[str, Any], media_type: str, *, is_public: bool) -> Response:
    """Return a document; 304 for a reader that has it. `is_public` means that each reader gets the same."""
    data = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    response = Response(data, content_type=media_type)
    response.set_etag(cid_of(data))
    if is_public:
        response.headers["Cache-Control"] = f"public, max-age={FRESH_SECONDS}"
    else:
        response.headers["Cache-Control"] = "private, no-cache"
        response.vary.add("Authorization")
        response.vary.add("Cookie")
    response.make_conditional(request.environ)
    return response


def allow_all_origins(response: Response) -> Response:
    """Let web pages of every origin read a response, and send the headers that VS Code and Copilot send."""
    response.headers["Access-Control-Allow-Origin"] = "*"
    response.headers["Access-Control-Allow-Methods"] = "GET, OPTIONS"
    response.headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type, If-None-Match"
    response.headers["Access-Control-Expose-Headers"] = "ETag"
    return response
