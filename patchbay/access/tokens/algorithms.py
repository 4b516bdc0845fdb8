"""The signature algorithms of tokens and proofs.

Sources: RFC 7518, section 3.1; RFC 9864, section 2.
"""

from __future__ import annotations

ALGORITHMS = (
    *("ES256", "ES384", "ES512", "Ed25519", "EdDSA"),
    *("PS256", "PS384", "PS512", "RS256", "RS384", "RS512"),
)
"""The accepted algorithms, all with a public key."""

CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "Ed25519": "Ed25519", "EdDSA": "Ed25519"}
"""The only curve that each algorithm with a curve accepts."""
