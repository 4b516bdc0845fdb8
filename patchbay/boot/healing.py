"""Stored bytes of servers and variables that are damaged or lost, made again from the image of everything.

The root image says each variable and each row of a server in full. Where the store no longer has the bytes that a name
points to, they are written again from there, and only when their CID is the one that the name points to.
Source: DESIGN section 11 (what cannot be read changes nothing).
"""

from __future__ import annotations

import logging

from patchbay.boot.image import Image, parse_image
from patchbay.cid import cid_of
from patchbay.errors import ConfigError, ContentError
from patchbay.store import Blobs, Store
from patchbay.topics import ROOT

log = logging.getLogger(__name__)


def read_or_heal(store: Store, name: str, cid: str) -> bytes:
    """The bytes that a name points to, written again from the root where they are damaged or lost.

    Raises ConfigError where the root does not have them, CorruptBlob or MissingBlob where it cannot be read itself.
    """
    try:
        return store.blobs.get(cid)
    except ContentError:
        root = store.names.get(ROOT)
        image = Image() if root is None else parse_image(store.blobs.get(root), "the current image")
        return bytes_of(name, cid, store.blobs, image)


def bytes_of(name: str, cid: str, blobs: Blobs, image: Image) -> bytes:
    """The bytes that a name points to; `image` is the last image of everything.

    Raises ConfigError, which names the name and what to do, where the image does not have them either.
    """
    try:
        return blobs.get(cid)
    except ContentError as problem:
        data = image.blobs().get(name)
        if data is None or cid_of(data) != cid:
            sentence = f"expected its content, {cid}; {problem.message}. Set it again, or take it away"
            raise ConfigError(name, "", sentence) from problem
        blobs.put(data)
        log.warning("the stored content of %s was damaged; it was written again from the last boot image", name)
        return data


def bytes_for_image(name: str, cid: str, blobs: Blobs, image: Image) -> bytes:
    """The same for the next image of everything: what cannot be read stays in it as the last one has it.

    Raises ConfigError where the last one does not have the name either.
    """
    try:
        return bytes_of(name, cid, blobs, image)
    except ConfigError:
        said = image.blobs().get(name)
        if said is None:
            raise
        return said
