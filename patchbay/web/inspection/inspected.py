"""An inspected server: its tools, resources and prompts as plain values, and saving it as a profile or a mount.

Texts of the server stay text. The page shows the address as the operator wrote it, with variables by their names.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.servers.server import Server
from patchbay.catalogue.watching.mount_files import check_name_is_free, write_mount
from patchbay.client.addresses.address import NamedServer, find_preset, parse_address, to_profile_fields
from patchbay.client.addresses.targets import Stdio
from patchbay.client.contracts.contract import store_snapshot
from patchbay.client.profiles.files import check_name
from patchbay.client.profiles.fixed_paths import fix_folder
from patchbay.client.profiles.layouts import parse_profile
from patchbay.client.profiles.lookup import Profiles, find_homes
from patchbay.client.profiles.updates import record_contract
from patchbay.errors import ConfigError, UnknownServer
from patchbay.settings import Settings, whole_environment
from patchbay.store import Blobs
from patchbay.topics import NAMES_CHANGED
from patchbay.web.inspection.inspected_servers import InspectionTarget
from patchbay.web.site.data import describe_server, page_path

MAX_FORM_BYTES = 64 * 1024
"""Bytes of a form of these pages, at most."""

MOUNT_WAIT_SECONDS = 5.0
"""Seconds to wait until the catalogue has a new mount."""

COPIED_FIELDS = (
    "title",
    "description",
    "instructions",
    "tools",
    "resources",
    "templates",
    "prompts",
    "problems",
    "counts",
)
"""Fields that an inspected server shares with the servers of the hub."""


def describe_inspected(server: Server, settings: Settings) -> dict[str, Any]:
    """Describe an inspected server as a JSON object."""
    assert server.upstream is not None
    last, found = server.upstream.last(), describe_server(server, settings)
    info = dict(last.info) if last else {}
    identity = {
        "name": _text(info.get("name")),
        "version": _text(info.get("version")),
        "info": info,
        "revision": last.revision if last else "",
        "capabilities": dict(server.offers),
    }
    shown = identity | {key: found[key] for key in COPIED_FIELDS}
    return shown | {"title": server.title or identity["name"] or "A server without a name"}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _profiles() -> Profiles:
    return Profiles(find_homes(Path.cwd(), whole_environment()))


def find_profile_folder(name: str) -> str | None:
    """The folder of a profile; None when there is no profile with this name."""
    found = _profiles().find_directories().get(name)
    return str(found) if found else None


def keep_profile(name: str, server: Server, wanted: InspectionTarget, replace: bool, blobs: Blobs) -> Path:
    """Save an inspected server as the profile `name` in the user's directory, with its tools and its contract.

    Raises ProfileError, AddressError, and ConfigError when the name is taken and `replace` is False.
    """
    check_name(name)
    profiles = _profiles()
    if name in profiles.find_directories() and not replace:
        raise ConfigError(
            f"@{name}", "", "expected a new name: a profile with this name exists; tick the box to replace it"
        )
    target = parse_address(wanted.address).target
    if not isinstance(target, NamedServer):
        launch = to_profile_fields(fix_folder(target, Path.cwd()) if isinstance(target, Stdio) else target)
    elif target.kind == "preset":
        launch = to_profile_fields(find_preset(target.name, *profiles.load_presets()))
    else:
        launch = dict(profiles.load(target.name).launch)
    made = parse_profile(name, {"plugin": "mcp", "server": name, **launch}, {}, "the address")
    tools = [dict(each.wire) for each in server.tools.values()]
    store_snapshot(tools, blobs)
    return profiles.save(record_contract(made, tools), None)


def mount_server(catalogue: Catalogue, name: str, wanted: InspectionTarget, replace: bool) -> str:
    """Mount the server as /mcp/NAME, like `patchbay mount`; return the path of its page. Raises ConfigError."""
    folder = catalogue.settings.servers
    check_name_is_free(folder, name, {one.name for one in catalogue.all()}, replace)
    with catalogue.store.bus.subscribe([NAMES_CHANGED]) as mailbox:
        write_mount(folder, name, wanted.fields, replace, "the box on the page")
        end = time.monotonic() + MOUNT_WAIT_SECONDS
        while (left := end - time.monotonic()) > 0 and not _is_ready(_find_mount(catalogue, name, wanted)):
            mailbox.get(min(left, 0.1))
    if _find_mount(catalogue, name, wanted) is None:
        raise ConfigError(
            str(folder / f"{name}.json"),
            "",
            "the file is written, but this hub has not read it yet: reload the list of servers",
        )
    return page_path(name)


def _find_mount(catalogue: Catalogue, name: str, wanted: InspectionTarget) -> Server | None:
    """Find the new mount; None until the hub has read its file."""
    try:
        found = catalogue.find(name)
    except UnknownServer:
        return None
    is_same = found.upstream is not None and found.upstream.mount.address == wanted.address
    return found if is_same else None


def _is_ready(found: Server | None) -> bool:
    """Whether the mount has its lists, or has failed to connect once."""
    return found is not None and found.upstream is not None and (bool(found.offers) or found.upstream.health.tries > 0)
