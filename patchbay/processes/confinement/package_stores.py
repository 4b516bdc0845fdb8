"""The stores of packages that launchers such as `npx` and `uv` use, as a confined program sees them.

A program writes no store of its user: what one program puts there, another one, or the user, would run. It has stores
of its own in its own folder. Where the machine has namespaces, an own store shows the packages of the user's store
below its own ones (an overlay), so that what is there is not fetched again. Other stores it only reads.

Sources: https://docs.astral.sh/uv/concepts/cache; https://docs.npmjs.com/cli/configuring-npm/folders; overlayfs of the
kernel's documentation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from patchbay.processes.confinement.private_places import find_home

OWN_STORES = (
    ("UV_CACHE_DIR", ".cache/uv"),
    ("UV_TOOL_DIR", ".local/share/uv/tools"),
    ("npm_config_cache", ".npm"),
    ("BUN_INSTALL_CACHE_DIR", ".bun/install/cache"),
    ("DENO_DIR", ".cache/deno"),
)
"""Variables that name a store, and its usual place in the home folder. A program has one of its own."""

READ_STORES = (
    ("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python"),
    ("PLAYWRIGHT_BROWSERS_PATH", ".cache/ms-playwright"),
    ("PUPPETEER_CACHE_DIR", ".cache/puppeteer"),
)
"""The same for stores that a program reads: those of the user."""


def find_store_variables(environ: Mapping[str, str], own: Path) -> dict[str, str]:
    """Return the variables that lead a program to its stores, for a program with the folder `own`."""
    home = find_home(environ)
    found = {name: str(own / place) for name, place in OWN_STORES}
    for name, place in READ_STORES:
        shared = _shared(environ, home, name, place)
        found |= {name: str(shared)} if shared.is_dir() else {}
    return found


def find_overlays(environ: Mapping[str, str], own: Path) -> Sequence[tuple[Path, Path, Path]]:
    """Return the stores to lay over those of the user: the user's store, the own one, and a folder for the kernel."""
    home, found = find_home(environ), []
    for name, place in OWN_STORES:
        shared, mine = _shared(environ, home, name, place), own / place
        # A comma or colon would end a path in the options of the mount.
        if shared.is_dir() and not any(sign in f"{shared}{mine}" for sign in ",:\\"):
            found.append((shared.resolve(), mine, mine.with_name(f"{mine.name}.work")))
    return found


def _shared(environ: Mapping[str, str], home: Path, name: str, place: str) -> Path:
    named = environ.get(name) or environ.get(name.upper())
    if named:
        return Path(named)
    if place.startswith(".cache/") and environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"]) / place.removeprefix(".cache/")
    if place.startswith(".local/share/") and environ.get("XDG_DATA_HOME"):
        return Path(environ["XDG_DATA_HOME"]) / place.removeprefix(".local/share/")
    return home / place
