"""How the hub proves itself with a secret, where it is a client of an issuer.

Source: RFC 6749, section 2.3.1.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus, urlencode


def prove_client(form: Mapping[str, str], id: str, secret: str, methods: Any) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a request with this form and the proof of a client.

    `methods` is what the metadata of the issuer lists; the header `Authorization` is used unless the list excludes it.
    A client without a secret sends its id alone.
    """
    if not secret:
        return urlencode({**form, "client_id": id}).encode(), {}
    if isinstance(methods, list) and "client_secret_basic" not in methods and "client_secret_post" in methods:
        return urlencode({**form, "client_id": id, "client_secret": secret}).encode(), {}
    pair = f"{quote_plus(id)}:{quote_plus(secret)}"
    return urlencode(form).encode(), {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
