"""What can be wrong with a request's access token or proof, and the failure of the issuer itself.

Sources: RFC 6750, section 3.1; RFC 9449, section 7.1.
"""

from __future__ import annotations

from patchbay.errors import PatchbayError


class WrongToken(PatchbayError):
    """The access token is not valid here. `error` is the error code of the answer; the message gives the reason."""

    status = 401
    error = "invalid_token"


class WrongProof(WrongToken):
    """The DPoP proof is missing or wrong."""

    error = "invalid_dpop_proof"


class IssuerUnavailable(PatchbayError):
    """The hub cannot check a token, because the issuer gives no usable answer (503)."""

    status = 503

    def __init__(self, message: str = "") -> None:
        sentence = "the hub cannot check this token now, because its issuer does not answer; try again later"
        super().__init__(message or sentence)


class IssuerRefused(IssuerUnavailable):
    """The issuer refused a request of the hub; `error` is its code, such as `invalid_grant` (RFC 6749, section 5.2)."""

    def __init__(self, message: str, error: str) -> None:
        super().__init__(message)
        self.error = error
