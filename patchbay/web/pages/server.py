"""`/servers/<name>`: what one server is made of, its versions, and any two of them compared.

Rules: everything here only reads; a version that is broken can be looked at like any other.
Sources: DESIGN sections 4 and 8; JN-45 (what a change means for callers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from flask import Blueprint, Response, request

from patchbay.catalogue.previews import find_line
from patchbay.catalogue.servers import Server
from patchbay.client.contracts.drift import detect_schema_changes, find_gravest_kind
from patchbay.descriptors import Descriptor
from patchbay.errors import InvalidParams
from patchbay.kind import kind_named
from patchbay.store import Store
from patchbay.web.operator.changes import why_not
from patchbay.web.pages.answers import render_answer
from patchbay.web.pages.mcp import find_shown_server
from patchbay.web.rendering.content_kinds import text_of
from patchbay.web.rendering.highlighting import readable, source
from patchbay.web.rendering.templates import pretty
from patchbay.web.rendering.text_comparison import Comparison, compare
from patchbay.web.site import Site

PAST = 50
"""How many moves a page shows."""

GROUPS = (("resource", "resources"), ("template", "templates"), ("prompt", "prompts"))


class _Views:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store

    def server(self, name: str) -> Response:
        """A server with its source, configuration and versions. Raises UnknownServer."""
        found, _ = find_shown_server(self._site, name)
        text = definition_text(self._store, found)
        versions = past(self._store, f"served/{found.name}")
        return render_answer(
            self._site,
            "server.html",
            "servers",
            {
                "server": self._site.detail(found),
                "source": text,
                "versions": versions,
                "past": past(self._store, f"servers/{found.name}"),
            },
            code=source(text, kind_named(found.kind).language) if text is not None else None,
            wrong=wrong_lines(found),
            config=source(pretty(found.config), "json") if found.config else None,
            sealed=why_not(self._site),
            revoked=self._site.catalogue.revoked_versions(found.name, [each["cid"] for each in versions]),
        )

    def compare(self, name: str) -> Response:
        """Two versions side by side: `old` and `new` are versions or definitions that the name has had.

        Raises UnknownServer, InvalidParams.
        """
        old, new = (self._version(name, key) for key in ("old", "new"))
        definitions = self._compared(old.definition, new.definition)
        configs = self._compared(_own_config(old), _own_config(new))
        return render_answer(
            self._site,
            "versions.html",
            "servers",
            {
                "server": name,
                "old": _told(old),
                "new": _told(new),
                "meaning": meaning(old, new),
                "definition": asdict(definitions),
                "configuration": asdict(configs),
            },
            definitions=definitions,
            configs=configs,
            page=f"/servers/{quote(name, safe='')}",
        )

    def _version(self, name: str, key: str) -> Server:
        cid = request.args.get(key, "")
        if not cid:
            raise InvalidParams(f"expected old and new, two versions of {name[:128]!r}; {key} is not given")
        return self._site.catalogue.version(name, cid)

    def _compared(self, old: str | None, new: str | None) -> Comparison:
        return compared(self._store, old, new)


def meaning(old: Server, new: Server) -> dict[str, Any]:
    """What a change from one version to another means for callers: tools by what breaks, the rest by what differs."""
    # Tools that are the same on both sides are most of them, and their digests say so.
    same = {name for name, one in old.tools.items() if name in new.tools and new.tools[name].digest == one.digest}
    before, after = ([dict(one.wire) for name, one in each.tools.items() if name not in same] for each in (old, new))
    tools = detect_schema_changes(before, after)
    pairs = [(kind, _listed(old, group), _listed(new, group)) for kind, group in GROUPS]
    rest = [row for kind, before, after in pairs for row in listing_changes(kind, before, after)]
    return {"worst": find_gravest_kind(tools), "tools": [one.to_json() for one in tools], "rest": rest}


def listing_changes(
    kind: str, before: Mapping[str, Descriptor], after: Mapping[str, Descriptor]
) -> list[dict[str, str]]:
    """What was added, removed or changed among descriptors of one kind, by name."""
    rows = []
    for name in sorted({*before, *after}):
        if name not in after or name not in before:
            rows.append({"kind": kind, "name": name, "sentence": "removed" if name in before else "added"})
        elif before[name].digest != after[name].digest:
            old, new = before[name].wire, after[name].wire
            fields = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
            rows.append({"kind": kind, "name": name, "sentence": f"changed: {', '.join(fields)}"})
    return rows


def compared(store: Store, old: str | None, new: str | None) -> Comparison:
    """Two contents side by side; JSON by its indented form, None is empty."""
    texts = []
    for cid in (old, new):
        text = text_of(store.blobs.get(cid)) if cid else ""
        if text is None:
            return Comparison(problem="one of them is no text") if old != new else Comparison()
        texts.append(readable(text))
    return compare(texts[0], texts[1])


def past(store: Store, name: str) -> list[dict[str, Any]]:
    """The newest moves of a name, newest first."""
    return [asdict(move) for move in store.names.past(name, PAST)]


def definition_text(store: Store, server: Server) -> str | None:
    """A server's definition as text; None where it is not in the store or no text."""
    if server.definition is None or store.blobs.missing([server.definition]):
        return None
    return text_of(store.blobs.get(server.definition))


def wrong_lines(server: Server) -> dict[int, str]:
    """Lines of a definition that something is wrong with, each with a sentence."""
    found = {each.line: f"{each.where}: {each.reason}" for each in reversed(server.problems) if each.line}
    line = find_line(server.broken) if server.broken else None
    if server.broken and line:
        found[line] = server.broken.partition(f"line {line}: ")[2] or server.broken
    return found


def _own_config(server: Server) -> str | None:
    return None if kind_named(server.kind).is_configuration else server.config_cid


def _listed(server: Server, group: str) -> Mapping[str, Descriptor]:
    found: Mapping[str, Descriptor] = getattr(server, group)
    return found


def _told(server: Server) -> dict[str, Any]:
    return {
        "version": server.version,
        "definition": server.definition,
        "config_cid": server.config_cid,
        "broken": server.broken,
        "tools": len(server.tools),
    }


def server_pages_blueprint(site: Site) -> Blueprint:
    """`/servers/<name>` and `/servers/<name>/compare`."""
    views = _Views(site)
    pages = Blueprint("server_pages", __name__)
    pages.add_url_rule("/servers/<name>", "server", views.server)
    pages.add_url_rule("/servers/<name>/compare", "compare", views.compare)
    return pages
