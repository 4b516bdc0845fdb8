"""Put a built-in server into the list of all servers at /mcp, or take it out; the variable `listing` says which are in.

The server keeps its own endpoint, and calls of its tools by their names at /mcp work in both cases.
"""

from __future__ import annotations

from typing import Any

import orjson

from patchbay.boot import change_names, find_variable
from patchbay.catalogue.aggregate.hub_listing import AggregateListing, HubListing
from patchbay.catalogue.operating.switching import check_changeable
from patchbay.errors import ConfigError, StaleUpdate
from patchbay.jsonrpc import parse_object
from patchbay.store import Store
from patchbay.suggestions import did_you_mean, find_similar_names
from patchbay.topics import LISTING


def list_server(store: Store, name: str, listing: AggregateListing, is_listed: bool, who: str) -> bool:
    """Put a built-in server into the list at /mcp, or take it out; return whether this changed anything.

    `listing` is the present one. Raises ReadOnly, StaleUpdate, and ConfigError for a server that is not built in and
    while the variable cannot be read.
    """
    check_changeable(store)
    if name not in listing.built_in:
        close = did_you_mean(find_similar_names(name, sorted(listing.built_in)))
        raise ConfigError(LISTING, "built_in", f"expected a built-in server: {name} is not one{close}")
    if (name not in listing.unlisted) == is_listed:
        return False
    listed = listing.built_in - listing.unlisted
    wanted = listed | {name} if is_listed else listed - {name}
    change = "is listed at /mcp" if is_listed else "is not listed at /mcp"
    write_listing(store, {"built_in": sorted(wanted)}, listing, who, f"{name} {change}")
    return True


def write_listing(store: Store, fields: dict[str, Any], listing: AggregateListing, who: str, why: str) -> None:
    """Set members of the variable `listing`; an empty `include`, `exclude` or `always` leaves it.

    `listing` is the one from which the author made the fields. Raises StaleUpdate where the variable has changed
    since then, and ConfigError while it cannot be read or for fields that it cannot have.
    """
    if listing.problem is not None:
        raise ConfigError(LISTING, "", f"correct this variable first: {listing.problem}")
    found = find_variable(store, LISTING.removeprefix("variables/"))
    before = parse_object(found.value) if found is not None and found.value.strip() else {}
    if before is None or HubListing.of(before) != listing.variable:
        raise StaleUpdate("the list at /mcp was not changed: it has changed meanwhile. Repeat the change")
    merged = {**before, **fields}
    kept = {key: value for key, value in merged.items() if value or key in ("built_in", "search")}
    text = store.blobs.put(orjson.dumps(kept, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS))
    change_names(store, {LISTING: text}, who, why, {LISTING: None if found is None else found.cid})
