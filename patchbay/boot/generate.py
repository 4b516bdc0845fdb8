"""Generate the boot images from their sources in reference_templates/; `--check` reports whether they are up to date.

A CID covers finished bytes, so generation starts at the leaves: each transform gets its CID, then the configuration
that names it, then `mcps.json`, then each boot image. The same sources give the same bytes on every machine: line feeds
only, sorted keys, no spaces.

    mcps.source.json            server name -> file of its configuration
    templates.source.json       set of templates -> file that lists them
    <name>.boot.source.json     a boot image with files in place of CIDs

Output: mcps.json, <name>.boot.json, <name>.boot.cid, cids/<cid> for every blob they need, and sources.json, which holds
the CID of each source so that `--check` can name the source that changed.

Exit status: 0 written or up to date; 1 `--check` found a difference; 2 a source is missing or invalid.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchbay.assets import REFERENCE_TEMPLATES as FOLDER
from patchbay.boot import canonical_json, missing_cids, parse_image, skill_files
from patchbay.cid import cid_of, is_cid
from patchbay.errors import ConfigError, ParseError, PatchbayError
from patchbay.jsonrpc import parse
from patchbay.kind import DEFAULT_KIND, kind_of_file
from patchbay.python_functions.script_texts import CID_PREFIX, is_script_path, scripts_of, with_scripts
from patchbay.stores.memory import MemoryStore

PREFIX = "reference_templates/"
"""Prefix of every path in a source; it stands for the folder, wherever the folder is."""

MCPS = "GENERATED:mcps.json"
"""Marker in a boot source: a variable with this definition gets the CID of mcps.json."""

GENERATED = ("mcps.json", "sources.json", "*.boot.json", "*.boot.cid", "cids/*")


class BootImageGenerator:
    """Generates the files of one folder; collects every blob and the CID of every source on the way."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        self.blobs: dict[str, bytes] = {}
        self.sources: dict[str, str] = {}

    def generate(self) -> dict[str, bytes]:
        """Return every generated file, by its path inside the folder. Raises ConfigError that names a source."""
        mcps_cid = self.generate_mcps_json()
        files = {"mcps.json": self.blobs[mcps_cid]}
        sources = sorted(self.folder.glob("*.boot.source.json"))
        if not sources:
            raise ConfigError(str(self.folder), "", "expected at least one <name>.boot.source.json")
        for source in sources:
            name = source.name.removesuffix(".boot.source.json")
            image = self.generate_boot_json(name, mcps_cid)
            files |= {f"{name}.boot.json": image, f"{name}.boot.cid": f"{cid_of(image)}\n".encode()}
        files |= {f"cids/{cid}": data for cid, data in self.blobs.items()}
        return files | {"sources.json": canonical_json({"sources": self.sources})}

    def generate_mcps_json(self) -> str:
        """Return the CID of mcps.json, which maps each server to the CID of its configuration."""
        where = f"{PREFIX}mcps.source.json"
        mcps = {}
        for name, entry in self._read_object(where).items():
            if not isinstance(entry, dict):
                raise ConfigError(where, name, 'expected an object with "config_cid"')
            path = self._path(entry, "config_cid", where, name)
            mcps[name] = {**entry, "config_cid": path if is_cid(path) else self._configuration(path)}
        return self._add_blob(canonical_json(mcps))

    def generate_boot_json(self, name: str, mcps_cid: str | None = None) -> bytes:
        """Return the boot image `name` as canonical JSON; `mcps_cid` replaces the marker GENERATED:mcps.json."""
        where = f"{PREFIX}{name}.boot.source.json"
        source = self._read_object(where)
        document = {
            **source,
            "servers": [self._server(row, where, f"servers.{n}") for n, row in self._rows(source, "servers", where)],
            "variables": [self._variable(row, where, mcps_cid) for _, row in self._rows(source, "variables", where)],
            "templates": self._templates(source.get("templates", []), where),
        }
        image = parse_image(canonical_json(document), where)
        store = MemoryStore()
        for blob in self.blobs.values():
            store.blobs.put(blob)
        missing = missing_cids(image, store.blobs)
        if missing:
            raise ConfigError(
                where, "", f"expected only CIDs that a source makes; no source makes {', '.join(missing)}"
            )
        return image.data

    def _configuration(self, path: str) -> str:
        """Return the CID of a configuration, after replacing each file in it by its CID."""
        config = self._read_object(path)
        for key in config:
            if key.endswith("_transform_cid"):
                config[key] = self._reference(config, key, path, "")
        resources = config.get("resources", {})
        for name, resource in resources.items() if isinstance(resources, dict) else ():
            if isinstance(resource, dict) and "cid" in resource:
                resource["cid"] = self._reference(resource, "cid", path, f"resources.{name}")
        for place, file in skill_files(config):
            file["cid"] = self._reference(file, "cid", path, place)
        return self._add_blob(canonical_json(config))

    def _server(self, row: dict[str, Any], where: str, place: str) -> dict[str, Any]:
        path = self._path(row, "definition_cid", where, place)
        kind = kind_of_file(path)
        made = {"kind": kind.name if kind is not None else DEFAULT_KIND, **row}
        made["definition_cid"] = self._definition(row, where, place)
        if "config_cid" in row:
            config = self._path(row, "config_cid", where, place)
            made["config_cid"] = config if is_cid(config) else self._configuration(config)
        return made

    def _definition(self, row: dict[str, Any], where: str, place: str) -> str:
        """Return the CID of a definition, after replacing the path of each script of a toolset by its CID."""
        path = self._path(row, "definition_cid", where, place)
        scripts = scripts_of(self._read_object(path)) if path.endswith(".json") else {}
        named = {name: script for name, script in scripts.items() if is_script_path(script)}
        if not named:
            return self._reference(row, "definition_cid", where, place)
        cids = {name: f"{CID_PREFIX}{self._reference(named, name, path, 'tools')}" for name in named}
        return self._add_blob(canonical_json(with_scripts(self._read_object(path), cids)))

    def _variable(self, row: dict[str, Any], where: str, mcps_cid: str | None) -> dict[str, Any]:
        if row.get("definition") != MCPS:
            return row
        if mcps_cid is None:
            raise ConfigError(where, "variables", f"expected the CID of mcps.json in place of {MCPS}")
        return {**row, "definition": mcps_cid}

    def _templates(self, sets: Any, where: str) -> list[dict[str, str]]:
        """Return the rows of the templates in the named sets of templates.source.json."""
        listed = f"{PREFIX}templates.source.json"
        known = self._read_object(listed) if sets else {}
        rows = []
        for name in sets if isinstance(sets, list) else [sets]:
            if not isinstance(name, str) or not isinstance(known.get(name), dict):
                raise ConfigError(where, "templates", f"expected names of {listed} ({', '.join(known)}); got {name!r}")
            path = self._path(known[name], "templates_cid", listed, name)
            templates = self._read_object(path).get("templates")
            if not isinstance(templates, dict):
                raise ConfigError(path, "templates", "expected an object: template name -> file")
            rows += [{"name": key, "cid": self._reference(templates, key, path, "templates")} for key in templates]
        return rows

    def _rows(self, source: dict[str, Any], part: str, where: str) -> list[tuple[int, dict[str, Any]]]:
        rows = source.get(part)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ConfigError(where, part, "expected an array of objects")
        return list(enumerate(rows))

    def _path(self, row: dict[str, Any], key: str, where: str, place: str) -> str:
        value = row.get(key)
        if not isinstance(value, str) or not (value.startswith(PREFIX) or is_cid(value)):
            inside = f"{place}.{key}" if place else key
            raise ConfigError(where, inside, f"expected a path that begins with {PREFIX}, or a CID; got {value!r}")
        return value

    def _reference(self, row: dict[str, Any], key: str, where: str, place: str) -> str:
        value = self._path(row, key, where, place)
        if is_cid(value):
            return value
        try:
            return self._add_blob(self._read(value))
        except FileNotFoundError as problem:
            inside = f"{place}.{key}" if place else key
            raise ConfigError(where, inside, f"expected a file that exists; there is no {value}") from problem

    def _read_object(self, path: str) -> dict[str, Any]:
        try:
            value = parse(self._read(path))
        except FileNotFoundError as problem:
            raise ConfigError(path, "", "expected a file that exists") from problem
        except ParseError as problem:
            raise ConfigError(path, "", f"expected a JSON object; {problem.message}") from problem
        if not isinstance(value, dict):
            raise ConfigError(path, "", "expected a JSON object")
        return value

    def _read(self, path: str) -> bytes:
        """Return the bytes of a source; in text, CR LF becomes LF."""
        file = (self.folder / path.removeprefix(PREFIX)).resolve()
        if not file.is_relative_to(self.folder.resolve()):
            raise ConfigError(path, "", "expected a file inside the folder of the sources")
        data = file.read_bytes()
        if b"\0" not in data:
            data = data.replace(b"\r\n", b"\n")
        self.sources[path] = cid_of(data)
        return data

    def _add_blob(self, data: bytes) -> str:
        cid = cid_of(data)
        self.blobs[cid] = data
        return cid


