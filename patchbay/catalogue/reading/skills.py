"""Skills: folders of instructions that a server serves as resources (SEP-2640).

A configuration lists a skill's files; each is a resource `skill://<name>/<path>`. `SKILL.md` is listed, the others are
found through the skill. An invalid skill is a Problem and does not affect the others.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from mimetypes import MimeTypes
from typing import Any
from urllib.parse import quote

from patchbay.cid import canonical
from patchbay.descriptors import Descriptor, Problem
from patchbay.errors import ConfigError, ContentError
from patchbay.store import Blobs

SKILL_FILE = "SKILL.md"
"""The required file at the root of every skill."""

DIRECTORY_TYPE = "inode/directory"

MAX_SKILL_BYTES = 16 * 1024 * 1024
"""Maximum bytes of all files of one skill."""

_SAFE = "/-._~!$&'()*+,;=:@"
"""Characters of a URI path that need no percent-encoding."""

_TYPES = MimeTypes()
_TYPES.add_type("text/markdown", ".md")
"""Only Python's own table: tables of the machine would make lists differ between machines."""


@dataclass(frozen=True)
class SkillFile:
    """One file: its resource, the SHA-256 and the number of its bytes."""

    resource: Descriptor
    digest: str
    size: int


@dataclass(frozen=True)
class Skill:
    """One skill: the YAML of its SKILL.md as JSON, its files by URI, SKILL.md first."""

    name: str
    frontmatter: Mapping[str, Any]
    files: Mapping[str, SkillFile]

    @property
    def uri(self) -> str:
        """The URI of its SKILL.md."""
        return f"skill://{self.name}/{SKILL_FILE}"

    def entry(self) -> dict[str, Any]:
        """Return the skill as an entry of `skills/list`."""
        files = [{"uri": uri, "digest": one.digest, "size": one.size} for uri, one in self.files.items()]
        return {"uri": self.uri, "frontmatter": dict(self.frontmatter), "resources": files}

    def children(self, directory: str) -> dict[str, dict[str, Any]]:
        """Return the direct entries of a directory, as Resource objects by URI; empty for an unknown directory."""
        found: dict[str, dict[str, Any]] = {}
        inside = directory + "/"
        within = inside.startswith(f"skill://{self.name}/")
        for uri, one in self.files.items():
            if within and uri.startswith(inside):
                step, _, deeper = uri.removeprefix(inside).partition("/")
                name = inside + step
                found[name] = (
                    {"uri": name, "name": step, "mimeType": DIRECTORY_TYPE} if deeper else dict(one.resource.wire)
                )
        return found


def load_skills(config: Mapping[str, Any], where: str, blobs: Blobs) -> tuple[dict[str, Skill], list[Problem]]:
    """Return the skills of a configuration by name, and the problems of invalid ones."""
    found: dict[str, Skill] = {}
    problems: list[Problem] = []
    for name, files in config.get("skills", {}).items():
        try:
            found[name] = _skill(name, files, where, blobs)
        except ContentError as problem:
            problems.append(Problem(f"skills.{name}", problem.message))
    return found, problems


def _skill(name: str, files: Mapping[str, Mapping[str, Any]], where: str, blobs: Blobs) -> Skill:
    place = f"skills.{name}"
    contents = {path: _bytes(entry, where, f"{place}.{path}", blobs) for path, entry in files.items()}
    size = sum(map(len, contents.values()))
    if size > MAX_SKILL_BYTES:
        raise ConfigError(where, place, f"expected at most {MAX_SKILL_BYTES} bytes in all; there are {size}")
    for path in contents:
        above = next((inner for inner in _parents(path) if inner in contents), None)
        if above is not None:
            raise ConfigError(where, f"{place}.{path}", f"expected {above} to be a file or a directory, not both")
    head = _parse_head(name, contents[SKILL_FILE], where, f"{place}.{SKILL_FILE}")
    described = {"name": name, "description": head["description"], "mimeType": "text/markdown"}
    made = {}
    for path in sorted(contents, key=lambda path: (path != SKILL_FILE, path)):
        uri = f"skill://{name}/{quote(path, safe=_SAFE)}"
        shown = (
            described if path == SKILL_FILE else {"name": path.rpartition("/")[2]} | _media_type(path, contents[path])
        )
        target = {kind: files[path][kind] for kind in ("text", "blob", "cid") if kind in files[path]}
        wire = {"uri": uri, **shown, "size": len(contents[path])}
        digest = f"sha256:{sha256(contents[path]).hexdigest()}"
        made[uri] = SkillFile(Descriptor("resource", uri, wire, target), digest, len(contents[path]))
    return Skill(name, head, made)


def _parse_head(name: str, data: bytes, where: str, place: str) -> dict[str, Any]:
    """Return the YAML of a SKILL.md, after checking its required name and description."""
    from patchbay.yaml_core.strict import parse_front_matter

    try:
        found = parse_front_matter(data.decode("utf-8"))
    except ValueError as problem:  # also raised for bytes that are not UTF-8
        raise ConfigError(where, place, str(problem)) from problem
    if found.get("name") != name:
        raise ConfigError(where, place, f"expected the name {name} in its YAML; there is {found.get('name')!r}")
    if not isinstance(found.get("description"), str) or not found["description"].strip():
        raise ConfigError(where, place, "expected a description in its YAML")
    return found


def _bytes(entry: Mapping[str, Any], where: str, place: str, blobs: Blobs) -> bytes:
    if "text" in entry:
        return str(entry["text"]).encode()
    if "cid" in entry:
        return blobs.get(canonical(entry["cid"]))
    try:
        return base64.b64decode(entry["blob"], validate=True)
    except (binascii.Error, ValueError) as problem:
        raise ConfigError(where, f"{place}.blob", f"expected base64; {problem}") from problem


def _parents(path: str) -> Iterator[str]:
    """Yield the parent directories of a path."""
    parts = path.split("/")[:-1]
    yield from ("/".join(parts[: n + 1]) for n in range(len(parts)))


def _media_type(path: str, data: bytes) -> dict[str, str]:
    """Return the media type of a file, by its ending, else by whether it is text."""
    known = _TYPES.guess_type(path)[0]
    return {"mimeType": known or ("text/plain" if _is_text(data) else "application/octet-stream")}


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
