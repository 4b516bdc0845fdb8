"""Find the CIDs that an image needs: its own, and those inside the mcps configurations it names.

Configurations are read only as far as the CIDs in them. Their full check happens when a server is built and affects
that server alone: one that cannot be read, or is missing, stops no import, and the hub starts with a problem on the
page of the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from patchbay.boot.image import Image, cid_in_definition
from patchbay.cid import canonical, is_cid
from patchbay.jsonrpc import parse_object
from patchbay.kind import find_kind
from patchbay.python_functions.script_texts import CID_PREFIX, scripts_of
from patchbay.store import Blobs
from patchbay.topics import MCPS, VARIABLES

MCPS_VARIABLE = MCPS.removeprefix(VARIABLES)


def missing_cids(image: Image, blobs: Blobs) -> list[str]:
    """Return every CID that an image needs, at any depth, and that the store lacks; each once, in the order of need.

    The grace time of those that are there starts again, so that none is collected before the image is imported.
    """
    return list(dict.fromkeys([*missing_contents(image, blobs), *missing_configurations(image, blobs)]))


def missing_contents(image: Image, blobs: Blobs) -> list[str]:
    """Return the missing definitions, templates and values of variables, without which an image is not imported."""
    wanted = list(_own_cids(image))
    blobs.renew(wanted)
    return list(dict.fromkeys(blobs.missing(wanted)))


def missing_configurations(image: Image, blobs: Blobs) -> list[str]:
    """Return the missing configurations of servers, the missing CIDs in them, and a missing value of `mcps`.

    Each of them breaks the servers that it configures, and no other one.
    """
    missing: dict[str, None] = {}
    reference = cid_in_definition(image.variables.get(MCPS_VARIABLE, ""))
    if reference is not None:
        blobs.renew([reference])
        missing |= dict.fromkeys(blobs.missing([reference]))
    configurations = [row["config_cid"] for row in image.servers.values() if "config_cid" in row]
    configurations += _configurations(image, blobs, missing)
    blobs.renew(configurations)
    missing |= dict.fromkeys(blobs.missing(configurations))
    definitions = [row["definition_cid"] for row in image.servers.values() if _is_configuration(row)]
    lacking = set(blobs.missing(definitions))
    for cid in dict.fromkeys([*configurations, *definitions]):
        if cid not in missing and cid not in lacking:
            inside = _cids_in_configuration(blobs.get(cid))
            blobs.renew(inside)
            missing |= dict.fromkeys(blobs.missing(inside))
    return list(missing)


def _is_configuration(row: Mapping[str, Any]) -> bool:
    kind = find_kind(row.get("kind"))
    return kind is not None and kind.is_configuration


def _own_cids(image: Image) -> Iterator[str]:
    for row in image.servers.values():
        yield row["definition_cid"]
    for name, definition in image.variables.items():
        reference = cid_in_definition(definition)
        if reference is not None and name != MCPS_VARIABLE:
            yield reference
    yield from image.templates.values()


def _configurations(image: Image, blobs: Blobs, missing: dict[str, None]) -> list[str]:
    """Return the CIDs of the configurations in the variable mcps."""
    definition = image.variables.get(MCPS_VARIABLE, "")
    reference = cid_in_definition(definition)
    if reference in missing or not definition.strip():
        return []
    entries = parse_object(definition.encode() if reference is None else blobs.get(reference)) or {}
    return _canonical_cids(entry.get("config_cid") for entry in entries.values() if isinstance(entry, dict))


def _cids_in_configuration(data: bytes) -> list[str]:
    """Return the CIDs inside one configuration: transforms, scripts, resources and files of skills with `cid`."""
    config = parse_object(data) or {}
    found = [value for key, value in config.items() if key.endswith("_transform_cid")]
    resources = config.get("resources", {})
    if isinstance(resources, dict):
        found += [resource.get("cid") for resource in resources.values() if isinstance(resource, dict)]
    found += [one.removeprefix(CID_PREFIX) for one in scripts_of(config).values() if one.startswith(CID_PREFIX)]
    return _canonical_cids([*found, *(file["cid"] for _, file in skill_files(config))])


def skill_files(config: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the files of the skills in a configuration whose content is a CID, each with its place."""
    skills = config.get("skills", {})
    for name, skill in skills.items() if isinstance(skills, dict) else ():
        for path, file in skill.items() if isinstance(skill, dict) else ():
            if isinstance(file, dict) and "cid" in file:
                yield f"skills.{name}.{path}", file


def _canonical_cids(values: Iterable[Any]) -> list[str]:
    """Return the values that are CIDs, in canonical form."""
    return [canonical(value) for value in values if isinstance(value, str) and is_cid(value)]
