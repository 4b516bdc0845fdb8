"""Saving definitions: the store or the file of a server changes completely or not at all, and no edit is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.catalogue.provenance import is_from_operator
from patchbay.catalogue.saving import ServerEditor
from patchbay.catalogue.servers.rows import parse_row
from patchbay.catalogue.watching.drop_ins import drop_ins
from patchbay.catalogue.watching.folder import WatchedFolder
from patchbay.cid import cid_of
from patchbay.errors import InvalidParams, MissingBlob, Refused, StaleUpdate
from patchbay.store import Store
from patchbay.stores.memory import MemoryStore

ONE, TWO = b"x = 1\n", b"x = 2\n"


@pytest.fixture
def store() -> Store:
    return MemoryStore()


def definition(store: Store, name: str) -> str:
    cid = store.names.get(f"servers/{name}")
    assert cid
    return parse_row(name, store.blobs.get(cid)).definition_cid


def test_a_new_server_is_saved_in_the_store_alone(store: Store, tmp_path: Path) -> None:
    root = ServerEditor(store, tmp_path).definition("a", "python", ONE, None, "ada", "to try")
    assert (definition(store, "a"), store.names.get("root")) == (cid_of(ONE), root)
    assert not list(tmp_path.iterdir())
    assert (store.names.past("servers/a")[0].who, store.names.past("servers/a")[0].why) == ("ada", "to try")


def test_an_edit_of_an_older_definition_is_refused(store: Store, tmp_path: Path) -> None:
    saving = ServerEditor(store, tmp_path)
    saving.definition("a", "python", ONE, None, "ada", "first")
    for base in (None, cid_of(b"something else")):
        with pytest.raises(StaleUpdate):
            saving.definition("a", "python", TWO, base, "bob", "second")
    assert definition(store, "a") == cid_of(ONE)
    saving.definition("a", "python", TWO, cid_of(ONE), "bob", "second")
    assert definition(store, "a") == cid_of(TWO)


@pytest.mark.parametrize("name", ["servers", "New", "a/b", "..", "", "x" * 129, "TAKEN"])
def test_an_invalid_name_changes_nothing(store: Store, tmp_path: Path, name: str) -> None:
    saving = ServerEditor(store, tmp_path)
    saving.definition("taken", "python", ONE, None, "ada", "first")
    before = store.names.all()
    with pytest.raises(InvalidParams):
        saving.definition(name, "python", TWO, None, "ada", "second")
    assert store.names.all() == before


def test_a_file_is_changed_with_its_server_and_the_watcher_agrees(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(ONE)
    (tmp_path / "a.mcp.json").write_bytes(b'{"auto_discover": true}')
    folder = WatchedFolder(store, tmp_path)
    folder.start()
    ServerEditor(store, tmp_path).definition("a", "python", TWO, cid_of(ONE), "ada", "better")
    assert (tmp_path / "a.py").read_bytes() == TWO
    assert (tmp_path / "a.mcp.json").read_bytes() == b'{"auto_discover": true}'
    before = store.names.all()
    folder.start()
    assert store.names.all() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mcp.json", "a.py"]


def test_removing_a_drop_in_restores_the_server_it_replaced(store: Store, tmp_path: Path) -> None:
    saving, folder = ServerEditor(store, tmp_path), WatchedFolder(store, tmp_path)
    saving.definition("a", "python", ONE, None, "ada", "in the store")
    below = store.names.get("servers/a")
    (tmp_path / "a.py").write_bytes(TWO)
    folder.start()
    assert definition(store, "a") == cid_of(TWO)
    saving.names({"servers/a": below}, "ada", "back")
    folder.start()
    assert (definition(store, "a"), list(tmp_path.iterdir()), drop_ins(store)) == (cid_of(ONE), [], {})


def test_a_file_that_cannot_be_written_leaves_all_as_it_was(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(ONE)
    WatchedFolder(store, tmp_path).start()
    (tmp_path / "a.py").unlink()
    (tmp_path / "a.py").mkdir()
    before = store.names.all()
    with pytest.raises(Refused, match=r"a\.py cannot be changed"):
        ServerEditor(store, tmp_path).definition("a", "python", TWO, cid_of(ONE), "ada", "better")
    assert store.names.all() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.py"]


def test_a_missing_content_changes_no_file(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(ONE)
    WatchedFolder(store, tmp_path).start()
    with pytest.raises(MissingBlob):
        ServerEditor(store, tmp_path).names({"servers/a": None, "variables/v": cid_of(b"absent")}, "ada", "why")
    assert (tmp_path / "a.py").read_bytes() == ONE


def test_saving_over_http_never_writes_a_mount_into_a_file(store: Store, tmp_path: Path) -> None:
    """X-16, JN-C19: every file counts as the operator's, so a definition that came over HTTP must not become one."""
    mount = b'{"kind": "upstream", "address": "mcp+stdio:server"}'
    (tmp_path / "a.json").write_bytes(b"{}")
    folder, saving = WatchedFolder(store, tmp_path), ServerEditor(store, tmp_path)
    folder.start()
    for text in (mount, b'{"kind": "documents", "root": "/"}'):
        with pytest.raises(Refused, match="by hand"):
            saving.definition("a", "static", text, cid_of(b"{}"), "ada", "over HTTP")
        assert (tmp_path / "a.json").read_bytes() == b"{}"
    (tmp_path / "a.json").write_bytes(mount)
    folder.start()
    saving.definition("a", "static", b'{"title": "b"}', cid_of(mount), "ada", "something else")
    saving.definition("a", "static", mount, cid_of(b'{"title": "b"}'), "ada", "back to what stood there")
    assert (tmp_path / "a.json").read_bytes() == mount


