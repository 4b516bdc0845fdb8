"""Checks DPoP proofs: the sender of a request proves that it holds the key that its token is bound to.

Each proof is for one request: its method, its URL and its token. It is valid for a minute and for one use; the journal
of the store, which all workers share, records the use.
Source: RFC 9449, sections 4.3 (checks), 7.1 (protected resources), 11.1 (replay).
"""

from __future__ import annotations

import hmac
import math
from base64 import urlsafe_b64encode
from hashlib import sha256
from urllib.parse import unquote, urlsplit

from patchbay.access.tokens.audiences import get_origin
from patchbay.access.tokens.problems import WrongProof
from patchbay.access.tokens.signed_json import (
    Malformed,
    SignedJson,
    has_private_members,
    load_public_key,
    parse_signed_json,
)
from patchbay.errors import StaleUpdate
from patchbay.store import Journal
from patchbay.topics import DPOP_PROOFS

MAX_PROOF_AGE_SECONDS = 60
MAX_PROOF_FUTURE_SECONDS = 30
"""Seconds that the clock of the sender may be ahead."""

MAX_PROOF_ID_CHARACTERS = 512


def check_proof(proof: str, method: str, url: str, token: str, proof_key: str, now: float) -> str:
    """Check a proof for one request with one token; return the name of the proof, for `use_proof`.

    `proof_key` is the thumbprint in the token. Raises WrongProof with the reason.
    """
    signed = _read_proof(proof)
    try:
        jwk = signed.header.get("jwk")
        if isinstance(jwk, dict) and has_private_members(jwk):
            raise WrongProof("the key in the DPoP proof has private members")
        key = load_public_key(jwk)
    except Malformed as problem:
        raise WrongProof(f"the key in the DPoP proof is not usable: {problem}") from problem
    if not key.verifies(signed):
        raise WrongProof("the signature of the DPoP proof is wrong")
    claims = signed.payload
    if claims.get("htm") != method:
        raise WrongProof("the DPoP proof is for another method (htm)")
    if not _is_same_url(claims.get("htu"), url):
        raise WrongProof("the DPoP proof is for another URL (htu)")
    _check_time(claims.get("iat"), now)
    digest = urlsafe_b64encode(sha256(token.encode("ascii", "replace")).digest()).rstrip(b"=").decode()
    if not _is_equal(claims.get("ath"), digest):
        raise WrongProof("the DPoP proof is for another token (ath)")
    if not hmac.compare_digest(key.thumbprint, proof_key):
        raise WrongProof("the token is bound to another key than that of the DPoP proof")
    id = claims.get("jti")
    if not isinstance(id, str) or not 0 < len(id) <= MAX_PROOF_ID_CHARACTERS:
        raise WrongProof(f"the DPoP proof has no id (jti) of at most {MAX_PROOF_ID_CHARACTERS} characters")
    return sha256(f"{key.thumbprint}\n{id}".encode("utf-8", "surrogatepass")).hexdigest()


def use_proof(name: str, journal: Journal) -> None:
    """Record the use of a proof, in one transaction for all workers. Raises WrongProof for a second use."""
    topic, kept = DPOP_PROOFS + name, float(MAX_PROOF_AGE_SECONDS + 2 * MAX_PROOF_FUTURE_SECONDS)
    try:
        journal.append_all([(topic, b"used", kept)], {topic: 0})
    except StaleUpdate as problem:
        raise WrongProof("the DPoP proof was used before (jti)") from problem


def _read_proof(proof: str) -> SignedJson:
    try:
        signed = parse_signed_json(proof)
    except Malformed as problem:
        raise WrongProof(f"the DPoP proof cannot be read: {problem}") from problem
    if str(signed.header.get("typ")).lower() != "dpop+jwt":
        raise WrongProof("the type of the DPoP proof is not dpop+jwt")
    return signed


def _check_time(made: object, now: float) -> None:
    if isinstance(made, bool) or not isinstance(made, (int, float)) or not math.isfinite(made):
        raise WrongProof("the DPoP proof has no time (iat)")
    if not now - MAX_PROOF_AGE_SECONDS <= made <= now + MAX_PROOF_FUTURE_SECONDS:
        raise WrongProof(
            f"the DPoP proof was not made within the last {MAX_PROOF_AGE_SECONDS} seconds (iat); check the clocks"
        )


def _is_same_url(found: object, url: str) -> bool:
    """Whether `htu` names the URL of the request; query and fragment do not count (RFC 9449, section 4.3)."""
    if not isinstance(found, str):
        return False
    try:
        return _normalize(found) == _normalize(url)
    except ValueError:
        return False


def _normalize(url: str) -> tuple[str, str]:
    return get_origin(url), unquote(urlsplit(url).path) or "/"


def _is_equal(found: object, expected: str) -> bool:
    return isinstance(found, str) and hmac.compare_digest(found.encode("utf-8", "surrogatepass"), expected.encode())
