"""The hosts that a program asked for: counted over processes, with a button and a line for each refused one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from patchbay.cli.doctor.servers import check_refusals
from patchbay.processes.confinement.programs import active_program_protections
from patchbay.processes.confinement.protections import ALL, NAMESPACES
from patchbay.processes.egress.egress_records import MAX_HOSTS, NOT_LISTED, HostRecord
from patchbay.store import Store
from patchbay.stores.memory import MemoryStore
from patchbay.topics import REQUESTED_HOSTS
from patchbay.upstreams.requested_hosts import add_requested_hosts, load_requested_hosts
from tests.attacks import hostile_program
from tests.hubs import Hub
from tests.waiting import until
from tests.web.browsing import BROWSER, read
from tests.web.servers.test_editing import csrf
from tests.wire.hostile import Reader

PROGRAM = Path(hostile_program.__file__ or "")
HAS_NAMESPACES = NAMESPACES in active_program_protections(ALL)
NOT_STARTED = "has a list of hosts, and this machine has no namespaces to enforce it"


def test_counts_of_several_processes_are_added() -> None:
    store: Store = MemoryStore()

    def add() -> None:
        for _ in range(20):
            add_requested_hosts(store.journal, "notes", [HostRecord("a.example", 443, 1, 0, 5.0)])

    threads = [Thread(target=add) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert load_requested_hosts(store.journal, "notes") == [HostRecord("a.example", 443, 60, 0, 5.0)]
    assert len(store.journal.read(REQUESTED_HOSTS + "notes")) == 1
    assert load_requested_hosts(store.journal, "other") == []


def test_the_hosts_of_one_server_are_bounded() -> None:
    store: Store = MemoryStore()
    for begin in (0, MAX_HOSTS):
        records = [
            HostRecord(f"h{number}", 1, 0, 1, float(number), NOT_LISTED) for number in range(begin, begin + MAX_HOSTS)
        ]
        add_requested_hosts(store.journal, "notes", records)
    found = load_requested_hosts(store.journal, "notes")
    assert len(found) == MAX_HOSTS and found[0].host == f"h{2 * MAX_HOSTS - 1}"


@pytest.mark.parametrize("data", [b"nonsense", b"{}", b"[[1,2,3,4,5,6,7,8]]", b"[7]"])
def test_an_entry_that_cannot_be_read_begins_again(data: bytes) -> None:
    store: Store = MemoryStore()
    store.journal.append(REQUESTED_HOSTS + "notes", data)
    assert load_requested_hosts(store.journal, "notes") == []
    add_requested_hosts(store.journal, "notes", [HostRecord("a.example", 443, 1)])
    assert [one.host for one in load_requested_hosts(store.journal, "notes")] == ["a.example"]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with a program that may reach one host."""
    mount = {
        "kind": "upstream",
        "address": f"mcp+stdio:{sys.executable} {PROGRAM}",
        "network": ["api.example.com:443", "localhost:1"],
    }
    own: dict[str, Any] = {"protections": ALL, "store": "sqlite", "confine": "default"}
    found = Hub(tmp_path_factory.mktemp("listing"), {"notes.json": json.dumps(mount)}, **own).log_in()
    yield found
    found.close()


def _wait_for_program(hub: Hub) -> bool:
    """Wait until the program answers; return False where this machine could not enforce its list."""
    if not HAS_NAMESPACES:
        until(lambda: NOT_STARTED in hub.call("notes", "processes", {}).text)
        return False
    return bool(until(lambda: hub.call("notes", "processes", {}).text.isdecimal()))


