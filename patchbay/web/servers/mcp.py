"""The pages from content-addressed templates: how to connect (`/mcp`), and the tab "Use" of one server.

`/mcp` and `/mcp/<server>` are also MCP endpoints. The code that serves these paths checks `wants_html`, then calls
`instruction_page` or redirects to the page of the server, `/servers/<server>`. `/mcp/meta/<server>` is that page, or
its content as JSON.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from flask import Blueprint, Response, request

from patchbay.catalogue.building.previews import find_line
from patchbay.catalogue.servers.server import Server
from patchbay.client.applications.own_entry import AGGREGATE, stdio_command
from patchbay.errors import UnknownServer
from patchbay.hosts.names import is_loopback
from patchbay.kind import kind_named
from patchbay.settings import PERSONAL
from patchbay.store import Store
from patchbay.web.rendering.content_kinds import decode_text
from patchbay.web.rendering.highlighting import excerpt
from patchbay.web.rendering.snippets import Snippet, snippets
from patchbay.web.servers.entries import page_entries
from patchbay.web.servers.hosted_clients import list_missing
from patchbay.web.site.answers import content_answer
from patchbay.web.site.data import endpoint_path, explain_no_scripts, page_path, server_status
from patchbay.web.site.site import Site, base_url
from patchbay.wire.requests.authentication import is_local_request
from patchbay.wire.requests.security import CSP_WITH_APPS
from patchbay.wire.requests.wsgi import request_of


def list_snippets(site: Site, server: str, url: str) -> list[Snippet]:
    """The snippets that connect clients to a server (`name`, `name@cid`, or "" for all servers) at its URL."""
    command = stdio_command(site.settings, server, _may_see_folders(site, url))
    return snippets(server.partition("@")[0] or AGGREGATE, url, command)


def _may_see_folders(site: Site, url: str) -> bool:
    """Whether the current reader may see the paths of the hub's folders.

    The operator at a loopback URL may see them; in personal mode every reader on this machine may.
    """
    if not is_loopback(urlsplit(url).hostname or ""):
        return False
    personal = site.settings.mode == PERSONAL and is_local_request(request_of(request.environ))
    return personal or site.operators.is_operator(request_of(request.environ))


def instruction_page(site: Site) -> Response:
    """The page of GET /mcp: overview, servers, and snippets for the endpoint of all servers."""
    url = f"{base_url()}/mcp"
    data = {
        "url": url,
        "servers": site.summaries(),
        "snippets": list_snippets(site, "", url),
        "hosted": list_missing(site.settings, base_url()),
    }
    why = explain_no_scripts(site.visible.aggregate())
    return content_answer(site, "mcp/instruction.html", "mcp", data, no_scripts=why)


def use_page(site: Site, address: str) -> Response:
    """The tab "Use" of one server, or of one version (`name@cid`). Broken and disabled servers have one too.

    With `find`, only the entries whose names or descriptions contain it are listed. `tool`, `resource` or `prompt`
    selects an entry; with `part=entry` the answer has only that entry. Raises UnknownServer for an unknown name or
    version, UnknownEntry, InvalidParams for an invalid page number.
    """
    server, pinned = find_shown_server(site, address)
    base = base_url()
    exact = endpoint_path(server.name, server.version) if server.version else None
    path = exact if pinned and exact else endpoint_path(server.name)
    shown_server = site.detail(server)
    entries = page_entries(shown_server, request.args)
    if entries.selected and request.args.get("part") == "entry":
        return site.html("server/entry.html", "servers", server=shown_server, entry=entries.selected, path=path)
    response = content_answer(
        site,
        "mcp/meta.html",
        "servers",
        {
            "server": shown_server,
            "pages": entries.pages,
            "number": entries.number,
            "url": base + path,
            "pinned_url": base + exact if exact and server_status(server) == "on" else None,
            "snippets": list_snippets(site, address if pinned else server.name, base + path),
        },
        tools=entries.of_kind("tool"),
        readable=entries.of_kind("resource"),
        prompts=entries.of_kind("prompt"),
        path=path,
        page=page_path(address),
        find=entries.find,
        has_many=entries.has_many,
        mend=mend_values(site, server),
    )
    response.headers["Content-Security-Policy"] = CSP_WITH_APPS
    return response


def mend_values(site: Site, server: Server) -> dict[str, Any] | None:
    """The line of a broken definition with the lines around it, and the path of its editor; None without a line."""
    line = find_line(server.broken) if server.broken else None
    if line is None or not site.visible.shows_source(server.name):
        return None
    text = definition_text(site.catalogue.store, server)
    if text is None:
        return None
    rows = excerpt(text, kind_named(server.kind).language, line)
    return {"line": line, "rows": rows, "edit": f"{page_path(server.name)}/edit#L{line}"}


def definition_text(store: Store, server: Server) -> str | None:
    """The definition of a server as text; None when it is not in the store or is not text."""
    if server.definition is None or store.blobs.missing([server.definition]):
        return None
    return decode_text(store.blobs.get(server.definition))


def find_shown_server(site: Site, address: str) -> tuple[Server, bool]:
    """Find the server of `name` or `name@cid`; also return whether the address is pinned. Raises UnknownServer."""
    name, _, cid = address.partition("@")
    if cid:
        return site.visible.pinned(name, cid, site.operators.is_operator(request_of(request.environ))), True
    for server in site.visible.all():
        if server.name == name:
            return server, False
    raise UnknownServer(f"there is no server {name[:128]!r} here")


def mcp_pages_blueprint(site: Site, instruction: bool = True) -> Blueprint:
    """The route `/mcp/meta/<server>` and, with `instruction`, the page of `GET /mcp`."""
    pages = Blueprint("mcp_pages", __name__)
    pages.add_url_rule("/mcp/meta/<address>", "meta", lambda address: use_page(site, address))
    if instruction:
        pages.add_url_rule("/mcp", "instruction", lambda: instruction_page(site))
    return pages
