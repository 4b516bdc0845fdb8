"""Boot images: one meaning has one root, and an error names its place."""

import json
from typing import Any

import pytest

from patchbay import boot
from patchbay.cid import cid_of
from patchbay.errors import ConfigError
from tests.boot.images import (
    CODE,
    PAGE,
    document,
    encoded,
)


def test_one_meaning_has_one_root_however_it_is_written() -> None:
    straight = boot.parse_image(encoded(), "a")
    turned = {key: value[::-1] if isinstance(value, list) else value for key, value in document().items()}
    spaced = json.dumps(dict(reversed(turned.items())), indent=4).encode()
    assert boot.parse_image(spaced, "b").cid == straight.cid
    assert boot.parse_image(straight.data, "c").data == straight.data
    assert straight.data.endswith(b"}\n")
    assert not {*b" \r"} & {*straight.data}


def test_a_known_image_has_a_known_root() -> None:
    """The root is the same on every machine, and in every version of this program."""
    assert boot.Image().data == b'{"readonly":false,"servers":[],"templates":[],"variables":[],"version":1}\n'
    assert boot.Image().cid == "bafkreib5aokjhlwh6r3sgazszrxlf5lqz5zutuf6z4rmb3vy72biyq5gya"


ROW = {"name": "a", "definition_cid": cid_of(CODE), "kind": "python", "enabled": True}


@pytest.mark.parametrize(
    ("parts", "path", "expected"),
    [
        ({"version": 2}, "version", "the value 1"),
        ({"readonly": "no"}, "readonly", "type boolean"),
        ({"servers": None}, "servers", "type array"),
        ({"extra": 1}, "", "no other keys"),
        ({"servers": [{**ROW, "kind": "cobol"}]}, "servers.0.kind", 'one of ["python", "shell", "static"]'),
        ({"servers": [{"name": "a"}]}, "servers.0", "the keys"),
        ({"servers": [{**ROW, "definition_cid": "latest"}]}, "servers.0.definition_cid", "a CID"),
        ({"servers": [{**ROW, "config_cid": "../x"}]}, "servers.0.config_cid", "a CID"),
        ({"servers": [ROW, ROW]}, "servers.1.name", "each name once"),
        ({"servers": [{**ROW, "name": "../etc"}]}, "servers.0.name", "1 to 128 letters"),
        ({"servers": [{**ROW, "name": ".."}]}, "servers.0.name", "1 to 128 letters"),
        ({"servers": [{**ROW, "name": "a\n"}]}, "servers.0.name", "1 to 128 letters"),
        ({"servers": [{**ROW, "name": ""}]}, "servers.0.name", "1 to 128 letters"),
        ({"variables": [{"name": "v", "definition": 1, "enabled": True}]}, "variables.0.definition", "type string"),
        ({"variables": [{"name": "a/b", "definition": "", "enabled": True}]}, "variables.0.name", "1 to 128"),
        ({"templates": [{"name": "mcp//x", "cid": cid_of(PAGE)}]}, "templates.0.name", "joined by slashes"),
        ({"templates": [{"name": "mcp/../x", "cid": cid_of(PAGE)}]}, "templates.0.name", "joined by slashes"),
        ({"templates": [{"name": "x", "cid": ""}]}, "templates.0.cid", "a CID"),
    ],
)
def test_an_incomplete_image_is_refused_with_the_place(parts: dict[str, Any], path: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        boot.parse_image(encoded(**parts), "some.boot.json")
    assert (caught.value.where, caught.value.path) == ("some.boot.json", path)
    assert expected in caught.value.expected


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"[]", b"null", b'{"version":1,"version":1}', b"[" * 10_000, b'{"a":NaN}']
)
def test_an_image_must_be_a_strict_json_object(data: bytes) -> None:
    with pytest.raises(ConfigError, match=r"some\.boot\.json"):
        boot.parse_image(data, "some.boot.json")
