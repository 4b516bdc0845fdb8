"""Packages of Python, Node and Go with a list of hosts: a listed host is reached, another one refused, both recorded.

The lists name the registries, so that launchers get the packages through the proxy too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import mcp

from tests.acceptance.confined import confining_hub, describe_problem, wait_until_served
from tests.acceptance.together import START_SECONDS
from tests.interaction.programs import Hub
from tests.ordinary_user import give_to_ordinary_user

PYPI, FILES, NPM = "pypi.org", "files.pythonhosted.org", "registry.npmjs.org"
RECORD_SECONDS = 30.0
"""Time until what a program asked for is in the store of the hub."""

_NEVER = threading.Event()


@dataclass(frozen=True)
class Reaching:
    """A package that asks a host: one of its list (`reached`), then `refused`. `says` is in the first answer."""

    name: str
    address: str
    listed: tuple[str, ...]
    tool: str
    reached: str
    refused: str
    arguments: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    """In both, `{host}` is the host that is asked."""

    says: str = ""


REACHING = [
    Reaching(
        "mcp-server-fetch-in-Python",
        "mcp+uvx://mcp-server-fetch?launch.arg=--ignore-robots-txt",
        (PYPI, FILES),
        "fetch",
        PYPI,
        NPM,
        {"url": "https://{host}/pypi/six/json"},
        says="Benjamin Peterson",
    ),
    Reaching(
        "mcp-fetch-server-in-Node",
        "mcp+npx://mcp-fetch-server",
        (NPM,),
        "fetch_json",
        NPM,
        PYPI,
        {"url": "https://{host}/left-pad/latest"},
        says="String left pad",
    ),
    Reaching(
        "mcp-grafana-in-Go",
        "mcp+uvx://mcp-grafana",
        (PYPI, FILES),
        "list_datasources",
        PYPI,
        NPM,
        environment={"GRAFANA_URL": "https://{host}"},
        says="status 404",
    ),
]
"""`mcp-grafana` asks its Grafana: PyPI is none, and its answer 404 shows that it was reached."""


def allow_hosts(hosts: Sequence[str]) -> list[str]:
    """Return a list of hosts; with their addresses where this machine reaches them at private ones."""
    found = {f"{host}:443" for host in hosts}
    addresses = {one[4][0] for host in hosts for one in socket.getaddrinfo(host, 443, socket.AF_INET)}
    found |= {f"{one}:443" for one in addresses if not ip_address(one).is_global}
    return sorted(found)


def run_with_hosts(folder: Path, names: Sequence[str], as_user: bool) -> bool:
    """Use the packages by a hub, print the table; return whether all went well."""
    logging.disable()
    node = subprocess.run([shutil.which("node") or "node", "--version"], capture_output=True, text=True, check=True)
    sys.stdout.write(f"Node {node.stdout.strip()} (from version 24 on it uses a proxy that variables name)\n")
    is_well = True
    if as_user:
        give_to_ordinary_user(folder)
    with confining_hub(folder, as_user) as hub:
        for one in (one for one in REACHING if not names or one.name in names):
            try:
                problem = try_reaching(hub, one)
            except Exception as error:
                problem = describe_problem(error)[:300]
            is_well = is_well and not problem
            sys.stdout.write(
                f"{one.name:<26} | {problem or f'{one.reached} reached, {one.refused} refused, recorded'}\n"
            )
            sys.stdout.flush()
    return is_well


def try_reaching(hub: Hub, one: Reaching) -> str:
    """Ask both hosts by one package; return what is wrong, empty if nothing."""
    for host, is_listed in ((one.reached, True), (one.refused, False)):
        name = f"{one.name}-{'reaches' if is_listed else 'is-refused'}"
        environment = {key: text.replace("{host}", host) for key, text in one.environment.items()}
        fields: dict[str, Any] = {"kind": "upstream", "address": one.address, "network": allow_hosts(one.listed)}
        fields |= {"environment": environment} if environment else {}
        file = hub.servers / f"{name}.json"
        file.with_suffix(".new").write_text(json.dumps(fields))
        file.with_suffix(".new").rename(file)
        problem = wait_until_served(hub, name, fields)
        if problem:
            return f"it is not served: {problem}"
        given = {key: text.replace("{host}", host) for key, text in one.arguments.items()}
        said = asyncio.run(asyncio.wait_for(_call(hub, name, one.tool, given), START_SECONDS))
        wanted = one.says if is_listed else f"may not reach {host}:443"
        if wanted not in said:
            return f"expected {wanted!r} of {host}, got {said[:300]!r}"
        if not _is_recorded(hub, name, host, "reached" if is_listed else "refused"):
            return f"the hub has no record of {host}"
    return ""


async def _call(hub: Hub, name: str, tool: str, arguments: dict[str, str]) -> str:
    async with mcp.Client(hub.endpoint(name), mode="legacy", read_timeout_seconds=START_SECONDS) as client:
        result = await client.call_tool(tool, arguments)
    return "\n".join(getattr(part, "text", "") for part in result.content)


def _is_recorded(hub: Hub, name: str, host: str, how: str) -> bool:
    """Wait until the page of settings says that a host was reached, or refused; return whether it does."""
    end = time.monotonic() + RECORD_SECONDS
    while time.monotonic() < end:
        request = Request(f"{hub.url}/servers/{name}/settings", headers={"Accept": "application/json"})
        with urlopen(request, timeout=60) as page:
            found = json.load(page)["hosts"]
        if any(one["host"] == host and one[how] > 0 for one in found):
            return not any(one["host"] == host and one["reached" if how == "refused" else "refused"] for one in found)
        _NEVER.wait(0.3)
    return False
