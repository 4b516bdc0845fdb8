"""tools/list and tools/call in every revision."""

from __future__ import annotations

import base64
import io
import json
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from patchbay.activation import CancelFlag
from patchbay.events import Done, Pause
from patchbay.jsonrpc import Request, Result
from patchbay.messages.callers import TransportInfo
from patchbay.messages.versions import REVISIONS
from patchbay.protocol.lists import PAGES
from patchbay.protocol.run_tool import run_tool
from patchbay.serving.log_lines import make_formatter
from tests.hubs import MODERN, Hub

VERSIONS = tuple(REVISIONS)
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def listed(hub: Hub, server: str, version: str = "2025-11-25") -> dict[str, Any]:
    """All tools of a server by name, over all pages."""
    found: dict[str, Any] = {}
    cursor: dict[str, Any] = {}
    while True:
        if version == MODERN:
            result = hub.modern(server, "tools/list", cursor).result
        else:
            result = hub.legacy(server, "tools/list", cursor, version=version).result
        found |= {tool["name"]: tool for tool in result["tools"]}
        if "nextCursor" not in result:
            return found
        cursor = {"cursor": result["nextCursor"]}


def test_configured_tools_are_listed(zoo: Hub) -> None:
    """T4.1."""
    tools = listed(zoo, "echo")
    assert tools["echo"]["description"] == "Echo the provided input"
    assert tools["echo"]["inputSchema"]["required"] == ["message"]


def test_discovered_tools_are_listed(zoo: Hub) -> None:
    """T4.2, VWR-9."""
    tools = listed(zoo, "zoo")
    assert "greet" in tools and "_private" not in tools
    assert tools["greet"]["inputSchema"]["properties"]["greeting"]["default"] == "Hello"


def test_a_server_that_does_not_exist_is_not_found(zoo: Hub) -> None:
    """T4.3, V-C2, T12.6."""
    answer = zoo.legacy("zo", "tools/list")
    assert answer.status == 404
    assert "zoo" in answer.error["message"]


def test_tools_made_by_a_transform_are_listed(zoo: Hub) -> None:
    """T4.4."""
    assert len(listed(zoo, "jq")) > 1


def test_long_lists_come_in_pages_with_opaque_cursors(tmp_path: Any) -> None:
    """SUB-16, T4.5: pages of the chosen size; the last page has no cursor, a forged one is refused."""
    source = "".join(f"def tool_{n:03}() -> str:\n    return '{n}'\n\n\n" for n in range(120))
    hub = Hub(tmp_path, {"many.py": source}, page_size=50)
    try:
        first = hub.legacy("many", "tools/list").result
        second = hub.legacy("many", "tools/list", {"cursor": first["nextCursor"]}).result
        third = hub.legacy("many", "tools/list", {"cursor": second["nextCursor"]}).result
        names = [tool["name"] for page in (first, second, third) for tool in page["tools"]]
        assert [len(page["tools"]) for page in (first, second, third)] == [50, 50, 20]
        assert names == [f"tool_{n:03}" for n in range(120)]
        assert "nextCursor" not in third
        for cursor in ("", "50", first["nextCursor"] + "x", 5):
            assert hub.legacy("many", "tools/list", {"cursor": cursor}).error["code"] == -32602
        assert hub.modern("many", "tools/list", {"cursor": ""}).error["code"] == -32602
        assert hub.legacy("many", "tools/list", {"cursor": None}).result == first
    finally:
        hub.close()


def test_a_list_of_a_thousand_entries_is_one_page_that_is_rendered_once(tmp_path: Any) -> None:
    """Issue 54, item 3: several official clients read the first page only."""
    source = "".join(f"def tool_{n:04}() -> str:\n    return '{n}'\n\n\n" for n in range(1001))
    hub = Hub(tmp_path, {"many.py": source})
    try:
        for server in ("many", ""):
            page = hub.modern(server, "tools/list").result
            assert len(page["tools"]) == 1000 and "nextCursor" in page
            (last,) = hub.modern(server, "tools/list", {"cursor": page["nextCursor"]}).result["tools"]
            assert last["name"].endswith("tool_1000")
        whole = hub.catalogue.aggregate()
        rendered = [PAGES.get(whole, ("tools", MODERN, False, False, None), lambda: b"never") for _ in range(2)]
        assert rendered[0] is rendered[1] and rendered[0] != b"never"
    finally:
        hub.close()


@pytest.mark.parametrize("server", ["zoo", "echo", "jq", "markdown", "date", "mcp"])
def test_every_input_schema_is_a_json_schema_with_an_object_at_its_root(zoo: Hub, server: str) -> None:
    """T4.6, S-F8."""
    for tool in listed(zoo, server).values():
        Draft202012Validator.check_schema(tool["inputSchema"])
        assert tool["inputSchema"]["type"] == "object"


