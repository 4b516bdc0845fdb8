"""An import is complete, or it fails and the running hub stays as it was."""

import json
import random
from pathlib import Path

import pytest

from patchbay import boot
from patchbay.boot.documents import ConfigurationDocument, read_document
from patchbay.catalogue.catalogue import Catalogue
from patchbay.cid import cid_of
from patchbay.config import Configs, Mcps
from patchbay.errors import ContentError, MissingBlob
from patchbay.settings import Settings
from patchbay.stores.memory import MemoryStore
from tests.boot.images import (
    CODE,
    MCPS,
    OTHER,
    booted,
    encoded,
    filled,
    state,
)

GONE = cid_of(b"gone")


def test_an_import_puts_every_name_into_the_store_and_answers_the_root() -> None:
    store = filled()
    root = boot.import_image(store, encoded(), "first.json", "me", "first")
    image = boot.parse_image(encoded(), "a")
    assert root == image.cid == store.names.get("root") == store.names.get("boot")
    assert boot.current_image(store) == image.data
    assert set(store.names.all()) == {
        "boot",
        "root",
        "servers/echo",
        "servers/hello",
        "templates/mcp/meta.html",
        "variables/greeting",
        "variables/mcps",
    }
    cid = store.names.get("servers/hello")
    assert cid is not None
    assert json.loads(store.blobs.get(cid)) == {"definition_cid": cid_of(CODE), "kind": "python", "enabled": True}
    assert [(move.who, move.why, move.cid) for move in boot.root_history(store)] == [("me", "first", root)]


def test_a_variable_is_its_text_or_the_bytes_of_its_cid() -> None:
    """T1.3, T10.2"""
    store = booted()
    assert boot.read_variable(store, "greeting") == b"hi"
    assert boot.read_variable(store, "mcps") == MCPS
    assert boot.read_variable(store, "off") is None
    assert boot.read_variable(store, "unknown") is None
    boot.change_names(store, {"variables/later": store.blobs.put(cid_of(b"never put").encode())}, "me", "y")
    with pytest.raises(MissingBlob):
        boot.read_variable(store, "later")


def test_importing_the_same_image_again_does_nothing() -> None:
    store = booted()
    boot.change_names(store, {"servers/echo": None}, "me", "edit")
    before = state(store)
    assert boot.import_image(store, encoded(), "first.json", "me", "again") == before[0]["root"]
    assert state(store) == before


def test_a_new_image_removes_names_of_the_last_one_and_keeps_other_changes() -> None:
    store = booted()
    row = store.blobs.put(boot.canonical_json({"definition_cid": cid_of(CODE), "kind": "python", "enabled": True}))
    one = store.blobs.put(b"1")
    boot.change_names(store, {"servers/dropped-in": row, "variables/mine": one, "variables/off2": one}, "me", "edit")
    servers = [{"name": "new", "definition_cid": cid_of(OTHER), "kind": "shell", "enabled": True}]
    variables = [{"name": name, "definition": "hi", "enabled": False} for name in ("greeting", "off2")]
    root = boot.import_image(store, encoded(servers=servers, variables=variables), "second.json", "me", "second")
    assert set(store.names.all()) == {
        "boot",
        "root",
        "servers/dropped-in",
        "servers/new",
        "templates/mcp/meta.html",
        "variables/mine",
    }
    assert root == store.names.get("root") != store.names.get("boot")
    assert boot.parse_image(boot.current_image(store), "a").disabled == {"greeting": "hi", "off2": "hi"}


def test_an_image_with_missing_blobs_is_refused_whole_and_all_are_named() -> None:
    store = booted()
    before = state(store)
    gone = [cid_of(b"gone 1"), cid_of(b"gone 2"), cid_of(b"gone 3")]
    servers = [{"name": "a", "definition_cid": gone[0], "config_cid": gone[1], "kind": "python", "enabled": True}]
    with pytest.raises(MissingBlob, match=r"second\.json") as caught:
        boot.import_image(
            store, encoded(servers=servers, templates=[{"name": "t", "cid": gone[2]}]), "second.json", "me", "y"
        )
    assert sorted(caught.value.cids) == sorted(gone)
    assert state(store) == before


