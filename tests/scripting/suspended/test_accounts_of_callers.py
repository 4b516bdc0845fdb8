"""A call inside a script needs an account of its caller: the run waits until it is connected, and makes the call then.

Source: issue 55; TOOLSETS section 4 (durable: "when a call inside needs a person").
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from patchbay.access.approvals import APPROVAL_SECONDS
from patchbay.scripting.cancelling import cancel_run
from patchbay.scripting.following import describe_expired
from patchbay.scripting.front import KEPT_AS
from tests.access.upstreams.guarded import URL_CLIENT, Caller, caller_of, name_of, tools_of
from tests.access.upstreams.keyed import Keyed, disconnect, key_of, running_keyed, store
from tests.hubs import Answer, Hub, Stream, sse_messages
from tests.scripting.closing import ended, runs
from tests.scripting.hubs import failure, value
from tests.signing_in import Browser, shared_hub, signed_in
from tests.waiting import BOUND, until

pytestmark = [pytest.mark.process]

NAMES = iter(f"person{number}" for number in range(1000))
CODE = """import far

try:
    who = (await far.whoami())["result"]
except RuntimeError as problem:
    who = str(problem)
who
"""


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with running_keyed(tmp_path_factory.mktemp("keyed")) as keyed:
        yield keyed


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, keyed: Keyed) -> Iterator[Hub]:
    team = {"kind": "toolset", "tools": {"me": "far.whoami"}, "listing": {"scripts": "also"}}
    files = {"far.json": keyed.mount(listing={"scripts": "also"}), "team.json": json.dumps(team)}
    hub = shared_hub(tmp_path_factory.mktemp("hub"), files=files, store="sqlite")
    hub.catalogue.hub.gate.wait_seconds = 0.0
    # The tools of the server are known from the first account on; before that a script has no module of them.
    first = caller_of(hub, signed_in(hub, next(NAMES)), "far")
    store(first.browser.client, "far", key_of("first"))
    until(lambda: "whoami" in tools_of(first, "far"))
    yield hub
    hub.close()


@pytest.fixture
def two(keyed: Keyed, tmp_path: Path) -> Iterator[Hub]:
    """A hub with two servers that want an account of their own, and a toolset of both."""
    both = {"kind": "toolset", "tools": {"far": "far.whoami", "near": "near.whoami"}, "listing": {"scripts": "also"}}
    files = {"far.json": keyed.mount(), "near.json": keyed.mount(), "both.json": json.dumps(both)}
    hub = shared_hub(tmp_path / "two", files=files, store="sqlite")
    hub.catalogue.hub.gate.wait_seconds = 0.0
    first = caller_of(hub, signed_in(hub, next(NAMES)), "both")
    for name in ("far", "near"):
        store(first.browser.client, name, key_of("first"))
    until(lambda: {"far", "near"} <= set(tools_of(first, "both")))
    yield hub
    hub.close()


@pytest.fixture
def ann(hub: Hub) -> Caller:
    return caller_of(hub, signed_in(hub, next(NAMES)), "far")


def run(caller: Caller, code: str = CODE, capabilities: Any = None, **params: Any) -> Answer:
    """The answer to a script of a caller."""
    return caller.call("far", "run_script", capabilities, arguments={"code": code}, **params)


def waiting_run(hub: Hub, caller: Caller) -> Any:
    """The head of the one run of a caller that has not ended."""
    (head,) = (one for one in runs(hub).heads.all() if not one.ended and one.principal == name_of(caller))
    return head


def test_the_run_waits_for_the_account_and_goes_on_without_its_caller(hub: Hub, ann: Caller) -> None:
    said = failure(run(ann))
    assert "far.whoami (line 4 of the script) waits: far needs your own account at" in said
    assert "/upstreams/far in a browser in which you are signed in" in said
    assert hub.catalogue.hub.find_kept(KEPT_AS).interpreters.count() == 0
    assert failure(run(ann)) == said, "the same call finds the run that waits"
    head = waiting_run(hub, ann)
    state, (row,) = hub.app.parts.dispatcher.services.scripts.describe(head.id)
    assert (state, row["name"], row["needs"]) == ("suspended", "far.whoami", "account")
    store(ann.browser.client, "far", key_of("ann"))
    assert ended(hub, head.id).value == "ann"
    assert value(run(ann)) == "ann"


def test_a_run_may_go_on_and_end_before_the_request_that_suspended_it(
    hub: Hub, ann: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = runs(hub)
    whole = known.suspend

    def suspend(*given: Any) -> Any:
        head = whole(*given)
        store(ann.browser.client, "far", key_of("ann"))
        ended(hub, head.id)
        return head

    monkeypatch.setattr(known, "suspend", suspend)
    assert value(run(ann)) == "ann"


def test_a_call_through_a_toolset_waits_for_the_account_too(hub: Hub) -> None:
    ann = caller_of(hub, signed_in(hub, next(NAMES)), "team")
    until(lambda: "me" in tools_of(ann, "team"))
    code = 'import team\n(await team.me())["result"]'
    said = failure(ann.call("team", "run_script", arguments={"code": code}))
    assert "team.me (line 2 of the script) waits: far needs your own account at" in said
    head = waiting_run(hub, ann)
    store(ann.browser.client, "far", key_of("ann"))
    assert ended(hub, head.id).value == "ann"


def test_a_client_that_opens_pages_is_asked_and_gets_the_value(hub: Hub, ann: Caller) -> None:
    asked = run(ann, capabilities=URL_CLIENT)
    ((key, question),) = asked.result["inputRequests"].items()
    assert question["params"]["mode"] == "url" and question["params"]["url"].endswith("/upstreams/far")
    assert key.startswith("script-question-") and "far needs your own account" in question["params"]["message"]
    store(ann.browser.client, "far", key_of("ann"))
    retry = {"inputResponses": {key: {"action": "accept"}}, "requestState": asked.result["requestState"]}
    answer = run(ann, capabilities=URL_CLIENT, **retry)
    assert value(answer) == "ann" and len(answer.result["structuredContent"]["calls"]) == 1


def test_a_client_of_2025_is_asked_on_the_stream_and_gets_the_value(hub: Hub, ann: Caller) -> None:
    hub.client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {ann.token}"
    try:
        session = hub.open("far", capabilities=URL_CLIENT)
        headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
        params = {"name": "run_script", "arguments": {"code": CODE}}
        stream = hub.stream("far", {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}, headers)
        question = message_with(stream, "elicitationId")
        assert question["params"]["url"].endswith("/upstreams/far")
        hub.send("far", {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}}, headers)
        store(ann.browser.client, "far", key_of("ann"))
        assert message_with(stream, "structuredContent")["result"]["structuredContent"]["value"] == "ann"
    finally:
        del hub.client.environ_base["HTTP_AUTHORIZATION"]


def message_with(stream: Stream, word: str) -> dict[str, Any]:
    """The first message of a stream that has a word in it."""
    for frame in stream:
        for message in sse_messages(frame):
            if word in str(message):
                return message
    raise AssertionError(f"the stream ended without {word}")


def test_a_caller_that_declines_gets_the_failure_of_the_call(hub: Hub, ann: Caller) -> None:
    asked = run(ann, capabilities=URL_CLIENT)
    ((key, _),) = asked.result["inputRequests"].items()
    retry = {"inputResponses": {key: {"action": "decline"}}, "requestState": asked.result["requestState"]}
    answer = run(ann, capabilities=URL_CLIENT, **retry)
    assert value(answer) == "far.whoami: did not run: you did not connect your account"
    assert answer.result["structuredContent"]["calls"][0]["refused"] is True


def test_the_account_of_somebody_else_lets_no_run_go_on(hub: Hub, ann: Caller) -> None:
    failure(run(ann))
    head = waiting_run(hub, ann)
    ben = caller_of(hub, signed_in(hub, next(NAMES)), "far")
    store(ben.browser.client, "far", key_of("ben"))
    assert value(run(ben)) == "ben"
    assert runs(hub).lacks_account(head) and runs(hub).state_of(head) == "suspended"
    store(ann.browser.client, "far", key_of("ann"))
    assert ended(hub, head.id).value == "ann"


def test_a_refused_key_waits_for_another_one(hub: Hub, keyed: Keyed, ann: Caller) -> None:
    wrong = key_of("wrong")
    keyed.refuse(wrong)
    store(ann.browser.client, "far", wrong)
    said = failure(run(ann))
    assert "far refused your account at" in said
    head = waiting_run(hub, ann)
    store(ann.browser.client, "far", key_of("ann"))
    assert ended(hub, head.id).value == "ann"


def test_an_account_that_is_gone_again_is_asked_for_again(hub: Hub, ann: Caller) -> None:
    code = f"{CODE}again = (await far.whoami())['result']\n[who, again]"
    scripts = hub.app.parts.dispatcher.services.scripts
    failure(run(ann, code))
    head = waiting_run(hub, ann)
    store(ann.browser.client, "far", key_of("ann"))
    assert ended(hub, head.id).value == ["ann", "ann"]
    disconnect(ann.browser.client, "far")
    other = f"{CODE}print('again')\nwho"
    assert "needs your own account" in failure(run(ann, other))
    assert scripts.runs.heads.all()[0].accounts.endswith(":")


def test_a_run_without_an_account_in_time_ends(hub: Hub, ann: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    failure(run(ann))
    head = waiting_run(hub, ann)
    now = runs(hub).approvals.now()
    monkeypatch.setattr(runs(hub).approvals, "now", lambda: now + APPROVAL_SECONDS + 1)
    assert runs(hub).state_of(head) == "expired"
    again = failure(run(ann))
    assert "needs your own account" in again and head.id not in again, "a run of its own"
    store(ann.browser.client, "far", key_of("ann"))
    assert runs(hub).state_of(head) == "expired" and runs(hub).claim(head.id, "process") is None
    (second,) = (one for one in runs(hub).heads.of(name_of(ann)) if one.id != head.id)
    assert ended(hub, second.id).value == "ann"


def test_a_caller_that_waits_is_told_that_the_account_was_missing_and_not_the_decision(
    hub: Hub, ann: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure(run(ann))
    head = waiting_run(hub, ann)
    now = runs(hub).approvals.now()
    asked = replace(head, question="of-other-calls")
    approved = SimpleNamespace(decided=now)
    monkeypatch.setattr(runs(hub).approvals, "find_question", lambda question: [approved])
    said = describe_expired(runs(hub), asked)
    assert said == f"the run {head.id} has ended: there was no account that one of its calls needs in time"
    store(ann.browser.client, "far", key_of("ann"))
    ended(hub, head.id)


def test_a_run_that_is_cancelled_while_its_caller_is_answered_is_not_called_damaged(
    hub: Hub, ann: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, looks = runs(hub), []
    whole = known.lacking_accounts

    def lacking(head: Any) -> Any:
        found = whole(head)
        looks.append(head)
        if len(looks) == 2:  # the one for the sentence to the caller
            assert cancel_run(known, head.id, "operator")
        return found

    monkeypatch.setattr(known, "lacking_accounts", lacking)
    assert "the run was cancelled by operator" in failure(run(ann))


def test_the_account_may_be_connected_at_another_hub_on_the_same_store(keyed: Keyed, tmp_path: Path) -> None:
    files = {"far.json": keyed.mount(listing={"scripts": "also"})}
    first = shared_hub(tmp_path, files=files, store="sqlite")
    second = shared_hub(tmp_path, store="sqlite")
    try:
        first.catalogue.hub.gate.wait_seconds = 0.0
        ben, ann = (caller_of(first, signed_in(first, name), "far") for name in ("ben", "ann"))
        store(ben.browser.client, "far", key_of("ben"))
        until(lambda: "whoami" in tools_of(ann, "far"))
        failure(run(ann))
        (head,) = runs(second).heads.all()
        assert runs(second).lacks_account(head)
        browser = Browser(second)
        browser.sign_in("ann")
        store(browser.client, "far", key_of("ann"))
        assert ended(first, head.id).value == ended(second, head.id).value == "ann"
        assert value(run(Caller(second, browser, ann.token))) == "ann", "at the other hub"
    finally:
        second.close()
        first.close()


def test_a_run_that_waits_for_an_account_goes_on_after_a_restart(keyed: Keyed, tmp_path: Path) -> None:
    files = {"far.json": keyed.mount(listing={"scripts": "also"})}
    first = shared_hub(tmp_path, files=files, store="sqlite")
    first.catalogue.hub.gate.wait_seconds = 0.0
    ben, ann = (caller_of(first, signed_in(first, name), "far") for name in ("ben", "ann"))
    store(ben.browser.client, "far", key_of("ben"))
    until(lambda: "whoami" in tools_of(ann, "far"))
    failure(run(ann))
    (head,) = runs(first).heads.all()
    first.close()
    second = shared_hub(tmp_path, store="sqlite")
    try:
        browser = Browser(second)
        browser.sign_in("ann")
        again = Caller(second, browser, ann.token)
        until(lambda: "whoami" in tools_of(again, "far"))
        store(again.browser.client, "far", key_of("ann"))
        assert ended(second, head.id).value == "ann"
    finally:
        second.close()


BOTH = """import asyncio
import both


