"""The page after an answer: from the header `Link`, or from the fields that APIs use for a link or a cursor.

Sources: RFC 8288 (Link); the fields of common APIs, by their documentation (JSON:API, HAL, OData, AIP-158).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from patchbay.client.openapi.http_client import Reply, get_origin
from patchbay.client.openapi.operations import Operation
from patchbay.client.openapi.pagination import get_at_path
from patchbay.kinds.openapi.tool_names import get_singular

LINK_FIELDS = (
    *("next", "links.next", "_links.next.href", "links.next.href", "paging.next", "pagination.next", "meta.next"),
    *("next_url", "nextLink", "next_page_url", "info.next"),
)
_HOMES = ("", "meta.", "pagination.", "paging.", "page_info.", "response_metadata.", "paging.cursors.")
_CURSORS = ("next_cursor", "nextCursor", "next_page_token", "nextPageToken", "next_token", "nextToken", "next")
CURSOR_FIELDS = (
    *(home + name for home in _HOMES for name in _CURSORS),
    *("cursor", "next_page", "nextPage", "pagination.next_page", "meta.next_page", "paging.cursors.after", "continue"),
)
CURSOR_PARAMETERS = (
    *("cursor", "page_token", "pagetoken", "next_token", "nexttoken", "after", "starting_after", "continue"),
)
PAGE_PARAMETERS = ("page", "offset", "start", "skip")
PAGED_BY = frozenset({"page", "cursor", "offset", "limit", "per_page", "page_token", "after", "pagesize"})
"""Query parameters of operations that answer pages."""

_PAGE_HOMES = frozenset({*("links", "_links", "paging", "pagination", "page_info", "response_metadata"), "next_url"})
_PAGE_FIELDS = _PAGE_HOMES | {*_CURSORS, *("cursor", "next_page", "nextPage", "nextLink", "next_page_url")}
"""Fields of an object that tell where its next page is."""


def reads_pages(operation: Operation, answer: Mapping[str, Any], lists: Collection[str]) -> bool:
    """Whether an operation reads a list, so that its answer may have a next page.

    `answer` is the schema of its answer, `lists` are the properties of that which are lists. An object with lists is
    one thing, unless it has a field for its next page, or the path names a collection.
    """
    if operation.method != "get":
        return False
    names = {one.name.lower() for one in operation.parameters if one.place == "query"}
    if names & PAGED_BY or answer.get("type") == "array":
        return True
    if not lists:
        return False
    if _PAGE_FIELDS & answer.get("properties", {}).keys():
        return True
    word = operation.path.rstrip("/").rpartition("/")[2]
    return len(lists) == 1 and "{" not in word and get_singular(word) != word


def find_next_url(reply: Reply, value: Any, url: str, operation: Operation) -> str:
    """Return the URL of the page after an answer to a request for `url`; "" after the last page."""
    link = reply.find_link("next") or _find_link_field(value)
    if link:
        found = urljoin(url, link)
        return found if get_origin(found) == get_origin(url) and found != url else ""
    return _find_by_cursor(value, url, operation)


def _find_link_field(value: Any) -> str:
    if not isinstance(value, Mapping):
        return ""
    odata = value.get("@odata.nextLink")
    candidates = [odata, *(get_at_path(value, path) for path in LINK_FIELDS)]
    return next((one for one in candidates if isinstance(one, str) and one.startswith(("http", "/", "?"))), "")


def _find_by_cursor(value: Any, url: str, operation: Operation) -> str:
    """Return the URL with the cursor of an answer in the parameter that takes it."""
    if not isinstance(value, Mapping):
        return ""
    queries = {one.name.lower(): one.name for one in operation.parameters if one.place == "query"}
    for path in CURSOR_FIELDS:
        cursor = get_at_path(value, path)
        if cursor in (None, "", False) or not isinstance(cursor, str | int):
            continue
        word = path.rpartition(".")[2].lower()
        names = [word, word.removeprefix("next_"), word.removeprefix("next"), *CURSOR_PARAMETERS]
        names += PAGE_PARAMETERS if isinstance(cursor, int) else ()
        name = next((queries[name] for name in names if name in queries), "")
        if name:
            return replace_query(url, {name: str(cursor)})
    return ""


def replace_query(url: str, values: Mapping[str, str]) -> str:
    """Return a URL with these parameters in its query."""
    parts = urlsplit(url)
    pairs = [(key, text) for key, text in parse_qsl(parts.query, keep_blank_values=True) if key not in values]
    return parts._replace(query=urlencode([*pairs, *values.items()])).geturl()


def make_continuation(url: str, at: str, private: frozenset[str]) -> str:
    """Return what a caller gives as `next`: the query of the next page, without the parameters `private`.

    Empty for a page at another path than `at`, because a caller could then read any path.
    """
    parts, own = urlsplit(url), urlsplit(at)
    if (parts.netloc, parts.path) != (own.netloc, own.path):
        return ""
    pairs = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in private]
    return f"?{urlencode(pairs)}"


def join_pages(first: Any, following: Any) -> Any:
    """Return two pages as one: two lists, or two objects with one list each; None when they have no such list."""
    if isinstance(first, list) and isinstance(following, list):
        return first + following
    if isinstance(first, dict) and isinstance(following, dict):
        lists = [key for key, one in first.items() if isinstance(one, list)]
        if len(lists) == 1 and isinstance(following.get(lists[0]), list):
            return {**following, lists[0]: first[lists[0]] + following[lists[0]]}
    return None
