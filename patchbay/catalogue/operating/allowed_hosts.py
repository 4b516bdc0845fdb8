"""Lets the program of a mounted server reach one more host: `network` of its configuration, in its file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchbay.catalogue.operating.switching import find_row
from patchbay.catalogue.watching.mount_files import write_mount
from patchbay.errors import ConfigError, InvalidParams
from patchbay.processes.egress.egress_list import EgressEntryError, parse_egress_list
from patchbay.store import Store


def allow_host(store: Store, servers: Path, name: str, origin: str, config: Mapping[str, Any], entry: str) -> None:
    """Add an entry such as `api.example.com:443` to the list `network` of a mounted program.

    `servers` is the watched folder; `origin` and `config` are those of the server as it is built. Raises ReadOnly,
    UnknownServer, InvalidParams for what is not an entry, and ConfigError for a server without such a list and for one
    whose configuration is elsewhere.
    """
    try:
        parse_egress_list([entry])
    except EgressEntryError as problem:
        raise InvalidParams(problem.message) from problem
    _, row = find_row(store, name, origin, f'add {json.dumps(entry)} to its field "network" there')
    network = config.get("network", True)
    if not row.is_configuration or isinstance(network, bool):
        raise ConfigError(origin, "network", f"expected a list of hosts in the configuration of {name}")
    if entry not in network:
        fields = json.loads(store.blobs.get(row.definition_cid))
        write_mount(servers, name, {**fields, "network": [*network, entry]}, replace=True)
