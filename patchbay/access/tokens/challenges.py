"""The values of `WWW-Authenticate`: where a client finds the metadata of a resource, and which scopes it needs.

Sources: RFC 6750, section 3; RFC 9728, section 5.1; RFC 9449, section 7.1; MCP specification, basic/authorization.
"""

from __future__ import annotations

from collections.abc import Iterable

from patchbay.access.authentication import Credentials
from patchbay.access.tokens.algorithms import ALGORITHMS
from patchbay.access.tokens.resource_metadata import get_metadata_url


def make_challenge(
    credentials: Credentials,
    scopes: Iterable[str] = (),
    error: str = "",
    reason: str = "",
    uses_proof: bool = False,
) -> str:
    """Return a challenge for one request. `scopes` are the scopes that a token for this request needs.

    `error` is an error code of RFC 6750, empty for a request without a token. `uses_proof` asks for DPoP.
    """
    url, is_resource = credentials.resource or credentials.url, bool(credentials.resource)
    values = {
        "error": error,
        "error_description": reason,
        "scope": " ".join(scopes),
        "resource_metadata": get_metadata_url(url, is_resource, credentials.prefix),
        "algs": " ".join(ALGORITHMS) if uses_proof else "",
    }
    scheme = "DPoP" if uses_proof else "Bearer"
    return f"{scheme} " + ", ".join(f'{name}="{_clean(value)}"' for name, value in values.items() if value)


def _clean(text: str) -> str:
    """Return a text with the characters only that RFC 6750, section 3, allows in quotes."""
    return "".join(one if " " <= one <= "~" and one not in '"\\' else "'" for one in text)
