"""What only SQLite has: a file, other processes, damage, and being killed."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from patchbay.cid import cid_of
from patchbay.errors import ContentError, CorruptBlob
from patchbay.sqlite import known_defect, sqlite3
from patchbay.store import DATABASE_FILE as FILE
from patchbay.stores.sqlite import SqliteStore
from tests.checkout import ROOT

SOON = 60.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path)
    yield opened
    opened.close()


def python(program: str, folder: Path, **pipes: Any) -> subprocess.Popen[str]:
    """Another process that runs a program with `store` opened on the folder."""
    opening = "import sys\nfrom pathlib import Path\nfrom patchbay.stores.sqlite import SqliteStore\n"
    opening += f"store = SqliteStore(Path({str(folder)!r}))\n"
    started: subprocess.Popen[str] = subprocess.Popen(
        [sys.executable, "-c", opening + program], cwd=ROOT, text=True, **pipes
    )
    return started


def change_row(folder: Path, statement: str, *values: object) -> None:
    """Change the file behind the store's back."""
    connection = sqlite3.connect(folder / FILE)
    with connection:
        connection.execute(statement, values)
    connection.close()


def test_other_users_of_the_machine_cannot_read_the_store(tmp_path: Path) -> None:
    """THREATS 1.4: arguments and results of calls are in it."""
    SqliteStore(tmp_path).close()
    SqliteStore(tmp_path / "kept").close()
    store = SqliteStore(tmp_path)
    store.blobs.put(b"x")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 3 and {path.stat().st_mode & 0o777 for path in files} == {0o600}
    store.close()


def test_everything_is_there_after_opening_again(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path)
    cid = first.blobs.put(b"hello")
    first.names.move({"servers/a": cid}, "me", "in")
    seq = first.journal.append("t", b"entry")
    first.close()
    again = SqliteStore(tmp_path)
    assert again.blobs.get(cid) == b"hello"
    assert again.names.all() == {"servers/a": cid}
    assert again.journal.read("t")[0].seq == seq
    again.close()


def test_a_flipped_byte_is_noticed_and_healed_by_the_right_bytes(store: SqliteStore, tmp_path: Path) -> None:
    cid = store.blobs.put(b"hello")
    change_row(tmp_path, "UPDATE blobs SET data = ? WHERE cid = ?", b"hellp", cid)
    with pytest.raises(CorruptBlob, match=cid):
        store.blobs.get(cid)
    other = store.blobs.put(b"other")
    assert store.blobs.get_many([cid, other]) == {other: b"other"}
    store.blobs.put(b"hello")
    assert store.blobs.get(cid) == b"hello"


def test_a_file_that_is_not_a_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"this is somebody's letter, not a database\n" * 50)
    with pytest.raises(ContentError, match="file is not a database"):
        SqliteStore(tmp_path)
    assert (tmp_path / FILE).read_bytes().startswith(b"this is somebody's letter")


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    change_row(tmp_path, "CREATE TABLE recipes (title TEXT)")
    with pytest.raises(ContentError, match="belongs to another program"):
        SqliteStore(tmp_path)


def test_a_newer_schema_is_refused_with_both_versions(tmp_path: Path) -> None:
    SqliteStore(tmp_path).close()
    change_row(tmp_path, "PRAGMA user_version = 99")
    with pytest.raises(ContentError, match="its schema is 99, this program knows 2"):
        SqliteStore(tmp_path)


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ContentError, match="cannot be created"):
        SqliteStore(tmp_path / "file" / "data")


def test_a_bad_version_is_named_in_the_log_once_for_each_opening(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "patchbay.stores"):
        SqliteStore(tmp_path).close()
    expected = known_defect()
    assert [record.getMessage() for record in caplog.records] == ([] if expected is None else [expected])


def test_a_failed_write_leaves_nothing_and_says_so_without_a_path(store: SqliteStore, tmp_path: Path) -> None:
    change_row(tmp_path, "CREATE TRIGGER full BEFORE INSERT ON blobs BEGIN SELECT raise(ABORT, 'disk is full'); END")
    with pytest.raises(ContentError, match="the store failed: disk is full") as caught:
        store.blobs.put(b"hello")
    assert str(tmp_path) not in caught.value.message
    change_row(tmp_path, "DROP TRIGGER full")
    assert store.blobs.count() == 0
    assert store.blobs.get(store.blobs.put(b"hello")) == b"hello"