def test_a_refused_host_is_explained_offered_and_allowed(hub: Hub) -> None:
    if not _wait_for_program(hub):
        return
    failed = hub.call("notes", "fetch", {"url": "http://pypi.example.org/simple"})
    assert failed.result["isError"]
    assert 'To allow this, the operator adds "pypi.example.org:80" to "network"' in failed.text
    assert "servers/notes.json" in failed.text
    until(lambda: "pypi.example.org:80" in Reader(read(hub, "/servers/notes/settings")).text)
    page = read(hub, "/servers/notes/settings")
    assert "Allow pypi.example.org:80" in page and "Not listed." in page
    row = {"name": "notes", "status": "on", "kind": "upstream", "origin": "servers/notes.json"}
    [verdict] = check_refusals(hub.settings, None, [row])
    assert "its program was not allowed to reach pypi.example.org:80" in verdict.sentence
    assert verdict.mend.startswith('add "pypi.example.org:80" to "network" on the page /servers/notes/settings')
    fields = {"csrf": csrf(hub, "/servers/notes/settings"), "do": "network", "host": "pypi.example.org:80"}
    assert hub.client.post("/servers/notes/settings", data=fields, headers=BROWSER).status_code == 303
    entries = json.loads((hub.servers / "notes.json").read_text())["network"]
    assert entries == ["api.example.com:443", "localhost:1", "pypi.example.org:80"]
    until(lambda: "HTTP Error 502" in hub.call("notes", "fetch", {"url": "http://pypi.example.org/simple"}).text)
    assert "Allow pypi.example.org:80" not in read(hub, "/servers/notes/settings")
    assert list(check_refusals(hub.settings, None, [{"name": "notes", "kind": "upstream"}])) == []


def test_a_call_that_works_or_was_refused_nothing_has_no_hint(hub: Hub) -> None:
    if not _wait_for_program(hub):
        return
    assert "network" not in hub.call("notes", "read", {"path": "/nowhere"}).text
    assert hub.call("notes", "exchange", {"text": "CONNECT b.example:1 HTTP/1.1\r\nHost: x\r\n\r\n"}).text.startswith(
        "HTTP/1.1 403"
    )


def test_a_host_of_this_machine_is_never_offered(hub: Hub) -> None:
    if not _wait_for_program(hub):
        return
    for url in ("localhost:8000", "127.0.0.2:8000", "10.0.0.7:80", "169.254.169.254:80", "intranet:80"):
        text = hub.call("notes", "exchange", {"text": f"CONNECT {url} HTTP/1.1\r\nHost: x\r\n\r\n"}).text
        assert text.startswith("HTTP/1.1 403") and "No line is proposed" in text, text
    until(lambda: "intranet:80" in read(hub, "/servers/notes/settings"))
    page = read(hub, "/servers/notes/settings")
    assert "localhost:8000" in page and "Allow localhost" not in page and "Allow 1" not in page


@pytest.mark.parametrize(
    ("entry", "said"),
    [("http://x", "without a scheme"), ("a b", "the name or the address of a host"), ("*", "whole first label")],
)
def test_the_button_takes_only_entries_of_a_list(hub: Hub, entry: str, said: str) -> None:
    fields = {"csrf": csrf(hub, "/servers/notes/settings"), "do": "network", "host": entry}
    answer = hub.client.post("/servers/notes/settings", data=fields, headers=BROWSER)
    assert answer.status_code == 400 and said in answer.text


def test_the_page_says_what_the_program_reaches(hub: Hub) -> None:
    text = Reader(read(hub, "/servers/notes/settings")).text
    assert "Hosts that its program may reach" in text and "api.example.com:443" in text
    assert ("reaches only api.example.com:443, localhost:1" in text) == HAS_NAMESPACES


@pytest.mark.parametrize("entries", [["a.example"], False])
def test_a_list_that_nothing_enforces_is_said_on_the_page_and_the_program_does_not_start(
    entries: object, tmp_path: Path
) -> None:
    mount = {"kind": "upstream", "address": f"mcp+stdio:{sys.executable} {PROGRAM}", "network": entries}
    for own in ({"confine": "off"}, {"confine": "default", "protections": ()}):
        settings: dict[str, Any] = {"protections": ALL, "store": "memory", **own}
        found = Hub(tmp_path / str(own["confine"]), {"notes.json": json.dumps(mount)}, **settings).log_in()
        try:
            reason = "its confinement is switched off" if own["confine"] == "off" else "no namespaces to enforce it"
            until(lambda reason=reason, found=found: reason in found.call("notes", "processes", {}).text)  # type: ignore[misc]
            text = Reader(read(found, "/servers/notes/settings")).text
            assert text.count("does not start: its configuration has") >= 2 and reason in text
            assert "not confined: it has all rights" not in text
        finally:
            found.close()
