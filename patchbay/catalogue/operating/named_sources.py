"""What a new mount names on this machine: the file of an API's document, a profile, a preset of `mcp://`.

A mount that names one of them must find it: it would never work otherwise. A server at a URL, and a program, may be
away when they are mounted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchbay.cid import canonical
from patchbay.client.addresses.address import NamedServer, find_preset, parse_address
from patchbay.client.addresses.targets import AddressError
from patchbay.client.profiles.files import PROFILE_NAME
from patchbay.client.profiles.layouts import Profile
from patchbay.client.profiles.lookup import ProfileHomes, Profiles
from patchbay.client.source import get_scheme
from patchbay.client.sources.http_targets import PLUGIN, make_connection_fields
from patchbay.errors import BadCid, ConfigError, InvalidParams
from patchbay.upstreams.configuration import OPENAPI

_NO_FILE = re.compile(r"(?i)https?://|\$\{")
"""How the place of a document begins that is a URL, or a variable whose value is not known yet."""


def find_api_profile(address: str, homes: ProfileHomes) -> Profile | None:
    """Load the profile of an HTTP API that an address names; None when it names none, or one of an MCP server.

    A profile of an MCP server with the same name comes first. Raises ProfileError for a profile that cannot be read.
    """
    name = address.removeprefix("@")
    if not address.startswith("@") or not PROFILE_NAME.fullmatch(name):
        return None
    profiles = Profiles(homes, PLUGIN)
    if name in Profiles(homes).find_directories() or name not in profiles.find_directories():
        return None
    return profiles.load(name)


def make_api_fields(address: str, profile: Profile | None, folder: Path) -> dict[str, Any]:
    """Make the configuration of an HTTP API at an address, or of its profile.

    `folder` is where the relative path of a document begins; with a profile it begins at the profile's folder. Raises
    AddressError, and ConfigError for a profile without a document.
    """
    found = make_connection_fields(address) if profile is None else profile.launch
    document, headers = found.get("document", ""), found.get("headers", {})
    if profile is None and not document:
        raise AddressError(f"{address}: expected the path or the URL of an OpenAPI document after openapi+")
    if not isinstance(document, str) or not document:
        raise ConfigError(
            address, "connection.document", "expected an OpenAPI document; without one use `patchbay call`"
        )
    if not isinstance(headers, dict):
        raise ConfigError(address, "connection.headers", "expected an object of strings")
    if get_scheme(document) not in ("http", "https") and not document.startswith("${"):
        home = profile.directory if profile is not None and profile.directory is not None else folder
        document = os.path.normpath(home / Path(document).expanduser())
    fields: dict[str, Any] = {"kind": OPENAPI, "document": document}
    fields |= {"base": found["base_url"]} if "base_url" in found else {}
    fields |= {"headers": headers} if headers else {}
    return fields | ({"timeout": found["timeout"]} if "timeout" in found else {})


def check_sources(fields: Mapping[str, Any], folder: Path, homes: ProfileHomes, where: str) -> None:
    """Check that a mount finds what it names on this machine, and that a document describes an API.

    `folder` is where the relative path of a document begins, `where` names the mount in errors. Nothing is started, and
    no server is asked. Raises ConfigError.
    """
    if fields["kind"] == OPENAPI:
        _check_document(str(fields["document"]), folder, where)
        return
    address = str(fields["address"])
    target = parse_address(address).target
    if not isinstance(target, NamedServer):
        return
    if target.kind == "profile":
        _check_profile(target.name, homes, where)
        return
    try:
        find_preset(target.name, *Profiles(homes).load_presets())
    except AddressError as problem:
        raise ConfigError(where, "address", f"{problem.message}; add it there, or write another address") from problem


def _check_profile(name: str, homes: ProfileHomes, where: str) -> None:
    profiles = Profiles(homes)
    if name in profiles.find_directories():
        profiles.load(name)
        return
    searched = ", ".join(filter(None, (profiles.describe_searched(), Profiles(homes, PLUGIN).describe_searched())))
    raise ConfigError(
        where,
        "address",
        f"there is no profile {name}; searched {searched or 'no folder, because HOME is not set'}."
        " `patchbay profile list` shows the profiles, `patchbay profile new` makes one;"
        f" a server of this hub needs no mount, it is /mcp/{name}",
    )


def _check_document(document: str, folder: Path, where: str) -> None:
    place = document.removeprefix("openapi+")
    if _NO_FILE.match(place) or _is_content(place):
        return
    scheme = get_scheme(place)
    if scheme not in ("", "/", "file"):
        raise ConfigError(where, "document", f"expected a URL with https:// or http://, or a path; this is {scheme}:")
    path = Path(os.path.normpath(folder / Path(place.removeprefix("file:")).expanduser()))
    if path.is_dir():
        raise ConfigError(where, "document", f"{path} is a folder; write the path of the OpenAPI document in it")
    if not path.is_file():
        raise ConfigError(
            where, "document", f"there is no file {path}; write the path of an OpenAPI document, or its URL"
        )
    from patchbay.client.openapi.documents import MAX_DOCUMENT_BYTES, load_api_file

    try:
        load_api_file(path, MAX_DOCUMENT_BYTES)
    except InvalidParams as problem:
        raise ConfigError(where, "document", problem.message) from problem


def _is_content(place: str) -> bool:
    """Whether the place of a document is the CID of content of the hub."""
    try:
        return bool(canonical(place.removeprefix("cid://")))
    except BadCid:
        return False
