"""What every way to run a tool does alike: find its name, check arguments, make the Call, check the promised result.

MCP (`calls.py`) and the native interface (`native.py`) join here, so that neither is a way around the other's checks.
Sources: REQUIREMENTS X-2, X-15, SUB-1; DESIGN section 6.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from patchbay.activation import Call
from patchbay.arguments import misfits, problems, told, validator
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.servers import Server
from patchbay.descriptors import Descriptor


def nearest(name: str, known: Mapping[str, Any]) -> str:
    """The end of a sentence that says which known names are close to this one; empty when none is."""
    close = get_close_matches(name, known, n=3, cutoff=0.4)
    return f"; did you mean {', '.join(close)}?" if close else ""


def unknown_tool(server: Server, name: str) -> str:
    """A sentence about a tool that a server does not have, or that a mounted one has not been heard to have."""
    behind = server.upstream.health if server.upstream is not None else None
    why = f"; of the server behind this mount: {behind.sentence}" if behind and behind.state != "up" else ""
    return f"there is no tool {name!r} on {server.name}{nearest(name, server.tools)}{why}"


def argument_problems(server: Server, descriptor: Descriptor, arguments: dict[str, Any]) -> list[dict[str, str]]:
    """What is wrong with arguments, as `{path, message}`; empty when they fit the tool's schema.

    A mounted server checks its arguments itself, and words what is wrong with them.
    """
    if server.upstream is not None:
        return []
    return misfits(_checker(server, "checker", descriptor, "inputSchema"), descriptor.wire["inputSchema"], arguments)


def misfit(name: str, wrong: list[dict[str, str]]) -> str:
    """What is wrong with arguments, as one sentence."""
    return f"the arguments do not fit {name}: {told(wrong)}"


def new_call(
    catalogue: Catalogue, server: Server, descriptor: Descriptor | None, arguments: dict[str, Any], **terms: Any
) -> Call:
    """The Call of one descriptor (or of none), with its deadline; `terms` are the fields that depend on the caller."""
    target = descriptor.target if descriptor is not None else {}
    deadline = time.monotonic() + float(target.get("timeout", server.timeout))
    return Call(server.name, target, arguments, deadline, hub=catalogue.hub, **terms)


def broken_promise(server: Server, descriptor: Descriptor, result: dict[str, Any]) -> str | None:
    """Why a result is not what the tool's outputSchema promises, as a sentence; None when it is, or nothing was."""
    if "outputSchema" not in descriptor.wire or server.upstream is not None:
        return None
    if "structuredContent" not in result:
        return f"{descriptor.name} has an outputSchema but gave no structured result"
    wrong = problems(_checker(server, "output", descriptor, "outputSchema"), result["structuredContent"])
    return f"the result of {descriptor.name} does not fit its outputSchema: {told(wrong)}" if wrong else None


def _checker(server: Server, kind: str, descriptor: Descriptor, schema: str) -> Any:
    key = (kind, descriptor.name)
    found = server.rendered.get(key)
    if found is None:
        found = server.rendered[key] = validator(descriptor.wire[schema])
    return found
