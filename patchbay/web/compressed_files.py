"""Compression of the hub's own style sheets, scripts and pictures for browsers that accept gzip (RFC 9110, 8.4.1.3).

Only these files are compressed. Pages stay plain: they hold secrets beside words of a request, and the length of a
compressed page would tell about the secrets (CVE-2013-3587, "BREACH").
"""

from __future__ import annotations

import gzip

from flask import Flask, Response, request

TYPES = frozenset({"text/css", "text/javascript", "application/javascript", "image/svg+xml"})


def add_compression(app: Flask) -> None:
    """Compress the static files of an app for clients that accept gzip; each file once for each of its versions.

    The entity tag of a compressed file is weak, so that it also validates the plain file.
    """
    compressed: dict[str, tuple[str, bytes]] = {}

    @app.after_request
    def compress(response: Response) -> Response:
        if request.endpoint != "static":
            return response
        response.vary.add("Accept-Encoding")
        etag, _ = response.get_etag()
        is_wanted = request.method == "GET" and request.accept_encodings["gzip"] > 0
        if not is_wanted or not etag or response.status_code != 200 or response.mimetype not in TYPES:
            return response
        response.direct_passthrough = False
        plain = response.get_data()
        version, data = compressed.get(request.path, ("", b""))
        if version != etag:
            data = gzip.compress(plain, mtime=0)
            compressed[request.path] = (etag, data)
        response.set_data(data)
        response.content_encoding = "gzip"
        response.accept_ranges = "none"
        response.set_etag(etag, weak=True)
        return response
