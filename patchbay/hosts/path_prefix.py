"""The path below which a proxy publishes the hub: `/hub` in `https://example.org/hub/mcp`.

Inside the hub a path has no prefix. It is taken off where a request enters, and added where an address leaves: in
`SCRIPT_NAME`, from which each URL of the hub is made, and by `add_prefix`. A proxy may pass the prefix on or strip it.
Sources: PEP 3333 (`SCRIPT_NAME`, `PATH_INFO`); RFC 3986, section 2.3 (unreserved characters); RFC 8414, section 3.1,
and RFC 9728, section 3.1 (the path of an issuer or a resource follows the well-known name).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from patchbay.errors import ConfigError

MAX_PREFIX_CHARACTERS = 200

EXPECTED = "expected a path such as /hub or /tools/hub: it begins with a slash and does not end with one"

_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~-]+)+", re.ASCII)
_WELL_KNOWN = re.compile(r"/\.well-known/(?:oauth-protected-resource|oauth-authorization-server|openid-configuration)")


def check_path_prefix(prefix: str, where: str = "--path-prefix") -> str:
    """Return a prefix that is empty or a valid one. Raises ConfigError, which names `where` it stands."""
    if not prefix:
        return prefix
    problem = ""
    if len(prefix) > MAX_PREFIX_CHARACTERS:
        problem = f"it has {len(prefix)} characters, at most {MAX_PREFIX_CHARACTERS} are possible"
    elif not prefix.startswith("/"):
        problem = "it does not begin with a slash"
    elif prefix.endswith("/"):
        problem = "it ends with a slash"
    elif not _PREFIX.fullmatch(prefix):
        problem = "each part has letters, digits and - . _ ~ only, without a query"
    elif {".", ".."} & set(prefix.split("/")):
        problem = "a part is . or .."
    elif prefix == "/.well-known" or prefix.startswith("/.well-known/"):
        problem = "/.well-known belongs to the host"
    if problem:
        raise ConfigError(where, "", f"{EXPECTED}; got {prefix[:80]!r}: {problem}")
    return prefix


def choose_path_prefix(path_prefix: str, public_url: str) -> str:
    """Return the prefix of a hub: the setting `path_prefix`, or else the path of the setting `public_url`.

    Raises ConfigError for a wrong prefix, and for two different ones.
    """
    check_path_prefix(path_prefix)
    named = urlsplit(public_url).path.rstrip("/")
    if path_prefix and named not in ("", path_prefix):
        raise ConfigError(
            "--path-prefix",
            "",
            f"it is {path_prefix!r}, and public_url ends with {named[:80]!r}: leave one of them out",
        )
    return path_prefix or check_path_prefix(named, "public_url")


def is_below(prefix: str, path: str) -> bool:
    """Whether a path is the prefix itself or below it; `/hubs` is not below `/hub`."""
    return path == prefix or path.startswith(f"{prefix}/")


def add_prefix(prefix: str, path: str) -> str:
    """Return a path of the hub as clients write it. An absolute URL, and a path with the prefix, stay as they are."""
    return prefix + path if path.startswith("/") and not is_below(prefix, path) else path


def strip_prefix(prefix: str, path: str) -> str:
    """Return a requested path without the prefix; the path itself when a proxy has stripped the prefix.

    The metadata documents of OAuth have the prefix after their well-known name.
    """
    if is_below(prefix, path):
        return path[len(prefix) :] or "/"
    found = _WELL_KNOWN.match(path)
    if found is not None and is_below(prefix, path[found.end() :]):
        return found[0] + path[found.end() + len(prefix) :]
    return path


def prefix_of(environ: Mapping[str, Any]) -> str:
    """Return the prefix of the hub that a request reached; empty without one."""
    found: str = environ.get("SCRIPT_NAME", "")
    return found


def link_for(environ: Mapping[str, Any], path: str) -> str:
    """Return a path of the hub as the client of a request writes it."""
    return add_prefix(prefix_of(environ), path)
