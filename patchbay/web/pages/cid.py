"""The page of a content: what it says, shown by its kind, and its links in and out.

`/cid/<cid>` is the bytes for every program; whoever wants HTML gets this page, and the bytes under any extension.
Source: DESIGN section 8; issue "Pages that people like to look at", part 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from flask import Response, request

from patchbay.catalogue.contents.links import IncomingLink, Links
from patchbay.kind import kind_named
from patchbay.web.api.json_answers import json_answer
from patchbay.web.rendering.content_kinds import dump, image_type, kind_of, text_of
from patchbay.web.rendering.highlighting import source
from patchbay.web.rendering.markdown import MOST_RENDERED, markdown
from patchbay.web.site import Site

EXTENSIONS = {"json": "json", "markdown": "md", "text": "txt", "binary": "bin"}


class ContentPages:
    """Pages and links of the contents of one hub."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store
        self._links = Links(self._store)

    def page(self, cid: str, data: bytes, prefixes: Sequence[str]) -> Response:
        """The page of a content: its canonical CID, its bytes, and prefixes of the names that may be told."""
        kind = kind_of(data, self._known_as(cid))
        text = text_of(data)
        shown = text is not None and kind not in ("image", "binary")
        return self._site.html(
            "cid.html",
            "",
            cid=cid,
            kind=kind,
            bytes=len(data),
            raw=f"/cid/{cid}.{self._extension(kind, data)}",
            key=request.args.get("key", ""),
            code=source(text or "", kind) if shown else None,
            nodes=markdown(text or "") if kind == "markdown" and len(text or "") <= MOST_RENDERED else None,
            dump=dump(data) if kind == "binary" else None,
            into=[_told(each) for each in self._links.incoming(cid, prefixes)],
            out=self._links.outgoing(cid, data),
        )

    def links(self, cid: str, data: bytes, prefixes: Sequence[str]) -> Response:
        """The same as JSON, without the content."""
        return json_answer(
            {
                "cid": cid,
                "kind": kind_of(data, self._known_as(cid)),
                "bytes": len(data),
                "into": [asdict(each) for each in self._links.incoming(cid, prefixes)],
                "out": [asdict(each) for each in self._links.outgoing(cid, data)],
            }
        )

    def _extension(self, kind: str, data: bytes) -> str:
        image = image_type(data)
        if image:
            return image.removeprefix("image/")
        return EXTENSIONS.get(kind) or kind_named(kind).endings[0].removeprefix(".")

    def _known_as(self, cid: str) -> Iterator[str]:
        """What the servers say it is: their definition, or a resource of some media type."""
        for server in self._site.catalogue.all():
            if server.definition == cid:
                yield server.kind
            for each in server.resources.values():
                if each.target.get("cid") == cid and each.wire.get("mimeType") == "text/markdown":
                    yield "markdown"


def _told(link: IncomingLink) -> dict[str, Any]:
    """A link in, with the page of what it comes from."""
    part, _, name = link.label.partition("/")
    page = f"/{part}/{quote(name, safe='')}" if part in ("servers", "variables") and name else None
    return asdict(link) | {"page": page}
