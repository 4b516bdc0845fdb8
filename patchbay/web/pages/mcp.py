"""The pages below /mcp, from content-addressed templates: how to connect, and what one server offers.

`/mcp` and `/mcp/<server>` are endpoints too: whoever serves those paths asks `wants_html` and calls
`instruction_page` or redirects to the meta page. Alone, the blueprint here serves the HTML of both.
Sources: REQUIREMENTS VWR-5, VWR-6, VWR-35, X-5; DESIGN section 8.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Blueprint, Response, request

from patchbay.catalogue.servers import Server
from patchbay.errors import InvalidParams, UnknownServer
from patchbay.web.operator.exposure import PERSONAL, from_this_machine
from patchbay.web.pages.answers import content_answer, number_in
from patchbay.web.pages.data import SHOWN, endpoint, status
from patchbay.web.rendering.snippets import Snippet, snippets, stdio_command
from patchbay.web.site import Site, base_url
from patchbay.wire.security import is_loopback

AGGREGATE = "patchbay"
"""The name under which snippets connect all servers at once."""


def connections(site: Site, server: str, url: str) -> list[Snippet]:
    """What to copy in order to connect to a server (`name`, `name@cid`, or "" for all) at its URL."""
    command = stdio_command(site.settings, server, _may_see_folders(site, url))
    return snippets(server.partition("@")[0] or AGGREGATE, url, command)


def _may_see_folders(site: Site, url: str) -> bool:
    """Whether the reader of the present page may see where the folders of this hub are.

    That is the operator at an address of this machine, and in personal mode every reader on this machine.
    """
    if not is_loopback(urlsplit(url).hostname or ""):
        return False
    personal = site.settings.access == PERSONAL and from_this_machine(request.environ)
    return personal or site.operators.is_operator(request.environ)


def instruction_page(site: Site) -> Response:
    """The page of GET /mcp: overview, documentation, servers, snippets for the aggregate endpoint."""
    url = f"{base_url()}/mcp"
    data = {"url": url, "servers": site.summaries(), "snippets": connections(site, "", url)}
    return content_answer(site, "mcp/instruction.html", "mcp", data)


def meta_page(site: Site, address: str) -> Response:
    """The page of one server, or of one version of it (`name@cid`); also when it is broken or switched off.

    Raises UnknownServer when there is none of that name or version, InvalidParams for a page that is none.
    """
    server, pinned = find_shown_server(site, address)
    base = base_url()
    exact = endpoint(server.name, server.version) if server.version else None
    path = exact if pinned and exact else endpoint(server.name)
    shown_server = site.detail(server)
    readable = shown_server["resources"] + shown_server["templates"]
    lists = {"tools": shown_server["tools"], "readable": readable, "prompts": shown_server["prompts"]}
    pages = max(1, *(-(-len(each) // SHOWN) for each in lists.values()))
    number = _page_number(pages)
    first = (number - 1) * SHOWN
    return content_answer(
        site,
        "mcp/meta.html",
        "mcp",
        {
            "server": shown_server,
            "pages": pages,
            "number": number,
            "url": base + path,
            "pinned_url": base + exact if exact and status(server) == "on" else None,
            "snippets": connections(site, address if pinned else server.name, base + path),
        },
        **{name: each[first : first + SHOWN] for name, each in lists.items()},
        first=first,
        path=path,
    )


def _page_number(pages: int) -> int:
    text = request.args.get("page", "1")
    found = number_in(text, pages)
    if found is None:
        raise InvalidParams(f"page has to be a number from 1 to {pages}; it is {text!r:.60}")
    return found


def find_shown_server(site: Site, address: str) -> tuple[Server, bool]:
    """The server behind a name or `name@cid`, and whether the address is pinned. Raises UnknownServer."""
    name, _, cid = address.partition("@")
    if cid:
        return site.catalogue.pinned(name, cid, site.operators.is_operator(request.environ)), True
    for server in site.catalogue.all():
        if server.name == name:
            return server, False
    raise UnknownServer(f"there is no server {name[:128]!r} here")


def mcp_pages_blueprint(site: Site, instruction: bool = True) -> Blueprint:
    """`/mcp/meta/<server>` and, unless another blueprint serves it, the HTML of `GET /mcp`."""
    pages = Blueprint("mcp_pages", __name__)
    pages.add_url_rule("/mcp/meta/<address>", "meta", lambda address: meta_page(site, address))
    if instruction:
        pages.add_url_rule("/mcp", "instruction", lambda: instruction_page(site))
    return pages