def test_a_move_that_fails_half_way_moves_nothing(store: SqliteStore, tmp_path: Path) -> None:
    cid = store.blobs.put(b"hello")
    change_row(
        tmp_path, "CREATE TRIGGER no BEFORE INSERT ON moves WHEN new.name = 'b' BEGIN SELECT raise(ABORT, 'no'); END"
    )
    with pytest.raises(ContentError, match="the store failed: no"):
        store.names.move({"a": cid, "b": cid}, "me", "y")
    assert store.names.all() == {}
    assert store.names.past() == []


def test_a_message_that_cannot_be_written_still_reaches_this_process(
    store: SqliteStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change_row(tmp_path, "CREATE TRIGGER full BEFORE INSERT ON messages BEGIN SELECT raise(ABORT, 'disk is full'); END")
    with store.bus.subscribe(["a"]) as reader, caplog.at_level(logging.WARNING, "patchbay.stores"):
        store.bus.publish("a", b"1")
        assert reader.get(0) == ("a", b"1")
    assert "did not reach other processes: the store failed: disk is full" in caplog.text


def test_messages_cross_processes_in_both_directions_and_come_once(store: SqliteStore, tmp_path: Path) -> None:
    program = (
        "with store.bus.subscribe(['ping']) as reader:\n"
        "    store.bus.publish('ready')\n"
        "    topic, message = reader.get(20)\n"
        "    store.bus.publish('pong/1', message + b'!')\n"
        "store.close()\n"
    )
    with store.bus.subscribe(["ready", "p*"]) as reader:
        other = python(program, tmp_path)
        assert reader.get(SOON) == ("ready", b"")
        store.bus.publish("ping", b"\0hi")
        assert reader.get(0) == ("ping", b"\0hi")
        assert reader.get(SOON) == ("pong/1", b"\0hi!")
        assert other.wait(SOON) == 0
        assert reader.get(0.3) is None


def test_messages_are_swept_after_a_minute(store: SqliteStore, tmp_path: Path) -> None:
    change_row(tmp_path, "INSERT INTO messages (process, topic, message, at) VALUES ('gone', 'a', x'', 0)")
    store.bus.publish("a", b"new")
    connection = sqlite3.connect(tmp_path / FILE)
    assert connection.execute("SELECT message FROM messages").fetchall() == [(b"new",)]
    connection.close()


def test_a_message_before_the_first_subscription_is_not_delivered(store: SqliteStore, tmp_path: Path) -> None:
    assert python("store.bus.publish('a', b'old'); store.close()", tmp_path).wait(SOON) == 0
    with store.bus.subscribe(["a"]) as reader:
        assert python("store.bus.publish('a', b'new'); store.close()", tmp_path).wait(SOON) == 0
        assert reader.get(SOON) == ("a", b"new")


def test_closing_ends_the_thread_and_removes_the_write_ahead_log(tmp_path: Path) -> None:
    def polling() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "patchbay-bus"}

    store = SqliteStore(tmp_path)
    before = polling()
    store.bus.subscribe(["a"])
    (own,) = polling() - before
    store.blobs.put(b"hello")
    store.close()
    assert not own.is_alive()
    # SQLite removes these two files when the last connection is closed.
    assert sorted(file.name for file in tmp_path.iterdir()) == [FILE]
    with pytest.raises(ContentError, match="the store is closed"):
        store.blobs.put(b"more")
    with pytest.raises(ContentError, match="the store is closed"):
        store.bus.subscribe(["a"])


