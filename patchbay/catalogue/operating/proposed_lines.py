"""The lines of a mount that its program needs, by what its command line and its variables name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from patchbay.client.addresses.targets import Stdio, Target
from patchbay.errors import PatchbayError
from patchbay.kinds.program_proposals import Proposal, propose
from patchbay.processes.confinement.programs import OFF, find_mode
from patchbay.settings import Settings, hub_places, whole_environment
from patchbay.upstreams.configuration import PERMISSION_FIELDS, Mount, mount_of

WHERE = "the definition"


def propose_lines(
    fields: Mapping[str, Any], settings: Settings, folder: Path, variables: Collection[str] | None = None
) -> Proposal:
    """Return what the program of a definition needs; nothing for a URL or an API, and for one that is not confined.

    `folder` is where relative paths begin. What the definition opens already is not proposed again. With `variables`,
    only these variables count: the rest of the definition is not the user's, but that of a registry. Raises ConfigError
    for a definition that no mount can have.
    """
    if fields.get("kind") != "upstream":
        return Proposal({})
    mount = mount_of("", fields, WHERE)
    target = _find_target(mount)
    if not isinstance(target, Stdio) or find_mode(mount.permissions, settings.confine) == OFF:
        return Proposal({})
    target = replace(target, env={**target.env, **fields.get("environment", {})})
    given = {name: fields[name] for name in PERMISSION_FIELDS if name in fields}
    return propose(target, whole_environment(), hub_places(settings), folder, variables, given)


def describe_proposal(proposal: Proposal, title: str) -> Iterator[str]:
    """Yield what is proposed, what is not, and why, one line each; `title` is above what is named."""
    if proposal.fields or proposal.optional or proposal.refused:
        yield title
    for name, value in proposal.fields.items():
        yield f"  {format_line(name, value)}"
    yield from (f"    {reason}" for reason in proposal.reasons)
    for lines, why in proposal.optional:
        [(name, value)] = lines.items()
        yield f"  without {format_line(name, value)}: {why}. Add the line if the program is to change it"
    yield from (f"  {sentence}" for sentence in proposal.refused)
    if proposal.hint:
        yield proposal.hint


def describe_line(name: str, value: str) -> str:
    """Return what a line allows, in words."""
    words = {"writes": f"It may change {value}", "reads": f"It may read {value}", "needs": f"It may start a {value}"}
    return words[name]


def format_line(name: str, value: Any) -> str:
    """Return a line of a definition: `"writes": ["~/notes"]`."""
    return f'"{name}": {orjson.dumps(value).decode()}'


def _find_target(mount: Mount) -> Target | None:
    """Return how a mount reaches its server; None while a variable or a profile is missing."""
    if mount.direct_reach is not None:
        return mount.direct_reach
    with suppress(PatchbayError):
        return mount.reach(whole_environment())
    return None
