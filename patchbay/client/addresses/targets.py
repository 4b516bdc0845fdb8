"""The target of a connection, as three frozen values: a program, a URL, or a server of this hub in process.

All of `client/` uses these values: addresses and profiles make them, connections use them. Nothing here starts, opens
or reads anything. The values are hashable, so that a pool can hold one connection per target. Each has a `label`: one
line for people in which secrets are masked.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from patchbay.client.addresses.secrets import is_secret_name
from patchbay.client.addresses.sign_in import SignInFields
from patchbay.errors import InvalidParams

Transport = Literal["auto", "streamable-http", "sse"]
"""The transport of a URL. `auto`: Streamable HTTP, then the HTTP+SSE pair of 2024-11-05 when that is refused."""

Era = Literal["auto", "modern", "legacy"]
"""The protocol revisions to use: `auto` those of both sides, `modern` 2026-07-28, `legacy` those with a handshake."""

MASK = "***"

ANY_ISSUER = "any"
"""As the `issuer` of an Http: the server may name any authorization server, also one at a private address."""


class AddressError(InvalidParams):
    """A string that is not an address. The message names the place in it and what was expected there."""


_URL = re.compile(r"https?://[^\s'\"<>]+")
_FIELD_VALUE = re.compile(r"([\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?)?")
_QUERY_PAIR = re.compile(r"([^&=]+)=([^&]*)")


@dataclass(frozen=True, slots=True)
class Stdio:
    """A program that serves MCP over its standard input and output.

    `env` holds the variables to add to the environment that the connection gives every child; `cwd` None is the current
    directory.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None

    def __hash__(self) -> int:
        return hash((self.command, self.args, frozenset(self.env.items()), self.cwd))

    @property
    def label(self) -> str:
        """The command line as it is typed; values of variables and of secret options are masked."""
        words = [f"{name}={MASK}" for name in sorted(self.env)]
        words += [shlex.quote(word) for word in (self.command, *_mask_words(self.args))]
        return " ".join(words) + (f" (in {self.cwd})" if self.cwd else "")


@dataclass(frozen=True, slots=True)
class Http:
    """A server at a URL (`http` or `https`); `headers` are sent with every request.

    `public` requires every connection to go to a public address, which is looked up once for each request. `issuer` is
    the URL of an authorization server that may be at a private address, or ANY_ISSUER; without it, authorization
    servers that the server names have to be public. `name` is the label in place of the URL. Without `is_proxied`, the
    connection uses no proxy that the environment names. `sign_in` is the configured way to sign in, None without one.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    transport: Transport = "auto"
    public: bool = False
    issuer: str = ""
    name: str = ""
    is_proxied: bool = True
    sign_in: SignInFields | None = None

    def __hash__(self) -> int:
        ways = (self.transport, self.public, self.issuer, self.name, self.sign_in)
        return hash((self.url, frozenset(self.headers.items()), *ways))

    @property
    def label(self) -> str:
        """The URL without its secrets, the transport when it is not `auto`, the names of the headers, the sign-in."""
        if self.name:
            return self.name
        notes: list[str] = [] if self.transport == "auto" else [self.transport]
        notes += [f"{name}: {MASK}" for name in sorted(self.headers)]
        notes += [f"sign-in: {self.sign_in.way}"] if self.sign_in is not None else []
        return mask_url(self.url) + (f" ({', '.join(notes)})" if notes else "")

    @property
    def has_authorization(self) -> bool:
        """Whether the header `Authorization` is given, which takes the place of a sign-in."""
        return any(name.lower() == "authorization" for name in self.headers)


@dataclass(frozen=True, slots=True)
class Local:
    """A server of this hub: the path `/mcp/<endpoint>`; `endpoint` is `echo`, `echo@<cid>` or ``.

    The empty endpoint is the aggregate `/mcp`. The program that opens the connection
    supplies the exchange of a hub in its process, or connects to the running hub.
    """

    endpoint: str

    @property
    def label(self) -> str:
        """The path of the endpoint."""
        return f"/mcp/{self.endpoint}" if self.endpoint else "/mcp"


Target = Stdio | Http | Local


def mask_url(url: str) -> str:
    """Return a URL for people: without a password, and without the values of query keys that name a secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.partition("?")[0]
    place = parts.netloc
    if "@" in place:
        user, _, host = place.rpartition("@")
        place = f"{user.partition(':')[0]}:{MASK}@{host}" if ":" in user else f"{user}@{host}"
    query = _QUERY_PAIR.sub(lambda pair: f"{pair[1]}={MASK}" if is_secret_name(pair[1]) else pair[0], parts.query)
    return urlunsplit((parts.scheme, place, parts.path, query, parts.fragment))


def mask_urls(text: str) -> str:
    """Return a text for people with every URL masked as by `mask_url`."""
    return _URL.sub(lambda found: mask_url(found[0]), text)


def mask_secrets(text: str, secrets: frozenset[str]) -> str:
    """Return a sentence with each of these secrets masked."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def check_headers(headers: Mapping[str, str], where: str) -> Mapping[str, str]:
    """Return the headers. Raises InvalidParams naming a header whose value cannot be sent, without the value.

    RFC 9110 section 5.5: printable ASCII without a line break, no space at either end.
    """
    for name, value in headers.items():
        if not _FIELD_VALUE.fullmatch(value):
            raise InvalidParams(
                f"{where}: the header {name}: expected printable ASCII without a line break or a space at its ends"
            )
    return headers


def _mask_words(words: tuple[str, ...]) -> Iterator[str]:
    hide = False
    for word in words:
        name, equals, _ = word.partition("=")
        if equals and is_secret_name(name):
            yield f"{name}={MASK}"
        else:
            yield MASK if hide else mask_url(word) if "://" in word else word
        hide = not equals and word.startswith("-") and is_secret_name(word)