def test_older_revisions_see_only_what_their_schema_has(zoo: Hub) -> None:
    """SPEC-DIGEST 1.5."""
    assert listed(zoo, "zoo", MODERN)["number"]["outputSchema"] == {"type": "integer"}
    assert "outputSchema" not in listed(zoo, "zoo", "2025-11-25")["number"]
    assert listed(zoo, "zoo", "2025-06-18")["table"]["outputSchema"]["type"] == "object"
    assert "outputSchema" not in listed(zoo, "zoo", "2025-03-26")["table"]
    assert "annotations" in listed(zoo, "echo", "2025-03-26")["echo"]
    assert "annotations" not in listed(zoo, "echo", "2024-11-05")["echo"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_simple_tool_gives_its_text(zoo: Hub, version: str) -> None:
    """SUB-17, T5.1, T5.7, VWR-9, VWR-36: the content is text."""
    answer = zoo.call("echo", "echo", {"message": "hello"}, version)
    assert answer.result["content"] == [{"type": "text", "text": "hello\n"}] or answer.text.strip() == "hello"
    assert not answer.result.get("isError")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_missing_argument_is_reported_in_the_form_of_the_revision(zoo: Hub, version: str) -> None:
    """T5.2, X-2: a result with isError from 2025-11-25 on, -32602 with details before. 34.22: a text in 2024-11-05."""
    answer = zoo.call("zoo", "greet", {}, version)
    if version in ("2025-11-25", MODERN):
        assert answer.result["isError"] is True
        assert "name" in answer.text
    else:
        assert answer.error["code"] == -32602
        data = answer.error["data"]
        assert "name" in data["problems" if version == "2024-11-05" else "details"][0]["message"]
        assert version != "2024-11-05" or data["details"] == answer.error["message"]


def test_optional_arguments_have_their_defaults(zoo: Hub) -> None:
    """T5.3."""
    assert zoo.call("zoo", "greet", {"name": "Ada"}).text == "Hello, Ada!"


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_tool_is_an_error_result_that_names_the_closest(zoo: Hub, version: str) -> None:
    """SUB-18, T5.4, X-2b."""
    answer = zoo.call("zoo", "greets", {}, version)
    assert answer.result["isError"] is True
    assert "greet" in answer.text


def test_a_tool_that_raises_is_an_error_result_with_its_message_and_no_trace(zoo: Hub) -> None:
    """SUB-19, T5.5, VWR-26, VWR-28."""
    answer = zoo.call("zoo", "fails", {"message": "the moon is full"})
    assert answer.result["isError"] is True
    assert answer.text == "ValueError: the moon is full"
    assert b"Traceback" not in answer.body


def test_bytes_come_as_base64(zoo: Hub) -> None:
    """SUB-21, T5.8."""
    (item,) = zoo.call("zoo", "picture").result["content"]
    assert (item["type"], item["mimeType"]) == ("image", "image/png")
    assert base64.b64decode(item["data"]).startswith(b"\x89PNG")


def test_structured_results_come_beside_their_text_where_the_revision_has_them(zoo: Hub) -> None:
    answer = zoo.call("zoo", "table", {"rows": 3})
    assert answer.result["structuredContent"] == {"0": 0, "1": 1, "2": 4}
    assert "structuredContent" not in zoo.call("zoo", "table", {"rows": 3}, "2025-03-26").result
    assert zoo.call("zoo", "number", {}, MODERN).result["structuredContent"] == 7
    assert "structuredContent" not in zoo.call("zoo", "number").result


@pytest.mark.parametrize("arguments", [{}, None])
def test_empty_and_absent_arguments_are_the_same(zoo: Hub, arguments: Any) -> None:
    """T13.1."""
    assert zoo.call("zoo", "number", arguments).text == "7"


def test_large_output_becomes_a_head_and_a_link_to_the_whole(zoo: Hub) -> None:
    """T13.2, X-14."""
    answer = zoo.call("zoo", "large", {"size": 300_000})
    text, link = answer.result["content"]
    assert len(text["text"]) < 5000 and "300000 bytes" in text["text"]
    assert (link["type"], link["size"]) == ("resource_link", 300_000)
    read = zoo.legacy("zoo", "resources/read", {"uri": link["uri"]}).result
    assert read["contents"][0]["text"] == "x" * 300_000
    old = zoo.call("zoo", "large", {"size": 300_000}, "2025-03-26").result["content"]
    assert old[1] == {"type": "text", "text": link["uri"]}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("žluťoučký 🐴 \u2028 \u0000 'quotes\" <script>", id="T13.3 unicode"),
        pytest.param({"a": {"b": [{"c": [1, 2, {"d": "e"}]}]}}, id="T13.5 nested"),
        pytest.param([1, "two", [3], {}], id="T13.6 arrays"),
        pytest.param(None, id="T13.7 null"),
        pytest.param({"k": None, "l": [None]}, id="T13.7 nulls inside"),
        pytest.param(2**53, id="large integer"),
    ],
)
@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", MODERN])
def test_arguments_arrive_as_they_were_sent(zoo: Hub, value: Any, version: str) -> None:
    """T13.3, T13.5, T13.6, T13.7."""
    result = zoo.call("zoo", "same", {"value": value}, version).result
    assert not result.get("isError"), result
    if version != "2024-11-05":
        assert result["structuredContent"] == {"value": value}


