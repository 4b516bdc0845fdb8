"""Content identifiers: CIDv1, base32, raw codec, sha2-256, as IPFS makes them for a small file.

Computing one takes tens of microseconds with the library, so results are cached here and the
hot path never asks. Sources: https://github.com/multiformats/cid, DESIGN section 4.
"""

from __future__ import annotations

from functools import lru_cache

from multiformats import CID, multihash

from patchbay.errors import BadCid, CorruptBlob

LONGEST = 512
"""Characters of the longest CID string that is looked at; an identity CID carries its content."""


def cid_of(data: bytes) -> str:
    """The CID of some bytes, as a base32 string beginning with `bafkrei`."""
    return str(CID("base32", 1, "raw", multihash.digest(data, "sha2-256")))


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The one spelling of a CID under which content is kept (CIDv1 in base32).

    Raises BadCid, with a sentence that says what is wrong, for anything that is no CID of the
    raw codec hashed by sha2-256 or identity.
    """
    if not text or len(text) > LONGEST or not text.isascii():
        raise BadCid(f"not a CID: expected 1 to {LONGEST} ASCII characters, such as bafkrei...")
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


def is_cid(text: str) -> bool:
    """Whether a string is a CID that this hub can use."""
    try:
        canonical(text)
    except BadCid:
        return False
    return True


def content_in(text: str) -> bytes | None:
    """The bytes an identity CID carries, or None for a CID that is a hash. Raises BadCid."""
    cid = CID.decode(canonical(text))
    return bytes(cid.raw_digest) if cid.hashfun.name == "identity" else None


def verify(text: str, data: bytes) -> str:
    """The canonical spelling of a CID, after checking that `data` is what it names. Raises BadCid, CorruptBlob."""
    name = canonical(text)
    inside = content_in(name)
    if (inside is not None and inside != data) or (inside is None and cid_of(data) != name):
        raise CorruptBlob(f"these {len(data)} bytes are not the content of {name}; their CID is {cid_of(data)}")
    return name
