"""The lists of a server, page by page: which of them it declares, and the limits of reading them.

Sources: MCP specification, basic/lifecycle (capability negotiation), server/utilities/pagination.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from patchbay.client.connection.plan import MAX_LIST_PAGES
from patchbay.client.connection.requests import METHOD_NOT_FOUND, Item, Json
from patchbay.client.errors import McpFailure

log = logging.getLogger(__name__)

MAX_LISTED_ITEMS = 100_000
"""Tools, resources, templates or prompts of one server."""

KEYS = {"tools": "name", "resources": "uri", "resourceTemplates": "uriTemplate", "prompts": "name"}
"""The member that tells the items of a list apart, by the member of the answer that has the list."""

LIST_KINDS = ("tools", "resources", "resources/templates", "prompts")
LISTED_CAPABILITIES = frozenset({"tools", "resources", "prompts"})
"""The capabilities of servers that have lists."""


EVENTS = "io.modelcontextprotocol/events"
"""The identifier of the extension with events (SEP-3415)."""

APPS = "io.modelcontextprotocol/ui"
"""The identifier of the extension for apps (SEP-1865)."""

DECLARED_APPS: Mapping[str, Any] = {APPS: {"mimeTypes": ["text/html;profile=mcp-app"]}}
"""The extension as a client declares it that passes apps on to one that shows them."""


def find_events(capabilities: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what a server declares about its events, None without events.

    SEP-3415 declares an extension. OpenAI's guide declares the capability `events`, and some servers do both.
    """
    extensions = capabilities.get("extensions")
    extension = extensions.get(EVENTS) if isinstance(extensions, Mapping) else None
    declared = [one for one in (capabilities.get("events"), extension) if isinstance(one, Mapping)]
    return {name: value for one in declared for name, value in one.items()} if declared else None


def is_declared(method: str, capabilities: Mapping[str, Any]) -> bool:
    """Whether a server with these capabilities has the list of a method such as `tools/list`.

    A server that declares no list at all may have tools, because some servers declare nothing.
    """
    capability = method.partition("/")[0]
    if capability == "events":
        return find_events(capabilities) is not None
    declared = LISTED_CAPABILITIES & capabilities.keys()
    return capability in declared or (capability == "tools" and not declared)


def iterate_pages(
    request_page: Callable[[Json], Json],
    method: str,
    key: str,
    on_page: Callable[[Json], object] | None,
    meta: Json | None,
    on_problem: Callable[[str], object],
) -> Iterator[Json]:
    """Give all items of all pages of a list, `key` in each. `request_page` takes the params of one request.

    A list without a proper end is given as far as it was read, and `on_problem` gets a sentence: when a cursor comes
    twice or is no string, when a page has only items of earlier pages, or no list, and beyond MAX_LIST_PAGES and
    MAX_LISTED_ITEMS. Raises McpFailure for a first page without the list.
    """
    params: Json = {"_meta": meta} if meta else {}
    cursors: set[str] = set()
    known: set[str] = set()
    count = 0
    for number in range(1, MAX_LIST_PAGES + 1):
        page = request_page(params)
        if on_page is not None:
            on_page(page)
        items = page.get(key)
        if not isinstance(items, list):
            sentence = f"the answer to {method} has no list {key!r}; expected one"
            if number == 1:
                raise McpFailure(-32603, sentence)
            on_problem(f"not read after {count} entries: {sentence}")
            return
        cursor = page.get("nextCursor")
        fresh = [item for item in items if _identity(item) not in known]
        problem = _find_problem(cursor, cursors, bool(items) and not fresh)
        if problem:
            yield from fresh
            on_problem(f"not read after {count + len(fresh)} entries: {problem}")
            return
        if count + len(items) > MAX_LISTED_ITEMS:
            yield from items[: MAX_LISTED_ITEMS - count]
            on_problem(f"not read after {MAX_LISTED_ITEMS} entries: expected at most so many {key}")
            return
        yield from items
        if not cursor:
            return
        count += len(items)
        known.update(map(_identity, fresh))
        cursors.add(cursor)
        params = {**params, "cursor": cursor}
    on_problem(f"not read after {count} entries: {method} has more than {MAX_LIST_PAGES} pages")


