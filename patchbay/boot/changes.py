"""Importing an image, and every change after that: names and root move together, or nothing does.

Two changes at the same moment, in different processes perhaps, each move their own names; whoever
comes second makes the root agree with both. Nothing here asks whether a change is allowed: callers
look at `is_readonly` first.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import orjson

from patchbay.boot.documents import (
    check_documents,
    text_of_variable,
)
from patchbay.boot.healing import bytes_for_image, read_or_heal
from patchbay.boot.image import Image, canonical_json, is_name, parse_image
from patchbay.boot.references import missing_from
from patchbay.cid import cid_of
from patchbay.errors import ConfigError, MissingBlob, ParseError
from patchbay.jsonrpc import parse
from patchbay.store import Blobs, NameChange, Store
from patchbay.topics import BOOT, LISTING, NAMES_CHANGED, PAGE_TEMPLATES, ROOT, SERVERS, VARIABLES

log = logging.getLogger(__name__)

PARTS = ("servers", "variables", "templates")


def current_image(store: Store) -> bytes:
    """The image of what is served now; an empty one before anything was imported or changed."""
    root = store.names.get(ROOT)
    return Image().data if root is None else store.blobs.get(root)


def is_readonly(store: Store) -> bool:
    """Whether the image that is booted forbids every change."""
    return bool(orjson.loads(current_image(store))["readonly"])


def history(store: Store, limit: int = 100) -> list[NameChange]:
    """The moves of the root, newest first: who changed the hub, when and why."""
    return store.names.past(ROOT, limit)


def variable(store: Store, name: str) -> bytes | None:
    """The value of a variable: its definition or, when that is a CID, the bytes of it. None when there is no such.

    Bytes that are damaged or lost are written again from the image of everything. Raises ConfigError when it does not
    have them, MissingBlob or CorruptBlob when the CID that the definition consists of cannot be read.
    """
    cid = store.names.get(f"{VARIABLES}{name}")
    if cid is None:
        return None
    read_or_heal(store, f"{VARIABLES}{name}", cid)
    return text_of_variable(store.blobs, cid)


def import_image(store: Store, data: bytes, where: str, who: str, why: str) -> str:
    """Make an image the one that is served, all or nothing; answers the root CID.

    What the previous image named and this one does not is taken away; everything else that was changed
    since stays, also under names of which both images say the same, unless this one is read-only.
    Nothing happens when this image was the last to be imported. Raises ConfigError, or MissingBlob with
    every CID that is missing; then nothing has changed.
    """
    image = parse_image(data, where)
    now = store.names.all()
    if now.get(BOOT) == image.cid:
        return now[ROOT]
    missing = missing_from(image, store.blobs)
    if missing:
        raise MissingBlob(missing, where)
    changes: dict[str, str | None] = {}
    before: dict[str, str] = {}
    if BOOT in now:
        before = _cids(parse_image(store.blobs.get(now[BOOT]), now[BOOT]))
        changes |= dict.fromkeys(before)
    changes |= dict.fromkeys(f"{VARIABLES}{name}" for name in image.disabled)
    for blob in image.blobs().values():
        store.blobs.put(blob)
    changes |= _cids(image)
    check_documents(store, {LISTING: changes.get(LISTING)})
    own = {name for name, cid in changes.items() if _own(name, now, before) and now.get(name) != cid}
    kept = set() if image.readonly else {name for name in own if name in before and changes[name] == before[name]}
    _tell(where, kept, own - kept)
    changes = {name: cid for name, cid in changes.items() if name not in kept}
    served = _image_of(_after(now, changes), store.blobs, image)
    root, boot = store.blobs.put(served.data), store.blobs.put(image.data)
    store.names.move({**changes, BOOT: boot, ROOT: root}, who, why)
    return _settled(store, who, why)


def change(
    store: Store,
    changes: Mapping[str, str | None],
    who: str,
    why: str,
    expected: Mapping[str, str | None] | None = None,
) -> str:
    """Point names (`servers/...`, `variables/...`, `templates/...`) elsewhere, None to take one away.

    Answers the new root CID. With `expected` only if these names still point there. Raises StaleUpdate when they do
    not, MissingBlob for CIDs that are not in the store and ConfigError for a name or a content that cannot be in an
    image, and for a configuration document that cannot be read; then nothing has changed.
    """
    for name in changes:
        part, _, rest = name.partition("/")
        if part not in PARTS or not is_name(rest, part):
            raise ConfigError(name, "", "expected servers/<name>, variables/<name> or templates/<name>")
    missing = store.blobs.missing(cid for cid in changes.values() if cid is not None)
    if missing:
        raise MissingBlob(missing, why)
    check_documents(store, changes)
    served = _image_of(_after(store.names.all(), changes), store.blobs, _current(store))
    store.names.move({**changes, ROOT: store.blobs.put(served.data)}, who, why, expected)
    root = _settled(store, who, why)
    store.bus.publish(NAMES_CHANGED)
    return root


def _cids(image: Image) -> dict[str, str]:
    """Where the names of an image point."""
    blobs = {name: cid_of(blob) for name, blob in image.blobs().items()}
    return blobs | {f"{PAGE_TEMPLATES}{name}": cid for name, cid in image.templates.items()}


def _own(name: str, now: Mapping[str, str], before: Mapping[str, str]) -> bool:
    """Whether a name is not as the image before left it, by somebody's hand: the watched folder sees to its own."""
    changed = now.get(name) != before.get(name)
    return changed and f"dropins/{name.removeprefix('servers/')}" not in now


