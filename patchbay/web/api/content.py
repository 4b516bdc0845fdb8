"""Content by its CID over HTTP, and changes of blobs and variables.

The hub checks bytes against their CID before it stores them. Headers keep browsers from running stored content. Every
caller can read the configuration; the operator can read everything; a large result opens with its key. A change needs
the operator and proof that no other site caused the request; a read-only hub refuses changes.
"""

from __future__ import annotations

import re
import threading
from urllib.parse import quote

import orjson
from flask import Blueprint, Response, redirect, request
from werkzeug.datastructures import ETags
from werkzeug.wrappers import Response as Answer

from patchbay.boot import change_names
from patchbay.catalogue.contents.configuration import CONFIGURATION_PREFIXES
from patchbay.cid import canonical, cid_of, verify
from patchbay.descriptors import NAME
from patchbay.errors import ConfigError, CorruptBlob, InvalidParams, MissingBlob, PatchbayError, StaleUpdate
from patchbay.settings import SHARED
from patchbay.topics import VARIABLES
from patchbay.web.pages.cid import ContentPages
from patchbay.web.rendering.content_kinds import image_type
from patchbay.web.site.answers import json_answer
from patchbay.web.site.site import Site, UnknownVariable
from patchbay.wire.replies.accept import wants_html
from patchbay.wire.requests.bodies import read_body
from patchbay.wire.requests.security import SANDBOX_CSP
from patchbay.wire.requests.wsgi import request_of

IMMUTABLE_CACHE_CONTROL = "public, max-age=31536000, immutable"
PRIVATE_CACHE_CONTROL = "private, no-cache"
"""For content outside the configuration: shared caches do not store it, and a browser asks the hub before each use."""

CHANGED_BY = "http"
MAX_REASON_CHARACTERS = 500
"""Characters of a stored reason, at most."""

_NAME = re.compile(NAME)


class PreconditionFailed(PatchbayError):
    """The content has changed since the caller read it."""

    code, status = -32600, 412


def media_type(data: bytes) -> str:
    """The media type of bytes: an image, JSON, text, or octets; never a type that a browser runs."""
    image = image_type(data)
    if image:
        return image
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return "application/octet-stream"
    if "\0" in text:
        return "application/octet-stream"
    if text.lstrip()[:1] in ("{", "["):
        try:
            orjson.loads(data)
            return "application/json"
        except orjson.JSONDecodeError:
            return "text/plain; charset=utf-8"
    return "text/plain; charset=utf-8"


