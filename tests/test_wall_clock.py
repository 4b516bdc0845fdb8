"""Times in the store are compared with the store's time, because the clocks of two machines differ.

A module that reads the wall clock is in the table, with what it uses the time for.
"""

from __future__ import annotations

import ast

import pytest

from patchbay.access.approvals import Approvals, CallDigest
from patchbay.access.authentication import Credentials
from patchbay.access.keys import PersonalKeys
from patchbay.access.timed_signatures import timed_serializer
from patchbay.catalogue.contents.results import Results, key_in_query
from patchbay.cid import cid_of
from patchbay.coordination.process_liveness import ProcessLiveness
from patchbay.messages.versions import REVISIONS
from patchbay.protocol.admission.sessions import Sessions
from patchbay.protocol.tasks.records import TaskStore
from patchbay.stores.memory import MemoryStore
from tests.source_modules import Module, read

READERS = {
    "patchbay/access/tokens/access_tokens.py": "the times in tokens and proofs of an outside issuer",
    "patchbay/access/upstreams/token_store.py": "the client counts the end of tokens with this machine's clock",
    "patchbay/activity/call_recording.py": "the time that a record shows; a call has no time for more",
    "patchbay/caller_accounts/": "the ends of tokens in memory, counted with this machine's clock as the client does",
    "patchbay/cli/": "what a person enters or reads",
    "patchbay/client/": "the client has no store",
    "patchbay/documents/": "files and their times",
    "patchbay/environments/": "files and their times",
    "patchbay/kinds/": "files, programs and connections of this machine",
    "patchbay/processes/egress/egress_records.py": "the time that a page shows; a record counts for about a month",
    "patchbay/activity/denied_folders.py": "a record counts for about a week",
    "patchbay/protocol/streams/listener_slots.py": "a picture of this process",
    "patchbay/catalogue/operating/removal.py": "the name of a folder",
    "patchbay/catalogue/watching/settling.py": "files and their times",
    "patchbay/upstreams/": "programs and connections of this machine",
    "patchbay/stores/memory.py": "it is the store",
    "patchbay/stores/postgresql/": "it is the store",
    "patchbay/stores/sqlite/": "it is the store",
    "patchbay/stores/postgresql/clock.py": "the guess before the first answer of the database",
    "patchbay/stores/postgresql/maintenance.py": "the doctor compares this machine's clock with that of the database",
    "patchbay/web/operator/login_links.py": "a command makes a link without the store",
    "patchbay/web/activity/activity.py": "the times on a page",
    "patchbay/web/rendering/templates.py": "the times on a page",
    "patchbay/wire/server/exchange.py": "the Date of an answer: the time of the machine that sends it",
}
"""The modules and folders that may read the wall clock, with the reason."""

HOUR = 3600.0


def find_wall_clocks(module: Module) -> list[int]:
    """Return the lines that read, or pass on, `time.time`, `time.time_ns` or `datetime.now`."""
    names = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow")}
    if not any(f"{owner}.{name}" in module.text for owner, name in names):  # ruff leaves no space within a name
        return []
    return [
        node.lineno
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (node.value.id, node.attr) in names
    ]


def test_only_the_modules_of_the_table_read_the_wall_clock() -> None:
    """35.1"""
    found = {module.path: lines for module in read("patchbay/**/*.py") if (lines := find_wall_clocks(module))}
    wrong = [f"{path}:{lines}" for path, lines in found.items() if not path.startswith(tuple(READERS))]
    assert sorted(wrong) == [], "use Store.now, or name the module in READERS with the reason"
    unused = [begin for begin in READERS if not any(path.startswith(begin) for path in found)]
    assert unused == [], "these read it no more: take them out of READERS"


@pytest.fixture(params=[-HOUR, HOUR])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """A store whose time is an hour away from the clock of this machine."""
    made = MemoryStore()
    passed = made.now() + request.param
    monkeypatch.setattr("patchbay.stores.memory.time", FixedClock(passed))
    return made


class FixedClock:
    """The module `time` of the store."""

    def __init__(self, at: float) -> None:
        self._at = at

    def time(self) -> float:
        return self._at


def test_a_clock_that_is_an_hour_off_ends_no_task_session_result_key_or_approval(store: MemoryStore) -> None:
    """35.2"""
    liveness = ProcessLiveness(store)
    liveness.beat()
    assert liveness.is_alive(liveness.process)
    tasks = TaskStore(store)
    assert tasks.read(tasks.make("ann", "echo", 60.0).id) is not None
    results = Results(store, b"k" * 32, 1, 1000)
    uri = results.keep(b"large", "ann")
    assert uri is not None
    assert results.read(cid_of(b"large"), key_in_query(uri.partition("?")[2]), "ann") == b"large"
    approvals = Approvals(store)
    assert approvals.request(CallDigest("ann", "echo", "1", "say", "2", cid_of(b"{}")), b"{}").state == "waiting"
    assert [one.state_at(approvals.now()) for one in approvals.all()] == ["waiting"]
    keys = PersonalKeys(store)
    token = keys.make("laptop", keys.now() + 60)
    assert keys.authenticate(Credentials("GET", "", {"authorization": f"Bearer {token}"})) is not None


def test_a_session_of_another_machine_is_valid_here_when_the_clocks_differ(store: MemoryStore) -> None:
    """35.3"""
    revision = REVISIONS["2025-11-25"]
    id = Sessions(b"k" * 32, store.journal, hours=0.5, alone=False).open("echo", revision, {}, "ann").id
    assert Sessions(b"k" * 32, store.journal, hours=0.5, alone=False).find(id, "echo", "ann").id == id


def test_a_signed_value_has_the_time_of_the_store() -> None:
    now = [1000.0]
    signer = timed_serializer(b"k" * 32, "test", lambda: now[0])
    text = signer.dumps("word")
    now[0] += 10
    _, made = signer.loads(text, max_age=10, return_timestamp=True)
    assert made.timestamp() == 1000.0