@pytest.mark.parametrize(
    ("mcps", "broken"),
    [
        (
            {"hello": {"config_cid": GONE}},
            {"hello": f"its mcps configuration cannot be used: not in the store: {GONE}"},
        ),
        (GONE, {}),
        (None, {"hello": f"its configuration is not in the store: {GONE}"}),
    ],
    ids=["entry of mcps", "mcps itself", "row of the server"],
)
def test_a_missing_configuration_breaks_its_server_alone(
    mcps: object, broken: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """T1.8, 50.19: at boot, as a configuration that cannot be read does."""
    rows = [
        {"name": name, "definition_cid": cid_of(CODE), "kind": "python", "enabled": True} for name in ("a", "hello")
    ]
    definition = mcps if isinstance(mcps, str) else json.dumps(mcps)
    variables = [{"name": "mcps", "definition": definition, "enabled": True}]
    own = {} if mcps else {"config_cid": GONE}
    store = filled()
    image = encoded(servers=[rows[0], rows[1] | own], variables=variables if mcps else [])
    boot.import_image(store, image, "first.json", "me", "first")
    catalogue = Catalogue(store, Settings(servers=tmp_path), watch=False)
    try:
        assert {server.name: server.broken for server in catalogue.all() if server.broken} == broken
        assert catalogue.find("a").broken is None
    finally:
        catalogue.close()
    assert GONE in caplog.text


def test_two_hundred_mutated_images_never_change_the_store() -> None:
    """A bad image leaves the running hub as it is; an accepted image has its own content as root."""
    store = booted()
    before = state(store)
    good = boot.parse_image(encoded(), "a").data
    chance = random.Random(20)
    refused = 0
    for _ in range(200):
        mutated = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(mutated))
            match chance.randrange(3):
                case 0:
                    mutated[place] ^= 1 << chance.randrange(8)
                case 1:
                    del mutated[place : place + chance.randint(1, 20)]
                case _:
                    mutated[place:place] = bytes(mutated[place : place + chance.randint(1, 20)])
        try:
            root = boot.import_image(store, bytes(mutated), "mutated", "me", "mutated")
        except ContentError:
            refused += 1
            assert state(store) == before
        else:
            assert root == boot.parse_image(bytes(mutated), "mutated").cid
            store = booted()
            before = state(store)
    assert refused > 150


def edited() -> tuple[MemoryStore, str]:
    """Return a store in which a variable was changed and a server removed by hand, and the CID of the text."""
    store = booted()
    mine = store.blobs.put(b"mine")
    boot.change_names(store, {"variables/greeting": mine, "servers/hello": None}, "me", "edit")
    return store, mine


NEWER = {"templates": [{"name": "mcp/meta.html", "cid": cid_of(CODE)}]}


def test_a_newer_image_keeps_changes_of_names_that_it_does_not_change() -> None:
    """An upgrade adds what is new, and keeps what an operator changed."""
    store, mine = edited()
    root = boot.import_image(store, encoded(**NEWER), "newer.json", "me", "second")
    served = boot.parse_image(store.blobs.get(root), "a")
    assert (store.names.get("variables/greeting"), store.names.get("servers/hello")) == (mine, None)
    assert (served.variables["greeting"], set(served.servers)) == ("mine", {"echo"})
    assert store.names.get("templates/mcp/meta.html") == cid_of(CODE)


def test_an_image_that_changes_the_same_name_wins() -> None:
    store, _ = edited()
    variables = [{"name": "greeting", "definition": "hello", "enabled": True}]
    boot.import_image(store, encoded(variables=variables), "newer.json", "me", "second")
    assert boot.read_variable(store, "greeting") == b"hello"


def test_a_read_only_image_is_served_without_earlier_changes() -> None:
    """A read-only image allows no later change, so it keeps no earlier one."""
    store, _ = edited()
    image = encoded(**NEWER, readonly=True)
    assert boot.import_image(store, image, "readonly.json", "me", "second") == boot.parse_image(image, "a").cid


def test_an_image_that_replaces_a_change_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    store = booted()
    boot.change_names(store, {"variables/greeting": store.blobs.put(b"mine"), "servers/hello": None}, "me", "edit")
    boot.import_image(store, encoded(variables=[]), "second.json", "me", "second")
    (record,) = caplog.records
    assert (
        "second.json replaces changes that were made on this hub since the last boot image: variables/greeting;"
        in record.message
    )
    boot.import_image(store, encoded(), "first.json", "me", "third")
    assert len(caplog.records) == 1


def test_an_image_with_a_broken_mcps_is_imported_and_the_last_good_configurations_stay_in_force() -> None:
    """T1.4, 34.15."""
    store = booted()
    document = ConfigurationDocument(
        "variables/mcps", Configs(store.blobs).load_mcps, Mcps(), "it configures no server"
    )
    before, problem = read_document(store, document)
    assert before.configs and problem is None
    broken = {"name": "mcps", "definition": "{broken", "enabled": True}
    boot.import_image(store, encoded(variables=[broken]), "second.json", "me", "second")
    found, problem = read_document(store, document)
    assert found.configs.keys() == before.configs.keys()
    assert problem is not None and "expected JSON" in problem and "its earlier value" in problem