def generated_files(folder: Path) -> dict[str, bytes]:
    """Return every generated file that exists in a folder, by its path inside it."""
    found = (path for pattern in GENERATED for path in folder.glob(pattern))
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(found)
        if path.is_file() and not path.name.startswith(".")
    }


def differences(wanted: dict[str, bytes], there: dict[str, bytes]) -> list[str]:
    """Return the differences as lines: the changed sources, then the stale, missing and superfluous files."""
    lines = [f"changed source: {path}" for path in changed_sources(wanted, there)]
    lines += [f"stale: {PREFIX}{path}" for path in sorted(wanted) if there.get(path, wanted[path]) != wanted[path]]
    lines += [f"missing: {PREFIX}{path}" for path in sorted(wanted.keys() - there.keys())]
    return lines + [f"no longer needed: {PREFIX}{path}" for path in sorted(there.keys() - wanted.keys())]


def changed_sources(wanted: dict[str, bytes], there: dict[str, bytes]) -> list[str]:
    """Return the sources that changed, appeared or disappeared since the files were generated."""
    try:
        before = parse(there.get("sources.json", b"{}")).get("sources", {})
        now = parse(wanted["sources.json"])["sources"]
        return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))
    except (ParseError, AttributeError, TypeError):
        return [f"{PREFIX}sources.json cannot be read, so the sources that changed are not known"]


