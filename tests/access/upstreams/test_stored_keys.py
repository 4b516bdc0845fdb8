"""Each caller stores a key of their own for a mounted server, and calls get nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from patchbay.activity.records import Filter
from patchbay.processes.confinement.programs import active_program_protections
from patchbay.processes.confinement.protections import ALL
from tests.access.upstreams.guarded import URL_CLIENT, Caller, caller_of, page_of, tools_of
from tests.access.upstreams.keyed import (
    Keyed,
    disconnect,
    key_of,
    processes_with,
    program_mount,
    read_processes,
    running_keyed,
    store,
)
from tests.access.upstreams.test_sign_in_is_asked_for import asked
from tests.hubs import Hub
from tests.signing_in import BASE, HTML, shared_hub, signed_in
from tests.waiting import BOUND, until

pytestmark = [pytest.mark.process]

NAMES = iter(f"person{number}" for number in range(1000))
LOGIN = [{"name": "login", "header": "Authorization", "format": "basic"}]
NAMED = [{"name": "token", "header": "X-Api-Key"}, {"name": "team", "title": "Team", "header": "X-Team"}]
IN_QUERY = [{"name": "token", "query": "key"}]


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with running_keyed(tmp_path_factory.mktemp("keyed")) as keyed:
        yield keyed


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, keyed: Keyed) -> Iterator[Hub]:
    files = {
        "far.json": keyed.mount(),
        "basic.json": keyed.mount(fields=LOGIN),
        "named.json": keyed.mount(fields=NAMED),
        "query.json": keyed.mount(fields=IN_QUERY),
        "tool.json": program_mount(),
    }
    hub = shared_hub(tmp_path_factory.mktemp("hub"), files=files, store="sqlite")
    # The tools of the server are known from the first account on; before that a call of one has no tool.
    first = caller_of(hub, signed_in(hub, next(NAMES)), "far")
    store(first.browser.client, "far", key_of("ann"))
    until(lambda: "whoami" in tools_of(first, "far"))
    yield hub
    hub.close()


@pytest.fixture
def ann(hub: Hub) -> Caller:
    return caller_of(hub, signed_in(hub, next(NAMES)), "far")


@pytest.fixture
def ben(hub: Hub) -> Caller:
    return caller_of(hub, signed_in(hub, next(NAMES)), "far")


def caller_at(hub: Hub, server: str) -> Caller:
    return caller_of(hub, signed_in(hub, next(NAMES)), server)


def test_two_people_with_keys_of_their_own_are_two_at_the_server(keyed: Keyed, ann: Caller, ben: Caller) -> None:
    keys = key_of("ann"), key_of("ben")
    before = len(keyed.seen())
    for caller, key in zip((ann, ben), keys, strict=True):
        assert store(caller.browser.client, "far", key).status_code == 303
    until(lambda: "whoami" in tools_of(ben, "far"))
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda caller: caller.call("far", "whoami").text, [ann, ben] * 10))
    assert told == ["ann", "ben"] * 10
    assert {row["key"] for row in keyed.seen()[before:]} >= {*keys}
    assert not any(ann.token in str(row) or ben.token in str(row) for row in keyed.seen())


@pytest.mark.parametrize(
    ("server", "values", "sent"),
    [
        ("basic", {"login.user": "ann"}, "login.password"),
        ("named", {"team": "blue"}, "token"),
        ("query", {}, "token"),
        ("tool", {}, "key"),
    ],
)
def test_a_key_goes_where_the_configuration_says(hub: Hub, server: str, values: dict[str, str], sent: str) -> None:
    ann = caller_at(hub, server)
    assert store(ann.browser.client, server, values | {sent: key_of("ann")}).status_code == 303
    until(lambda: "whoami" in tools_of(ann, server))
    assert ann.call(server, "whoami").text == "ann"


def test_named_headers_are_all_sent(hub: Hub, keyed: Keyed) -> None:
    ann, key = caller_at(hub, "named"), key_of("ann")
    store(ann.browser.client, "named", {"token": key, "team": "blue"})
    until(lambda: "whoami" in tools_of(ann, "named"))
    ann.call("named", "whoami")
    (headers, *_) = [row["headers"] for row in reversed(keyed.seen()) if row["key"] == key]
    assert headers["x-team"] == "blue"
    assert "authorization" not in headers


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"token": ""}, "expected a value"),
        ({}, "expected a value"),
        ({"token": "key-of-ann\r\nX-Admin: 1"}, "printable characters on one line"),
        ({"token": "key-of-ann-\u00e9"}, "printable ASCII"),
        ({"token": "k" * 8193}, "at most 8192 characters"),
    ],
)
def test_a_value_that_cannot_be_sent_is_refused_and_not_shown(ann: Caller, values: dict[str, str], words: str) -> None:
    page = store(ann.browser.client, "far", values)
    assert page.status_code == 400
    assert words in page.text
    assert not values.get("token") or values["token"] not in page.text
    assert ann.call("far", "sign_in").result["isError"] or ann.call("far", "whoami").result["isError"]


def test_a_client_that_shows_urls_is_asked_and_the_retry_waits_for_the_key(ann: Caller) -> None:
    """ACCESS 8; MCP 2026-07-28, client/elicitation (URL mode)."""
    key, question, state = asked(ann.call("far", "whoami", URL_CLIENT))
    assert question["url"] == f"{BASE}/upstreams/far"
    answers = {"inputResponses": {key: {"action": "accept"}}, "requestState": state}
    with ThreadPoolExecutor(1) as pool:
        retry = pool.submit(ann.call, "far", "whoami", URL_CLIENT, **answers)
        store(ann.browser.client, "far", key_of("ann"))
        assert retry.result().text == "ann"


def test_a_refused_key_says_so_and_another_one_is_asked_for(keyed: Keyed, ann: Caller) -> None:
    old, new = key_of("ann"), key_of("ann")
    store(ann.browser.client, "far", old)
    until(lambda: "whoami" in tools_of(ann, "far"))
    assert ann.call("far", "whoami").text == "ann"
    keyed.refuse(old)
    refused = ann.call("far", "whoami")
    assert refused.result["isError"]
    assert "refused your account" in refused.text
    assert refused.text.endswith(f"{BASE}/upstreams/far")
    assert old not in refused.text
    assert "refused this account" in page_of(ann.browser.client, "far").text
    key, question, state = asked(ann.call("far", "whoami", URL_CLIENT))
    assert "refused" in question["message"]
    answers = {"inputResponses": {key: {"action": "accept"}}, "requestState": state}
    with ThreadPoolExecutor(1) as pool:
        retry = pool.submit(ann.call, "far", "whoami", URL_CLIENT, **answers)
        store(ann.browser.client, "far", new)
        assert retry.result().text == "ann"
    assert "refused this account" not in page_of(ann.browser.client, "far").text
    keyed.refuse()


def test_a_disconnected_key_is_sent_no_more(keyed: Keyed, ann: Caller) -> None:
    key = key_of("ann")
    store(ann.browser.client, "far", key)
    until(lambda: "whoami" in tools_of(ann, "far"))
    assert ann.call("far", "whoami").text == "ann"
    assert disconnect(ann.browser.client, "far").status_code == 303
    before = len(keyed.seen())
    assert ann.call("far", "whoami").result["isError"]
    assert key not in {row["key"] for row in keyed.seen()[before:] if row["headers"].get("content-length")}


def test_each_caller_has_a_process_of_their_own_that_ends_with_the_account(hub: Hub) -> None:
    callers = {name: caller_at(hub, "tool") for name in ("ann", "ben")}
    keys = {name: key_of(name) for name in callers}
    for name, caller in callers.items():
        store(caller.browser.client, "tool", {"key": keys[name]})
        until(lambda caller=caller: "whoami" in tools_of(caller, "tool"))  # type: ignore[misc]
        assert caller.call("tool", "whoami").text == name
    running = {name: processes_with(key) for name, key in keys.items()}
    assert all(running.values())
    assert not running["ann"] & running["ben"]
    disconnect(callers["ann"].browser.client, "tool")
    until(lambda: not processes_with(keys["ann"]), "the process of ann ends")
    assert processes_with(keys["ben"]) == running["ben"]
    assert callers["ben"].call("tool", "whoami").text == "ben"
    assert callers["ann"].call("tool", "whoami").result["isError"]


def test_a_call_that_the_hub_ends_with_its_account_answers_why(hub: Hub) -> None:
    """The caller got an empty answer, 202, to a call that it still waited for."""
    ann = caller_at(hub, "tool")
    store(ann.browser.client, "tool", {"key": key_of("ann")})
    until(lambda: "wait" in tools_of(ann, "tool"))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ann.call, "tool", "wait")
        used = hub.catalogue.find("tool").upstream.call_connections
        until(lambda: any(one.is_busy() for one in used.list_open()), "the call runs with the account")
        disconnect(ann.browser.client, "tool")
        answer = waiting.result(BOUND)
    assert answer.status == 200 and answer.result["isError"]
    assert answer.text.startswith("the hub ended this call: your account at tool was disconnected or replaced")
    assert "/upstreams/tool" in answer.text
    record = hub.activity.recent(Filter(server="tool", tool="wait")).records[0]
    assert (record.outcome, record.reason) == ("tool_error", "")


def test_no_caller_reads_what_the_process_of_another_one_wrote_and_it_goes_with_the_account(
    tmp_path: Path,
) -> None:
    """One folder for all callers of a program let each of them read the keys that it had written for others."""
    if not active_program_protections(ALL):
        pytest.skip("this machine cannot confine a program")
    own = shared_hub(tmp_path, files={"tool.json": program_mount()}, store="sqlite", protections=ALL, confine="default")
    try:
        ann, ben = caller_at(own, "tool"), caller_at(own, "tool")
        keys = {name: key_of(name) for name in ("ann", "ben")}
        for caller, name in ((ann, "ann"), (ben, "ben")):
            store(caller.browser.client, "tool", {"key": keys[name]})
            until(lambda caller=caller: "whoami" in tools_of(caller, "tool"))  # type: ignore[misc]
        homes = [Path(caller.call("tool", "remember").text) for caller in (ann, ben)]
        assert homes[0] != homes[1] and all(home.is_dir() for home in homes)
        assert keys["ann"] in ann.call("tool", "recall").text
        read = ben.call("tool", "recall").text
        assert keys["ben"] in read and keys["ann"] not in read
        disconnect(ann.browser.client, "tool")
        until(lambda: not homes[0].exists(), "the folder of ann is removed")
        assert keys["ben"] in ben.call("tool", "recall").text
    finally:
        own.close()


def test_no_page_no_command_line_and_no_stored_byte_shows_a_key(hub: Hub) -> None:
    ann, key = caller_at(hub, "tool"), key_of("ann")
    store(ann.browser.client, "tool", {"key": key})
    until(lambda: "whoami" in tools_of(ann, "tool"))
    assert ann.call("tool", "whoami").text == "ann"
    assert processes_with(key)
    assert not [pid for pid, data in read_processes("cmdline") if key.encode() in data]
    paths = ("/upstreams", "/upstreams/tool", "/account", "/servers/tool", "/servers/tool/settings", "/activity")
    for path in paths:
        for headers in (HTML, JSON):
            assert key not in ann.browser.client.get(path, headers=headers).text
    stored = [path.read_bytes() for path in hub.servers.parent.rglob("*") if path.is_file()]
    assert stored
    assert not any(key.encode() in data for data in stored)


JSON = {"Accept": "application/json"}
