"""Approvals: one call of exactly these bytes, once; asked of the client, or decided on the page.

Sources: ACCESS section 5; issue 16 item 5 and "Approval" of what it must show.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.access.approvals import (
    APPROVAL_SECONDS,
    Approvals,
    CallDigest,
    UnknownApproval,
    canonical_arguments,
)
from patchbay.access.audit.chain import newest_rows
from patchbay.access.audit.verification import verify
from patchbay.cid import cid_of
from patchbay.errors import ToolFailed
from patchbay.stores.memory import MemoryStore
from tests.access.audit.chains import exported
from tests.access.team import FILES, new_key, set_grants
from tests.hubs import Answer, Hub, modern_request
from tests.waiting import BOUND, until

FORMS: dict[str, Any] = {"elicitation": {"form": {}}}

SAFE = '''"""A safe that counts how often it was opened."""

from pathlib import Path


def open_safe(count: str, code: str = "1") -> str:
    """Open the safe."""
    with Path(count).open("a") as file:
        file.write(code + "\\\\n")
    return f"opened with {code}"


def look() -> str:
    """Look at the safe."""
    return "closed"


def relay(context, count: str) -> str:
    """Open the safe through another tool."""
    return str(context.call("safe", "open_safe", count=count))


def elsewhere(count: str) -> dict:
    """Open the safe by a redirect."""
    return {"redirect": f"/safe/open_safe?count={count}"}


def doubt(context, count: str) -> str:
    """Ask one more question, then open the safe."""
    answer = context.elicit("Sure?", {"type": "object", "properties": {"sure": {"type": "boolean"}}}, key="sure")
    with Path(count).open("a") as file:
        file.write("doubt\\\\n")
    return str(answer["action"])
'''.replace("\\\\n", "\\n")

CONFIG = {
    "auto_discover": True,
    "isolation": "inline",
    "tools": {
        "open_safe": {"approve": True},
        "doubt": {"approve": True},
        "look": {"annotations": {"readOnlyHint": True}},
    },
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = FILES | {"safe.py": SAFE, "safe.mcp.json": orjson.dumps(CONFIG).decode()}
    hub = Hub(tmp_path_factory.mktemp("approvals"), files, access="shared", isolation="inline")
    hub.catalogue.hub.gate.wait_seconds = 0.0
    yield hub
    hub.close()


def write_safe(hub: Hub, source: str = SAFE) -> None:
    before = hub.catalogue.find("safe").version
    (hub.servers / "safe.py").write_text(source)
    until(lambda: hub.catalogue.find("safe").version != before, "the new version")


def call(
    hub: Hub,
    headers: dict[str, str],
    arguments: dict[str, Any],
    tool: str = "open_safe",
    capabilities: dict[str, Any] | None = FORMS,
    **params: Any,
) -> Answer:
    wanted = {"name": tool, "arguments": arguments, **params}
    return hub.send("safe", *modern_request("tools/call", wanted, capabilities, headers=headers))


def accepted(asked: Answer, action: str = "accept") -> dict[str, Any]:
    """The members of a retry that answer all questions of an InputRequiredResult."""
    assert asked.result["resultType"] == "input_required", asked.result
    answers = {key: {"action": action, "content": {}} for key in asked.result["inputRequests"]}
    return {"inputResponses": answers, "requestState": asked.result["requestState"]}


def opened(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


@pytest.fixture
def ann(hub: Hub) -> dict[str, str]:
    name = f"ann{len(hub.app.parts.keys.all())}"
    return new_key(hub, name)


@pytest.fixture
def count(tmp_path: Path) -> Path:
    return tmp_path / "count"


def test_the_client_is_asked_and_the_call_runs_once(hub: Hub, ann: dict[str, str], count: Path) -> None:
    asked = call(hub, ann, {"count": str(count)})
    ((key, question),) = asked.result["inputRequests"].items()
    assert key.startswith("approval-") and question["method"] == "elicitation/create"
    assert "safe.open_safe" in question["params"]["message"] and str(count) in question["params"]["message"]
    assert opened(count) == []
    retry = accepted(asked)
    assert call(hub, ann, {"count": str(count)}, **retry).text == "opened with 1"
    assert opened(count) == ["1"]
    # A second retry, with and without the state, and with the old answers.
    assert "used before" in call(hub, ann, {"count": str(count)}, **retry).error["message"]
    again = call(hub, ann, {"count": str(count)}, inputResponses=retry["inputResponses"])
    assert again.result["resultType"] == "input_required"
    assert opened(count) == ["1"]


def test_a_double_retry_at_once_runs_once(hub: Hub, ann: dict[str, str], count: Path) -> None:
    retry = accepted(call(hub, ann, {"count": str(count)}))
    answers: list[Answer] = []
    barrier = threading.Barrier(4)

    def send() -> None:
        barrier.wait(BOUND)
        # Without the state, only the approval itself keeps the call from running twice.
        answers.append(call(hub, ann, {"count": str(count)}, inputResponses=retry["inputResponses"]))

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND)
    assert opened(count) == ["1"]
    assert len(answers) == 4
    assert sum(answer.result.get("content", [{}])[0].get("text") == "opened with 1" for answer in answers) == 1


def test_a_refused_call_does_not_run(hub: Hub, ann: dict[str, str], count: Path) -> None:
    for action in ("decline", "cancel"):
        refused = call(hub, ann, {"count": str(count)}, **accepted(call(hub, ann, {"count": str(count)}), action))
        assert refused.result["isError"] and "was refused by the user" in refused.text
    assert opened(count) == []


def test_an_approval_is_for_these_arguments_alone(hub: Hub, ann: dict[str, str], count: Path) -> None:
    retry = accepted(call(hub, ann, {"count": str(count)}))
    other = {"count": str(count), "code": "2"}
    assert "another call" in call(hub, ann, other, **retry).error["message"]
    asked = call(hub, ann, other, inputResponses=retry["inputResponses"])
    assert asked.result["resultType"] == "input_required"
    assert opened(count) == []


def test_an_approval_is_for_one_principal(hub: Hub, ann: dict[str, str], count: Path) -> None:
    ben = new_key(hub, f"ben-{count.parent.name}")
    retry = accepted(call(hub, ann, {"count": str(count)}))
    assert "another call" in call(hub, ben, {"count": str(count)}, **retry).error["message"]
    asked = call(hub, ben, {"count": str(count)}, inputResponses=retry["inputResponses"])
    assert asked.result["resultType"] == "input_required"
    assert asked.result["inputRequests"].keys().isdisjoint(retry["inputResponses"])
    assert opened(count) == []


@pytest.mark.parametrize(
    ("old", "new"), [("Open the safe.", "Open the safe wide."), ("opened with", "secretly opened with")]
)
def test_an_approval_lapses_when_the_tool_changes(
    hub: Hub, ann: dict[str, str], count: Path, old: str, new: str
) -> None:
    retry = accepted(call(hub, ann, {"count": str(count)}))
    write_safe(hub, SAFE.replace(old, new))
    try:
        asked = call(hub, ann, {"count": str(count)}, **retry)
        assert asked.result["resultType"] == "input_required"
        assert asked.result["inputRequests"].keys().isdisjoint(retry["inputResponses"])
        assert opened(count) == []
    finally:
        write_safe(hub)


def test_a_tool_that_asks_more_keeps_its_approval_until_it_ends(hub: Hub, ann: dict[str, str], count: Path) -> None:
    first = call(hub, ann, {"count": str(count)}, "doubt")
    second = call(hub, ann, {"count": str(count)}, "doubt", **accepted(first))
    assert second.result["inputRequests"].keys() == {"sure"}
    assert call(hub, ann, {"count": str(count)}, "doubt", **accepted(second)).text == "accept"
    assert call(hub, ann, {"count": str(count)}, "doubt").result["inputRequests"].keys() != {"sure"}
    assert opened(count) == ["doubt"]


def test_a_client_that_cannot_be_asked_learns_where_the_call_can_be_approved(
    hub: Hub, ann: dict[str, str], count: Path
) -> None:
    unable: list[dict[str, Any]] = [{}, {"elicitation": {"url": {}}}]
    for capabilities in unable:
        refused = call(hub, ann, {"count": str(count)}, capabilities=capabilities)
        assert refused.result["isError"] and "on the page /approvals" in refused.text
    id = re.search(r"\(id (\S+)\)", refused.text)
    assert id is not None
    page = orjson.loads(hub.client.get("/approvals.json", headers={"Authorization": f"Bearer {hub.token}"}).data)
    assert [one["state"] for one in page["approvals"] if one["id"] == id[1]] == ["waiting"]
    operator = {"Authorization": f"Bearer {hub.token}", "Host": "localhost"}
    assert decide(hub, id[1], "approve", ann).status_code == 401
    assert decide(hub, id[1], "approve", operator).status_code == 303
    assert decide(hub, id[1], "refuse", operator).status_code == 404
    assert call(hub, ann, {"count": str(count)}, capabilities={}).text == "opened with 1"
    assert "on the page /approvals" in call(hub, ann, {"count": str(count)}, capabilities={}).text
    assert opened(count) == ["1"]


def decide(hub: Hub, id: str, do: str, headers: dict[str, str]) -> Any:
    return hub.client.post("/approvals", data={"id": id, "do": do}, headers={"Host": "localhost", **headers})


@pytest.mark.parametrize("do", ["approve", "refuse"])
def test_a_waiting_call_goes_on_when_it_is_decided(hub: Hub, ann: dict[str, str], count: Path, do: str) -> None:
    approvals = hub.app.parts.dispatcher.services.approvals
    gate = hub.catalogue.hub.gate
    gate.wait_seconds = BOUND / 2
    answers: list[Answer] = []
    work = lambda: answers.append(call(hub, ann, {"count": str(count)}, capabilities={}))  # noqa: E731
    thread = threading.Thread(target=work)
    thread.start()
    try:
        id = until(lambda: [one.id for one in approvals.all() if str(count) in str(one.arguments)])[0]
        assert decide(hub, id, do, {"Authorization": f"Bearer {hub.token}"}).status_code == 303
        thread.join(BOUND)
    finally:
        gate.wait_seconds = 0.0
    assert answers[0].text == "opened with 1" if do == "approve" else "refused" in answers[0].text
    assert opened(count) == (["1"] if do == "approve" else [])


def test_every_way_in_asks(hub: Hub, ann: dict[str, str], count: Path) -> None:
    key = ann | {"Host": "localhost"}
    plain = hub.client.post("/safe/open_safe", json={"count": str(count)}, headers=key)
    assert plain.status_code == 500 and "/approvals" in plain.text
    asked = {"jsonrpc": "2.0", "id": 1, "method": "safe.open_safe", "params": {"count": str(count)}}
    assert "/approvals" in hub.client.post("/rpc", json=asked, headers=key).text
    assert "/approvals" in call(hub, ann, {"count": str(count)}, "relay").text
    assert "/approvals" in call(hub, ann, {"count": str(count)}, "elsewhere").text
    hub.client.environ_base["HTTP_AUTHORIZATION"] = ann["Authorization"]
    try:
        legacy = hub.legacy("safe", "tools/call", {"name": "open_safe", "arguments": {"count": str(count)}})
        assert legacy.result["isError"] and "/approvals" in legacy.text
        assert (
            "/approvals"
            in hub.legacy(
                "", "tools/call", {"name": "safe__open_safe", "arguments": {"count": str(count)}}, hub.open("")
            ).body.decode()
        )
    finally:
        del hub.client.environ_base["HTTP_AUTHORIZATION"]
    assert call(hub, ann, {}, "look").text == "closed"
    assert opened(count) == []


def test_a_grant_can_ask_for_the_approval_of_destructive_tools(hub: Hub, count: Path) -> None:
    asks = {"to": ["*"], "may": ["see", "call", "read"], "on": ["*"], "call": "approve"}
    free = {"to": ["*"], "may": ["call"], "on": ["safe.relay"]}
    try:
        set_grants(hub, {"grants": [asks]})
        mine = new_key(hub, f"carol-{count.parent.name}")
        assert call(hub, mine, {"count": str(count)}, "relay").result["resultType"] == "input_required"
        assert call(hub, mine, {}, "look").text == "closed", "it only reads"
        set_grants(hub, {"grants": [asks, free]})
        assert "/approvals" in call(hub, mine, {"count": str(count)}, "relay").text, "the inner tool asks still"
    finally:
        set_grants(hub, None)
    assert opened(count) == []


def digest(**changes: str) -> CallDigest:
    arguments = cid_of(b"{}")
    known = {"principal": "ann", "server": "safe", "version": "v", "tool": "open", "tool_digest": "d"}
    return CallDigest(**{**known, "arguments_cid": arguments, **changes})


def test_an_approval_expires() -> None:
    now = [1000.0]
    approvals = Approvals(MemoryStore(), lambda: now[0])
    waiting = approvals.request(digest(), b"{}")
    now[0] += APPROVAL_SECONDS
    with pytest.raises(UnknownApproval, match="expired"):
        approvals.decide(waiting.id, True, "operator")
    other = approvals.request(digest(), b"{}")
    assert other.id != waiting.id
    approvals.decide(other.id, True, "operator")
    assert approvals.request(digest(), b"{}").id == other.id
    now[0] += APPROVAL_SECONDS
    with pytest.raises(ToolFailed, match="expired"):
        approvals.use(other.id, digest())
    assert approvals.request(digest(), b"{}").id != other.id


@pytest.mark.parametrize("field", ["principal", "server", "version", "tool", "tool_digest", "arguments_cid"])
def test_an_approval_is_used_by_its_call_alone_and_once(field: str) -> None:
    store = MemoryStore()
    approvals, elsewhere = Approvals(store), Approvals(store)
    asked = approvals.request(digest(), b"{}")
    with pytest.raises(ToolFailed, match="waiting"):
        elsewhere.use(asked.id, digest())
    elsewhere.decide(asked.id, True, "operator")
    with pytest.raises(ToolFailed, match="another call"):
        approvals.use(asked.id, digest(**{field: "other"}))
    approvals.use(asked.id, digest())
    with pytest.raises(ToolFailed, match="used already"):
        elsewhere.use(asked.id, digest())


def test_no_id_of_an_approval_is_read_as_an_option_of_a_command() -> None:
    approvals = Approvals(MemoryStore())
    ids = [approvals.request(digest(tool=str(number)), b"{}").id for number in range(50)]
    assert all(id.isalnum() for id in ids)


def test_a_principal_has_a_limit_of_waiting_calls() -> None:
    approvals = Approvals(MemoryStore())
    for number in range(100):
        approvals.request(digest(tool=str(number)), b"{}")
    with pytest.raises(ToolFailed, match="100 of your calls"):
        approvals.request(digest(), b"{}")
    assert approvals.request(digest(principal="ben"), b"{}").state == "waiting"


def test_the_audit_chain_has_each_decision_with_its_author_and_the_call_names_its_approval(
    hub: Hub, ann: dict[str, str], count: Path
) -> None:
    """ACCESS 7: who approved what: the digest of the arguments, the digest of the tool, the decision."""
    arguments = {"count": str(count), "code": "77"}
    refused = accepted(call(hub, ann, arguments), "decline")
    call(hub, ann, arguments, **refused)
    approved = accepted(call(hub, ann, arguments))
    assert call(hub, ann, arguments, **approved).text == "opened with 77"
    hub.activity.flush()
    digest = "f01551220" + sha256(canonical_arguments(arguments)).hexdigest()
    rows = [row for row in newest_rows(hub.catalogue.store.journal, 1000) if row.get("arguments") == digest]
    decisions = [row for row in rows if row["kind"] == "approval"]
    [made] = [row for row in rows if row["kind"] == "call" and row["approval"] == decisions[0]["approval"]]
    assert [row["decision"] for row in decisions] == ["approved", "refused"]
    principal = made["principal"]
    for row in decisions:
        assert (row["by"], row["principal"], row["server"], row["name"]) == (principal, principal, "safe", "open_safe")
        assert (row["tool"], row["version"]) == (made["tool"], made["version"])
    assert made["outcome"] == "ok" and decisions[0]["seq"] < made["seq"]
    assert verify(exported(hub.catalogue.store.journal)).rows > 3


def test_the_audit_chain_names_the_administrator_who_decides_on_the_page(
    hub: Hub, ann: dict[str, str], count: Path
) -> None:
    call(hub, ann, {"count": str(count)}, capabilities={})
    [waits] = [one for one in hub.app.parts.dispatcher.services.approvals.all() if str(count) in str(one.arguments)]
    proof = {"Authorization": f"Bearer {hub.token}"}
    form = {"id": waits.id, "do": "refuse"}
    assert hub.app.test_client().post("/approvals", data=form, headers=proof).status_code == 303
    [row] = [row for row in newest_rows(hub.catalogue.store.journal, 1000) if row.get("approval") == waits.id]
    assert (row["kind"], row["by"], row["decision"]) == ("approval", "operator", "refused")
    page = hub.app.test_client().get("/audit", headers=proof | {"Accept": "text/html"}).text
    assert f"refused as <code>{waits.id}</code>" in page
