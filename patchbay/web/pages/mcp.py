"""The pages below /mcp, from content-addressed templates: how to connect, and the offers of one server.

`/mcp` and `/mcp/<server>` are also MCP endpoints. The code that serves these paths checks `wants_html`, then calls
`instruction_page` or redirects to the meta page.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Blueprint, Response, request

from patchbay.catalogue.servers import Server
from patchbay.client.applications.own_entry import AGGREGATE, stdio_command
from patchbay.errors import UnknownServer
from patchbay.settings import PERSONAL, is_loopback
from patchbay.web.pages.answers import check_number, content_answer
from patchbay.web.pages.data import ITEMS_PER_PAGE, endpoint_path, server_status
from patchbay.web.rendering.snippets import Snippet, snippets
from patchbay.web.site import Site, base_url
from patchbay.wire.authentication import is_local_request


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
    personal = site.settings.mode == PERSONAL and is_local_request(request.environ)
    return personal or site.operators.is_operator(request.environ)


def instruction_page(site: Site) -> Response:
    """The page of GET /mcp: overview, servers, and snippets for the endpoint of all servers."""
    url = f"{base_url()}/mcp"
    data = {"url": url, "servers": site.summaries(), "snippets": list_snippets(site, "", url)}
    return content_answer(site, "mcp/instruction.html", "mcp", data)


def meta_page(site: Site, address: str) -> Response:
    """The page of one server, or of one version (`name@cid`). Broken and disabled servers have a page too.

    Raises UnknownServer for an unknown name or version, InvalidParams for an invalid page number.
    """
    server, pinned = find_shown_server(site, address)
    base = base_url()
    exact = endpoint_path(server.name, server.version) if server.version else None
    path = exact if pinned and exact else endpoint_path(server.name)
    shown_server = site.detail(server)
    readable = shown_server["resources"] + shown_server["templates"]
    lists = {"tools": shown_server["tools"], "readable": readable, "prompts": shown_server["prompts"]}
    pages = max(1, *(-(-len(each) // ITEMS_PER_PAGE) for each in lists.values()))
    number = _page_number(pages)
    first = (number - 1) * ITEMS_PER_PAGE
    return content_answer(
        site,
        "mcp/meta.html",
        "mcp",
        {
            "server": shown_server,
            "pages": pages,
            "number": number,
            "url": base + path,
            "pinned_url": base + exact if exact and server_status(server) == "on" else None,
            "snippets": list_snippets(site, address if pinned else server.name, base + path),
        },
        **{name: each[first : first + ITEMS_PER_PAGE] for name, each in lists.items()},
        first=first,
        path=path,
    )


def _page_number(pages: int) -> int:
    return check_number("page", request.args.get("page", "1"), pages)


def find_shown_server(site: Site, address: str) -> tuple[Server, bool]:
    """Find the server of `name` or `name@cid`; also return whether the address is pinned. Raises UnknownServer."""
    name, _, cid = address.partition("@")
    if cid:
        return site.visible.pinned(name, cid, site.operators.is_operator(request.environ)), True
    for server in site.visible.all():
        if server.name == name:
            return server, False
    raise UnknownServer(f"there is no server {name[:128]!r} here")


def mcp_pages_blueprint(site: Site, instruction: bool = True) -> Blueprint:
    """The route `/mcp/meta/<server>` and, with `instruction`, the page of `GET /mcp`."""
    pages = Blueprint("mcp_pages", __name__)
    pages.add_url_rule("/mcp/meta/<address>", "meta", lambda address: meta_page(site, address))
    if instruction:
        pages.add_url_rule("/mcp", "instruction", lambda: instruction_page(site))
    return pages