def write_files(folder: Path, wanted: dict[str, bytes], there: dict[str, bytes]) -> None:
    """Update a folder; blobs are written before the files that name them. Unchanged files are not touched."""
    (folder / "cids").mkdir(exist_ok=True)
    for path in sorted(wanted, key=lambda path: (not path.startswith("cids/"), path)):
        if there.get(path) != wanted[path]:
            (folder / path).write_bytes(wanted[path])
    for path in there.keys() - wanted.keys():
        (folder / path).unlink()


def write_lines(*lines: str) -> None:
    """Write lines to the standard output."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="generate_boot_image.py", description="Make the boot images from their sources."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when something is out of date")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the sources (default: %(default)s)")
    given = parser.parse_args(arguments)
    try:
        wanted = BootImageGenerator(given.folder).generate()
        there = generated_files(given.folder)
        lines = differences(wanted, there)
        if not given.check:
            write_files(given.folder, wanted, there)
    except (PatchbayError, OSError) as problem:
        sys.stderr.write(f"generate_boot_image.py: {problem}\n")
        return 2
    if given.check and lines:
        write_lines("out of date; run python generate_boot_image.py", *lines)
        return 1
    roots = [f"{path.removesuffix('.boot.cid')}: {wanted[path].decode().strip()}" for path in wanted if ".cid" in path]
    write_lines("wrote the changed files:" if lines else "up to date", *lines, *roots)
    return 0


if __name__ == "__main__":
    sys.exit(main())