def _find_problem(cursor: Any, before: set[str], is_repeated: bool) -> str:
    """Return why a list does not end properly at the page with this next cursor, "" for a page as expected.

    The empty cursor ends a list, as a missing one does: servers in Go write it.
    """
    if not cursor:
        return ""
    if not isinstance(cursor, str):
        return f"its next cursor is not a string ({cursor!r:.80})"
    if cursor in before:
        return f"its pages never end: the cursor {cursor[:80]!r} came twice"
    return f"its pages never end: the one before the cursor {cursor[:80]!r} has nothing new" if is_repeated else ""


def _identity(item: Any) -> str:
    """Return what tells an item of a list from others."""
    return repr([item.get(key) for key in KEYS.values()] if isinstance(item, Mapping) else item)


def keep_named(items: Iterable[Any], key: str, on_problem: Callable[[str], object]) -> list[Json]:
    """Return the items of a list that can be used: objects with a name, or with a URI. Say how many others it has."""
    name = KEYS.get(key, "")
    found: list[Json] = []
    others = 0
    for item in items:
        if isinstance(item, dict) and (not name or isinstance(item.get(name), str)):
            found.append(item)
        else:
            others += 1
    if others:
        on_problem(f"{others} of its {key} left out: expected objects with a {name or 'name'} that is a string")
    return found


class ServerLists(ABC):
    """The lists of a server over a connection.

    `list_problems` says what was wrong with a list when it was read last, by its method, such as `tools/list`.
    """

    def __init__(self) -> None:
        self.list_problems: dict[str, tuple[str, ...]] = {}

    @property
    @abstractmethod
    def capabilities(self) -> Json:
        """The server's capabilities."""

    @abstractmethod
    def get_result(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_event: Callable[[Item], None] | None = None,
    ) -> Json:
        """Send a request and return its result."""

    def list_tools(self, timeout: float | None = None) -> list[Json]:
        """List all tools, of all pages, as the server describes them; [] when the server has no tools."""
        return self._list("tools/list", "tools", timeout)

    def list_resources(self, timeout: float | None = None) -> list[Json]:
        """List all resources."""
        return self._list("resources/list", "resources", timeout)

    def list_resource_templates(self, timeout: float | None = None) -> list[Json]:
        """List all resource templates."""
        return self._list("resources/templates/list", "resourceTemplates", timeout)

    def list_prompts(self, timeout: float | None = None) -> list[Json]:
        """List all prompts."""
        return self._list("prompts/list", "prompts", timeout)

    def _list(self, method: str, key: str, timeout: float | None) -> list[Json]:
        if not self.has_list(method):
            return []
        return keep_named(self.iterate_pages(method, key, timeout=timeout), key, partial(self._note_problem, method))

    def _note_problem(self, method: str, sentence: str) -> None:
        log.debug("%s: %s", method, sentence)
        self.list_problems[method] = (*self.list_problems.get(method, ()), sentence)

    def iterate_pages(
        self,
        method: str,
        key: str,
        on_page: Callable[[Json], object] | None = None,
        meta: Json | None = None,
        timeout: float | None = None,
    ) -> Iterator[Json]:
        """Give all items of all pages of a list, `key` in each; `on_page` receives each page, `meta` goes with each
        request, which may take `timeout` seconds.

        A list without a proper end is given as far as it was read; `list_problems` then has a sentence.
        """
        self.list_problems.pop(method, None)
        request_page, on_problem = (
            partial(self._request_page, method, key, timeout),
            partial(self._note_problem, method),
        )
        return iterate_pages(request_page, method, key, on_page, meta, on_problem)

    def has_list(self, method: str) -> bool:
        """Whether the server declares a list (`list_pages.py`)."""
        return is_declared(method, self.capabilities)

    def _request_page(self, method: str, key: str, timeout: float | None, params: Json) -> Json:
        """Request a page. A server that neither declares this list nor knows its method has an empty one.

        Templates have no capability of their own.
        """
        kind = method.rpartition("/")[0]
        try:
            return self.get_result(method, params, timeout=timeout)
        except McpFailure as problem:
            if problem.code != METHOD_NOT_FOUND or kind in self.capabilities or kind not in LIST_KINDS:
                raise
            return {key: []}
