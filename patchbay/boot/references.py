"""Find the CIDs that an image needs: its own, and those inside the mcps configurations it names.

Configurations are read only as far as the CIDs in them. Their full check happens when a server is built and affects
that server alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from patchbay.boot.image import Image, cid_in_definition
from patchbay.cid import canonical
from patchbay.errors import BadCid, ConfigError, ParseError
from patchbay.jsonrpc import parse_file
from patchbay.store import Blobs


def missing_cids(image: Image, blobs: Blobs) -> list[str]:
    """Return every CID that an image needs, at any depth, and that the store lacks; each once, in the order of need.

    The grace time of those that are there starts again, so that none is collected before the image is imported.
    Raises ConfigError when a document that must be read on the way is invalid.
    """
    wanted = list(_own_cids(image))
    blobs.renew(wanted)
    missing = dict.fromkeys(blobs.missing(wanted))
    configurations = [row["config_cid"] for row in image.servers.values() if "config_cid" in row]
    configurations += _configurations(image, blobs, missing)
    blobs.renew(configurations)
    missing |= dict.fromkeys(blobs.missing(configurations))
    for cid in dict.fromkeys(configurations):
        if cid not in missing:
            inside = _cids_in_configuration(blobs.get(cid), cid)
            blobs.renew(inside)
            missing |= dict.fromkeys(blobs.missing(inside))
    return list(missing)


def _own_cids(image: Image) -> Iterator[str]:
    for row in image.servers.values():
        yield row["definition_cid"]
        if "config_cid" in row:
            yield row["config_cid"]
    for definition in image.variables.values():
        reference = cid_in_definition(definition)
        if reference is not None:
            yield reference
    yield from image.templates.values()


def _configurations(image: Image, blobs: Blobs, missing: dict[str, None]) -> list[str]:
    """Return the CIDs of the configurations in the variable mcps."""
    definition = image.variables.get("mcps", "")
    reference = cid_in_definition(definition)
    if reference in missing or not definition.strip():
        return []
    where = "the variable mcps" if reference is None else f"the variable mcps ({reference})"
    found = []
    for name, entry in _parse_object(definition.encode() if reference is None else blobs.get(reference), where).items():
        if not isinstance(entry, dict) or "config_cid" not in entry:
            raise ConfigError(where, name, 'expected an object with "config_cid"')
        found.append(_canonical_cid(entry["config_cid"], where, f"{name}.config_cid"))
    return found


def _cids_in_configuration(data: bytes, where: str) -> list[str]:
    """Return the CIDs inside one configuration: transforms, resources with `cid`, and files of skills with `cid`."""
    config = _parse_object(data, where)
    found = [_canonical_cid(value, where, key) for key, value in config.items() if key.endswith("_transform_cid")]
    resources = config.get("resources", {})
    if isinstance(resources, dict):
        for name, resource in resources.items():
            if isinstance(resource, dict) and "cid" in resource:
                found.append(_canonical_cid(resource["cid"], where, f"resources.{name}.cid"))
    return found + [_canonical_cid(file["cid"], where, f"{place}.cid") for place, file in skill_files(config)]


def skill_files(config: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the files of the skills in a configuration whose content is a CID, each with its place."""
    skills = config.get("skills", {})
    for name, skill in skills.items() if isinstance(skills, dict) else ():
        for path, file in skill.items() if isinstance(skill, dict) else ():
            if isinstance(file, dict) and "cid" in file:
                yield f"skills.{name}.{path}", file


def _parse_object(data: bytes, where: str) -> dict[str, Any]:
    try:
        value = parse_file(data)
    except ParseError as problem:
        raise ConfigError(where, "", f"expected a JSON object; {problem.message}") from problem
    if not isinstance(value, dict):
        raise ConfigError(where, "", "expected a JSON object")
    return value


def _canonical_cid(value: Any, where: str, path: str) -> str:
    try:
        return canonical(value if isinstance(value, str) else "")
    except BadCid as problem:
        raise ConfigError(where, path, f"expected a CID; {problem.message}") from problem
