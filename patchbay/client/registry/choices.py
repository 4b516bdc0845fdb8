"""From a name to a mount: find the server, choose one of its ways, name it in this hub, and say what will run.

The commands and the page of the hub use the same functions, so that both show the same before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from patchbay.client.registry.lookup import Registries, choose
from patchbay.client.registry.offers import Offer, RegisteredServer
from patchbay.errors import InvalidParams

PACKAGE_KINDS = ("pypi", "npm")
WAYS = ("npm", "pypi", "remote")


def find_server(registries: Registries, name: str) -> RegisteredServer:
    """Return the server of a name: `namespace/name`, a name without its namespace, `pypi:NAME` or `npm:NAME`.

    Raises InvalidParams for a name that is unknown or could be one of several, Unreachable.
    """
    kind, colon, package = name.partition(":")
    if colon and kind in PACKAGE_KINDS:
        return registries.find_package(kind, package)
    return registries.find(name) if "/" in name else choose(registries.search(name), name)


def choose_way(server: RegisteredServer, way: str | None) -> Offer:
    """Return the first offer of a server, of this kind if one is given. Raises InvalidParams, which says why not."""
    offers = [one for one in server.offers if way in (None, "", one.kind)]
    if offers:
        return offers[0]
    why = "; ".join(server.others) or "the registry names no package and no URL"
    raise InvalidParams(f"{server.name} cannot be added{f' as {way}' if way else ''}: {why}")


def own_name(server: RegisteredServer) -> str:
    """Return a name for the server in this hub: without its namespace and the words that all servers have."""
    name = server.short_name.rpartition(":")[2].lower()
    for word in ("mcp-server-", "server-", "mcp-"):
        name = name.removeprefix(word)
    return name.removesuffix("-mcp-server").removesuffix("-mcp") or "server"


def describe_run(offer: Offer) -> str:
    """Return what an offer runs or reaches, such as `runs mcp-server-time 1.0 of PyPI on this machine`."""
    if offer.kind == "remote":
        return f"reaches {offer.url}"
    where = "npm" if offer.kind == "npm" else "PyPI"
    words = f" with {' '.join(offer.arguments)}" if offer.arguments else ""
    return f"runs {offer.name} {offer.version} of {where} on this machine{words}"


def describe(server: RegisteredServer, offer: Offer, fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines that say what an offer runs, and what it gets to know."""
    yield f"{server.name} {server.version}: {server.description}".rstrip(": ")
    if server.warning:
        yield f"  {server.warning}"
    yield f"  {describe_run(offer)}"
    values = fields.get("environment") or fields.get("headers") or {}
    for one in offer.wanted:
        marks = ", ".join(word for word, holds in (("required", one.is_required), ("secret", one.is_secret)) if holds)
        value = f" = {values[one.name]}" if one.name in values else " (not set)"
        yield (
            f"  {one.name}{value}"
            + (f" [{marks}]" if marks else "")
            + (f": {one.description}" if one.description else "")
        )
    for name in sorted(set(values) - {one.name for one in offer.wanted}):
        yield f"  {name} = {values[name]} (the registry does not name it)"
    yield f"  address: {fields['address']}"
