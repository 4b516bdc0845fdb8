"""Content identifiers: CIDv1, base32, raw codec, sha2-256, as IPFS makes them for a small file.

The library `multiformats` needs a third of a millisecond for one CID. This module writes and recognizes the hub's own
form, four fixed bytes and a digest, without it; tests compare the two. The library reads all other forms.
Source: https://github.com/multiformats/cid.
"""

from __future__ import annotations

import re
from base64 import b32encode
from functools import lru_cache
from hashlib import sha256

from patchbay.errors import BadCid, CorruptBlob

MAX_CID_CHARACTERS = 512
"""Characters of the longest CID string that the hub accepts; an identity CID carries its content."""


HEAD = bytes((0x01, 0x55, 0x12, 0x20))
"""The first bytes of each CID made here: version 1, raw, sha2-256, 32 bytes of digest."""

USUAL = re.compile(r"bafkrei[a-h][a-z2-7]{50}[aeimquy4]")
"""The hub's own form. Two bits of the head in the eighth character are 0, and two beyond the digest in the last."""

_DIGITS = str.maketrans("abcdefghijklmnopqrstuvwxyz234567", "0123456789abcdefghijklmnopqrstuv")

MAX_CACHED_CIDS = 16_384
"""CIDs whose parsed form stays in memory, which is some 4 MiB."""


def cid_of(data: bytes) -> str:
    """Return the CID of some bytes, as a base32 string that begins with `bafkrei`."""
    return cid_of_digest(sha256(data).digest())


def cid_of_digest(digest: bytes) -> str:
    """Return the CID of the bytes with this SHA-256 digest."""
    return "b" + b32encode(HEAD + digest).decode().rstrip("=").lower()


@lru_cache(maxsize=MAX_CACHED_CIDS)
def canonical(text: str) -> str:
    """Return the canonical spelling of a CID (CIDv1 in base32), under which the store holds the content.

    Raises BadCid, with the reason, for a string that is not a CID of the raw codec hashed by sha2-256 or identity.
    """
    if USUAL.fullmatch(text):
        return text
    if not text or len(text) > MAX_CID_CHARACTERS or not text.isascii():
        raise BadCid(f"not a CID: expected 1 to {MAX_CID_CHARACTERS} ASCII characters, such as bafkrei...")
    from multiformats import CID

    try:
        cid = CID.decode(text)
    except (ValueError, KeyError, IndexError, TypeError) as problem:
        raise BadCid(f"not a CID: {text!r} ({problem})") from problem
    if cid.version != 1 or cid.codec.name != "raw" or cid.hashfun.name not in ("sha2-256", "identity"):
        raise BadCid(
            f"not a CID of this hub: {text!r} is version {cid.version}, {cid.codec.name}, {cid.hashfun.name};"
            " expected version 1, raw, sha2-256"
        )
    if cid.hashfun.name == "sha2-256" and len(cid.raw_digest) != 32:
        raise BadCid(f"not a CID of this hub: {text!r} has a digest of {len(cid.raw_digest)} bytes; expected 32")
    return str(cid.set(base="base32"))


def is_content(name: str, data: bytes) -> bool:
    """Whether these bytes have this canonical CID, which must be a SHA-256 digest."""
    return sha256(data).digest() == digest_in(name)


@lru_cache(maxsize=MAX_CACHED_CIDS)
def digest_in(name: str) -> bytes | None:
    """Return the SHA-256 digest in a CID of the hub's own form; None for any other text."""
    if not USUAL.fullmatch(name):
        return None
    # `int` reads base 32 with other digits, in a tenth of the time of `base64.b32decode`.
    return (int(name[1:].translate(_DIGITS), 32) >> 2).to_bytes(len(HEAD) + 32, "big")[len(HEAD) :]


def is_cid(text: str) -> bool:
    """Whether a string is a CID that the hub accepts."""
    try:
        canonical(text)
    except BadCid:
        return False
    return True


def content_in(text: str) -> bytes | None:
    """Return the bytes that an identity CID carries; None for a CID that is a hash. Raises BadCid."""
    name = canonical(text)
    if USUAL.fullmatch(name):
        return None
    from multiformats import CID

    cid = CID.decode(name)
    return bytes(cid.raw_digest) if cid.hashfun.name == "identity" else None


def verify(text: str, data: bytes) -> str:
    """Check that `data` is the content of a CID; return its canonical spelling. Raises BadCid, CorruptBlob."""
    name = canonical(text)
    inside = content_in(name)
    if (inside is not None and inside != data) or (inside is None and cid_of(data) != name):
        raise CorruptBlob(f"these {len(data)} bytes are not the content of {name}; their CID is {cid_of(data)}")
    return name
