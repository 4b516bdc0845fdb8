"""Results by reference: a tool gets a content by the link of its caller, in the form that its kind of server has."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.activity.records import Filter
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor
from patchbay.errors import WrongArguments
from patchbay.protocol import run_tool
from patchbay.protocol.content_budget import ContentBudget
from patchbay.protocol.linked_arguments import BASE64, TEXT, find_places, resolve_links
from tests.access.team import new_key, team_hub
from tests.hubs import MODERN, Hub
from tests.waiting import until

FILES = '''"""Takes contents."""

from pathlib import Path
from typing import Annotated

from pydantic import Field


def count(data: bytes) -> int:
    """Count bytes."""
    return len(data)


def name(table: Annotated[Path, Field(json_schema_extra={"format": "cid"})]) -> str:
    """Say where a table is and what it has."""
    assert table.is_file()
    return f"{table} {table.read_bytes().hex()[:8]} {len(table.read_bytes())}"


def names(tables: Annotated[list[Path], Field(json_schema_extra={"format": "cid"})]) -> list[int]:
    """Say how long some tables are."""
    return [len(table.read_bytes()) for table in tables]


def shout(text: Annotated[str, Field(json_schema_extra={"format": "cid"})]) -> str:
    """Say a text in capitals."""
    return text.upper()


def echo(text: str) -> str:
    """Say a text."""
    return text


def long(size: int) -> str:
    """Say a long text."""
    return "ä" * size


def relay(context, link: str) -> str:
    """Count bytes by another tool."""
    return context.call("files", "count", data=link)["content"][0]["text"]
'''
CONTENT = {"type": "string", "format": "cid", "contentEncoding": "base64"}
SHELL = {
    "tools": {
        "measure": {
            "description": "Count the bytes of a file, and those of standard input.",
            "argv": ["{file}"],
            "inputSchema": {"type": "object", "properties": {"file": CONTENT, "input": CONTENT}},
        }
    }
}
SERVERS = {
    "files.py": FILES,
    "measure.sh": '#!/bin/sh\nwc -c < "$1"\nwc -c\ncat "$1"\n',
    "measure.mcp.json": json.dumps(SHELL),
    "kept.json": json.dumps({"kind": "toolset", "tools": {"size": "files.count", "loud": "files.shout"}}),
}


@pytest.fixture(scope="module", params=["process", "inline"])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = Hub(tmp_path_factory.mktemp("links"), SERVERS, isolation=request.param)
    yield found
    found.close()


def upload(hub: Hub, data: bytes, **headers: str) -> str:
    """The link of an upload."""
    answer = hub.client.post("/blobs", data=data, headers=headers)
    assert answer.status_code == 201, answer.text
    return str(orjson.loads(answer.data)["uri"])


def test_bytes_reach_a_function_as_its_annotation_says(hub: Hub) -> None:
    link = upload(hub, bytes(range(256)))
    assert hub.call("files", "count", {"data": link}).text == "256"
    place, head, size = hub.call("files", "name", {"table": link}).text.split()
    assert (head, size) == ("00010203", "256") and not Path(place).exists()
    assert json.loads(hub.call("files", "names", {"tables": [link, link]}).text) == [256, 256]
    assert hub.call("files", "shout", {"text": upload(hub, "grün".encode())}).text == "GRÜN"


def test_the_same_arguments_take_the_content_itself(hub: Hub) -> None:
    """A client without uploads sends what the schema says: base64, or the text."""
    data = base64.b64encode(b"abc").decode()
    assert hub.call("files", "count", {"data": data}).text == "3"
    assert hub.call("files", "name", {"table": data}).text.endswith(" 616263 3")
    assert hub.call("files", "shout", {"text": "abc"}).text == "ABC"
    assert "expected base64" in hub.call("files", "name", {"table": "no base64!"}).text


def test_a_shell_tool_gets_the_path_of_a_file_and_standard_input(hub: Hub) -> None:
    first, second = upload(hub, b"one\n"), upload(hub, b"\0" * 9)
    assert hub.call("measure", "measure", {"file": first, "input": second}).text.split() == ["4", "9", "one"]


def test_a_large_result_is_the_argument_of_the_next_call(hub: Hub) -> None:
    result = hub.call("files", "long", {"size": 300_000}).result
    [link] = [one for one in result["content"] if one["type"] == "resource_link"]
    assert hub.call("files", "count", {"data": link["uri"]}).text == "600000"


def test_a_toolset_and_a_tool_that_calls_a_tool_pass_a_content_on(hub: Hub) -> None:
    link = upload(hub, b"abcd")
    assert hub.call("kept", "size", {"data": link}).text == "4"
    assert hub.call("kept", "loud", {"text": link}).text == "ABCD"
    assert hub.call("files", "relay", {"link": link}).text == "4"


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25", MODERN])
def test_every_revision_takes_links(hub: Hub, version: str) -> None:
    assert hub.call("files", "count", {"data": upload(hub, b"abc")}, version).text == "3"


def test_plain_http_takes_links(hub: Hub) -> None:
    link = upload(hub, b"abc")
    assert hub.client.post("/files/count", json={"data": link}).text == "3"


def test_an_argument_without_the_format_keeps_the_text_of_a_link(hub: Hub) -> None:
    link = upload(hub, b"abc")
    assert hub.call("files", "echo", {"text": link}).text == link


def test_a_content_that_is_no_text_is_refused_where_the_tool_takes_a_text(hub: Hub) -> None:
    answer = hub.call("files", "shout", {"text": upload(hub, b"\xff")})
    assert answer.result["isError"] and "text: expected a content in UTF-8" in answer.text


def test_the_record_of_a_call_has_its_link_and_not_the_content(hub: Hub) -> None:
    link = upload(hub, b"a" * 5000)
    hub.call("files", "count", {"data": link})
    hub.activity.flush()
    [record] = hub.activity.recent(Filter(), 1).records
    assert "YWFhYWFh" not in repr(record)


def test_contents_above_the_limit_are_refused(tmp_path: Path) -> None:
    found = Hub(tmp_path, SERVERS, upload_limit=1000)
    link = upload(found, b"a" * 600)
    assert json.loads(found.call("files", "names", {"tables": [link]}).text) == [600]
    answer = found.call("files", "names", {"tables": [link, link]})
    assert answer.result["isError"] and "1000 bytes in one call (setting upload_limit)" in answer.text
    found.close()


def test_contents_of_running_calls_are_bounded_and_count_until_the_calls_end(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = ContentBudget(10)
    monkeypatch.setattr(run_tool, "CONTENTS", budget)
    budget.take("another caller", 10)
    link = upload(hub, b"abc")
    assert "the contents of links in the calls that run now take too much memory" in str(
        hub.call("files", "count", {"data": link}).messages
    )
    budget.give_back("another caller", 10)
    assert hub.call("files", "count", {"data": link}).text == "3"
    until(lambda: budget.held == 0, "the end of the call")


def test_a_link_belongs_to_its_caller(tmp_path: Path) -> None:
    found = team_hub(tmp_path, SERVERS)
    ann, ben = new_key(found, "ann"), new_key(found, "ben")
    link = upload(found, b"abc", **ann)
    assert found.modern("files", "tools/call", {"name": "count", "arguments": {"data": link}}, headers=ann).text == "3"
    refused = found.modern("files", "tools/call", {"name": "count", "arguments": {"data": link}}, headers=ben)
    assert refused.result["isError"] and "there is no content of yours" in refused.text
    found.close()


@pytest.mark.parametrize("source", ["upstream", "discovered"])
def test_a_mounted_server_gets_a_link_that_is_not_the_callers_as_it_came(
    source: Literal["upstream", "discovered"],
) -> None:
    """It may be a link of that server. Links of the caller become contents there too."""
    properties = {"data": {"type": "string", "contentEncoding": "base64"}, "text": {"format": "cid"}}
    wire = {"name": "take", "inputSchema": {"properties": properties}}
    server, tool = Server("far", "1", "upstream"), Descriptor("tool", "take", wire, {}, source)

    def resolve(**arguments: str) -> dict[str, Any]:
        return resolve_links(server, tool, arguments, lambda link, _: {"cid://own": b"abc"}.get(link), "ann", 10)

    assert resolve(data="cid://own", text="cid://own") == {"data": "YWJj", "text": "abc"}
    if source == "upstream":
        assert resolve(data="cid://other", text="cid://own") == {"data": "cid://other", "text": "abc"}
        return
    with pytest.raises(WrongArguments, match="there is no content of yours"):
        resolve(data="cid://other")


SCHEMAS: list[tuple[Any, str]] = [
    ({"type": "string", "contentEncoding": "base64"}, BASE64),
    ({"type": "string", "format": "cid"}, TEXT),
    ({"anyOf": [{"type": "string", "contentEncoding": "base64"}, {"type": "null"}]}, BASE64),
    ({"type": "array", "items": {"format": "cid"}}, TEXT),
    ({"$ref": "#/$defs/file"}, BASE64),
    ({"$ref": "#/$defs/loop"}, ""),
    ({"type": "string", "format": "uri"}, ""),
    ({"type": "string", "contentEncoding": "quoted-printable"}, ""),
    (True, ""),
    (None, ""),
]


@pytest.mark.parametrize(("schema", "form"), SCHEMAS)
def test_a_schema_says_in_which_form_a_content_comes(schema: Any, form: str) -> None:
    definitions = {"file": {"contentEncoding": "base64"}, "loop": {"$ref": "#/$defs/loop"}}
    found = find_places({"properties": {"file": schema}, "$defs": definitions})
    assert found == ({"file": form} if form else {})


@given(st.recursive(st.none() | st.text() | st.integers(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)))
def test_any_value_as_a_schema_has_no_places_or_some(value: Any) -> None:
    """A mounted server lists what it likes."""
    for schema in ({"properties": value}, {"properties": {"a": value}}, {"properties": {"a": {"anyOf": value}}}):
        assert set(find_places(schema).values()) <= {BASE64, TEXT}
