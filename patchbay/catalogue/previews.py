"""What a definition would be, before it is saved: its tools, what is not listed, and what is wrong and where.

Rules: nothing of it is run or kept, and neither are the transforms of a configuration that is there already.
Sources: VWR-22; DESIGN section 5 (nothing is imported or run to list); CVE-2026-42271 (a preview that ran).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from patchbay.catalogue.build import BuildContext, build
from patchbay.catalogue.rows import ServerRow, name_problem
from patchbay.catalogue.servers import Server
from patchbay.cid import cid_of
from patchbay.config import Config, Configs
from patchbay.descriptors import Problem
from patchbay.errors import ConfigError
from patchbay.kind import CONFIGURATION_KIND, kind_named
from patchbay.kinds.discovery import discover
from patchbay.store import Blobs

_LINE = re.compile(r"line ([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Preview:
    """What a definition would be: the server, or the fault that keeps it from being one; `naming` is wrong with its
    name."""

    server: Server | None
    fault: Problem | None
    naming: str | None = None

    @property
    def good(self) -> bool:
        return self.fault is None and self.naming is None


def preview(name: str, kind: str, source: bytes, blobs: Blobs, current: Server | None = None) -> Preview:
    """What these bytes would make of a server. `current` is the one that they would replace, with its configuration."""
    naming = name_problem(name)
    called = "server" if naming else name
    kind = kind if kind_named(kind).endings else CONFIGURATION_KIND
    definition = cid_of(source)
    if current is not None and current.definition == definition and not current.broken:
        return Preview(current, None, naming)
    laid = _Laid(blobs, definition, source)
    row = ServerRow(
        called, kind, definition, current.config_cid if current and not kind_named(kind).is_configuration else None
    )
    row = replace(row, origin=current.origin if current else "what you wrote")
    server = build(row, "", BuildContext(laid, _Still(laid), handler_for=lambda *_: None))
    if server.broken:
        return Preview(None, _fault(kind, called, source) or Problem(called, server.broken, None), naming)
    return Preview(server, None, naming)


def _fault(kind: str, name: str, source: bytes) -> Problem | None:
    try:
        discover(kind, name, source)
    except ConfigError as problem:
        return Problem(name, problem.expected, line_in(problem.path))
    return None


def line_in(text: str) -> int | None:
    """The line that a message names, or None."""
    found = _LINE.search(text)
    return int(found[1]) if found else None


class _Still(Configs):
    """Configurations without their transforms, which would run."""

    def config(self, cid: str) -> Config:
        return replace(super().config(cid), transforms={})


class _Laid:
    """Blobs with one more laid over them, which is never kept."""

    def __init__(self, blobs: Blobs, cid: str, data: bytes) -> None:
        self._blobs = blobs
        self._cid = cid
        self._data = data

    def put(self, data: bytes, cid: str | None = None) -> str:
        return self._blobs.put(data, cid)

    def get(self, cid: str) -> bytes:
        return self._data if cid == self._cid else self._blobs.get(cid)

    def missing(self, cids: Iterable[str]) -> list[str]:
        return [cid for cid in self._blobs.missing(cids) if cid != self._cid]

    def count(self) -> int:
        return self._blobs.count()

    def put_many(self, contents: Iterable[bytes]) -> list[str]:
        return self._blobs.put_many(contents)

    def renew(self, cids: Iterable[str]) -> None:
        self._blobs.renew(cids)
