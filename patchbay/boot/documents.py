"""The configuration documents that are variables (`mcps`, `listing`, `access`), checked before they are stored.

A text that cannot be read never replaces one that can, because it does not say what it disables. A store of an older
Patchbay may hold an unreadable text all the same; then the last readable text stays in force.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from patchbay.boot.grants import parse_grants
from patchbay.boot.healing import read_or_restore
from patchbay.boot.image import cid_in_definition
from patchbay.config import Configs, parse_listing
from patchbay.errors import ConfigError, ContentError
from patchbay.store import Blobs, Store
from patchbay.topics import ACCESS, LISTING, MCPS, VARIABLES

log = logging.getLogger(__name__)


MOVES_PER_READ = 100
"""How many earlier texts are read from the journal in one step."""

MAX_PAST_GRANTS = 1000
"""How many earlier texts of the grants are known as such."""

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable at one moment.

    `cid` is what its name points to, `definition` the bytes of that CID. `value` is the definition or, when the
    definition is a CID itself, the bytes of that CID.
    """

    cid: str
    definition: bytes
    value: bytes


def find_variable(store: Store, name: str) -> Variable | None:
    """Return a variable, or None for an unknown name. All of it comes from one read of the name.

    So its `cid` is the ETag of what it holds, also while others change the variable. Damaged or missing bytes are
    restored from the root image. Raises ConfigError when the root image does not have them, MissingBlob or CorruptBlob
    when the definition is a CID that cannot be read.
    """
    cid = store.names.get(f"{VARIABLES}{name}")
    return None if cid is None else read_variable_at(store, name, cid)


def read_variable_at(store: Store, name: str, cid: str) -> Variable:
    """Return a variable as it is where its name points to `cid`. Raises the errors of `find_variable`."""
    definition = read_or_restore(store, f"{VARIABLES}{name}", cid)
    return Variable(cid, definition, _resolve(store.blobs, definition))


def read_variable(store: Store, name: str) -> bytes | None:
    """Return the value of a variable, None for an unknown one. Raises the errors of `find_variable`."""
    found = find_variable(store, name)
    return None if found is None else found.value


def text_of_variable(blobs: Blobs, cid: str) -> bytes:
    """Return the text of a variable: its definition or, when the definition is a CID, the bytes of that CID.

    Raises MissingBlob.
    """
    return _resolve(blobs, blobs.get(cid))


def _resolve(blobs: Blobs, definition: bytes) -> bytes:
    """Return the bytes that a definition refers to, or the definition itself."""
    reference = cid_in_definition(definition.decode("utf-8", "replace"))
    return definition if reference is None else blobs.get(reference)


def check_documents(store: Store, changes: Mapping[str, str | None], is_image: bool = False) -> None:
    """Check the documents among the names that are about to change. Raises ConfigError or MissingBlob.

    A pattern of a grant that can never match is refused in a new text only: with `is_image`, and when the text was in
    force before, such a row does nothing as it did then.

    Only changed entries of `mcps` are checked, each with its configuration: an entry that was already broken affects
    only its own server.
    """
    listing, mcps, access = changes.get(LISTING), changes.get(MCPS), changes.get(ACCESS)
    if access is not None:
        is_new = not is_image and all(change.cid != access for change in store.names.past(ACCESS, MAX_PAST_GRANTS))
        parse_grants(text_of_variable(store.blobs, access), ACCESS, is_new)
    if listing is not None:
        parse_listing(text_of_variable(store.blobs, listing), LISTING)
    if mcps is not None:
        text, before = text_of_variable(store.blobs, mcps), _stored_entries(store)
        written = Configs(store.blobs).load_mcps(text)
        for name, sentence in written.broken.items():
            if before.get(name, ...) != orjson.loads(text)[name]:
                raise ConfigError(MCPS, name, sentence)


def _stored_entries(store: Store) -> Mapping[str, Any]:
    """Return the entries of the stored `mcps` variable; an empty mapping when it cannot be read."""
    cid = store.names.get(MCPS)
    try:
        found = orjson.loads(text_of_variable(store.blobs, cid)) if cid else {}
    except (ContentError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class ConfigurationDocument(Generic[Read]):
    """A configuration document: its name, the function that reads it, and the fallback when no text can be read.

    `read` takes None when the variable does not exist, and raises ContentError for a text that cannot be read.
    `otherwise` describes the fallback as a clause for a message.
    """

    name: str
    read: Callable[[bytes | None], Read]
    nothing: Read
    otherwise: str


def read_document(store: Store, document: ConfigurationDocument[Read]) -> tuple[Read, str | None]:
    """Return the value of a document and, if its current text is not used, the reason.

    When the current text cannot be read, the last readable one is in force, or `nothing` if there was none.
    """
    name, read = document.name, document.read
    cid = store.names.get(name)
    if cid is None:
        return read(None), None
    try:
        read_or_restore(store, name, cid)
        return read(text_of_variable(store.blobs, cid)), None
    except ContentError as problem:
        sentence = problem.message
    earlier = next(_read_earlier(store, document), None)
    found, kept = earlier if earlier else (document.nothing, document.otherwise)
    log.warning("the variable %s cannot be used: %s. Until it is corrected, %s", name, sentence, kept)
    return found, f"{sentence}. Until it is corrected, {kept}"


def _read_earlier(store: Store, document: ConfigurationDocument[Read]) -> Iterator[tuple[Read, str]]:
    """Yield the values of earlier texts that can be read, newest first, each with a clause that names the text."""
    before: int | None = None
    while moves := store.names.past(document.name, MOVES_PER_READ, before):
        for move in moves:
            try:
                found = document.read(text_of_variable(store.blobs, move.cid) if move.cid else None)
            except ContentError:
                continue
            yield found, f"its earlier value {move.cid} is in force" if move.cid else "it counts as absent"
        before = moves[-1].seq
