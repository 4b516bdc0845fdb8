"""Restore damaged or missing bytes of servers and variables from the root image.

The root image holds each variable and each server row in full. When the store has lost the bytes that a name points to,
they are written again from there, provided that their CID is the one that the name points to.
"""

from __future__ import annotations

import logging

from patchbay.boot.image import Image, parse_image
from patchbay.cid import cid_of
from patchbay.errors import ConfigError, ContentError
from patchbay.store import Blobs, Store
from patchbay.topics import ROOT

log = logging.getLogger(__name__)


def read_or_restore(store: Store, name: str, cid: str) -> bytes:
    """Return the bytes that a name points to; restore them from the root image where they are damaged or missing.

    Raises ConfigError where the root image does not have them, CorruptBlob or MissingBlob where it cannot be read
    itself.
    """
    try:
        return store.blobs.get(cid)
    except ContentError:
        root = store.names.get(ROOT)
        image = Image() if root is None else parse_image(store.blobs.get(root), "the current image")
        return restore_bytes(name, cid, store.blobs, image)


def restore_bytes(name: str, cid: str, blobs: Blobs, image: Image) -> bytes:
    """Return the bytes that a name points to; restore them from `image`, the last root image, where necessary.

    Raises ConfigError, which gives the name and the next step, where the image does not have them either.
    """
    try:
        return blobs.get(cid)
    except ContentError as problem:
        data = image.blobs().get(name)
        if data is None or cid_of(data) != cid:
            sentence = f"expected its content, {cid}; {problem.message}. Set it again, or remove it"
            raise ConfigError(name, "", sentence) from problem
        blobs.put(data)
        log.warning("the stored content of %s was damaged; it was written again from the last boot image", name)
        return data


def bytes_for_image(name: str, cid: str, blobs: Blobs, image: Image) -> bytes:
    """Return the bytes of a name for the next root image; unreadable bytes stay as the last image has them.

    Raises ConfigError where the last image does not have the name.
    """
    try:
        return restore_bytes(name, cid, blobs, image)
    except ConfigError:
        last = image.blobs().get(name)
        if last is None:
            raise
        return last
