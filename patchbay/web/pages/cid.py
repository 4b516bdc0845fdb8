"""The page of a content: the content itself, the references to it and the references in it.

`/cid/<cid>` returns the bytes to programs and this page to browsers; `/cid/<cid>.<extension>` always returns the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from flask import Response, request

from patchbay.catalogue.contents.links import IncomingLink, Links
from patchbay.kind import kind_named
from patchbay.web.rendering.content_kinds import decode_text, detect_kind, hex_dump, image_type
from patchbay.web.rendering.highlighting import highlight_source
from patchbay.web.rendering.markdown import MAX_RENDERED_CHARACTERS, render_nodes
from patchbay.web.site.answers import json_answer
from patchbay.web.site.site import Site

EXTENSIONS = {"json": "json", "markdown": "md", "text": "txt", "binary": "bin"}


_TITLES = {"image": "Image", "binary": "Bytes", "json": "JSON", "markdown": "Markdown document", "text": "Text"}
"""The headings of contents that are no definitions."""


class ContentPages:
    """Pages and links of the contents of one hub."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store
        self._links = Links(self._store)

    def page(self, cid: str, data: bytes, prefixes: Sequence[str]) -> Response:
        """Render the page of a content. `cid` is canonical; the page shows only names with one of the `prefixes`."""
        kind = detect_kind(data, self._known_as(cid))
        text = decode_text(data)
        shown = text is not None and kind not in ("image", "binary")
        return self._site.html(
            "cid.html",
            "",
            cid=cid,
            kind=kind,
            title=_TITLES.get(kind) or kind_named(kind).title,
            bytes=len(data),
            raw=f"/cid/{cid}.{self._extension(kind, data)}",
            key=request.args.get("key", ""),
            code=highlight_source(text or "", kind) if shown else None,
            nodes=render_nodes(text or "")
            if kind == "markdown" and len(text or "") <= MAX_RENDERED_CHARACTERS
            else None,
            dump=hex_dump(data) if kind == "binary" else None,
            into=[_link_values(each) for each in self._links.incoming(cid, prefixes)],
            out=self._links.outgoing(cid, data),
        )

    def links(self, cid: str, data: bytes, prefixes: Sequence[str]) -> Response:
        """The references to and in a content, as JSON."""
        return json_answer(
            {
                "cid": cid,
                "kind": detect_kind(data, self._known_as(cid)),
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
        """The kinds that servers declare for a content: their definition, or a Markdown resource."""
        for server in self._site.visible.all():
            if server.definition == cid:
                yield server.kind
            for each in server.resources.values():
                if each.target.get("cid") == cid and each.wire.get("mimeType") == "text/markdown":
                    yield "markdown"


def _link_values(link: IncomingLink) -> dict[str, Any]:
    """An incoming link as JSON, with the page of its source."""
    part, _, name = link.label.partition("/")
    page = f"/{part}/{quote(name, safe='')}" if part in ("servers", "variables") and name else None
    return asdict(link) | {"page": page}