class _ContentViews:
    """One method for each route. `_lock` makes a condition and its change one step in this process."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store
        self._contents = site.catalogue.contents
        self._pages = ContentPages(site)
        self._lock = threading.Lock()

    def show(self, address: str) -> Answer:
        """GET /cid/<cid>[.ext]: the bytes, or without an extension a page for browsers. Raises BadCid, MissingBlob."""
        cid, dot, extension = address.partition(".")
        name = canonical(cid)
        if name != cid:
            query = f"?{request.query_string.decode('latin-1')}" if request.query_string else ""
            return redirect(f"/cid/{name}{dot}{quote(extension, safe='')}{query}", 308)
        data = self._readable(name)
        # Another caller behind the same cache may not see what this one sees.
        is_limited = self._site.settings.mode == SHARED or self._site.access.has_grants
        public = self._contents.is_public(name) and not is_limited
        if not dot and wants_html(request.headers.get("Accept", "")):
            page = self._pages.page(name, data, self._visible_prefixes())
            page.vary.add("Accept")
            return page
        response = Response(data, content_type=media_type(data))
        response.vary.add("Accept")
        response.headers["Cache-Control"] = IMMUTABLE_CACHE_CONTROL if public else PRIVATE_CACHE_CONTROL
        response.headers["Content-Security-Policy"] = SANDBOX_CSP
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        if response.mimetype == "application/octet-stream":
            response.headers["Content-Disposition"] = f'attachment; filename="{name[:64]}.bin"'
        response.set_etag(name)
        return response.make_conditional(request)

    def links(self, address: str) -> Response:
        """GET /cid/<cid>/links.json. Raises BadCid, MissingBlob."""
        name = canonical(address)
        return self._pages.links(name, self._readable(name), self._visible_prefixes())

    def _readable(self, cid: str) -> bytes:
        """Read a content that the current request may read; the query's `key` opens a large result.

        Raises MissingBlob for contents that the sender may not read, whether they exist or not.
        """
        try:
            return self._site.visible.contents.read(cid, request.args.get("key", ""), self._site.sender.id)
        except MissingBlob:
            if self._site.operators.lenient_proof().is_operator:
                return self._store.blobs.get(cid)
            raise

    def _visible_prefixes(self) -> tuple[str, ...]:
        """The prefixes of the names that the current sender may see; empty means all names."""
        if self._site.operators.lenient_proof().is_operator:
            return ()
        # A blank is in no name: a reader who may not see every name sees none.
        return CONFIGURATION_PREFIXES if self._site.visible.shows_everything else (" ",)

    def put(self, address: str) -> Response:
        """PUT /cid/<cid>: store the body if it matches the CID. Status 201, or 200 when it was already stored."""
        self._gate()
        name = canonical(address)
        try:
            body = self._body()
            verify(name, body)
        except CorruptBlob as problem:
            raise InvalidParams(f"{problem.message}; nothing was stored", {"expected": name}) from problem
        return self._store_blob(body)

    def post(self) -> Response:
        """POST /cid: store the body; the response holds its CID."""
        self._gate()
        return self._store_blob(self._body())

    def set_variable(self, name: str) -> Response:
        """PUT /variables/<name>: the body, text in UTF-8, becomes the definition of the variable."""
        self._gate()
        check_variable_name(name)
        body = self._body()
        try:
            body.decode("utf-8")
        except UnicodeDecodeError as problem:
            raise InvalidParams(
                f"a variable must be text in UTF-8; byte {problem.start} is not."
                " POST the bytes to /cid and set the variable to their CID"
            ) from problem
        return self._changed(name, body)

    def drop_variable(self, name: str) -> Response:
        """DELETE /variables/<name>."""
        self._gate()
        if self._store.names.get(f"{VARIABLES}{name}") is None:
            raise UnknownVariable(name)
        return self._changed(name, None)

    def _changed(self, name: str, body: bytes | None) -> Response:
        full = f"{VARIABLES}{name}"
        default = f"set variable {name}" if body is not None else f"delete variable {name}"
        why = request.headers.get("X-Why", "")[:MAX_REASON_CHARACTERS] or default
        with self._lock:
            before = self._store.names.get(full)
            expected = {full: before} if _check_condition(before) else None
            cid = None if body is None else self._store.blobs.put(body)
            try:
                root = change_names(self._store, {full: cid}, CHANGED_BY, why, expected)
            except StaleUpdate as problem:  # from another process, which has its own lock
                raise PreconditionFailed(problem.message) from problem
            except ConfigError as problem:
                raise InvalidParams(problem.message, problem.data) from problem
        self._site.catalogue.refresh()  # no list is older than this answer
        response = json_answer({"root": root, "cid": cid}, 201 if before is None else 200)
        if cid is not None:
            response.set_etag(cid)
        return response

    def _store_blob(self, body: bytes) -> Response:
        new = bool(self._store.blobs.missing([cid_of(body)]))
        cid = self._store.blobs.put(body)
        response = json_answer({"cid": cid}, 201 if new else 200)
        response.headers["Location"] = f"/cid/{cid}"
        return response

    def _gate(self) -> None:
        self._site.operators.check_change()

    def _body(self) -> bytes:
        return read_body(request_of(request.environ), self._site.settings.body_limit)


def check_variable_name(name: str) -> None:
    """Check the name of a variable. Raises InvalidParams."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidParams(
            f"the name of a variable must have 1 to 128 letters, digits, _, . or -; it is {name[:128]!r}"
        )


def _check_condition(now: str | None) -> bool:
    """Check `If-Match` and `If-None-Match` against the current CID of a variable; return whether the request has any.

    Raises PreconditionFailed (412).
    """
    wanted, unwanted = request.if_match, request.if_none_match
    if _has_tags(wanted) and not (now is not None and now in wanted):
        raise PreconditionFailed(f"the variable does not match If-Match; its CID is now {now or 'absent'}")
    if _has_tags(unwanted) and now is not None and now in unwanted:
        raise PreconditionFailed(f"the variable already has this content: {now}")
    return _has_tags(wanted) or _has_tags(unwanted)


def _has_tags(tags: ETags) -> bool:
    return tags.star_tag or bool(tags.as_set(include_weak=True))


def content_blueprint(site: Site) -> Blueprint:
    """The routes of `/cid`, and PUT and DELETE of `/variables/<name>`."""
    views = _ContentViews(site)
    content = Blueprint("content", __name__)
    content.add_url_rule("/cid/<address>", "show", views.show)
    content.add_url_rule("/cid/<address>/links.json", "links", views.links)
    content.add_url_rule("/cid/<address>", "put", views.put, methods=["PUT"])
    content.add_url_rule("/cid", "post", views.post, methods=["POST"])
    content.add_url_rule("/variables/<name>", "set", views.set_variable, methods=["PUT"])
    content.add_url_rule("/variables/<name>", "drop", views.drop_variable, methods=["DELETE"])
    return content
