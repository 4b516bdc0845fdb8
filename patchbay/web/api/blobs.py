"""POST /blobs: a caller uploads a content, and gets a link to give in place of the content in a call of a tool.

The body goes through a file without a name, and is hashed on its way, so that the process holds a small part of it.
What does not arrive whole leaves nothing. An upload has the owner, the quota and the expiry of a large result
(`catalogue/contents/results.py`): its link opens for its owner alone.
"""

from __future__ import annotations

import errno
from hashlib import sha256
from tempfile import TemporaryFile

from flask import Blueprint, Response, request

from patchbay.access.principals import LOCAL_ID
from patchbay.cid import cid_of_digest
from patchbay.errors import InvalidRequest, PatchbayError, Refused, TooLarge
from patchbay.settings import OPEN
from patchbay.web.site.answers import json_answer
from patchbay.web.site.site import Site
from patchbay.wire.requests.bodies import Unsupported, pass_on_body
from patchbay.wire.requests.security import check_same_origin
from patchbay.wire.requests.wsgi import request_of

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFull(PatchbayError):
    """The disk of the hub has no room for an upload."""

    status = 507


class _UploadViews:
    def __init__(self, site: Site) -> None:
        self._site = site

    def upload(self) -> Response:
        """POST /blobs: store the body for its sender. The answer has its `cid`, its link (`uri`) and its `bytes`."""
        check_same_origin(request.headers)
        sender = self._site.sender
        if self._site.settings.mode == OPEN and sender.id == LOCAL_ID and not sender.is_operator:
            raise Refused("an upload needs an owner: sign in, or send a key; strangers of an open hub have no uploads")
        _check_headers()
        results = self._site.catalogue.contents.results
        limit = self._site.settings.upload_limit
        if (announced := request.content_length or 0) <= limit and not results.has_quota(announced, sender.id):
            raise _beyond_quota(announced)
        digest = sha256()
        try:
            with TemporaryFile() as file:

                def take(piece: bytes) -> None:
                    digest.update(piece)
                    file.write(piece)

                size = pass_on_body(request_of(request.environ), limit, "upload_limit", take)
                cid = cid_of_digest(digest.digest())
                uri = results.keep_file(file, cid, size, sender.id)
        except OSError as problem:
            if problem.errno not in FULL:
                raise
            raise DiskFull(
                "the disk of the hub is full: nothing was stored; the operator has to make room"
            ) from problem
        if uri is None:
            raise _beyond_quota(size)
        response = json_answer({"cid": cid, "uri": uri, "bytes": size}, 201)
        response.headers["Cache-Control"] = "no-store"  # the link has a key
        return response


def _check_headers() -> None:
    """Check that the body is the content itself, and all of it. Raises Unsupported (415) and InvalidRequest (400)."""
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise Unsupported("Content-Encoding is not served: send the body as it is")
    if "Content-Range" in request.headers:
        raise InvalidRequest("an upload is a whole content: send it without Content-Range")


def _beyond_quota(size: int) -> TooLarge:
    return TooLarge(f"the body has {size} bytes, more than is stored for one caller (quota bytes_stored)")


def uploads_blueprint(site: Site) -> Blueprint:
    """The route `POST /blobs`."""
    uploads = Blueprint("uploads", __name__)
    uploads.add_url_rule("/blobs", "upload", _UploadViews(site).upload, methods=["POST"])
    return uploads