async def who(call):
    try:
        return (await call)["result"]
    except RuntimeError as problem:
        return str(problem)


await asyncio.gather(who(both.far()), who(both.far()), who(both.near()))
"""


def pages(asked: Answer) -> dict[str, str]:
    """The keys of the pages that a client was asked to open, by the last part of their URL."""
    return {one["params"]["url"].rpartition("/")[2]: key for key, one in asked.result["inputRequests"].items()}


def test_an_account_is_asked_for_once_and_a_declined_one_ends_only_its_own_calls(two: Hub) -> None:
    ann = caller_of(two, signed_in(two, next(NAMES)), "both")

    def ask(**params: Any) -> Answer:
        return ann.call("both", "run_script", URL_CLIENT, arguments={"code": BOTH}, **params)

    asked = ask()
    keys = pages(asked)
    assert sorted(keys) == ["far", "near"], "one question for each account"
    assert (
        sum(
            "and 1 more call wait: far needs" in one["params"]["message"]
            for one in asked.result["inputRequests"].values()
        )
        == 1
    )
    head = waiting_run(two, ann)
    answers = {keys["far"]: {"action": "decline"}, keys["near"]: {"action": "accept"}}
    with ThreadPoolExecutor(1) as pool:
        last = pool.submit(ask, inputResponses=answers, requestState=asked.result["requestState"])
        until(lambda: len(runs(two).heads.get(head.id).accounts.split()) == 1, "the reply")
        assert runs(two).state_of(runs(two).heads.get(head.id)) == "suspended", "the other account is still needed"
        store(ann.browser.client, "near", key_of("ann"))
        declined = "both.far: did not run: you did not connect your account"
        assert value(last.result(BOUND)) == [declined, declined, "ann"]


def test_two_replies_at_the_same_time_both_count(two: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = caller_of(two, signed_in(two, next(NAMES)), "both")
    ann.call("both", "run_script", URL_CLIENT, arguments={"code": BOTH})
    head, suspended = waiting_run(two, ann), runs(two)
    first, second = suspended.lacking_accounts(head)
    read, late = suspended.read, iter([second])

    def read_before_another_reply(id: str) -> Any:
        found = read(id)
        for account in late:
            assert suspended.decline(head, {account})
        return found

    monkeypatch.setattr(suspended, "read", read_before_another_reply)
    assert suspended.decline(head, {first})
    outcome = ended(two, head.id)
    assert outcome.value == ["both.far: did not run: you did not connect your account"] * 2 + [
        "both.near: did not run: you did not connect your account"
    ]
