"""Whether the settings of a hub contradict each other: a personal hub must not be reachable from other machines, and a
path prefix is not a path of the hub itself.
"""

from __future__ import annotations

from patchbay.catalogue.servers.rows import PATHS, RESERVED
from patchbay.errors import ConfigError
from patchbay.hosts.names import is_loopback, is_loopback_name
from patchbay.settings import PERSONAL, Settings


def check_exposure(settings: Settings) -> None:
    """Raise ConfigError when a hub that is set to personal mode would be reachable from other machines."""
    if settings.access != PERSONAL or settings.is_loopback_only:
        return
    strange = [name for name in settings.allowed_hosts if not is_loopback_name(name)]
    where, found = ("--allowed-hosts", strange[0]) if is_loopback(settings.host) else ("--host", settings.host)
    raise ConfigError(
        where,
        "",
        f"{found!r} lets other machines reach this hub, and --access personal serves this machine only: leave --access"
        " out for a shared hub, whose callers sign in, or use only names of this machine (127.0.0.1, localhost)",
    )


def check_prefix_is_free(prefix: str) -> None:
    """Raise ConfigError for a path prefix that begins with a path of the hub: `/mcp/echo` could mean two addresses."""
    first = prefix.removeprefix("/").partition("/")[0]
    if first.lower() in RESERVED | PATHS:
        raise ConfigError(
            "--path-prefix", "", f"{prefix!r} is refused, because /{first} is a path of the hub: take /hub"
        )