def test_a_file_that_an_editor_has_just_saved_is_not_overwritten(store: Store, tmp_path: Path) -> None:
    """Those bytes are in the file alone: the watcher has not imported them."""
    (tmp_path / "a.py").write_bytes(ONE)
    folder = WatchedFolder(store, tmp_path)
    folder.start()
    saving = ServerEditor(store, tmp_path)
    for file in ("a.py", "a.mcp.json"):
        (tmp_path / file).write_bytes(mine := b'{"timeout": 7}' if file.endswith("json") else b"x = 'mine'\n")
        for wanted in (None, store.names.get("servers/a")):
            with pytest.raises(StaleUpdate, match=f"the file {file} was saved just now"):
                saving.names({"servers/a": wanted}, "ada", "back")
        with pytest.raises(StaleUpdate):
            saving.definition("a", "python", TWO, definition(store, "a"), "ada", "better")
        assert (tmp_path / file).read_bytes() == mine
        folder.start()
    saving.definition("a", "python", TWO, definition(store, "a"), "ada", "better")
    assert (tmp_path / "a.py").read_bytes() == TWO


def test_a_configuration_that_stays_keeps_its_bytes(store: Store, tmp_path: Path) -> None:
    """The stored form has `auto_discover` added; the author's file stays as it is."""
    (tmp_path / "a.py").write_bytes(ONE)
    (tmp_path / "a.mcp.json").write_bytes(config := b'{ "timeout": 7 }\n')
    WatchedFolder(store, tmp_path).start()
    ServerEditor(store, tmp_path).definition("a", "python", TWO, cid_of(ONE), "ada", "better")
    assert (tmp_path / "a.py").read_bytes() == TWO
    assert (tmp_path / "a.mcp.json").read_bytes() == config


def test_the_history_names_who_saved_a_configuration_file_and_trust_stays_as_it_was(
    store: Store, tmp_path: Path
) -> None:
    """The folder stays the author of the move, which counts as the operator's; only the reason names a person."""
    mount, other = (b'{"kind": "upstream", "address": "mcp+stdio:%s"}\n' % name for name in (b"one", b"two"))
    (tmp_path / "a.json").write_bytes(mount)
    folder, saving = WatchedFolder(store, tmp_path), ServerEditor(store, tmp_path)
    folder.start()
    saving.configuration_file("a", other, cid_of(mount), "key:ann", "changed on its page")
    (change, *_) = store.names.past("servers/a")
    assert (change.who, change.why) == ("servers/", "saved a.json for key:ann: changed on its page")
    row = parse_row("a", store.blobs.get(change.cid or ""))
    assert row.definition_cid == cid_of(other) and is_from_operator(store, row)
    count = len(store.names.past(""))
    folder.start()
    assert len(store.names.past("")) == count, "the watcher finds what it would have imported"
    assert drop_ins(store)["a"].definition_cid == cid_of(other)
    (tmp_path / "a.json").unlink()
    folder.start()
    assert store.names.get("servers/a") is None


def test_the_same_words_of_another_author_are_not_trusted(store: Store, tmp_path: Path) -> None:
    mount = b'{"kind": "upstream", "address": "mcp+stdio:one"}\n'
    ServerEditor(store, tmp_path).definition("b", "static", mount, None, "key:ann", "saved b.json for servers/: start")
    row = parse_row("b", store.blobs.get(store.names.get("servers/b") or ""))
    assert not is_from_operator(store, row)


def test_a_new_file_is_imported_with_the_name_of_its_author_as_the_watcher_imports_it(
    store: Store, tmp_path: Path
) -> None:
    made, seen = tmp_path / "made", tmp_path / "seen"
    for each in (made, seen):
        each.mkdir()
        (each / "t.json").write_text('{"kind": "toolset", "include": ["git.log"]}')
    ServerEditor(store, made).import_new_file("t", made / "t.json", "key:ann", "a new toolset")
    (change, *_) = store.names.past("servers/t")
    assert (change.who, change.why) == ("servers/", "saved t.json for key:ann: a new toolset")
    other = MemoryStore()
    WatchedFolder(other, seen).start()
    assert other.names.get("servers/t") == change.cid
    assert other.names.get("dropins/t") == store.names.get("dropins/t")
    count = len(store.names.past(""))
    WatchedFolder(store, made).start()
    ServerEditor(store, made).import_new_file("t", made / "t.json", "key:bob", "again")
    assert len(store.names.past("")) == count
