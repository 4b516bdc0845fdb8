"""Scripts in the form of a toolset: what each way to list its tools costs, and the way that a new one begins with.

A long list costs a model more than the two tools of scripts. So the form of a new toolset offers scripts alone, as soon
as its list has more than LONG_LIST_TOKENS, until a person chooses another way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.catalogue.operating.toolsets import DraftedToolset
from patchbay.catalogue.servers.list_prices import count_bytes, describe_price, estimate_tokens
from patchbay.catalogue.servers.listing import name_owners
from patchbay.catalogue.servers.script_tools import ALSO, NOT_INSTALLED, OFF, ONLY, is_installed, script_descriptors

LONG_LIST_TOKENS = 4000
"""Estimated tokens of a list above which the form of a new toolset offers scripts in place of it."""

CHOICE, OFFERED = "scripts", "scripts-offered"
"""The fields of the form: what is chosen, and what the form chose by itself."""

_WORDS = {OFF: "The tools", ALSO: "The tools, and scripts", ONLY: "Scripts in place of the tools"}


def read_choice(wanted: dict[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a toolset with the way that a form chooses, in place of that in `scripts` and `listing`."""
    chosen = fields.get(CHOICE)
    if chosen not in _WORDS or chosen == _find_way(wanted):
        return wanted
    listing = {name: one for name, one in wanted.get("listing", {}).items() if name != CHOICE}
    rest = {name: one for name, one in wanted.items() if name not in ("listing", CHOICE)}
    return {**rest, **({"listing": listing} if listing else {}), **({CHOICE: chosen} if chosen != OFF else {})}


def has_own_choice(fields: Mapping[str, str]) -> bool:
    """Whether a person chose a way in a form, and not the form itself."""
    return CHOICE in fields and fields[CHOICE] != fields.get(OFFERED, OFF)


def offer_choice(drafted: DraftedToolset) -> str:
    """Return the way that the form of a new toolset chooses by itself, by the price of the list."""
    return ONLY if is_installed() and estimate_tokens(sum(_sizes(drafted))) > LONG_LIST_TOKENS else OFF


def describe_choice(drafted: DraftedToolset, offered: str) -> dict[str, Any]:
    """Return the ways to list the tools of a draft, each with its price, and the chosen one."""
    sizes = _sizes(drafted)
    tools = drafted.server.tools if drafted.server is not None else {}
    added = [count_bytes(one) for one in script_descriptors(tools, name_owners(tools)).values()]
    prices = {OFF: sizes, ALSO: [*sizes, *added], ONLY: added}
    saved = sum(sizes) - sum(added)
    return {
        "chosen": _find_way(drafted.fields),
        "offered": offered,
        "missing": "" if is_installed() else NOT_INSTALLED,
        "ways": [
            {
                "value": value,
                "words": words,
                "price": describe_price(prices[value]) if sizes else "",
                "saved": f"{saved:,} bytes less" if value == ONLY and sizes and saved > 0 else "",
            }
            for value, words in _WORDS.items()
        ],
    }


def _find_way(fields: Mapping[str, Any]) -> str:
    """Return the way that the fields of a toolset say: by the field `scripts`, or by that of `listing`."""
    listing = fields.get("listing")
    said = fields.get(CHOICE) or (listing.get(CHOICE) if isinstance(listing, Mapping) else None)
    return str(said or OFF)


def _sizes(drafted: DraftedToolset) -> list[int]:
    """Return the bytes of each tool of a draft that a model sees."""
    if drafted.server is None:
        return []
    return [count_bytes(one) for one in drafted.server.tools.values() if one.is_for_models]
