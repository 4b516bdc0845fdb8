"""A stranger tries to read values that tools stored and results of other callers."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import orjson
import pytest

from patchbay.cid import cid_of
from tests.attacks.requests import call, send, send_request
from tests.serving.running import Hub
from tests.waiting import until

pytestmark = pytest.mark.process

SECRET = "the wedding is in Ghent"
DROPPED = "the wedding was in Bruges"
NOWHERE = cid_of(b"this hub never had these bytes")


@pytest.fixture(scope="module")
def stored(hub: Hub) -> list[str]:
    """The CIDs of a stored value and of a value that was deleted."""
    for key, value in (("place", SECRET), ("old", DROPPED)):
        call(hub, "notes", "keep", {"key": key, "value": value})
    call(hub, "notes", "drop", {"key": "old"})
    return [cid_of(orjson.dumps(value)) for value in (SECRET, DROPPED)]


@pytest.fixture(scope="module")
def link(hub: Hub) -> str:
    """Return the link of a large result, as its caller received it."""
    result = call(hub, "notes", "repeat", {"text": "secret ", "times": 60_000})
    [link] = [block["uri"] for block in result["content"] if block["type"] == "resource_link"]
    return str(link)


def at(link: str, extension: str = "") -> str:
    """Return the HTTP address of a `cid://` link."""
    cid, _, query = link.removeprefix("cid://").partition("?")
    return f"/cid/{cid}{extension}" + (f"?{query}" if query else "")


def test_the_names_of_stored_values_are_listed_to_the_operator_only(hub: Hub, stored: list[str]) -> None:
    name = quote("state/notes/place", safe="")
    for path in ("/history/names.json", f"/history/names.json?name={name}", "/history/names", "/history"):
        got = send(hub, "GET", path, headers={"Accept": "text/html"})
        assert got.status == 200
        assert not any(each.encode() in got.body for each in ("state/notes/old", *stored)), path
    assert send(hub, "GET", f"/history/names.json?name={name}").json["moves"] == []
    seen = send(hub, "GET", "/history/names.json", headers=hub.as_operator()).json["moves"]
    assert {move["name"] for move in seen} >= {"state/notes/place", "state/notes/old"}


@pytest.mark.parametrize("form", ["", ".json", ".txt", "/links.json"])
def test_a_stored_value_answers_like_one_that_is_not_there(hub: Hub, stored: list[str], form: str) -> None:
    absent = send(hub, "GET", f"/cid/{NOWHERE}{form}")
    for cid in stored:
        got = send(hub, "GET", f"/cid/{cid}{form}")
        assert (got.status, got.body) == (404, absent.body.replace(NOWHERE.encode(), cid.encode()))
        known = send(hub, "GET", f"/cid/{cid}{form}", headers={"If-None-Match": f'"{cid}"'})
        assert known.status == 404
        assert send(hub, "GET", f"/cid/{cid}{form}", headers=hub.as_operator()).status == 200


def test_a_stored_value_is_not_a_side_of_a_comparison(hub: Hub, stored: list[str]) -> None:
    for pair in (f"old={stored[0]}&new={stored[1]}", f"old={stored[0]}&new=bafkqaatine"):
        got = send(hub, "GET", f"/history/compare.json?{pair}")
        assert got.status == 404 and SECRET.encode() not in got.body


def test_a_stored_value_is_not_a_resource(hub: Hub, stored: list[str]) -> None:
    absent = send_request(hub, "notes", "resources/read", {"uri": f"cid://{NOWHERE}"})
    for server in ("notes", "echo", ""):
        for cid in stored:
            got = send_request(hub, server, "resources/read", {"uri": f"cid://{cid}"})
            assert (got.status, got.last_message["error"]["code"]) == (absent.status, -32602)
            assert SECRET.encode() not in got.body
    result = call(hub, "notes", "peek", {"uri": f"cid://{stored[0]}"})
    assert result["isError"] and SECRET not in str(result)


def test_a_large_result_opens_for_its_key_alone(hub: Hub, link: str) -> None:
    bare, _, key = link.partition("?key=")
    for tried in (
        bare,
        f"{bare}?key=",
        f"{bare}?key={key[:-1]}",
        f"{bare}?key={key.swapcase()}",
        f"{bare}?key={'A' * 43}",
    ):
        assert send(hub, "GET", at(tried)).status == 404, tried
        assert "error" in send_request(hub, "notes", "resources/read", {"uri": tried}).last_message, tried
    got = send(hub, "GET", at(link))
    assert (got.status, got.body) == (200, b"secret " * 60_000)
    assert got.headers["cache-control"] == "private, no-cache"
    read = send_request(hub, "notes", "resources/read", {"uri": link}).last_message["result"]
    assert read["contents"][0]["text"] == "secret " * 60_000 and read["cacheScope"] == "private"


def test_a_key_opens_no_other_content(hub: Hub, link: str, stored: list[str]) -> None:
    key = link.partition("?")[2]
    for cid in (*stored, NOWHERE):
        assert send(hub, "GET", f"/cid/{cid}?{key}").status == 404
        assert "error" in send_request(hub, "notes", "resources/read", {"uri": f"cid://{cid}?{key}"}).last_message


def test_records_of_calls_do_not_contain_arguments_and_results(hub: Hub, link: str) -> None:
    shown = "/activity.json?server=notes&limit=1000"

    def records_for_operator() -> list[bytes]:
        found: list[dict[str, Any]] = send(hub, "GET", shown).json["records"]
        return [send(hub, "GET", f"/activity/{each['id']}.json", headers=hub.as_operator()).body for each in found]

    def are_written() -> bool:
        """The worker of each request writes its record shortly after the answer."""
        pages = b"".join(records_for_operator())
        return b"said-in-confidence" in pages and b"typed-by-a-caller" in pages

    call(hub, "notes", "keep", {"key": "said-in-confidence", "value": "x"})
    send_request(hub, "notes", "resources/read", {"uri": link})
    send_request(hub, "notes", "resources/read", {"uri": "notes://typed-by-a-caller"})
    until(are_written, "the workers have written the records")
    records: list[dict[str, Any]] = send(hub, "GET", shown).json["records"]
    pages = [send(hub, "GET", f"/activity/{each['id']}.json").body for each in records]
    pages += [send(hub, "GET", path).body for path in ("/activity", "/", "/servers", "/activity?tool=notes")]
    key = link.partition("?key=")[2]
    for word in ("said-in-confidence", "typed-by-a-caller", SECRET, key, 'arguments_cid":"b'):
        assert not any(word.encode() in page for page in pages), word
    guessed = send(hub, "GET", f"/activity.json?tool={quote('notes://typed-by-a-caller', safe='')}").json
    assert guessed["records"] == []
    assert not any(b'"arguments":{"uri":"' + link.encode() in page for page in records_for_operator())


def test_the_configuration_stays_for_all_callers(hub: Hub) -> None:
    page = send(hub, "GET", "/servers/notes.json").json
    definition, version = page["server"]["definition"], page["server"]["version"]
    for cid in (
        definition,
        version,
        page["past"][0]["cid"],
        send(hub, "GET", "/history.json").json["changes"][0]["cid"],
    ):
        got = send(hub, "GET", f"/cid/{cid}")
        assert (got.status, got.headers["cache-control"]) == (200, "public, max-age=31536000, immutable")
    names = {move["name"] for move in send(hub, "GET", "/history/names.json").json["moves"]}
    assert "servers/notes" in names and all(
        name.startswith(("servers/", "variables/", "templates/", "served/", "revoked/", "root", "boot"))
        for name in names
    )