def test_concurrent_calls_all_get_their_own_answers(zoo: Hub) -> None:
    """T13.4."""

    def call(n: int) -> str:
        return str(zoo.legacy("zoo", "tools/call", {"name": "greet", "arguments": {"name": str(n)}}, id=n).last)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(call, range(200)))
    assert all(f"'id': {n}," in answer and f"Hello, {n}!" in answer for n, answer in enumerate(answers))


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
@pytest.mark.slow
def test_a_tool_that_does_not_end_times_out_with_a_message(zoo: Hub, version: str) -> None:
    """T12.5."""
    answer = zoo.call("zoo", "hangs", {}, version)
    assert answer.result["isError"] is True
    assert "timed out" in answer.text


def test_the_hubs_own_failure_is_an_internal_error_with_an_incident_and_nothing_else(zoo: Hub, caplog: Any) -> None:
    """SUB-34, T12.4: outside the tool only; the log has the trace under the same incident."""
    results = zoo.catalogue.contents.results
    journal, results._journal = results._journal, None
    try:
        answer = zoo.call("zoo", "large", {"size": 300_000})
    finally:
        results._journal = journal
    assert answer.error["code"] == -32603
    incident = answer.error["message"].partition("incident ")[2].rstrip(")")
    assert incident and incident in caplog.text
    assert b"Traceback" not in answer.body and b"NoneType" not in answer.body


def test_a_line_that_is_logged_during_a_call_names_the_call_and_a_later_one_does_not(zoo: Hub) -> None:
    """36.4: with the time and the trace that its record has."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(make_formatter("json"))
    logger = logging.getLogger("patchbay.protocol.dispatch")
    logger.addHandler(handler)
    results = zoo.catalogue.contents.results
    journal, results._journal = results._journal, None
    meta = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    begun = time.time()
    try:
        zoo.modern("zoo", "tools/call", {"name": "large", "arguments": {"size": 300_000}}, meta=meta)
        logger.warning("after the call")
    finally:
        results._journal = journal
        logger.removeHandler(handler)
    during, after = (json.loads(line) for line in written.getvalue().splitlines())
    call = during["call"]
    assert begun <= call.pop("at") <= time.time()
    trace = "0af7651916cd43dd8448eb211c80319c"
    assert call == {"method": "tools/call", "server": "zoo", "name": "large", "trace": trace}
    assert "call" not in after


DRIP = """
from collections.abc import Iterator


def drip(gate: str) -> Iterator[str]:
    yield "a secret"
    with open(gate) as pipe:
        yield pipe.read()
"""


@pytest.mark.process
@pytest.mark.parametrize("rest", ["", "another secret"])
def test_a_call_that_the_hub_ended_is_answered_with_the_reason_alone(tmp_path: Path, rest: str) -> None:
    """The caller, whose key was revoked, got what the tool had given until then."""
    hub = Hub(tmp_path / "hub", {"slow.py": DRIP})
    try:
        gate, dispatcher, flag = tmp_path / "gate", hub.app.parts.dispatcher, CancelFlag()
        os.mkfifo(gate)
        wire = TransportInfo("slow", connection="tests")
        request = Request(1, "tools/call", {"name": "drip", "arguments": {"gate": str(gate)}, "_meta": META})
        caller, server = dispatcher.admit(request, wire), dispatcher.server("slow", wire.sender)
        answers = dispatcher.answer(request, caller, server, cancelled=flag)
        assert isinstance(next(answers), Pause)
        with gate.open("w") as pipe:
            flag.end("the credentials of the caller are no longer valid")
            pipe.write(rest)
        answer = [*answers][-1]
        assert isinstance(answer, Result)
        reason = "the hub ended this call: the credentials of the caller are no longer valid"
        result: Any = answer.result
        assert (result["content"], result["isError"]) == ([{"type": "text", "text": reason}], True)
    finally:
        hub.close()


def test_a_tool_that_ends_well_after_the_hub_ended_its_call_gives_no_result(zoo: Hub) -> None:
    catalogue = zoo.catalogue
    server = catalogue.find("echo")
    run = run_tool(catalogue.hub, server, server.tools["echo"], {"message": "a secret"}, None)
    assert isinstance([*run.events][-1], Done)
    run.call.cancelled.end("it is over")
    assert run.result() == {
        "content": [{"type": "text", "text": "the hub ended this call: it is over"}],
        "isError": True,
    }
