"""The sources of an image, and the blobs beside it."""

import json
from pathlib import Path

import pytest

from patchbay import boot
from patchbay.cid import cid_of
from patchbay.errors import ConfigError, MissingBlob
from patchbay.stores.memory import MemoryStore
from patchbay.stores.sqlite import SqliteStore
from tests.boot.images import (
    BLOBS,
    CONFIG,
    MCPS,
    encoded,
)
from tests.checkout import ROOT


def folder_with(path: Path, image: bytes, blobs: list[bytes]) -> Path:
    (path / "cids").mkdir()
    for blob in blobs:
        (path / "cids" / cid_of(blob)).write_bytes(blob)
    file = path / "mine.boot.json"
    file.write_bytes(image)
    (path / "mine.boot.cid").write_text(cid_of(image) + "\n")
    return file


def test_an_image_is_loaded_from_a_path_with_the_blobs_beside_it(tmp_path: Path) -> None:
    file = folder_with(tmp_path, encoded(), BLOBS)
    (tmp_path / "cids" / ".hidden").write_bytes(b"nobody's blob")
    store = MemoryStore()
    data, where = boot.load_image(str(file), store)
    assert (data, where) == (encoded(), str(file))
    assert store.blobs.count() == len(BLOBS)
    boot.import_image(store, data, where, "me", "y")
    assert boot.read_variable(store, "mcps") == MCPS


def test_an_image_is_loaded_by_its_cid_from_the_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    cid = store.blobs.put(encoded())
    assert boot.load_image(cid, store) == (encoded(), cid)
    with pytest.raises(MissingBlob):
        boot.load_image(cid_of(b"gone"), store)
    store.close()


@pytest.mark.parametrize("name", ["default", "readonly"])
def test_a_reference_image_is_loaded_by_its_name_and_imported_whole(name: str) -> None:
    """T10.2, T10.3, T10.4, T10.5"""
    store = MemoryStore()
    data, where = boot.load_image(name, store)
    assert where == str(ROOT / "reference_templates" / f"{name}.boot.json")
    root = boot.import_image(store, data, where, "me", "y")
    assert root == cid_of(data)
    assert "servers/mcp" in store.names.all()
    mcps = boot.read_variable(store, "mcps")
    assert mcps is not None and {"echo", "markdown", "jq", "date", "mcp"} <= set(json.loads(mcps))
    config = json.loads(store.blobs.get(json.loads(mcps)["jq"]["config_cid"]))
    assert b"def generate_tools(" in store.blobs.get(config["tools_transform_cid"])
    assert b"def generate_resources(" in store.blobs.get(config["resources_transform_cid"])
    assert boot.is_readonly(store) is (name == "readonly")


@pytest.mark.parametrize("boot_setting", ["", "nothing", "../default", "/nowhere/x.boot.json", "reference_templates"])
def test_an_unknown_boot_setting_is_refused_with_the_known_names(boot_setting: str) -> None:
    with pytest.raises(ConfigError, match="default, readonly"):
        boot.load_image(boot_setting, MemoryStore())


def test_one_bad_blob_file_is_named_and_no_blob_is_stored(tmp_path: Path) -> None:
    file = folder_with(tmp_path, encoded(), BLOBS)
    damaged = tmp_path / "cids" / cid_of(CONFIG)
    damaged.write_bytes(CONFIG[:-1])
    store = MemoryStore()
    with pytest.raises(ConfigError, match=f"cids/{cid_of(CONFIG)}"):
        boot.load_image(str(file), store)
    assert store.blobs.count() == 0
    damaged.write_bytes(CONFIG)
    (tmp_path / "cids" / "README").write_bytes(b"x")
    with pytest.raises(ConfigError, match="cids/README"):
        boot.load_image(str(file), store)
    assert store.blobs.count() == 0


def test_an_image_that_differs_from_its_cid_file_is_refused(tmp_path: Path) -> None:
    file = folder_with(tmp_path, encoded(), BLOBS)
    file.write_bytes(encoded(readonly=True))
    store = MemoryStore()
    with pytest.raises(ConfigError, match=r"as mine\.boot\.cid says"):
        boot.load_image(str(file), store)
    assert store.blobs.count() == 0
    (tmp_path / "mine.boot.cid").write_text("")
    with pytest.raises(ConfigError, match=r"as mine\.boot\.cid says"):
        boot.load_image(str(file), store)
    (tmp_path / "mine.boot.cid").unlink()
    assert boot.load_image(str(file), store)[0] == encoded(readonly=True)
