"""Links between names, boot images, configurations and blobs: which contents mention a CID, and which it mentions.

A link is a CID inside a text. The links of a CID never change, so they are cached. The search is bounded, and an
incomplete answer says so.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from patchbay.boot import root_history
from patchbay.cid import is_cid
from patchbay.errors import ContentError
from patchbay.store import Store

MAX_SCANNED_BYTES = 1024 * 1024
"""Largest content, in bytes, that is searched for links."""

MAX_SCANNED_CONTENTS = 20_000
"""Maximum number of contents that are searched for one answer."""

MAX_ROOTS = 50
"""Number of past boot images that are searched."""

MAX_PAST_MOVES = 500
"""Number of past moves of names that are searched."""

MAX_CACHED_CONTENTS = 32_768
"""Maximum number of contents whose links are cached."""

MAX_LINKS = 100
"""Maximum number of links of one kind in an answer."""

_CIDS = re.compile(rb"bafkrei[a-z2-7]{52}")


@dataclass(frozen=True, slots=True)
class OutgoingLink:
    """A CID that a content mentions: its place (a path in JSON, else a line), and whether the store has it."""

    cid: str
    place: str
    here: bool


@dataclass(frozen=True, slots=True)
class IncomingLink:
    """A link to a content. `kind`: `name` (now), `past` (a name that pointed there, until `at`), `content` (the text of
    `cid` mentions it at `place`; `label` describes that content).
    """

    kind: str
    label: str
    cid: str | None = None
    place: str = ""
    at: float | None = None


class Links:
    """The links of one store. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def outgoing(self, cid: str, data: bytes) -> list[OutgoingLink]:
        """Return the CIDs that a content mentions, each once; `data` are its bytes."""
        places = dict(reversed(list(_places(data))))
        order = [each for each in (cids_in(data) if len(data) <= MAX_SCANNED_BYTES else ()) if each != cid][:MAX_LINKS]
        missing = set(self._store.blobs.missing(order))
        return [OutgoingLink(each, places.get(each, ""), each not in missing) for each in order]

    def incoming(self, cid: str, prefixes: Sequence[str] = ()) -> list[IncomingLink]:
        """Return the links to a content: from present names, past names, and contents that a name reaches.

        With `prefixes`, only names that begin with one of them are searched.
        """
        names = {name: at for name, at in self._store.names.all().items() if _begins(name, prefixes)}
        roots = {
            move.cid: f"root of {format_time(move.at)}"
            for move in reversed(root_history(self._store, MAX_ROOTS))
            if move.cid
        }
        labels: dict[str, str] = dict(roots)
        for name, target in names.items():
            if labels.get(target, "root of").startswith("root of"):
                labels[target] = name
        found = [IncomingLink("name", name, cid) for name, target in names.items() if target == cid]
        found += self._past_links(cid, {one.label for one in found}, prefixes)
        # Roots last: a label nearer to a name is more specific.
        pointing = self._pointing(cid, dict(sorted(labels.items(), key=lambda item: item[1].startswith("root"))))
        found += [IncomingLink("content", label, source, self._place(source, cid)) for source, label in pointing]
        return found

    def _past_links(self, cid: str, now: set[str], prefixes: Sequence[str]) -> list[IncomingLink]:
        seen = set(now)
        found = []
        for move in self._store.names.past("", MAX_PAST_MOVES, prefixes=prefixes):
            if move.cid == cid and move.name not in seen:
                seen.add(move.name)
                found.append(IncomingLink("past", move.name, cid, at=move.at))
        return found[:MAX_LINKS]

    def _pointing(self, cid: str, labels: dict[str, str]) -> list[tuple[str, str]]:
        """Return the contents that mention a CID, each with its label, nearest to a name first."""
        waiting = deque(labels)
        within = dict(labels)
        found: list[tuple[str, str]] = []
        searched = 0
        while waiting and searched < MAX_SCANNED_CONTENTS and len(found) < MAX_LINKS:
            source = waiting.popleft()
            searched += 1
            for target in self._mentions(source):
                if target == cid and source != cid:
                    found.append((source, within[source]))
                if target not in within:
                    within[target] = f"in {within[source].removeprefix('in ')}"
                    waiting.append(target)
        return found

    def _place(self, source: str, cid: str) -> str:
        return next((place for each, place in _places(self._store.blobs.get(source)) if each == cid), "")

    def _mentions(self, cid: str) -> tuple[str, ...]:
        with self._lock:
            known = self._kept.get(cid)
        if known is not None:
            return known
        try:
            data = self._store.blobs.get(cid)
        except ContentError:
            return ()
        mentions = cids_in(data) if len(data) <= MAX_SCANNED_BYTES else ()
        with self._lock:
            self._kept[cid] = mentions
            while len(self._kept) > MAX_CACHED_CONTENTS:
                self._kept.popitem(last=False)
        return mentions


def cids_in(data: bytes) -> tuple[str, ...]:
    """Return the CIDs in some bytes, each once."""
    found = dict.fromkeys(each.decode() for each in _CIDS.findall(data))
    return tuple(each for each in found if is_cid(each))


def _begins(name: str, prefixes: Sequence[str]) -> bool:
    return not prefixes or name.startswith(tuple(prefixes))


def _places(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield every CID in a content with its place."""
    if len(data) > MAX_SCANNED_BYTES:
        return
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            found = list(_in_json(orjson.loads(data), ""))
        except (orjson.JSONDecodeError, RecursionError):  # deeply nested JSON is searched line by line
            pass
        else:
            yield from found
            return
    for number, line in enumerate(data.split(b"\n"), 1):
        for found in _CIDS.findall(line):
            yield found.decode(), f"line {number}"


def _in_json(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield the CIDs in a JSON value; a list item with a `name` is shown by that name."""
    if isinstance(value, str):
        for found in _CIDS.findall(value.encode("utf-8", "replace")):
            yield found.decode(), place
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _in_json(inner, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            name = inner.get("name") if isinstance(inner, dict) else None
            yield from _in_json(inner, f"{place}[{name if isinstance(name, str) else number}]")


def format_time(at: float) -> str:
    """Format Unix time in seconds as `2026-01-31 12:00:00 UTC`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
