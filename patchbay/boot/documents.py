"""The configuration documents that are variables (`mcps`, `listing`): refused where they are written.

A text that cannot be read says nothing of what it disables, so it never takes the place of one that can. What a store
holds all the same, such as one of an older Patchbay, leaves the last text that could be read in force.
Source: DESIGN section 11.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from patchbay.boot.healing import read_or_heal
from patchbay.boot.image import reference_in
from patchbay.config import Configs, parse_listing
from patchbay.errors import ConfigError, ContentError
from patchbay.store import Blobs, Store
from patchbay.topics import LISTING, MCPS

log = logging.getLogger(__name__)


MOVES_AT_ONCE = 100
"""How many earlier texts are looked at in one step."""

Read = TypeVar("Read")


def text_of_variable(blobs: Blobs, cid: str) -> bytes:
    """The text that a variable's definition stands for: the definition or, when that is a CID, the bytes of it.

    Raises MissingBlob.
    """
    definition = blobs.get(cid)
    reference = reference_in(definition.decode("utf-8", "replace"))
    return definition if reference is None else blobs.get(reference)


def check_documents(store: Store, changes: Mapping[str, str | None]) -> None:
    """Check the documents among names that are about to change. Raises ConfigError or MissingBlob.

    Of `mcps` the entries that change are checked, each with its configuration: one that is broken already stays
    the affair of its own server.
    """
    listing, mcps = changes.get(LISTING), changes.get(MCPS)
    if listing is not None:
        parse_listing(text_of_variable(store.blobs, listing), LISTING)
    if mcps is not None:
        text, before = text_of_variable(store.blobs, mcps), _entries(store)
        written = Configs(store.blobs).load_mcps(text)
        for name, sentence in written.broken.items():
            if before.get(name, ...) != orjson.loads(text)[name]:
                raise ConfigError(MCPS, name, sentence)


def _entries(store: Store) -> Mapping[str, Any]:
    """The entries of the `mcps` variable that is there; empty where it cannot be read."""
    cid = store.names.get(MCPS)
    try:
        found = orjson.loads(text_of_variable(store.blobs, cid)) if cid else {}
    except (ContentError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class Document(Generic[Read]):
    """A configuration document: its name, what reads its text, and what holds without a text that can be read.

    `read` takes None where there is no such variable, and raises ContentError for a text that cannot be read.
    `otherwise` says as part of a sentence what holds then.
    """

    name: str
    read: Callable[[bytes | None], Read]
    nothing: Read
    otherwise: str


def in_force(store: Store, document: Document[Read]) -> tuple[Read, str | None]:
    """What a document says, and why its present text is not used, if so.

    The last text before it that can be read is in force then, and `nothing` where there was none.
    """
    name, read = document.name, document.read
    cid = store.names.get(name)
    if cid is None:
        return read(None), None
    try:
        read_or_heal(store, name, cid)
        return read(text_of_variable(store.blobs, cid)), None
    except ContentError as problem:
        sentence = problem.message
    earlier = next(_readable(store, document), None)
    found, kept = earlier if earlier else (document.nothing, document.otherwise)
    log.warning("the variable %s cannot be used: %s. Until it is mended, %s", name, sentence, kept)
    return found, f"{sentence}. Until it is mended, {kept}"


def _readable(store: Store, document: Document[Read]) -> Iterator[tuple[Read, str]]:
    """What the earlier texts of a document say, newest first, as far as they can be read, and which one it is."""
    before: int | None = None
    while moves := store.names.past(document.name, MOVES_AT_ONCE, before):
        for move in moves:
            try:
                found = document.read(text_of_variable(store.blobs, move.cid) if move.cid else None)
            except ContentError:
                continue
            yield found, f"its value {move.cid} from before is in force" if move.cid else "it counts as not there"
        before = moves[-1].seq