@pytest.mark.slow
def test_several_processes_that_open_a_new_database_at_once_never_find_it_locked(tmp_path: Path) -> None:
    program = (
        "for line in sys.stdin:\n"
        "    opened = SqliteStore(Path(line.strip()))\n"
        "    print(opened.blobs.count(), flush=True)\n"
        "    opened.close()\n"
        "store.close()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with ExitStack() as stack:
        others = [stack.enter_context(python(program, tmp_path / "own", **pipes)) for _ in range(6)]
        for n in range(25):
            for other in others:
                assert other.stdin is not None
                other.stdin.write(f"{tmp_path / str(n)}\n")
                other.stdin.flush()
            assert [other.stdout.readline() for other in others if other.stdout is not None] == ["0\n"] * 6
    assert [other.returncode for other in others] == [0] * 6


@pytest.mark.slow
def test_several_processes_make_one_database_at_the_same_time(tmp_path: Path) -> None:
    program = (
        "import os\n"
        "for n in range(20):\n"
        "    store.names.move({f'{os.getpid()}/{n}': store.blobs.put(b'%d %d' % (os.getpid(), n))}, 'p', 'y')\n"
        "store.close()\n"
    )
    others = [python(program, tmp_path) for _ in range(4)]
    assert [other.wait(60) for other in others] == [0, 0, 0, 0]
    store = SqliteStore(tmp_path)
    assert len(store.names.all()) == 80
    assert [move.seq for move in store.names.past(limit=100)] == list(range(80, 0, -1))
    store.close()


def test_killing_a_writer_loses_nothing_it_was_answered_for_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    program = (
        "n = 0\n"
        "while True:\n"
        "    n += 1\n"
        "    cid = store.blobs.put(b'%d ' % n * 40_000)\n"
        "    store.names.move({'a': cid, 'b': cid}, 'me', str(n))\n"
        "    store.journal.append('t', b'%d' % n, keep=3600)\n"
        "    print(cid, flush=True)\n"
    )
    answered: list[str] = []
    for _ in range(3):
        writer = python(program, tmp_path, stdout=subprocess.PIPE)
        assert writer.stdout is not None
        answered += [writer.stdout.readline().strip() for _ in range(15)]
        os.kill(writer.pid, signal.SIGKILL)
        answered += [line.strip() for line in writer.stdout if line.endswith("\n")]
        writer.stdout.close()
        assert writer.wait(SOON) == -signal.SIGKILL
    store = SqliteStore(tmp_path)
    assert store.blobs.missing(answered) == []
    connection = sqlite3.connect(tmp_path / FILE)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    for (cid,) in connection.execute("SELECT cid FROM blobs").fetchall():
        assert cid_of(store.blobs.get(cid)) == cid
    connection.close()
    assert store.names.get("a") == store.names.get("b")
    assert {answered[14], answered[-1]} <= {move.cid for move in store.names.past("a", limit=100_000)}
    assert len(store.journal.read("t", limit=100_000)) >= len(answered)
    store.close()


class Interrupting:
    """A connection whose user is interrupted once: after BEGIN, or in place of ROLLBACK."""

    def __init__(self, connection: sqlite3.Connection, statement: str) -> None:
        self._connection = connection
        self._statement = statement

    def execute(self, statement: str, *values: Any) -> Any:
        if not statement.startswith(self._statement):
            return self._connection.execute(statement, *values)
        if self._statement == "BEGIN":
            self._connection.execute(statement, *values)
        self._statement = "nothing more"
        raise KeyboardInterrupt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@pytest.mark.parametrize("statement", ["BEGIN", "ROLLBACK"])
def test_an_interrupt_at_any_step_of_a_transaction_leaves_the_store_writable(
    store: SqliteStore, tmp_path: Path, statement: str
) -> None:
    """The interrupt of an inline tool arrives while it stores a value."""
    database = store._database
    database._durable = Interrupting(database._durable, statement)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt), database.write() as connection:
        connection.execute("SELECT 1")
        raise ValueError("the writer fails")
    cid = store.blobs.put(b"later")
    store.names.move({"a": cid}, "me", "later")
    assert python("print(store.names.get('a')); store.blobs.put(b'elsewhere')", tmp_path).wait(SOON) == 0


def test_the_time_of_an_entry_is_that_of_its_write_not_of_the_wait_for_another_writer(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A beat that waited for six seconds says that its process lives."""
    other, arrived = SqliteStore(tmp_path), threading.Event()
    write = other._database.write

    def arrive(*given: Any, **named: Any) -> Any:
        arrived.set()
        return write(*given, **named)

    monkeypatch.setattr(other._database, "write", arrive)
    appending = threading.Thread(target=other.journal.append, args=("beats", b""))
    with store._database.write() as connection:
        connection.execute("SELECT 1")
        appending.start()
        assert arrived.wait(SOON)
        released = time.time()
    appending.join(SOON)
    assert store.journal.read("beats")[0].at >= released
    other.close()
