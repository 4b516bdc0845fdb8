"""Preview a definition before it is saved: its tools, what is not listed, and each fault with its line.

A preview runs and stores nothing of the definition, and runs no transforms of an existing configuration. Compare
CVE-2026-42271, a preview that ran code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from patchbay.catalogue.building.build import BuildContext, build_server
from patchbay.catalogue.servers.rows import ServerRow, name_problem
from patchbay.catalogue.servers.server import Server
from patchbay.cid import cid_of
from patchbay.config import Config, Configs
from patchbay.descriptors import Problem
from patchbay.errors import ConfigError
from patchbay.kind import CONFIGURATION_KIND, kind_named
from patchbay.kinds.discovery import discover
from patchbay.store import Blobs
from patchbay.topics import SERVERS
from patchbay.upstreams.connections.standing_connections import StandingConnections

_LINE = re.compile(r"line ([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Preview:
    """A previewed definition: the server, or the fault that prevents one; `naming` is the fault of its name."""

    server: Server | None
    fault: Problem | None
    naming: str | None = None

    @property
    def is_valid(self) -> bool:
        return self.fault is None and self.naming is None

    @property
    def is_unread(self) -> bool:
        """Whether the lists come from a server that was never read: they are empty until the draft is saved."""
        return self.server is not None and self.server.standing is not None and self.server.standing.last() is None


def preview(
    name: str,
    kind: str,
    source: bytes,
    blobs: Blobs,
    current: Server | None = None,
    connections: StandingConnections | None = None,
) -> Preview:
    """Preview the server of these bytes. `current` is the server that they would replace, with its configuration.

    `connections` are those of the hub to mounted servers and APIs. A preview opens none: it shows what was read before
    from the same place.
    """
    naming = name_problem(name)
    called = "server" if naming else name
    kind = kind if kind_named(kind).endings else CONFIGURATION_KIND
    definition = cid_of(source)
    if current is not None and current.definition == definition and not current.broken:
        return Preview(current, None, naming)
    overlaid = _BlobsWithPreview(blobs, definition, source)
    row = ServerRow(
        called, kind, definition, current.config_cid if current and not kind_named(kind).is_configuration else None
    )
    row = replace(row, origin=current.origin if current else "the definition")
    configs = _ConfigsWithoutTransforms(overlaid)
    # An edit of a file changes the file, and what files mount is from the operator.
    is_file = current is not None and current.origin.startswith(SERVERS)
    context = BuildContext(
        overlaid, configs, handler_for=lambda *_: None, connections=connections, vouched=lambda _: is_file
    )
    server = build_server(row, "", context)
    if server.broken:
        return Preview(None, _find_fault(kind, called, source) or Problem(called, server.broken, None), naming)
    return Preview(server, None, naming)


def preview_settings(
    row: ServerRow, data: bytes, blobs: Blobs, current: Server, connections: StandingConnections | None = None
) -> Preview:
    """Preview the server of a row with these bytes as its configuration. `current` is the server as it is built."""
    if row.is_configuration:
        return preview(row.name, row.kind, data, blobs, current, connections)
    cid = cid_of(data)
    overlaid = _BlobsWithPreview(blobs, cid, data)
    configs = _ConfigsWithoutTransforms(overlaid)
    draft = replace(row, config_cid=cid, origin=current.origin)
    # A preview installs no packages; the hub installs them after the configuration is saved.
    context = BuildContext(overlaid, configs, handler_for=lambda *_: None, needed=lambda _: False)
    server = build_server(draft, "", context)
    if server.broken:
        return Preview(None, Problem(row.name, server.broken, None))
    return Preview(server, None)


def _find_fault(kind: str, name: str, source: bytes) -> Problem | None:
    try:
        discover(kind, name, source)
    except ConfigError as problem:
        return Problem(name, problem.expected, find_line(problem.path))
    return None


def find_line(text: str) -> int | None:
    """Return the line number in a message, or None."""
    found = _LINE.search(text)
    return int(found[1]) if found else None


class _ConfigsWithoutTransforms(Configs):
    """Configurations without their transforms, because transforms would run."""

    def config(self, cid: str) -> Config:
        return replace(super().config(cid), transforms={})


class _BlobsWithPreview:
    """Blobs with one more content on top, which is never stored."""

    def __init__(self, blobs: Blobs, cid: str, data: bytes) -> None:
        self._blobs = blobs
        self._cid = cid
        self._data = data

    def put(self, data: bytes, cid: str | None = None) -> str:
        return self._blobs.put(data, cid)

    def get(self, cid: str) -> bytes:
        return self._data if cid == self._cid else self._blobs.get(cid)

    def get_many(self, cids: Iterable[str]) -> dict[str, bytes]:
        return self._blobs.get_many(cids)

    def missing(self, cids: Iterable[str]) -> list[str]:
        return [cid for cid in self._blobs.missing(cids) if cid != self._cid]

    def count(self) -> int:
        return self._blobs.count()

    def put_many(self, contents: Iterable[bytes]) -> list[str]:
        return self._blobs.put_many(contents)

    def renew(self, cids: Iterable[str]) -> None:
        self._blobs.renew(cids)
