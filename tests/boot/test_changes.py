"""Changes of what is served: names and root move together."""

import threading
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchbay import boot
from patchbay.cid import cid_of
from patchbay.errors import BadCid, ConfigError, MissingBlob, StaleUpdate
from patchbay.store import Blobs
from patchbay.stores.memory import MemoryNames, MemoryStore
from tests.boot.images import CODE, booted, encoded, filled, state


def test_a_change_moves_the_names_and_the_root_together() -> None:
    store = booted()
    first = store.names.get("root")
    root = boot.change_names(store, {"variables/greeting": store.blobs.put("héllo".encode())}, "ann", "politer")
    assert root == store.names.get("root") != first
    image = boot.parse_image(boot.current_image(store), "a")
    assert image.variables["greeting"] == "héllo"
    assert image.disabled == {"off": "unused"}
    assert (boot.root_history(store)[0].who, boot.root_history(store)[0].why) == ("ann", "politer")
    assert store.names.get("boot") == first
    back = boot.change_names(store, {"variables/greeting": store.blobs.put(b"hi")}, "ann", "back")
    assert back == first
    assert len(boot.root_history(store)) == 3
    assert len(boot.root_history(store, limit=2)) == 2


def test_an_empty_hub_can_be_changed() -> None:
    store = MemoryStore()
    assert boot.current_image(store) == boot.Image().data
    assert boot.is_readonly(store) is False
    root = boot.change_names(store, {"variables/a": store.blobs.put(b"1")}, "me", "first")
    assert boot.parse_image(store.blobs.get(root), "a").variables == {"a": "1"}


def test_a_disabled_variable_that_is_set_is_enabled() -> None:
    store = booted()
    boot.change_names(store, {"variables/off": store.blobs.put(b"on")}, "me", "y")
    image = boot.parse_image(boot.current_image(store), "a")
    assert (image.variables["off"], image.disabled) == ("on", {})


@pytest.mark.parametrize(
    "name", ["root", "boot", "servers/", "servers/a/b", "servers/..", "other/a", "templates//a", ""]
)
def test_only_servers_variables_and_templates_can_be_changed(name: str) -> None:
    store = booted()
    before = state(store)
    with pytest.raises(ConfigError, match="expected servers/<name>"):
        boot.change_names(store, {name: cid_of(CODE)}, "me", "y")
    assert state(store) == before


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("servers/a", b"not json"),
        ("servers/a", b"[]"),
        ("servers/a", b'{"kind":"python"}'),
        ("servers/a", b'{"name":"b","definition_cid":"x","kind":"python","enabled":true}'),
        ("variables/a", b"\xff\xfe"),
    ],
)
def test_a_content_that_cannot_be_in_an_image_is_refused(name: str, data: bytes) -> None:
    store = booted()
    before = state(store)
    with pytest.raises(ConfigError):
        boot.change_names(store, {name: store.blobs.put(data), "variables/b": cid_of(b"hi")}, "me", "y")
    assert state(store) == before


def test_a_change_to_a_missing_content_is_refused() -> None:
    store = booted()
    before = state(store)
    with pytest.raises(MissingBlob):
        boot.change_names(store, {"templates/a": cid_of(b"gone"), "variables/greeting": None}, "me", "y")
    with pytest.raises(BadCid):
        boot.change_names(store, {"templates/a": "latest"}, "me", "y")
    assert state(store) == before


def test_a_read_only_image_stays_read_only_after_a_change() -> None:
    store = filled()
    boot.import_image(store, encoded(readonly=True), "a", "me", "y")
    assert boot.is_readonly(store) is True
    boot.change_names(store, {"variables/greeting": None}, "me", "y")
    assert boot.is_readonly(store) is True


class BusyNames(MemoryNames):
    """Names of which another process moves one, once, between a read and the move that follows."""

    def __init__(self, blobs: Blobs, theirs: dict[str, str | None]) -> None:
        super().__init__(threading.RLock(), blobs)
        self._theirs = theirs

    def move(
        self, changes: Mapping[str, str | None], who: str, why: str, expected: Mapping[str, str | None] | None = None
    ) -> int:
        theirs, self._theirs = self._theirs, {}
        super().move(theirs, "somebody else", "at the same moment")
        return super().move(changes, who, why, expected)


def test_a_change_reads_the_rows_of_all_other_servers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled()
    row = {"definition_cid": cid_of(CODE), "kind": "python", "enabled": True}
    boot.import_image(store, encoded(servers=[{"name": f"s{n}", **row} for n in range(50)]), "a", "me", "y")
    reads: list[str] = []
    get = store.blobs.get

    def read(cid: str) -> bytes:
        reads.append(cid)
        return get(cid)

    monkeypatch.setattr(store.blobs, "get", read)
    changed = store.blobs.put(boot.canonical_json(row | {"enabled": False}))
    root = boot.change_names(store, {"servers/s7": changed}, "me", "y")
    assert len(reads) <= 2
    image = boot.parse_image(store.blobs.get(root), "a")
    assert [name for name, found in image.servers.items() if not found["enabled"]] == ["s7"]


def test_two_changes_at_the_same_moment_are_both_in_the_root() -> None:
    store = MemoryStore()
    mine, theirs = store.blobs.put(b"mine"), store.blobs.put(b"theirs")
    store.names = BusyNames(store.blobs, {"variables/theirs": theirs})
    root = boot.change_names(store, {"variables/mine": mine}, "me", "y")
    assert boot.parse_image(store.blobs.get(root), "a").variables == {"mine": "mine", "theirs": "theirs"}
    assert store.names.get("root") == root


def test_a_change_fails_after_another_process_changed_the_name() -> None:
    store = MemoryStore()
    mine, theirs = store.blobs.put(b"mine"), store.blobs.put(b"theirs")
    store.names = BusyNames(store.blobs, {"variables/v": theirs})
    with pytest.raises(StaleUpdate):
        boot.change_names(store, {"variables/v": mine}, "me", "y", {"variables/v": None})
    assert store.names.get("variables/v") == theirs


NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=60)
@given(st.dictionaries(NAMES, TEXTS, max_size=6), st.dictionaries(NAMES, TEXTS, max_size=6), st.booleans())
def test_the_root_depends_on_the_content_and_not_on_its_history(
    one: dict[str, str], other: dict[str, str], readonly: bool
) -> None:
    image = boot.Image(variables=one | other, readonly=readonly)
    assert boot.parse_image(image.data, "a") == image
    direct, detour = MemoryStore(), MemoryStore()
    boot.import_image(direct, image.data, "a", "me", "y")
    boot.import_image(detour, boot.Image(variables=other, readonly=readonly).data, "a", "me", "y")
    for name, text in (one | other).items():
        boot.change_names(detour, {f"variables/{name}": detour.blobs.put(text.encode())}, "me", "y")
    assert direct.names.get("root") == detour.names.get("root") == image.cid
