"""What every store promises, whatever fills it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from patchbay.cid import cid_of
from patchbay.errors import BadCid, ConfigError, CorruptBlob, MissingBlob, StaleUpdate
from patchbay.store import Store
from patchbay.stores import open_store
from tests.stores.conftest import WITH_BUCKET

HELLO = b"hello"
HELLO_HEX = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
HELLO_CID = "bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq"
ABSENT = cid_of(b"this was never put")


def test_an_unknown_kind_is_refused_with_the_kinds_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="memory, sqlite, or postgresql://user@host/db; got 'papyrus'"):
        open_store("papyrus", tmp_path)


def test_a_stored_blob_is_read_back_by_its_cid(store: Store) -> None:
    assert store.blobs.put(HELLO) == HELLO_CID
    assert store.blobs.get(HELLO_CID) == HELLO
    assert store.blobs.put(b"") == cid_of(b"")
    assert store.blobs.get(cid_of(b"")) == b""


def test_putting_the_same_bytes_twice_keeps_them_once(store: Store) -> None:
    store.blobs.put(HELLO)
    store.blobs.put(HELLO, HELLO_CID)
    assert store.blobs.count() == 1


def test_a_blob_is_found_under_every_spelling_of_its_cid(store: Store) -> None:
    store.blobs.put(HELLO)
    assert store.blobs.get("f01551220" + HELLO_HEX) == HELLO
    assert store.blobs.missing(["f01551220" + HELLO_HEX]) == []


def test_bytes_that_are_not_the_content_of_their_cid_are_never_stored(store: Store) -> None:
    with pytest.raises(CorruptBlob, match=HELLO_CID):
        store.blobs.put(HELLO[:-1], HELLO_CID)
    assert store.blobs.count() == 0
    assert store.blobs.missing([HELLO_CID]) == [HELLO_CID]


def test_an_identity_cid_is_read_from_itself(store: Store) -> None:
    """T6.4 literal CIDs are read without being stored."""
    identity = "f0155000568656c6c6f"
    assert store.blobs.get(identity) == HELLO
    assert store.blobs.missing([identity]) == []
    assert store.blobs.get(store.blobs.put(HELLO, identity)) == HELLO
    assert store.blobs.count() == 0
    with pytest.raises(CorruptBlob):
        store.blobs.put(b"other", identity)


def test_a_missing_blob_is_named(store: Store) -> None:
    with pytest.raises(MissingBlob) as caught:
        store.blobs.get(ABSENT)
    assert caught.value.cids == (ABSENT,)


def test_a_string_that_is_not_a_cid_is_refused_everywhere(store: Store) -> None:
    with pytest.raises(BadCid):
        store.blobs.get("../../etc/passwd")
    with pytest.raises(BadCid):
        store.blobs.missing(["bafkrei"])
    with pytest.raises(BadCid):
        store.names.move({"a": "latest"}, "me", "because")


def test_missing_answers_each_once_in_the_order_given(store: Store) -> None:
    there, other = store.blobs.put(HELLO), cid_of(b"another that was never put")
    assert store.blobs.missing([other, there, ABSENT, other]) == [other, ABSENT]


def test_many_blobs_are_read_at_once_without_those_that_are_missing(store: Store, form: str) -> None:
    cids = store.blobs.put_many([HELLO, b"other"])
    stored = {cids[0]: HELLO, cids[1]: b"other"}
    # Objects of the bucket are read one by one.
    assert store.blobs.get_many([*cids, ABSENT, cids[0]]) == ({} if form == WITH_BUCKET else stored)
    assert store.blobs.get_many([]) == {}


def test_names_move_all_or_none_and_every_missing_cid_is_named(store: Store) -> None:
    there, other = store.blobs.put(HELLO), cid_of(b"another that was never put")
    store.names.move({"a": there}, "me", "first")
    with pytest.raises(MissingBlob) as caught:
        store.names.move({"a": None, "b": there, "c": ABSENT, "d": other, "e": ABSENT}, "me", "second")
    assert caught.value.cids == (ABSENT, other)
    assert store.names.all() == {"a": there}
    assert [move.why for move in store.names.past()] == ["first"]


def test_a_name_is_taken_away_with_none(store: Store) -> None:
    there = store.blobs.put(HELLO)
    store.names.move({"a": there}, "me", "in")
    store.names.move({"a": None}, "me", "out")
    assert store.names.get("a") is None
    assert store.names.all() == {}
    assert [(move.cid, move.why) for move in store.names.past("a")] == [(None, "out"), (there, "in")]


def test_a_change_to_the_present_value_is_not_a_move(store: Store) -> None:
    there = store.blobs.put(HELLO)
    first = store.names.move({"a": there}, "me", "in")
    assert store.names.move({"a": there, "never": None}, "me", "again") == first
    assert store.names.move({}, "me", "nothing") == first
    assert len(store.names.past()) == 1


def test_nothing_moved_yet_answers_zero(store: Store) -> None:
    assert store.names.move({}, "me", "nothing") == 0


def test_a_name_may_point_to_an_identity_cid_and_is_kept_in_one_spelling(store: Store) -> None:
    store.names.move({"a": "f0155000568656c6c6f"}, "me", "in")
    cid = store.names.get("a")
    assert cid is not None and cid.startswith("b")
    assert store.blobs.get(cid) == HELLO


def test_names_are_listed_by_prefix_and_sorted(store: Store) -> None:
    there = store.blobs.put(HELLO)
    names = ["servers/b", "servers/a", "server", "variables/x", "servers/%_", "servers/\U0001f40d", "servers0"]
    store.names.move(dict.fromkeys(names, there), "me", "in")
    assert list(store.names.all("servers/")) == ["servers/%_", "servers/a", "servers/b", "servers/\U0001f40d"]
    assert list(store.names.all()) == sorted(names)


def test_the_past_is_newest_first_limited_and_continued(store: Store) -> None:
    cids = [store.blobs.put(b"%d" % n) for n in range(5)]
    seqs = [store.names.move({"a": cid, "b": cids[0]}, f"w{n}", "y") for n, cid in enumerate(cids)]
    assert [move.cid for move in store.names.past("a", limit=2)] == [cids[4], cids[3]]
    assert [move.cid for move in store.names.past("a", before=seqs[3])] == [cids[2], cids[1], cids[0]]
    assert [move.name for move in store.names.past()] == ["a", "a", "a", "a", "b", "a"]
    assert store.names.past("a", limit=0) == []
    newest = store.names.past("a", limit=1)[0]
    assert (newest.seq, newest.who, newest.why) == (seqs[4], "w4", "y")
    assert newest.at >= store.names.past("a")[-1].at > 0


def test_the_past_of_some_prefixes_is_read_between_two_seqs(store: Store) -> None:
    there = store.blobs.put(HELLO)
    names = ["servers/a", "state/a/x", "root", "servers", "variables/%", "servers/\U0001f40d", "state/b"]
    seqs = [store.names.move({name: there}, "me", "in") for name in names]
    wanted = ("servers/", "variables/", "root")
    assert [move.name for move in store.names.past(prefixes=wanted)] == [names[place] for place in (5, 4, 2, 0)]
    assert [move.name for move in store.names.past(prefixes=wanted, limit=2)] == [names[5], names[4]]
    assert [move.name for move in store.names.past("", 9, seqs[5], wanted, seqs[0])] == [names[4], names[2]]
    assert [move.name for move in store.names.past("state/b", prefixes=wanted)] == []
    assert [move.seq for move in store.names.past(after=seqs[4])] == [seqs[6], seqs[5]]


def test_journal_entries_are_read_after_a_seq_oldest_first(store: Store) -> None:
    first = store.journal.append("stream", b"1")
    store.journal.append("other", b"x")
    second = store.journal.append("stream", b"\0\xff")
    third = store.journal.append("stream", b"")
    assert [(entry.seq, entry.data) for entry in store.journal.read("stream", after=first)] == [
        (second, b"\0\xff"),
        (third, b""),
    ]
    assert [entry.seq for entry in store.journal.read("stream", limit=1)] == [first]
    assert store.journal.read("nothing") == []
    assert store.journal.last("stream") == third
    assert store.journal.last("nothing") == 0


def test_a_sweep_drops_what_is_over_and_never_reuses_a_seq(store: Store) -> None:
    forever = store.journal.append("stream", b"stays")
    later = store.journal.append("stream", b"stays for an hour", keep=3600)
    over = store.journal.append("stream", b"goes", keep=0)
    assert store.journal.sweep() == 1
    assert [entry.seq for entry in store.journal.read("stream")] == [forever, later]
    assert store.journal.last("stream") == later
    assert store.journal.append("stream", b"new") > over
    assert store.journal.sweep() == 0


def test_the_tail_of_a_topic_is_read_newest_first(store: Store) -> None:
    first, second, third = (store.journal.append("records", data) for data in (b"1", b"2", b"3"))
    store.journal.append("other", b"x")
    assert [(entry.seq, entry.data) for entry in store.journal.tail("records")] == [
        *((third, b"3"), (second, b"2"), (first, b"1"))
    ]
    assert [entry.seq for entry in store.journal.tail("records", limit=1)] == [third]
    assert [entry.seq for entry in store.journal.tail("records", before=third)] == [second, first]
    assert store.journal.tail("records", before=first) == store.journal.tail("nothing") == []


def test_a_trimmed_topic_keeps_its_newest_entries_that_fit(store: Store) -> None:
    for data in (b"a" * 100, b"b" * 10, b"c" * 10):
        store.journal.append("records", data, keep=3600)
    store.journal.append("other", b"x" * 1000)
    assert store.journal.trim("records", 120) == 0
    assert store.journal.trim("records", 119) == 1
    assert [entry.data[:1] for entry in store.journal.read("records")] == [b"b", b"c"]
    assert store.journal.trim("records", 10) == 1
    assert store.journal.trim("records", 0) == 1
    assert store.journal.trim("nothing", 0) == 0
    assert len(store.journal.read("other")) == 1


def test_several_topics_are_shortened_at_once(store: Store) -> None:
    first, second, third = (store.journal.append(topic, b"x") for topic in ("one", "one", "other"))
    store.journal.append("untouched", b"x")
    assert store.journal.remove_all({"one": second, "other": third + 1, "nothing": 99}) == 2
    assert [entry.seq for entry in store.journal.read("one")] == [second] and first < second
    assert store.journal.read("other") == []
    assert len(store.journal.read("untouched")) == 1
    assert store.journal.remove_all({}) == 0


def test_many_threads_write_and_read_without_losing_anything(store: Store) -> None:
    """T13.4"""
    begin = threading.Barrier(8)

    def work(worker: int) -> None:
        begin.wait()
        for n in range(12):
            data = b"%d/%d" % (worker, n)
            cid = store.blobs.put(data)
            store.names.move({f"n/{worker}": cid}, str(worker), str(n))
            store.journal.append("all", data, keep=3600)
            assert store.blobs.get(cid) == data
            assert store.names.get(f"n/{worker}") == cid

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert store.blobs.count() == 96
    entries = store.journal.read("all")
    assert len(entries) == 96 and [e.seq for e in entries] == sorted({e.seq for e in entries})
    seqs = [move.seq for move in store.names.past(limit=1000)]
    assert len(seqs) == 96 and seqs == sorted(set(seqs), reverse=True)


def test_a_store_that_answers_says_nothing_and_a_closed_one_says_so(store: Store) -> None:
    assert store.check() is None
    store.close()
    assert store.check() == "the store is closed"
    store.close()


def test_names_move_only_from_where_they_are_expected(store: Store) -> None:
    one, two = store.blobs.put(b"one"), store.blobs.put(b"two")
    store.names.move({"a": one}, "me", "first", {"a": None, "b": None})
    for expected in ({"a": None}, {"a": two}, {"a": one, "b": one}):
        with pytest.raises(StaleUpdate, match="was changed meanwhile"):
            store.names.move({"a": two, "b": two}, "me", "second", expected)
    assert store.names.all() == {"a": one}
    store.names.move({"a": None, "b": two}, "me", "third", {"a": one})
    assert store.names.all() == {"b": two}
    assert [move.why for move in store.names.past("a")] == ["third", "first"]


def test_of_those_who_move_a_name_from_one_place_only_one_succeeds(store: Store) -> None:
    cids = [store.blobs.put(str(number).encode()) for number in range(8)]
    start = threading.Barrier(len(cids))

    def claim(cid: str) -> bool:
        start.wait()
        try:
            store.names.move({"a": cid}, "me", "mine", {"a": None})
        except StaleUpdate:
            return False
        return True

    with ThreadPoolExecutor(len(cids)) as pool:
        won = [cid for cid, mine in zip(cids, pool.map(claim, cids), strict=True) if mine]
    assert [store.names.get("a")] == won


def test_names_are_listed_by_how_they_begin_whatever_comes_behind(store: Store) -> None:
    cid = store.blobs.put(HELLO)
    names = ["a/", "a/b", "a/\u00e4", "a/\U0001f434", "a0", "b"]
    store.names.move(dict.fromkeys(names, cid), "me", "all")
    assert set(store.names.all("a/")) == set(names[:4])
    assert set(store.names.all("")) == set(names)


def test_entries_are_appended_together_only_behind_the_one_that_the_writer_saw(store: Store) -> None:
    """Compare and set: of two writers that saw the same newest entry, one is refused and nothing of it is kept."""
    contents, first = store.journal.append_all([("contents", b"x", 3600), ("room", b"1", None)], {"room": 0})
    assert contents < first
    store.journal.append("other", b"x")
    with pytest.raises(StaleUpdate, match="room has a newer entry"):
        store.journal.append_all([("contents", b"y", None), ("room", b"2", None)], {"room": 0})
    (second,) = store.journal.append_all([("room", b"2", None)], {"room": first, "nothing": 0})
    assert [(entry.seq, entry.data) for entry in store.journal.read("room")] == [(first, b"1"), (second, b"2")]
    assert [entry.data for entry in store.journal.read("contents")] == [b"x"]


def test_the_entries_of_a_topic_before_a_seq_are_removed(store: Store) -> None:
    seqs = [store.journal.append("records", b"x") for _ in range(4)]
    other = store.journal.append("others", b"y")
    assert store.journal.remove("records", seqs[2]) == 2
    assert [entry.seq for entry in store.journal.read("records")] == seqs[2:]
    assert store.journal.remove("records", seqs[2]) == store.journal.remove("nothing", other) == 0
    assert store.journal.last("others") == other


def test_no_name_has_a_nul(store: Store) -> None:
    """A path may have one; no store raises for it."""
    assert store.names.get("variables/a\0b") is None
    assert store.names.all("variables/a\0") == {}
