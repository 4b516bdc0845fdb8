"""Asks registries: a search, a server by its name, and the newest version of a package of PyPI or npm.

The operator names the registries (settings `registry`, `pypi`, `npm`), so that they may be on a private network.
Sources: modelcontextprotocol/registry, API v0.1; PyPI JSON API; npm registry API.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self
from urllib.parse import quote, urlencode

from patchbay.client.addresses.targets import mask_url
from patchbay.client.errors import Unreachable
from patchbay.client.openapi.http_client import ApiClient, ApiFailure
from patchbay.client.openapi.requests import HttpRequest
from patchbay.client.registry.offers import NPM_NAME, PYPI_NAME, VERSION, Offer, RegisteredServer, read_server
from patchbay.errors import InvalidParams, ParseError
from patchbay.jsonrpc import parse
from patchbay.settings import Settings

SECONDS = 15.0
MAX_BYTES = 16 * 1024 * 1024
PAGE, MAX_FOUND = 100, 300


class Registries:
    """The three registries, each by the URL before its paths."""

    def __init__(self, registry: str, pypi: str, npm: str) -> None:
        self._registry = registry.rstrip("/")
        self._pypi = pypi.rstrip("/")
        self._npm = npm.rstrip("/")

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the registries that the settings name."""
        return cls(settings.registry, settings.pypi, settings.npm)

    @property
    def label(self) -> str:
        """The registry of servers for people: its URL without secrets."""
        return mask_url(self._registry)

    def search(self, word: str) -> list[RegisteredServer]:
        """Return the newest versions of the servers whose names contain a word. Raises Unreachable, InvalidParams."""
        return list(self._search(word))

    def find(self, name: str) -> RegisteredServer:
        """Return the newest version of the server with this name, `namespace/name`. Raises InvalidParams."""
        path = f"/v0.1/servers/{quote(name, safe='')}/versions/latest"
        found = read_server(self._get(self._registry, path))
        if found is None or found.name != name:
            raise InvalidParams(f"the registry has no server {name!r:.200}; patchbay search WORD looks for one")
        return found

    def find_package(self, kind: str, name: str) -> RegisteredServer:
        """Return a package of `pypi` or `npm` as a server, in its newest version. Raises InvalidParams."""
        version = self.newest(kind, name)
        if version is None:
            raise InvalidParams(f"{kind} has no package {name!r:.200}")
        offer = Offer("npm" if kind == "npm" else "pypi", name, version)
        return RegisteredServer(f"{kind}:{name}", "", "", version, (offer,))

    def newest(self, kind: str, name: str) -> str | None:
        """Return the newest version of a package that is no pre-release; None for an unknown package."""
        if not (NPM_NAME if kind == "npm" else PYPI_NAME).fullmatch(name):
            raise InvalidParams(f"{name!r:.200} is not a name of a package of {kind}")
        if kind == "npm":
            found = self._get(self._npm, f"/{quote(name, safe='@')}/latest")
        else:
            found = self._get(self._pypi, f"/pypi/{name}/json")
        if not isinstance(found, dict):
            return None
        information = found.get("info")
        version = found.get("version") if kind == "npm" else (information or {}).get("version")
        return version if isinstance(version, str) and VERSION.fullmatch(version) else None

    def _search(self, word: str) -> Iterator[RegisteredServer]:
        cursor, count = "", 0
        while count < MAX_FOUND:
            query = {"search": word, "version": "latest", "limit": str(PAGE)} | ({"cursor": cursor} if cursor else {})
            page = self._get(self._registry, f"/v0.1/servers?{urlencode(query)}")
            if not isinstance(page, dict):
                raise Unreachable(f"{self._registry} is not a registry of MCP servers: it has no /v0.1/servers")
            entries = page.get("servers") or []
            for entry in entries:
                found = read_server(entry)
                if found is not None:
                    count += 1
                    yield found
            metadata = page.get("metadata")
            cursor = metadata.get("nextCursor") or "" if isinstance(metadata, dict) else ""
            if not cursor or not entries:
                return

    def _get(self, base: str, path: str) -> Any:
        """Return a JSON document; None for one that does not exist. Raises Unreachable, ServerTimeout."""
        with ApiClient((base,), {}, SECONDS, MAX_BYTES, SECONDS, "--registry ") as client:
            try:
                return parse(client.send(HttpRequest("GET", f"{base}{path}", {"Accept": "application/json"})).body)
            except ApiFailure as failure:
                if failure.data["status"] in (404, 410):
                    return None
                raise Unreachable(failure.message) from failure
            except ParseError as problem:
                raise Unreachable(f"{base} did not return JSON: {problem.message}") from problem


def choose(found: list[RegisteredServer], word: str) -> RegisteredServer:
    """Return the one server that a word names: by its whole name, or by its name without the namespace.

    Raises InvalidParams, which names the candidates.
    """
    lower = word.lower()
    names = (lower, f"mcp-server-{lower}", f"{lower}-mcp", f"{lower}-mcp-server", f"mcp-{lower}", f"server-{lower}")
    exact = [one for one in found if one.name.lower() == lower]
    for wanted in [exact, *([one for one in found if one.short_name.lower() == name] for name in names)]:
        if len(wanted) == 1:
            return wanted[0]
        if wanted:
            found = wanted
            break
    if not found:
        raise InvalidParams(
            f"the registry has no server {word!r:.100}; name a package with pypi:NAME or npm:NAME, or mount an address"
        )
    shown = ", ".join(one.name for one in found[:10]) + (", ..." if len(found) > 10 else "")
    raise InvalidParams(f"{word!r:.100} may be one of several servers; name one of them whole: {shown}")
