"""The rights of a toolset: it gives what it lists, a denial always holds, and the audit names both sides."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.access.audit.chain import read_lines
from patchbay.activity.records import Filter
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub
from tests.kinds.toolset.sets import FILES, toolset, write
from tests.waiting import BOUND, until

DANGEROUS = {
    "safe.py": 'def open_safe(number: int = 1) -> str:\n    """Open the safe."""\n    return f"opened {number}"\n',
    "safe.mcp.json": '{"auto_discover": true, "isolation": "inline", "tools": {"open_safe": {"approve": true}}}',
}
SETS = {
    "release.json": toolset(tools={"history": "git.git_log", "push": "git.git_push", "open": "safe.open_safe"}),
    "strict.json": toolset(tools={"history": "git.git_log", "push": "git.git_push"}, rights="caller"),
    "outer.json": toolset(tools={"log": "release.history", "strict_log": "strict.history"}),
}
LOG = {"repo_path": "/srv"}


def on(*patterns: str, may: tuple[str, ...] = ("call",)) -> dict[str, Any]:
    return {"to": ["key:ann"], "may": list(may), "on": list(patterns)}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = team_hub(tmp_path_factory.mktemp("rights"), {**FILES, **DANGEROUS, **SETS})
    found.catalogue.hub.gate.wait_seconds = 0.0
    yield found
    found.close()


@pytest.fixture(scope="module")
def ann(hub: Hub) -> dict[str, str]:
    return new_key(hub, "ann")


def names(hub: Hub, server: str, headers: dict[str, str]) -> set[str]:
    answer = hub.modern(server, "tools/list", headers=headers)
    return {one["name"] for one in answer.result["tools"]} if "result" in answer.last else set()


def call(hub: Hub, server: str, tool: str, headers: dict[str, str], arguments: Any = LOG) -> str:
    answer = hub.modern(server, "tools/call", {"name": tool, "arguments": arguments}, headers=headers)
    return answer.text if "result" in answer.last else str(answer.error)


def test_who_may_call_a_tool_of_a_toolset_needs_no_right_on_its_origin(hub: Hub, ann: dict[str, str]) -> None:
    set_grants(hub, {"grants": [on("release.history")]})
    assert names(hub, "release", ann) == {"history"}
    assert "/srv" in call(hub, "release", "history", ann)
    assert "there is no server 'git'" in call(hub, "git", "git_log", ann)
    assert "there is no tool 'push'" in call(hub, "release", "push", ann)


def test_a_denial_of_the_origin_holds_for_the_toolset(hub: Hub, ann: dict[str, str]) -> None:
    denied = [{"to": ["key:ann"], "on": ["git.git_log"]}]
    set_grants(hub, {"grants": [on("release", "outer")], "denials": denied})
    assert "history" not in names(hub, "release", ann) and "push" in names(hub, "release", ann)
    assert names(hub, "outer", ann) == set()
    assert "there is no tool 'history'" in call(hub, "release", "history", ann)


def test_a_denial_of_the_toolset_holds_for_who_may_use_the_origin(hub: Hub, ann: dict[str, str]) -> None:
    denied = [{"to": ["key:ann"], "on": ["release.history"]}]
    set_grants(hub, {"grants": [on("git", "release", "outer")], "denials": denied})
    assert "history" not in names(hub, "release", ann) and "log" not in names(hub, "outer", ann)


def test_a_denial_of_a_whole_server_holds_for_everything_of_it(hub: Hub, ann: dict[str, str]) -> None:
    set_grants(hub, {"grants": [on("*")], "denials": [{"to": ["*"], "on": ["git"]}]})
    assert names(hub, "release", ann) == {"open"}


def test_with_rights_of_the_caller_both_rights_are_needed(hub: Hub, ann: dict[str, str]) -> None:
    set_grants(hub, {"grants": [on("strict", "outer")]})
    assert names(hub, "strict", ann) == set() and names(hub, "outer", ann) == {"log"}
    set_grants(hub, {"grants": [on("strict", "outer", "git.git_log")]})
    assert names(hub, "strict", ann) == {"history"} and names(hub, "outer", ann) == {"log", "strict_log"}
    assert "/srv" in call(hub, "outer", "strict_log", ann)


def test_a_scope_of_a_toolset_gives_its_tools_and_nothing_else(hub: Hub) -> None:
    set_grants(hub, {"grants": [{"to": ["key:ben"], "may": ["call", "see"], "on": ["*"]}]})
    ben = new_key(hub, "ben", ["call:release.history"])
    assert "/srv" in call(hub, "release", "history", ben)
    assert "there is no server" in call(hub, "git", "git_log", ben)


def test_the_origin_is_not_named_to_who_may_not_see_it(hub: Hub, ann: dict[str, str]) -> None:
    set_grants(hub, {"grants": [on("release", "strict")]})
    texts = [
        hub.modern("release", method, headers=ann).body.decode()
        for method in ("tools/list", "server/discover", "resources/list")
    ]
    texts += [call(hub, "release", "history", ann, {}), call(hub, "release", "hist", ann)]
    texts += [hub.client.get(path, headers=ann).text for path in ("/servers/release", "/servers/release/tools/history")]
    for text in texts:
        assert "git_log" not in text and "git." not in text


def test_a_quota_of_the_origin_counts_calls_through_the_toolset(hub: Hub, ann: dict[str, str]) -> None:
    quota = {"to": ["key:ann"], "on": ["git"], "calls_per_minute": 2}
    set_grants(hub, {"grants": [on("*")], "quotas": [quota]})
    assert "/srv" in call(hub, "release", "history", ann) and "/srv" in call(hub, "git", "git_log", ann)
    refused = call(hub, "release", "history", ann)
    assert "too many calls of release.history" in refused and "git" not in refused


def test_a_quota_of_the_caller_counts_a_call_through_a_toolset_once(hub: Hub, ann: dict[str, str]) -> None:
    set_grants(hub, {"grants": [on("*")], "quotas": [{"to": ["key:ann"], "calls_per_minute": 3}]})
    texts = [call(hub, "outer", "log", ann) for _ in range(4)]
    assert ["/srv" in text for text in texts] == [True, True, True, False]


def test_the_audit_row_of_a_call_names_both_with_both_digests(hub: Hub, ann: dict[str, str]) -> None:
    set_grants(hub, {"grants": [on("outer")]})
    assert "/srv" in call(hub, "outer", "log", ann)
    row = until(lambda: newest_row(hub, "outer", "log"), "the row of the call")
    outer, release, git = (hub.catalogue.find(name) for name in ("outer", "release", "git"))
    assert (row["name"], row["tool"]) == ("log", outer.tools["log"].digest)
    assert row["origins"] == [
        {"server": "release", "name": "history", "version": release.version, "tool": release.tools["history"].digest},
        {"server": "git", "name": "git_log", "version": git.version, "tool": git.tools["git_log"].digest},
    ]


def newest_row(hub: Hub, server: str, name: str) -> dict[str, Any] | None:
    rows = [orjson.loads(line) for line in read_lines(hub.catalogue.store.journal)]
    return next((row for row in reversed(rows) if (row.get("server"), row.get("name")) == (server, name)), None)


def test_the_record_of_a_call_names_both_to_the_operator_alone(hub: Hub, ann: dict[str, str]) -> None:
    set_grants(hub, {"grants": [on("outer", may=("call", "see"))]})
    assert "/srv" in call(hub, "outer", "log", ann)
    record = until(lambda: next(iter(hub.activity.recent(Filter(server="outer", tool="log")).records), None), "it")
    assert [(one["server"], one["name"]) for one in record.origins] == [("release", "history"), ("git", "git_log")]
    operator = {"Authorization": f"Bearer {hub.token}"}
    page = f"/activity/{record.id}"
    assert "git.git_log" in hub.client.get(page, headers=operator | {"Accept": "text/html"}).text
    assert hub.client.get(page, headers=operator | {"Accept": "application/json"}).json == record.to_json()
    assert record.for_strangers().origins == ()
    assert "git_log" not in hub.client.get(page, headers=ann).text
    assert "git_log" not in hub.client.get("/activity.json", headers=ann).text


def waiting_calls(hub: Hub, operator: dict[str, str]) -> list[Any]:
    found: Any = hub.client.get("/approvals", headers=operator).json
    return [one for one in found["approvals"] if one["waits"]]


def test_an_approval_through_a_toolset_names_both_and_is_for_this_origin_only(hub: Hub, ann: dict[str, str]) -> None:
    set_grants(hub, {"grants": [on("release")]})
    operator = {"Authorization": f"Bearer {hub.token}", "Accept": "application/json"}
    assert "needs an approval" in call(hub, "release", "open", ann, {})
    waiting = waiting_calls(hub, operator)
    safe = hub.catalogue.find("safe")
    assert [(one["server"], one["tool"]) for one in waiting] == [("release", "open")]
    assert [(one["server"], one["name"], one["tool"]) for one in waiting[0]["origins"]] == [
        ("safe", "open_safe", safe.tools["open_safe"].digest)
    ]
    decided = hub.client.post("/approvals", data={"id": waiting[0]["id"], "do": "approve"}, headers=operator)
    assert (decided.json or {})["state"] == "approved"
    text = DANGEROUS["safe.py"].replace('"opened', '"really opened')
    (hub.servers / "safe.py").write_text(text)
    hub.catalogue.read_folder()
    hub.catalogue.refresh()
    assert "needs an approval" in call(hub, "release", "open", ann, {})
    waiting = waiting_calls(hub, operator)
    hub.client.post("/approvals", data={"id": waiting[0]["id"], "do": "approve"}, headers=operator)
    assert call(hub, "release", "open", ann, {}) == "really opened 1"


@pytest.mark.parametrize(("server", "tool"), [("release", "open"), ("wide", "open")])
def test_what_changes_while_a_call_waits_for_its_approval_does_not_run(tmp_path: Path, server: str, tool: str) -> None:
    """`wide` has the tool of a toolset: the server behind that one changes, and the toolset itself does not."""
    found = team_hub(tmp_path, {**FILES, **SETS, **DANGEROUS, "wide.json": toolset(include=["release.open"])})
    found.catalogue.hub.gate.wait_seconds = BOUND
    operator = {"Authorization": f"Bearer {found.token}", "Accept": "application/json"}
    headers = {"Authorization": f"Bearer {found.token}"}
    texts: list[str] = []
    thread = threading.Thread(target=lambda: texts.append(call(found, server, tool, headers, {})))
    thread.start()
    first = until(lambda: waiting_calls(found, operator), "the call that waits")[0]
    write(found, "safe.py", DANGEROUS["safe.py"].replace('"opened', '"really opened'))
    decided = found.client.post("/approvals", data={"id": first["id"], "do": "approve"}, headers=operator)
    assert (decided.json or {})["state"] == "approved"
    thread.join(BOUND)
    assert texts == [f"{server}.{tool} has changed since this call began: send the call again"]
    found.catalogue.hub.gate.wait_seconds = 0.0
    assert "needs an approval" in call(found, server, tool, headers, {})
    found.client.post(
        "/approvals", data={"id": waiting_calls(found, operator)[0]["id"], "do": "approve"}, headers=operator
    )
    assert call(found, server, tool, headers, {}) == "really opened 1"
    found.close()


def test_an_approval_that_a_grant_asks_for_at_any_origin_is_asked_for_at_the_toolset(tmp_path: Path) -> None:
    files = {**FILES, **SETS, **DANGEROUS, "far.json": toolset(include=["release.push"])}
    found = team_hub(tmp_path, files)
    found.catalogue.hub.gate.wait_seconds = 0.0
    key = new_key(found, "ann")
    cases = {
        ("git.git_push", ("release", "strict", "far")): {"release", "strict", "far"},
        ("release.push", ("git", "strict", "far")): {"release", "far"},
        ("far.push", ("git", "release", "strict")): {"far"},
    }
    for (asked, free), held in cases.items():
        set_grants(found, {"grants": [on(*free), {**on(asked), "call": "approve"}]})
        texts = {one: call(found, one, "push", key, {}) for one in ("release", "strict", "far")}
        assert {one for one, text in texts.items() if "needs an approval" in text} == held
        assert {one for one, text in texts.items() if text == "pushed ."} == texts.keys() - held
    set_grants(found, {"grants": [on("*"), {**on("git.git_push"), "call": "approve"}]})
    assert call(found, "far", "push", key, {}) == "pushed ."
    found.close()
