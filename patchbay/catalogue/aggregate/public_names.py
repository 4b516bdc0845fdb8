"""Public names in the aggregate: `server__tool`, at most 49 letters, digits, `_`, `-`.

Desktop clients reject a whole server for one name with other characters or more than 64 of them, and some put a prefix
with the name of the hub before it: Claude Code `mcp__patchbay__`, 15 characters. A public name depends only on the
server's name and the tool's name, and no two pairs share one: a pair whose plain name is too long, has another
character, is ambiguous, or ends like a digest gets a digest of the pair at its end. A name that is cut keeps the
beginning of the server's name and that of the tool's name. Names of at most 64 characters, which earlier versions
listed, can still be called.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

MAX_NAME_CHARACTERS = 49
"""Maximum number of characters of a public name."""

MAX_FORMER_CHARACTERS = 64
"""Maximum number of characters of a public name in earlier versions."""

MAX_SERVER_CHARACTERS = 20
"""Maximum number of characters of the server's part in a name that is cut."""

DIGEST_DIGITS = 8
"""Number of hexadecimal digits of the digest."""

MAX_CACHED_NAMES = 65_536
"""Maximum number of cached public names."""

SEPARATOR = "__"

_ALLOWED = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_FORMER_CHARACTERS}}}")
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")
_ENDS_LIKE_A_DIGEST = re.compile(rf"_[0-9a-f]{{{DIGEST_DIGITS}}}$")


def whole_name(server: str, name: str) -> str:
    """Return the name of a server's tool or prompt that is neither cut nor free of other characters."""
    return f"{server}{SEPARATOR}{name}"


@lru_cache(MAX_CACHED_NAMES)
def public_name(server: str, name: str) -> str:
    """Return the public name of a server's tool or prompt."""
    former = former_public_name(server, name)
    if len(former) <= MAX_NAME_CHARACTERS:
        return former
    plain = f"{_server_part(server)}{SEPARATOR}{_OTHER.sub('_', name)}"
    return _end_with_digest(plain, f"{server}\n{name}", MAX_NAME_CHARACTERS)


def has_server_part(name: str, server: str) -> bool:
    """Whether a public name, a former one or `server.name` begins with the name of a server, which may be cut."""
    parts = (_server_part(server), _OTHER.sub("_", server))
    return name.startswith((f"{server}.", *(f"{part}{SEPARATOR}" for part in parts)))


def _server_part(server: str) -> str:
    """Return the beginning of a public name that is cut."""
    beginning = _OTHER.sub("_", server)
    # The digest is that of the server's name alone, which its tools cannot choose.
    is_long = len(beginning) > MAX_SERVER_CHARACTERS
    return _end_with_digest(beginning, server, MAX_SERVER_CHARACTERS) if is_long else beginning


@lru_cache(MAX_CACHED_NAMES)
def former_public_name(server: str, name: str) -> str:
    """Return the name by which earlier versions listed a server's tool or prompt: at most 64 characters."""
    plain = whole_name(server, name)
    if _is_plain(server, plain):
        return plain
    return _end_with_digest(_OTHER.sub("_", plain), f"{server}\n{name}", MAX_FORMER_CHARACTERS)


def _end_with_digest(text: str, digested: str, limit: int) -> str:
    """Return at most `limit` characters: the beginning of a text, and a digest at the end."""
    digest = sha256(digested.encode()).hexdigest()[:DIGEST_DIGITS]
    return f"{text[: limit - DIGEST_DIGITS - 1]}_{digest}"


def _is_plain(server: str, plain: str) -> bool:
    """Whether the plain name is allowed, and its first separator follows the server's name."""
    one_reading = plain.index(SEPARATOR) == len(server)
    return one_reading and bool(_ALLOWED.fullmatch(plain)) and not _ENDS_LIKE_A_DIGEST.search(plain)
