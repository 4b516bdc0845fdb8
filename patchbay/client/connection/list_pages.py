"""The lists of a server, page by page: which of them it declares, and the limits of reading them.

Sources: MCP specification, basic/lifecycle (capability negotiation), server/utilities/pagination.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from patchbay.client.connection.plan import MAX_LIST_PAGES
from patchbay.client.connection.requests import METHOD_NOT_FOUND, Json
from patchbay.client.errors import McpFailure

MAX_LISTED_ITEMS = 100_000
"""Tools, resources, templates or prompts of one server."""

LIST_KINDS = ("tools", "resources", "resources/templates", "prompts")
LISTED_CAPABILITIES = frozenset({"tools", "resources", "prompts"})
"""The capabilities of servers that have lists."""


def is_declared(method: str, capabilities: Mapping[str, Any]) -> bool:
    """Whether a server with these capabilities has the list of a method such as `tools/list`.

    A server that declares no list at all may have tools, because some servers declare nothing.
    """
    capability = method.partition("/")[0]
    declared = LISTED_CAPABILITIES & capabilities.keys()
    return capability in declared or (capability == "tools" and not declared)


def request_page(
    get_result: Callable[[str, Json], Json], capabilities: Mapping[str, Any], key: str, method: str, params: Json
) -> Json:
    """Request a page. A server that neither declares this list nor knows its method has an empty one.

    Templates have no capability of their own.
    """
    kind = method.rpartition("/")[0]
    try:
        return get_result(method, params)
    except McpFailure as problem:
        if problem.code != METHOD_NOT_FOUND or kind in capabilities or kind not in LIST_KINDS:
            raise
        return {key: []}


def iterate_pages(
    request: Callable[[str, Json], Json],
    method: str,
    key: str,
    on_page: Callable[[Json], object] | None,
    meta: Json | None,
) -> Iterator[Json]:
    """Give all items of all pages of a list, `key` in each. `request` takes the method and the params of one
    request.

    Raises McpFailure for a page without the list, for cursors that repeat, and beyond MAX_LIST_PAGES and
    MAX_LISTED_ITEMS.
    """
    params: Json = {"_meta": meta} if meta else {}
    cursors: set[str] = set()
    count = 0
    while len(cursors) < MAX_LIST_PAGES:
        page = request(method, params)
        if on_page is not None:
            on_page(page)
        items = page.get(key)
        if not isinstance(items, list):
            raise McpFailure(-32603, f"the answer to {method} has no list {key!r}; expected one")
        count += len(items)
        if count > MAX_LISTED_ITEMS:
            raise McpFailure(-32603, f"the server lists more than {MAX_LISTED_ITEMS} {key}")
        yield from items
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str):
            return
        if cursor in cursors:
            raise McpFailure(-32603, f"the pages of {method} never end: the cursor {cursor[:80]!r} came twice")
        cursors.add(cursor)
        params = {**params, "cursor": cursor}
    raise McpFailure(-32603, f"{method} has more than {MAX_LIST_PAGES} pages")
