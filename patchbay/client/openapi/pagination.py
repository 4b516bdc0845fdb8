"""The pages of an API's answer: the request for the next page, and the place of the records in an answer.

    cursor   the answer has a field with a cursor, which goes into a parameter of the next request
    page     a parameter counts pages, from `start`, until a page has no records
    offset   a parameter counts records
    link     the header `Link: <...>; rel="next"`, or a field with the URL of the next page

`field` and `items` are names, or paths with points (`pagination.next_cursor`). Pages are followed only when a profile's
`pagination` or `page.KEY=` in an address asks for it. Pure.

Source: RFC 8288 (Link).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from patchbay.errors import InvalidParams

PAGING_TYPES = ("cursor", "page", "offset", "link")
_DEFAULT_PARAMETERS = {"cursor": ("cursor", "page_token", "pageToken", "after", "next"), "page": ("page",)}


@dataclass(frozen=True, slots=True)
class Paging:
    """The paging of an operation; `most` is the largest number of pages requested."""

    type: str
    field: str = ""
    param: str = ""
    items: str = ""
    start: int | None = None
    most: int = 1000


def parse_paging(given: Mapping[str, Any], where: str) -> Paging | None:
    """Parse the paging of a profile or an address; None when it is empty. Raises InvalidParams."""
    if not given:
        return None
    known = {one.name for one in fields(Paging)}
    other = sorted(set(given) - known)
    if other or given.get("type") not in PAGING_TYPES:
        what = f"{other[0]!r}" if other else f"type {given.get('type')!r}"
        raise InvalidParams(
            f"{where}: {what}; expected type ({', '.join(PAGING_TYPES)}), field, param, items, start, most"
        )
    numbers = {key: _parse_number(given[key], f"{where}: {key}") for key in ("start", "most") if key in given}
    words = {key: str(given[key]) for key in ("type", "field", "param", "items") if key in given}
    if words["type"] == "cursor" and not words.get("field"):
        raise InvalidParams(f"{where}: expected field, the name of the field with the next cursor")
    return Paging(**words, **numbers)  # type: ignore[arg-type]


def _parse_number(value: Any, where: str) -> int:
    if isinstance(value, bool) or not str(value).isascii() or not str(value).isdigit():
        raise InvalidParams(f"{where}: expected a number, got {value!r:.40}")
    return int(value)


def find_page_parameter(paging: Paging, arguments: Mapping[str, Any], where: str) -> str:
    """Find the argument that changes from page to page. Raises InvalidParams when it has to be named."""
    if paging.type == "link" or paging.param:
        return paging.param
    last = paging.field.rpartition(".")[2]
    names = (last, *_DEFAULT_PARAMETERS.get(paging.type, ("offset",)))
    found = next((name for name in names if name and name in arguments), "")
    if not found:
        raise InvalidParams(f"{where}: expected page.param=, the argument that says which page")
    return found


def get_at_path(value: Any, path: str) -> Any:
    """Get the value at a path with points in a JSON value, or None."""
    for word in path.split("."):
        value = value.get(word) if isinstance(value, dict) else None
    return value


def find_items(value: Any, paging: Paging | None, where: str) -> list[Any]:
    """Find the records of an answer: at `items`, else the answer itself, or the one list in it when it is paged."""
    if paging is None:
        return value if isinstance(value, list) else [value]
    if paging.items:
        found = get_at_path(value, paging.items)
        if not isinstance(found, list):
            raise InvalidParams(f"{where}: the answer has no list at {paging.items!r}")
        return found
    if not isinstance(value, dict):
        return value if isinstance(value, list) else [value]
    lists = [key for key, one in value.items() if isinstance(one, list)]
    if len(lists) != 1:
        raise InvalidParams(f"{where}: expected page.items=, one of {', '.join(lists or value) or 'none'}")
    found_list: list[Any] = value[lists[0]]
    return found_list


def find_next_link(link: str, value: Any, paging: Paging) -> str:
    """Find the URL of the next page, which may be relative, or "". `link` is that of the answer's header `Link`."""
    found = get_at_path(value, paging.field) if paging.field else link
    return found if isinstance(found, str) else ""


def find_next_value(value: Any, count: int, before: Any, paging: Paging) -> Any:
    """Find the value of the parameter for the next page; None after the last one. `count` records were on this page."""
    if paging.type == "cursor":
        found = get_at_path(value, paging.field)
        return found if found not in (None, "", False) else None
    if count == 0 or (paging.field and get_at_path(value, paging.field) in (None, "", False)):
        return None
    return before + (1 if paging.type == "page" else count)


def choose_first_value(paging: Paging, given: Any) -> int:
    """Choose the number of the first page or record."""
    if given is not None:
        return _parse_number(given, "the first page")
    return paging.start if paging.start is not None else (1 if paging.type == "page" else 0)
