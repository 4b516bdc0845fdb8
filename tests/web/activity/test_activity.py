"""The pages about calls: what they show, what they refuse, and that what strangers sent stays text."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from patchbay.errors import InvalidParams
from patchbay.web.activity.activity import parse_time
from tests.access.team import new_key, team_hub
from tests.hubs import Hub, modern_request
from tests.wire.hostile import Reader

FILES = {
    "busy.py": '''"""Some tools."""

import time


def say(text: str = "hello") -> str:
    """Say."""
    return text


def fails() -> str:
    """Fail."""
    raise ValueError("no luck")


def hangs() -> str:
    """Hang."""
    while True:
        time.sleep(0.01)
''',
    "busy.mcp.json": '{"auto_discover": true, "isolation": "inline", "timeout": 5}',
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("busy"), FILES)
    yield hub
    hub.close()


CIDS = {"arguments_cid": None, "answer_cid": None}
"""What others than the operator see of them."""


def get(hub: Hub, path: str, status: int = 200) -> TestResponse:
    answer = hub.client.get(path)
    assert answer.status_code == status, answer.get_data(as_text=True)
    return answer


def records(hub: Hub, query: str = "") -> list[dict[str, Any]]:
    found = get(hub, f"/activity.json?{query}").json
    assert isinstance(found, dict)
    return list(found["records"])


def test_every_way_in_leaves_its_record(hub: Hub) -> None:
    hub.call("busy", "say", {"text": "mcp"})
    hub.client.post("/busy/say", json={"text": "plain"}, headers={"User-Agent": "curl/8"})
    hub.client.post("/rpc", json={"jsonrpc": "2.0", "id": 1, "method": "busy.say", "params": {"text": "native"}})
    hub.client.post("/busy/say", json={"text": 7})
    found = records(hub, "server=busy&limit=4")
    assert [(one["way"], one["name"], one["outcome"]) for one in reversed(found)] == [
        ("http", "say", "ok"),
        ("plain", "say", "ok"),
        ("native", "say", "ok"),
        ("plain", "say", "error"),
    ]
    assert found[2]["client"] == "curl/8"


def test_a_record_has_what_a_list_leaves_out(hub: Hub) -> None:
    hub.call("busy", "say", {"text": "once more"})
    listed = records(hub, "limit=1")[0]
    hidden = get(hub, f"/activity/{listed['id']}.json").json
    whole = hub.client.get(f"/activity/{listed['id']}.json", headers={"Authorization": f"Bearer {hub.token}"}).json
    assert isinstance(whole, dict) and isinstance(hidden, dict)
    assert (hidden["arguments"], hidden["answer"], hidden["arguments_cid"]) == (None, None, None)
    assert whole.pop("arguments") == {"text": "once more"}
    assert [each["kind"] for each in whole.pop("moments")] == ["text", "done"]
    assert (
        whole.pop("line") == 0 and whole.pop("raised") == [] and whole.pop("origins") == [] and whole.pop("run") == ""
    )
    assert whole.pop("reason") == ""
    assert whole.pop("answer") == {"content": [{"type": "text", "text": "once more"}], "isError": False}
    assert whole["arguments_cid"] and whole["answer_cid"]
    assert whole.keys() == listed.keys() and whole | CIDS == listed


def test_lists_are_filtered_and_go_on(hub: Hub) -> None:
    for _ in range(3):
        hub.call("busy", "fails")
    assert {one["outcome"] for one in records(hub, "outcome=tool_error")} == {"tool_error"}
    assert {one["name"] for one in records(hub, "tool=fails&server=busy")} == {"fails"}
    assert records(hub, f"since={time.time() + 60}") == []
    assert len(records(hub, "tool=fails&since=1h")) >= 3
    page = get(hub, "/activity.json?tool=fails&limit=2").json
    assert isinstance(page, dict) and page["next"]
    rest = records(hub, f"tool=fails&before={page['next']}")
    assert not {one["id"] for one in rest} & {one["id"] for one in page["records"]}


def test_one_filter_finds_each_way_to_fail_and_nothing_else(hub: Hub) -> None:
    hub.call("busy", "fails")
    hub.call("busy", "say", {"text": 7})
    hub.call("busy", "say", {"text": "good"})
    found = records(hub, "outcome=failed&server=busy&limit=1000")
    assert {one["outcome"] for one in found} == {"tool_error", "error"}
    every = records(hub, "server=busy&limit=1000")
    assert [one["id"] for one in found] == [one["id"] for one in every if one["outcome"] in ("tool_error", "error")]
    shown = get(hub, "/activity?server=busy").get_data(as_text=True)
    assert 'href="/activity?server=busy&amp;outcome=failed"' in shown


def test_the_page_begins_with_the_charts_and_its_links_keep_the_filters(hub: Hub) -> None:
    hub.call("busy", "fails")
    shown = get(hub, "/activity?server=busy&tool=fails&limit=1").get_data(as_text=True)
    places = [shown.index(each) for each in ('class="bars"', '<div id="calls">', "Duration of calls")]
    assert places == sorted(places)
    kept = "server=busy&amp;tool=fails&amp;limit=1"
    assert f'href="/activity?{kept}&amp;since=1d"' in shown
    assert f'href="/activity?{kept}&amp;before=' in shown
    assert re.search(rf'href="/activity\?{kept}&amp;since=\d+&amp;until=\d+"', shown)


def test_the_operator_finds_calls_by_person_and_key_and_others_do_not(tmp_path: Path) -> None:
    hub = team_hub(tmp_path)
    try:
        keys = {name: new_key(hub, name) for name in ("robot", "ci")}
        program = hub.app.test_client()
        for name in ("robot", "ci", "robot"):
            assert program.post("/notes/search", json={}, headers=keys[name]).status_code == 200
        operator = {"Authorization": f"Bearer {hub.token}"}

        def found(headers: dict[str, str], query: str) -> list[str]:
            answer = program.get(f"/activity.json?{query}", headers=headers)
            assert answer.status_code == 200 and answer.json is not None
            return [one["principal"] for one in answer.json["records"]]

        assert found(operator, "caller=key:robot") == ["key:robot", "key:robot"]
        assert found(operator, "caller=key:ci&outcome=ok") == ["key:ci"]
        assert found(operator, "caller=key:absent") == []
        plots = program.get("/activity/plots.json?caller=key:robot", headers=operator).json
        assert plots is not None and plots["calls"] == 2
        assert found(keys["ci"], "") == ["", "", ""] and found(keys["ci"], "caller=key:robot") == []
        page = program.get("/activity?server=notes", headers={**operator, "Accept": "text/html"}).text
        assert 'href="/activity?server=notes&amp;caller=key%3Arobot"' in page
        assert "key:robot" not in program.get("/activity", headers={**keys["ci"], "Accept": "text/html"}).text
    finally:
        hub.close()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("limit=0", "limit must be a number from 1 to 1000"),
        ("limit=x", "limit must be"),
        ("limit=99999999999999999999", "limit must be"),
        ("since=yesterday", "since must be a time such as"),
        ("outcome=lucky", "outcome must be one of"),
        ("before=7", "not the id of a record"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused_with_a_sentence(hub: Hub, query: str, said: str) -> None:
    for path in ("/activity", "/activity.json"):
        assert said in get(hub, f"{path}?{query}", 400).get_data(as_text=True)


def test_a_record_that_is_not_there_is_404(hub: Hub) -> None:
    assert "the hub deletes old records" in get(hub, "/activity/999999999-0.json", 404).get_data(as_text=True)
    assert get(hub, "/activity/nonsense.json", 400).status_code == 400


def test_a_time_can_be_written_in_several_formats() -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()
    assert parse_time("since", "", now) == 0
    assert parse_time("since", "90s", now) == now - 90
    assert parse_time("since", "15m", now) == now - 900
    assert parse_time("since", "7d", now) == now - 7 * 86400
    for text in ("2026-01-31T12:00:00", "2026-01-31T12:00:00Z", "2026-01-31T13:00:00+01:00", f"{now}"):
        assert parse_time("since", text, now) == now
    assert parse_time("since", "2026-01-31T13:00:00 01:00", now) == now
    for text in ("m", "-5m", "1e400", "٣m", "9" * 40, "2026-13-01"):
        with pytest.raises(InvalidParams):
            parse_time("since", text, now)


def test_the_page_shows_calls_filters_and_what_runs(hub: Hub) -> None:
    hub.call("busy", "fails")
    stream = hub.stream("busy", *modern_request("tools/call", {"name": "hangs"}, meta={"progressToken": 1}))
    next(stream)
    text = Reader(get(hub, "/activity?tool=fails&outcome=tool_error").get_data(as_text=True)).text
    stream.close()
    assert "Running in this worker" in text and "hangs" in text
    assert "fails" in text and "the tool failed" in text
    assert text.index("Older" if "Older" in text else "fails") < text.index("Duration of calls")
    assert "Running in this worker" not in get(hub, "/activity").get_data(as_text=True)


def test_names_from_a_stranger_are_shown_as_text(hub: Hub) -> None:
    """VWR-35: S24."""
    evil = '"><script>alert(1)</script>'
    hub.legacy("busy", "tools/call", {"name": evil})
    meta = {"io.modelcontextprotocol/clientInfo": {"name": evil, "version": evil}}
    hub.modern("busy", "tools/call", {"name": "say"}, meta=meta)
    hub.client.post("/busy/say", json={}, headers={"User-Agent": evil})
    for path in ("/activity", "/activity?" + f"tool={evil}&server={evil}&since="):
        html = get(hub, path).get_data(as_text=True)
        assert "<script>" not in html and Reader(html).faults == []
    assert evil in Reader(get(hub, "/activity").get_data(as_text=True)).text


def test_a_read_only_hub_shows_activity_too(tmp_path: Any) -> None:
    hub = Hub(tmp_path, boot="readonly")
    hub.call("echo", "echo", {"message": "x"})
    assert len(records(hub)) == 1
    hub.close()


@pytest.mark.parametrize("query", ["since=999999999d", "until=999999999d", "since=1", "until=0001-01-01T00:00:00"])
def test_a_time_long_ago_is_not_a_failure_and_plots_end_now(hub: Hub, query: str) -> None:
    hub.call("busy", "say")
    assert hub.client.get(f"/activity?{query}", headers={"Accept": "text/html"}).status_code == 200
    numbers = hub.client.get(f"/activity/plots.json?{query}").json or {}
    shown = sum(bar["worked"] + bar["failed"] + bar["cancelled"] for bar in numbers["over_time"]["bars"])
    assert shown == numbers["calls"] and (shown > 0) is query.startswith("since")
