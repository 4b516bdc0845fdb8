"""A server that is being inspected: what it offers as plain values, and what becomes of it: a profile, a mount.

What a stranger's server says stays text; how it is reached is shown as it was written, with variables by their names.
Sources: issue 7 part 5; REQUIREMENTS JN-13, JN-51; docs/profiles.md, docs/mounting.md.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from patchbay.boot.changes import NAMES_CHANGED
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.servers import Server
from patchbay.catalogue.watching.mount_files import write_mount
from patchbay.client.addresses.address import NamedServer, find_preset, parse_address, to_profile_fields
from patchbay.client.contracts.contract import store_snapshot
from patchbay.client.profiles.files import check_name
from patchbay.client.profiles.layouts import parse_profile
from patchbay.client.profiles.lookup import Profiles, find_homes
from patchbay.client.profiles.updates import record_contract
from patchbay.errors import ConfigError, UnknownServer
from patchbay.protocol.inspection import InspectionTarget
from patchbay.settings import Settings, whole_environment
from patchbay.store import Blobs
from patchbay.web.pages.data import detail

TOO_MUCH = 64 * 1024
"""Bytes of a form of these pages."""

SERVED = 5.0
"""Seconds that a new mount may take until the catalogue has it."""

SHOWN = ("title", "description", "instructions", "tools", "resources", "templates", "prompts", "problems", "counts")
"""What a page says of an inspected server as it says it of its own."""


def offered(server: Server, settings: Settings) -> dict[str, Any]:
    """Everything an inspected server offers, as a JSON object."""
    assert server.upstream is not None
    last, found = server.upstream.last(), detail(server, settings)
    info = dict(last.info) if last else {}
    said = {
        "name": _text(info.get("name")),
        "version": _text(info.get("version")),
        "info": info,
        "revision": last.revision if last else "",
        "capabilities": dict(server.offers),
    }
    shown = said | {key: found[key] for key in SHOWN}
    return shown | {"title": server.title or said["name"] or "A server without a name"}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _profiles() -> Profiles:
    return Profiles(find_homes(Path.cwd(), whole_environment()))


def profile_place(name: str) -> str | None:
    """The folder of a profile, None when there is none of this name."""
    found = _profiles().find_directories().get(name)
    return str(found) if found else None


def keep_profile(name: str, server: Server, wanted: InspectionTarget, replace: bool, blobs: Blobs) -> Path:
    """Write the profile `name` of an inspected server into the user's directory, with its tools and its contract.

    Raises ProfileError, AddressError, and ConfigError for a name that is taken unless it is to be replaced.
    """
    check_name(name)
    profiles = _profiles()
    if name in profiles.find_directories() and not replace:
        raise ConfigError(f"@{name}", "", "expected a name that no profile has yet, or that it is to be replaced")
    target = parse_address(wanted.address).target
    if not isinstance(target, NamedServer):
        launch = to_profile_fields(target)
    elif target.kind == "preset":
        launch = to_profile_fields(find_preset(target.name, *profiles.load_presets()))
    else:
        launch = dict(profiles.load(target.name).launch)
    made = parse_profile(name, {"plugin": "mcp", "server": name, **launch}, {}, "the address")
    tools = [dict(each.wire) for each in server.tools.values()]
    store_snapshot(tools, blobs)
    return profiles.save(record_contract(made, tools), None)


def mount_guest(catalogue: Catalogue, name: str, wanted: InspectionTarget, replace: bool) -> str:
    """Serve the server as /mcp/NAME, as `patchbay mount` does; answers the path of its page. Raises ConfigError."""
    folder = catalogue.settings.servers
    if not replace and name in {one.name for one in catalogue.all()}:
        raise ConfigError("name", "", f"expected a name that no server of this hub has; there is {name}")
    with catalogue.store.bus.subscribe([NAMES_CHANGED]) as mailbox:
        write_mount(folder, name, wanted.fields, replace, "what is ticked for that")
        end = time.monotonic() + SERVED
        while (left := end - time.monotonic()) > 0 and not _settled(_served(catalogue, name, wanted)):
            mailbox.get(min(left, 0.1))
    if _served(catalogue, name, wanted) is None:
        raise ConfigError(str(folder / f"{name}.json"), "", "it was written, and this hub has not read it yet")
    return f"/mcp/meta/{quote(name, safe='')}"


def _served(catalogue: Catalogue, name: str, wanted: InspectionTarget) -> Server | None:
    """The new mount, once the hub has read its file."""
    try:
        found = catalogue.find(name)
    except UnknownServer:
        return None
    mine = found.upstream is not None and found.upstream.mount.address == wanted.address
    return found if mine else None


def _settled(found: Server | None) -> bool:
    """Whether there is something to show: its lists, or that it does not answer."""
    return found is not None and found.upstream is not None and (bool(found.offers) or found.upstream.health.tries > 0)
