"""How a server is reached, as three frozen values: a program, a URL, or a server of this hub in process.

Everything in `client/` speaks this vocabulary: addresses and profiles make it, connections use it. Nothing here
starts, opens or reads anything. The values are hashable, so that a connection can be kept per reach, and each has
`described`: one line for people in which whatever looks like a secret is masked.
Sources: JN-13, JN-22 to JN-28, JN-70; DESIGN section 3 (Profile).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from patchbay.errors import InvalidParams

Transport = Literal["auto", "streamable-http", "sse"]
"""How to speak to a URL. `auto`: Streamable HTTP, then the HTTP+SSE pair of 2024-11-05 when that is refused."""

Era = Literal["auto", "modern", "legacy"]
"""Which revisions are spoken to it: those that either knows, 2026-07-28, or those with a handshake."""

MASK = "***"

ANY_ISSUER = "any"
"""As the `issuer` of an Http: the server may name any authorization server, private ones too."""


class AddressError(InvalidParams):
    """A string that is no address: names the place in it and what was expected there."""


_SECRET = re.compile(r"(?i)(secret|token|passw|pwd|credential|auth|bearer|api[-_]?key|access[-_]?key|private[-_]?key)")
_SECRET_WORDS = re.compile(r"(?i)^(key|sig|signature|pass)$")
_URL = re.compile(r"https?://[^\s'\"<>]+")
_FIELD_VALUE = re.compile(r"([\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?)?")
_QUERY_PAIR = re.compile(r"([^&=]+)=([^&]*)")


@dataclass(frozen=True, slots=True)
class Stdio:
    """A program spoken to over its standard input and output.

    `env` holds only what is added to the environment the connection gives every child; `cwd` is None for the present
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
        """The command line as one would type it; values of variables and of secret options are masked."""
        words = [f"{name}={MASK}" for name in sorted(self.env)]
        words += [shlex.quote(word) for word in (self.command, *_mask_words(self.args))]
        return " ".join(words) + (f" (in {self.cwd})" if self.cwd else "")


@dataclass(frozen=True, slots=True)
class Http:
    """A server at a URL (`http` or `https`); `headers` are sent with every request.

    `public` says that every connection has to go to a public address, which is looked up once for each request.
    `issuer` is the URL of an authorization server that may be at a private address, or ANY_ISSUER; without it only
    public ones that the server names are reached.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    transport: Transport = "auto"
    public: bool = False
    issuer: str = ""

    def __hash__(self) -> int:
        return hash((self.url, frozenset(self.headers.items()), self.transport, self.public, self.issuer))

    @property
    def label(self) -> str:
        """The URL without its secrets, the transport when one is asked for, and the names of the headers."""
        notes: list[str] = [] if self.transport == "auto" else [self.transport]
        notes += [f"{name}: {MASK}" for name in sorted(self.headers)]
        return mask_url(self.url) + (f" ({', '.join(notes)})" if notes else "")


@dataclass(frozen=True, slots=True)
class Local:
    """A server of this hub, in process: the path `/mcp/<endpoint>`, `endpoint` being `echo`, `echo@<cid>` or ``.

    The empty endpoint is the aggregate `/mcp`. Whoever runs the hub supplies the exchange.
    """

    endpoint: str

    @property
    def label(self) -> str:
        """The path of the endpoint."""
        return f"/mcp/{self.endpoint}" if self.endpoint else "/mcp"


Target = Stdio | Http | Local


def is_secret_name(name: str) -> bool:
    """Whether a value under this name (an option, a header, a query key) is not to be shown."""
    bare = name.lstrip("-")
    return bool(_SECRET.search(bare) or _SECRET_WORDS.match(bare))


def mask_url(url: str) -> str:
    """A URL for people: no password, and no value of a query key that names a secret."""
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
    """A text for people, in which every URL is masked as by `mask_url`."""
    return _URL.sub(lambda found: mask_url(found[0]), text)


def check_headers(headers: Mapping[str, str], where: str) -> Mapping[str, str]:
    """The headers themselves. Raises InvalidParams naming one whose value cannot be sent; the value stays unsaid.

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
