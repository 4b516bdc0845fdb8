"""Which blobs a collection deletes: those that are unreachable and older than the grace time, and no other."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from patchbay.catalogue.contents.collection import Collector, cids_in
from patchbay.cid import cid_of
from patchbay.store import Collected, Store
from patchbay.stores import KINDS, open_store
from patchbay.stores.memory import MemoryStore
from tests.clocks import Clock

GRACE = 3600.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Store]:
    opened = open_store(request.param, tmp_path)
    yield opened
    opened.close()


def test_a_blob_without_a_reference_is_deleted_after_the_grace_time(store: Store, clock: Clock) -> None:
    cid = store.blobs.put(b"an upload")
    collector = Collector(store, GRACE)
    assert collector.collect() == Collected(0, 0)
    clock.now += GRACE + 1
    assert collector.preview() == Collected(1, 9)
    assert store.blobs.missing([cid]) == []
    assert collector.collect() == Collected(1, 9)
    assert store.blobs.missing([cid]) == [cid]


def test_present_and_past_configuration_stays_with_all_that_it_mentions(store: Store, clock: Clock) -> None:
    code = store.blobs.put(b"def hello(): ...")
    row = store.blobs.put(f'{{"definition_cid": "{code}"}}'.encode())
    store.names.move({"servers/hello": row}, "me", "test")
    store.names.move({"servers/hello": None}, "me", "removed")
    clock.now += 10 * GRACE
    assert Collector(store, GRACE).collect() == Collected(0, 0)
    assert store.blobs.get(code) == b"def hello(): ..."


def test_of_a_tools_state_only_the_present_values_stay(store: Store, clock: Clock) -> None:
    old, new = store.blobs.put_many([b"1", b"2"])
    for cid in (old, new):
        store.names.move({"state/counter/total": cid}, "me", "set total")
    clock.now += 10 * GRACE
    assert Collector(store, GRACE).collect() == Collected(1, 1)
    assert store.blobs.missing([old, new]) == [old]


@pytest.mark.parametrize("base", ["base16", "base32", "base36", "base58btc", "base64", "base64url", "base32upper"])
def test_a_reference_counts_in_every_spelling_of_a_cid(base: str) -> None:
    from multiformats import CID

    cid = cid_of(b"content")
    spelled = str(CID.decode(cid).set(base=base))
    assert cids_in(f'{{"cid": "cid://{spelled}?x"}}'.encode()) == (cid,)


def test_a_name_that_moves_during_a_collection_keeps_its_blob(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    late, lost = store.blobs.put_many([b"late", b"lost"])
    clock.now += 10 * GRACE
    listed = store.names.all

    def move_after_listing() -> Mapping[str, str]:
        found = listed()
        monkeypatch.setattr(store.names, "all", listed)
        store.names.move({"variables/late": late}, "me", "test")
        return found

    monkeypatch.setattr(store.names, "all", move_after_listing)
    assert Collector(store, GRACE).collect() == Collected(1, 4)
    assert store.blobs.missing([late, lost]) == [lost]


class Model:
    """Writers that take several steps to save something, a clock, and collections between any two steps."""

    def __init__(self, store: Store, clock: Clock, seed: int, steps: int) -> None:
        self.steps = steps
        self.store = store
        self.clock = clock
        self.random = random.Random(seed)
        self.collector = Collector(store, GRACE)
        self.needed: dict[str, bytes] = {}
        self.saves: list[Iterator[None]] = []
        self.contents: list[bytes] = [b"first"]
        self.deleted = 0

    def save(self) -> Iterator[None]:
        """Put a content, or renew a known one, put a configuration that mentions it, and point a name at that."""
        began = self.clock.now
        content = self.random.choice(self.contents[-200:])
        cid = cid_of(content)
        self.store.blobs.renew([cid])
        yield
        if self.store.blobs.missing([cid]):
            self.store.blobs.put(content)
            yield
        configuration = f"{self.random.random()} {cid}".encode()
        row = self.store.blobs.put(configuration)
        yield
        if self.clock.now - began > GRACE:
            return  # a save that takes longer than the grace time is given up
        self.store.names.move({f"servers/{self.random.randrange(50)}": row}, "writer", "save")
        self.needed |= {row: configuration, cid: content}

    def step(self) -> None:
        """One step of a writer, of the clock, of a tool that stores a value, or a collection."""
        choice = self.random.random()
        if choice < 0.30:
            self.contents.append(self.random.randbytes(20))
            self.store.blobs.put(self.contents[-1])
        elif choice < 0.40:
            self.saves.append(self.save())
        elif choice < 0.90 and self.saves:
            save = self.random.choice(self.saves)
            if next(save, "ended") == "ended":
                self.saves.remove(save)
        elif choice < 0.97:
            self.clock.now += self.random.expovariate(1 / 300)
        elif choice < 1 - 50 / self.steps:
            value = self.store.blobs.put(self.random.randbytes(20))
            self.store.names.move({"state/x/y": value}, "tool", "set y")
        else:
            self.deleted += self.collector.collect().count


@pytest.mark.parametrize(("kind", "steps"), [("memory", 100_000), ("sqlite", 1_000)])
@pytest.mark.slow
def test_a_collection_never_deletes_what_a_writer_needs(kind: str, steps: int, tmp_path: Path, clock: Clock) -> None:
    store = open_store(kind, tmp_path)
    model = Model(store, clock, 20261122, steps)
    for _ in range(steps):
        model.step()
    for cid, content in model.needed.items():
        assert store.blobs.get(cid) == content
    assert model.deleted > steps / 100
    store.close()
