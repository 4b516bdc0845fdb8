"""The boot image as a value: parse it from bytes and write it as canonical JSON.

Canonical JSON has sorted keys, no spaces, UTF-8 and one line feed at the end; rows are sorted by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import orjson

from patchbay.cid import canonical, cid_of, is_cid
from patchbay.descriptors import NAME
from patchbay.errors import BadCid, ConfigError, ParseError
from patchbay.jsonrpc import parse_file
from patchbay.kind import definition_kinds
from patchbay.topics import PAGE_TEMPLATES, SERVERS, VARIABLES

if TYPE_CHECKING:
    import jsonschema

Row = Mapping[str, Any]

_SCHEMA_DOCUMENT = json.loads((Path(__file__).parent / "image.schema.json").read_text(encoding="utf-8"))
_FAST_SCHEMA = jsonschema_rs.Draft202012Validator(_SCHEMA_DOCUMENT)
"""Decides whether a document is valid. `jsonschema`, some hundred times slower, finds the words for a fault."""

_NAME = re.compile(NAME)


_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE


def canonical_json(value: Any) -> bytes:
    """Write a JSON value in the one form whose CID is stable."""
    return orjson.dumps(value, option=_CANONICAL)


@dataclass(frozen=True)
class Image:
    """A boot image. `servers` maps a name to its row without the name, `variables` and `disabled` map a name to its
    definition, `templates` maps a name to a CID. A disabled variable is stored and has no effect.
    """

    servers: Mapping[str, Row] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    disabled: Mapping[str, str] = field(default_factory=dict)
    templates: Mapping[str, str] = field(default_factory=dict)
    readonly: bool = False

    @cached_property
    def data(self) -> bytes:
        """The image as canonical JSON."""
        variables = {name: (text, True) for name, text in self.variables.items()}
        variables |= {name: (text, False) for name, text in self.disabled.items()}
        document = {
            "version": 1,
            "readonly": self.readonly,
            "servers": [{"name": name, **self.servers[name]} for name in sorted(self.servers)],
            "variables": [
                {"name": name, "definition": variables[name][0], "enabled": variables[name][1]}
                for name in sorted(variables)
            ],
            "templates": [{"name": name, "cid": self.templates[name]} for name in sorted(self.templates)],
        }
        return canonical_json(document)

    @cached_property
    def cid(self) -> str:
        """The root: the CID of `data`."""
        return cid_of(self.data)

    def blobs(self) -> dict[str, bytes]:
        """Return the bytes of each server row and variable, by their full name in the store."""
        rows = {f"{SERVERS}{name}": orjson.dumps(row, option=_CANONICAL) for name, row in self.servers.items()}
        return rows | {f"{VARIABLES}{name}": text.encode() for name, text in self.variables.items()}

    def names(self) -> set[str]:
        """Return every name that this image puts into the store."""
        return {*self.blobs(), *(f"{PAGE_TEMPLATES}{name}" for name in self.templates)}


def parse_image(data: bytes, where: str) -> Image:
    """Parse an image. Raises ConfigError with `where`, the place inside and what was expected."""
    document = _parse_document(data, where)
    return Image(
        servers={
            row["name"]: _parse_server(row, place, where) for row, place in _named_rows(document, "servers", where)
        },
        variables=_variables(document, where, enabled=True),
        disabled=_variables(document, where, enabled=False),
        templates={
            row["name"]: _canonical_cid(row["cid"], f"{place}.cid", where)
            for row, place in _named_rows(document, "templates", where)
        },
        readonly=document["readonly"],
    )


def read_image(data: bytes) -> Image:
    """Read an image that the hub wrote, as `Image.data`; it is not checked again."""
    document = orjson.loads(data)
    servers, rows = document["servers"], document["variables"]
    return Image(
        servers={row.pop("name"): row for row in servers},
        variables={row["name"]: row["definition"] for row in rows if row["enabled"]},
        disabled={row["name"]: row["definition"] for row in rows if not row["enabled"]},
        templates={row["name"]: row["cid"] for row in document["templates"]},
        readonly=document["readonly"],
    )


def cid_in_definition(definition: str) -> str | None:
    """Return the CID that a variable's definition consists of, in canonical form; None when the definition is the
    value.
    """
    text = definition.strip()
    return canonical(text) if is_cid(text) else None


def is_name(name: str, part: str = "servers") -> bool:
    """Whether `name` is valid for a server, variable or template (the `part`)."""
    pieces = name.split("/") if part == "templates" else [name]
    return all(_NAME.fullmatch(piece) and piece not in (".", "..") for piece in pieces)


def _parse_document(data: bytes, where: str) -> Any:
    try:
        document = parse_file(data)
    except ParseError as problem:
        raise ConfigError(where, "", f"expected a boot image in JSON; {problem.message}") from problem
    if _FAST_SCHEMA.is_valid(document):
        return document
    import jsonschema

    fault = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(_SCHEMA_DOCUMENT).iter_errors(document))
    if fault is not None:
        path = ".".join(str(step) for step in fault.absolute_path)
        raise ConfigError(where, path, f"expected {_describe_expected(fault)}; {fault.message[:200]}")
    return document


def _describe_expected(fault: jsonschema.ValidationError) -> str:
    rule, value = fault.validator, fault.validator_value
    sentences = {
        "type": f"a value of type {value}",
        "const": f"the value {json.dumps(value)}",
        "enum": f"one of {json.dumps(value)}",
        "required": f"the keys {json.dumps(value)}",
        "additionalProperties": "no other keys",
    }
    return sentences[str(rule)]


def _named_rows(document: Mapping[str, Any], part: str, where: str) -> Iterable[tuple[Row, str]]:
    """Yield the rows of a part with their places, after checking that each name is valid and unique."""
    seen: set[str] = set()
    for index, row in enumerate(document[part]):
        place, name = f"{part}.{index}", row["name"]
        if not is_name(name, part):
            tail = ", joined by slashes" if part == "templates" else ""
            raise ConfigError(
                where, f"{place}.name", f"expected 1 to 128 letters, digits, _, . or -{tail}; got {name[:200]!r}"
            )
        if name in seen:
            raise ConfigError(where, f"{place}.name", f"expected each name once; {name!r} occurs twice")
        seen.add(name)
        yield row, place


def _variables(document: Mapping[str, Any], where: str, enabled: bool) -> dict[str, str]:
    rows = [row for row, _ in _named_rows(document, "variables", where)]
    return {row["name"]: row["definition"] for row in rows if row["enabled"] is enabled}


def _parse_server(row: Row, place: str, where: str) -> Row:
    kinds = [kind.name for kind in definition_kinds()]
    if row["kind"] not in kinds:
        raise ConfigError(where, f"{place}.kind", f"expected one of {json.dumps(kinds)}; got {row['kind'][:200]!r}")
    cids = {key: _canonical_cid(value, f"{place}.{key}", where) for key, value in row.items() if key.endswith("_cid")}
    return {key: cids.get(key, value) for key, value in row.items() if key != "name"}


def _canonical_cid(text: str, path: str, where: str) -> str:
    try:
        return canonical(text)
    except BadCid as problem:
        raise ConfigError(where, path, f"expected a CID; {problem.message}") from problem
