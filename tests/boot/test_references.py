"""The CIDs that an image needs, at any depth."""

import pytest

from patchbay import boot
from patchbay.cid import cid_of
from patchbay.stores.memory import MemoryStore
from tests.boot.images import ATTACHED, CODE, CONFIG, MCPS, OTHER, PAGE, TRANSFORM, encoded, filled


def test_every_missing_cid_is_named_however_deep() -> None:
    image = boot.parse_image(encoded(), "a")
    store = MemoryStore()
    assert set(boot.missing_cids(image, store.blobs)) == {cid_of(blob) for blob in (CODE, OTHER, PAGE, MCPS)}
    store.blobs.put(MCPS)
    assert cid_of(CONFIG) in boot.missing_cids(image, store.blobs)
    store.blobs.put(CONFIG)
    assert set(boot.missing_cids(image, store.blobs)) == {
        cid_of(blob) for blob in (CODE, OTHER, PAGE, TRANSFORM, ATTACHED)
    }
    assert boot.missing_cids(image, filled().blobs) == []


def test_the_configuration_of_a_server_row_is_followed_too() -> None:
    row = {"name": "a", "definition_cid": cid_of(CODE), "kind": "python", "enabled": True, "config_cid": cid_of(CONFIG)}
    image = boot.parse_image(encoded(servers=[row], variables=[], templates=[]), "a")
    assert boot.missing_cids(image, MemoryStore().blobs) == [cid_of(CODE), cid_of(CONFIG)]
    store = MemoryStore()
    store.blobs.put(CONFIG)
    assert boot.missing_cids(image, store.blobs) == [cid_of(CODE), cid_of(TRANSFORM), cid_of(ATTACHED)]


@pytest.mark.parametrize(
    "mcps",
    [
        "[]",
        "not json",
        '{"a": 1}',
        '{"a": {}}',
        '{"a": {"config_cid": "mcps/a.json"}}',
        '{"a": {"config_cid": 7}}',
    ],
)
def test_what_cannot_be_read_of_a_variable_mcps_needs_nothing(mcps: str) -> None:
    """T1.4, T1.8, VWR-13, 34.15: the hub starts, and the catalogue reports the problem."""
    image = boot.parse_image(encoded(variables=[{"name": "mcps", "definition": mcps, "enabled": True}]), "a")
    assert boot.missing_cids(image, filled().blobs) == []


def test_an_empty_variable_mcps_needs_nothing() -> None:
    """T1.1"""
    for text in ("", " \n", "{}"):
        image = boot.parse_image(encoded(variables=[{"name": "mcps", "definition": text, "enabled": True}]), "a")
        assert boot.missing_cids(image, filled().blobs) == []


def test_the_scripts_of_a_toolset_are_needed() -> None:
    script = b"def f() -> int:\n    return 1\n"
    definition = boot.canonical_json({"kind": "toolset", "tools": {"f": {"script": f"cid://{cid_of(script)}"}}})
    row = {"name": "a", "definition_cid": cid_of(definition), "kind": "static", "enabled": True}
    image = boot.parse_image(encoded(servers=[row], variables=[], templates=[]), "a")
    store = MemoryStore()
    assert boot.missing_cids(image, store.blobs) == [cid_of(definition)]
    store.blobs.put(definition)
    assert boot.missing_cids(image, store.blobs) == [cid_of(script)]
    store.blobs.put(script)
    assert boot.missing_cids(image, store.blobs) == []
