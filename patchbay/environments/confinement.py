"""What uv may do while it makes an environment: it may run code of strangers, the build scripts of packages.

uv reads the machine except the files of the hub and private places of the user, and changes only the folder of its
work and its cache. Two ways:

* `wheels`: no code of a package runs. uv has the credentials of the package indexes, and the cache that all
  environments share. Landlock alone is used where the kernel has it, also where confinement is required: mounts would
  keep uv from linking files of the cache, and each environment would take its disk space again.
* `builds`: packages may run code. uv has no credentials, and a cache of its own, because what one build puts into a
  shared cache would become part of other environments.

Sources: https://docs.astral.sh/uv/reference/environment; https://docs.astral.sh/uv/concepts/authentication.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from patchbay.processes.confinement.private_places import find_home
from patchbay.processes.confinement.programs import (
    DEFAULT,
    OFF,
    TMP,
    ProgramConfinement,
    ProgramPermissions,
    ProgramPlaces,
    active_program_protections,
)
from patchbay.processes.confinement.protections import LANDLOCK

MEMORY_MIB = 16384
"""MiB of memory for each process of an installation: compilers need more than most programs."""

FILE_BYTES = 8 * 1024 * 1024 * 1024
"""Bytes of the largest file; some wheels hold libraries of several GiB."""

_CREDENTIAL = re.compile(r"NETRC|UV_\w*(?:PASSWORD|USERNAME|TOKEN|KEYRING\w*|CREDENTIALS\w*)")
"""Names of variables with credentials, or with the place of some."""

_SIGNED_IN = re.compile(r"(?<=://)[^/\s@]+@")
_FILES = ("UV_FIND_LINKS", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_CONFIG_FILE", "SSL_CERT_FILE")
"""Variables that may name files and folders that uv reads."""

_CREDENTIAL_PLACES = (".netrc", ".config/uv", ".local/share/uv/credentials")


@dataclass(frozen=True, slots=True)
class UvConfinement:
    """How uv runs: its confinement, its variables, and whether packages may run code in it (`builds`)."""

    confinement: ProgramConfinement
    environment: Mapping[str, str]
    builds: bool


def confine_uv(
    places: ProgramPlaces, environ: Mapping[str, str], work: Path, cache: Path, builds: bool
) -> UvConfinement:
    """Return how uv runs in the folder `work`. `environ` are its variables, `cache` the cache of all environments."""
    wanted = places.wanted
    mode = places.confine if places.confine != OFF else DEFAULT
    if not builds and LANDLOCK in active_program_protections(wanted):
        wanted, mode = (LANDLOCK,), DEFAULT  # REQUIRED needs namespaces too
    # The installer works in its own folder, which is in the data folder, as the folders of mounted programs are.
    changed = () if builds else (cache,)
    own = replace(places, folder=work.parent, wanted=wanted, confine=mode, file_bytes=FILE_BYTES, own=changed)
    own = replace(own, writes=())
    permissions = ProgramPermissions(reads=tuple(_readable(environ, builds)), memory=MEMORY_MIB)
    variables = {"UV_CACHE_DIR": str(work / "cache" if builds else cache)}
    if not builds:
        variables |= _find_sign_ins(environ)
    kept = without_credentials(environ) if builds else dict(environ)
    confinement = ProgramConfinement(work.name, own, permissions, environ)
    return UvConfinement(confinement, kept | variables, builds)


def has_credentials(environ: Mapping[str, str]) -> bool:
    """Whether uv has credentials for package indexes: in its variables, or in files of the user."""
    home = find_home(environ)
    return without_credentials(environ) != dict(environ) or any((home / one).exists() for one in _CREDENTIAL_PLACES)


def without_credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of uv without the credentials of package indexes. Proxies keep theirs."""
    return {
        name: _SIGNED_IN.sub("", value) if name.startswith("UV_") else value
        for name, value in environ.items()
        if not _CREDENTIAL.fullmatch(name)
    }


def _find_sign_ins(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that lead uv, whose home is its own folder, to the user's files of credentials."""
    home, found = find_home(environ), {}
    if (home / ".netrc").exists():
        found["NETRC"] = environ.get("NETRC", str(home / ".netrc"))
    if (home / ".config" / "uv").is_dir():
        found["XDG_CONFIG_HOME"] = environ.get("XDG_CONFIG_HOME", str(home / ".config"))
    if (home / ".local/share/uv/credentials").is_dir():
        found["UV_CREDENTIALS_DIR"] = environ.get("UV_CREDENTIALS_DIR", str(home / ".local/share/uv/credentials"))
    return found


def _readable(environ: Mapping[str, str], builds: bool) -> Iterator[str]:
    """Yield the places in /tmp and the private places that uv reads."""
    for name in _FILES:
        for word in re.split(r"[\s,]+", environ.get(name, "")):
            place = unquote(urlsplit(word).path) if word.startswith("file://") else word
            if place.startswith(f"{TMP}/"):
                yield place
    if not builds:
        home = find_home(environ)
        yield from (str(home / one) for one in _CREDENTIAL_PLACES)
        yield from [environ["NETRC"]] if environ.get("NETRC") else ()
        yield from [f"{environ['XDG_CONFIG_HOME']}/uv"] if environ.get("XDG_CONFIG_HOME") else ()