def _tell(where: str, kept: set[str], replaced: set[str]) -> None:
    """In the log: what an import made of the changes that were made by hand since the last one."""
    if kept:
        log.info("%s leaves what was changed here as it is: %s", where, ", ".join(sorted(kept)))
    if replaced:
        log.warning(
            "%s replaces what was changed here since the last boot image: %s; /history has it and the way back",
            where,
            ", ".join(sorted(replaced)),
        )


def _current(store: Store) -> Image:
    return parse_image(current_image(store), "the current image")


def _settled(store: Store, who: str, why: str) -> str:
    """The root, after making it agree with the names that another change moved at the same moment."""
    while True:
        now = store.names.all()
        root = _image_of(now, store.blobs, parse_image(store.blobs.get(now[ROOT]), "the current image"))
        if root.cid == now[ROOT]:
            return root.cid
        store.names.move({ROOT: store.blobs.put(root.data)}, who, why)


def _after(now: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {name: cid for name, cid in {**now, **changes}.items() if cid is not None}


def _image_of(names: Mapping[str, str], blobs: Blobs, base: Image) -> Image:
    """The image that names make; `base` says what names do not: disabled variables, and whether it is read-only."""
    parts: dict[str, dict[str, str]] = {part: {} for part in PARTS}
    for name, cid in names.items():
        part, _, rest = name.partition("/")
        if part in parts:
            parts[part][rest] = cid
    found = {
        part: {name: bytes_for_image(f"{part}/{name}", cid, blobs, base) for name, cid in parts[part].items()}
        for part in ("servers", "variables")
    }
    variables = {name: _text(name, data) for name, data in found["variables"].items()}
    rows = [{"name": name, **_row(name, data)} for name, data in found["servers"].items()]
    document = {
        "version": 1,
        "readonly": base.readonly,
        "servers": rows,
        "variables": [{"name": name, "definition": text, "enabled": True} for name, text in variables.items()]
        + [
            {"name": name, "definition": text, "enabled": False}
            for name, text in base.disabled.items()
            if name not in variables
        ],
        "templates": [{"name": name, "cid": cid} for name, cid in parts["templates"].items()],
    }
    # Through the same door as an image from outside, so that no change can make one that could not be imported.
    return parse_image(canonical_json(document), "the changed image")


def _row(name: str, data: bytes) -> dict[str, Any]:
    try:
        row = parse(data)
    except ParseError as problem:
        raise ConfigError(f"{SERVERS}{name}", "", f"expected a JSON object; {problem.message}") from problem
    if not isinstance(row, dict) or "name" in row:
        raise ConfigError(f"{SERVERS}{name}", "", "expected a JSON object with definition_cid, kind and enabled")
    return row


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        raise ConfigError(
            f"{VARIABLES}{name}", "", "expected text in UTF-8; bytes go into a blob, the variable holds their CID"
        ) from problem
