"""The configuration of a mounted HTTP API as a value.

Variables (`${NAME}`) are substituted when the API is reached, never before, and their values are shown nowhere; a value
whose name is that of a secret, and every credential, must be such a variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from patchbay.caller_accounts.way import WaySettings
from patchbay.caller_accounts.ways import read_way
from patchbay.cid import canonical, cid_of
from patchbay.client.addresses.launchers import check_url
from patchbay.client.addresses.secrets import is_secret, is_secret_name
from patchbay.client.addresses.targets import AddressError
from patchbay.errors import BadCid, ConfigError
from patchbay.kinds.openapi.selection import Selection, parse_selection
from patchbay.pins.documents import Changes
from patchbay.upstreams.configuration import find_secret_values

DEFAULT_TOOLS = 256
"""Number of operations that are served without the field `max_tools`."""

DEFAULT_REFRESH_SECONDS = 300.0
"""Seconds between two readings of a document."""

OPEN_FIELDS = frozenset({"username", "client_id", "token_url", "scope"})
"""Parts of a credential that are not secret."""

DocumentPlace = Literal["url", "file", "cid"]
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ApiConfiguration:
    """How the API behind the server `name` is reached, and which of its operations are served.

    Texts are as written, without substitution. `credentials` is JSON: a value for each security scheme. `pages` is the
    largest number of pages that one call reads. `way` says how the API gets the credentials of callers, None where it
    gets the hub's; `oauth` then says where callers sign in, and as which client, if the document does not.
    """

    name: str
    document: str
    base: str = ""
    headers: Pairs = ()
    query: Pairs = ()
    credentials: str = "{}"
    selection: Selection = field(default_factory=Selection)
    max_tools: int = DEFAULT_TOOLS
    pages: int = 1
    refresh: float = DEFAULT_REFRESH_SECONDS
    changes: Changes | None = None
    way: WaySettings | None = None
    oauth: Pairs = ()

    @property
    def place(self) -> DocumentPlace:
        """The place of the document."""
        if re.match(r"(?i)https?://|\$\{", self.document):
            return "url"
        return "cid" if _is_cid(self.document) else "file"

    @property
    def digest(self) -> str:
        """The CID of the address of the document: a document from another address is not used."""
        return cid_of(orjson.dumps([self.document, self.headers]))

    def secrets(self, environ: Mapping[str, str]) -> frozenset[str]:
        """Return the values of the variables that it names."""
        pairs = (*self.headers, *self.query, *self.oauth)
        texts = [self.document, self.base, self.credentials, *(value for _, value in pairs)]
        return find_secret_values(texts, environ)


def parse_fields(name: str, fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the values of an ApiConfiguration. Raises ConfigError."""
    document = str(fields["document"]).removeprefix("openapi+").removeprefix("file:").removeprefix("cid://")
    found = {
        "name": name,
        "document": document,
        "base": fields.get("base", ""),
        "headers": tuple(sorted(fields.get("headers", {}).items())),
        "query": tuple(sorted(fields.get("query", {}).items())),
        "credentials": orjson.dumps(fields.get("credentials", {}), option=orjson.OPT_SORT_KEYS).decode(),
        "selection": parse_selection(fields),
        "changes": fields.get("changes"),
        "way": read_way(fields, "api", where),
        "oauth": tuple(sorted(fields.get("oauth", {}).items())),
    }
    check_fields(fields, where)
    return found | {key: fields[key] for key in ("max_tools", "pages", "refresh") if key in fields}


def check_fields(fields: Mapping[str, Any], where: str) -> None:
    """Check the fields that the schema of configurations cannot. Raises ConfigError."""
    if not fields.get("document"):
        raise ConfigError(where, "document", "expected the URL, the file or the CID of an OpenAPI document")
    _check_account(fields, where)
    for path in ("document", "base"):
        text = str(fields.get(path, "")).removeprefix("openapi+")
        if path == "base" and text and not re.match(r"(?i)https?://|\$\{", text):
            raise ConfigError(where, path, f"expected https://HOST/PATH; this is {text[:100]!r}")
        if text and "${" not in text and re.match(r"(?i)https?:", text):
            try:
                check_url(text, "the URL")
            except AddressError as problem:
                raise ConfigError(where, path, problem.message) from problem
    for path in ("headers", "query"):
        for key, value in fields.get(path, {}).items():
            if "${" not in value and is_secret_name(key) and is_secret(key, value):
                raise ConfigError(
                    where, f"{path}.{key}", f"expected a variable such as ${{NAME}} as the value of {key}, not a secret"
                )
    for path, value in _list_secret_values(fields.get("credentials", {})):
        if "${" not in value:
            raise ConfigError(where, path, "expected a variable such as ${NAME}, not a secret")


def _check_account(fields: Mapping[str, Any], where: str) -> None:
    """Check the fields for accounts of callers. Raises ConfigError."""
    oauth = fields.get("oauth", {})
    way = read_way(fields, "api", where)
    if way is None:
        return
    if not fields.get("base"):
        raise ConfigError(
            where, "base", "expected the URL of the API: the credentials of callers go only to its origin"
        )
    given = {("query", name.lower()) for name in fields.get("query", {})}
    for _, name in sorted(given & way.list_places()):
        raise ConfigError(where, "query", f"expected no {name}: it is of each caller's own credential")
    if "${" not in oauth.get("client_secret", "${"):
        raise ConfigError(where, "oauth.client_secret", "expected a variable such as ${NAME}, not a secret")
    for key in ("issuer", "authorization_url", "token_url", "resource"):
        text = oauth.get(key, "")
        if text and not re.match(r"(?i)https?://|\$\{", text):
            raise ConfigError(where, f"oauth.{key}", f"expected https://HOST/PATH; this is {text[:100]!r}")


def _list_secret_values(credentials: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for scheme, value in credentials.items():
        if isinstance(value, str):
            yield f"credentials.{scheme}", value
        else:
            yield from ((f"credentials.{scheme}.{key}", one) for key, one in value.items() if key not in OPEN_FIELDS)


def _is_cid(text: str) -> bool:
    try:
        return bool(canonical(text))
    except BadCid:
        return False
