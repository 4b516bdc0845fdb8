"""Content over HTTP: blobs by their CID, how they are served, and every way in which a change is refused."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import TestResponse

from patchbay.boot import change_names, current_image, read_variable, root_history
from patchbay.cid import cid_of
from patchbay.web.api.content import media_type
from tests.hubs import Hub
from tests.web.browsing import read_json

ABSENT = cid_of(b"nobody has put this")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path, body_limit=1000).as_operator()
    yield hub
    hub.close()


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path, boot="readonly").as_operator()
    yield hub
    hub.close()


def put(hub: Hub, name: str, body: bytes, **headers: str) -> TestResponse:
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    return hub.client.put(name, data=body, headers=sent)


def count_blobs(hub: Hub) -> int:
    return int(hub.catalogue.store.blobs.count())


TYPES = [
    (b"plain", "text/plain; charset=utf-8"),
    ("naïve €".encode(), "text/plain; charset=utf-8"),
    (b"<script>alert(1)</script>", "text/plain; charset=utf-8"),
    (b"<!doctype html><html>", "text/plain; charset=utf-8"),
    (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "text/plain; charset=utf-8"),
    (b"alert(1)//", "text/plain; charset=utf-8"),
    (b"", "text/plain; charset=utf-8"),
    (b'{"a": [1, null]}', "application/json"),
    (b" [1]\n", "application/json"),
    (b"{not json}", "text/plain; charset=utf-8"),
    (b'"a string"', "text/plain; charset=utf-8"),
    (b"\xff\xfe", "application/octet-stream"),
    (b"a\0b", "application/octet-stream"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF89a", "image/gif"),
    (b"\xff\xd8\xff\xe0", "image/jpeg"),
    (b"RIFF\0\0\0\0WEBP", "image/webp"),
]


@pytest.mark.parametrize(("data", "expected"), TYPES)
def test_a_blob_is_served_as_nothing_a_browser_runs(hub: Hub, data: bytes, expected: str) -> None:
    cid = hub.configured(data)
    answer = hub.client.get(f"/cid/{cid}")
    assert (answer.status_code, answer.get_data()) == (200, data)
    assert answer.headers["Content-Type"] == expected
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"].startswith("sandbox;")
    assert answer.headers["ETag"] == f'"{cid}"'
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"


@given(st.binary(max_size=200))
def test_the_type_of_any_bytes_is_one_of_a_few(data: bytes) -> None:
    texts = ("text/plain; charset=utf-8", "application/json", "application/octet-stream")
    assert media_type(data) in (*texts, "image/png", "image/gif", "image/jpeg", "image/webp")


def test_a_blob_that_is_known_is_not_sent_again(hub: Hub) -> None:
    cid = hub.configured(b"once")
    for tag in (f'"{cid}"', f'W/"{cid}"', f'"other", "{cid}"', "*"):
        answer = hub.client.get(f"/cid/{cid}", headers={"If-None-Match": tag})
        assert (answer.status_code, answer.get_data()) == (304, b"")
    assert hub.client.get(f"/cid/{cid}", headers={"If-None-Match": '"other"'}).status_code == 200


def test_head_gives_the_headers_alone(hub: Hub) -> None:
    cid = hub.configured(b"four")
    answer = hub.client.head(f"/cid/{cid}")
    assert (answer.status_code, answer.get_data(), answer.headers["Content-Length"]) == (200, b"", "4")


def test_an_extension_is_ignored(hub: Hub) -> None:
    cid = hub.configured(b"print(1)")
    answer = hub.client.get(f"/cid/{cid}.html")
    assert (answer.get_data(), answer.mimetype) == (b"print(1)", "text/plain")


def test_another_spelling_is_sent_to_the_canonical_one(hub: Hub) -> None:
    cid = hub.configured(b"spelled")
    answer = hub.client.get(f"/cid/{cid.upper()}.txt")
    assert (answer.status_code, answer.headers["Location"]) == (308, f"/cid/{cid}.txt")


@pytest.mark.parametrize(("address", "status"), [(ABSENT, 404), ("nonsense", 400), ("Qm" + "a" * 44, 400), ("b", 400)])
def test_a_missing_content_is_answered_with_a_reason(hub: Hub, address: str, status: int) -> None:
    answer = hub.client.get(f"/cid/{address}")
    assert answer.status_code == status
    assert answer.mimetype == "text/plain"
    assert answer.headers["Cache-Control"] == "no-store"
    assert len(answer.get_data(as_text=True).split()) > 3


def test_a_blob_is_kept_under_its_cid(hub: Hub) -> None:
    cid = cid_of(b"new")
    first, second = put(hub, f"/cid/{cid}", b"new"), put(hub, f"/cid/{cid}", b"new")
    assert (first.status_code, read_json(first)) == (201, {"cid": cid})
    assert second.status_code == 200
    assert hub.client.get(f"/cid/{cid}").get_data() == b"new"


def test_bytes_that_are_not_the_content_of_the_cid_are_not_kept(hub: Hub) -> None:
    before, wanted = count_blobs(hub), cid_of(b"right")
    answer = put(hub, f"/cid/{wanted}", b"wrong")
    assert answer.status_code == 400
    text = answer.get_data(as_text=True)
    assert wanted in text
    assert cid_of(b"wrong") in text
    assert count_blobs(hub) == before
    assert hub.client.get(f"/cid/{cid_of(b'wrong')}").status_code == 404


def test_posting_bytes_answers_their_cid(hub: Hub) -> None:
    answer = hub.client.post("/cid", data=b"\x00\xff")
    cid = cid_of(b"\x00\xff")
    assert (answer.status_code, read_json(answer), answer.headers["Location"]) == (201, {"cid": cid}, f"/cid/{cid}")
    assert hub.client.post("/cid", data=b"\x00\xff").status_code == 200


def test_a_body_above_the_limit_is_refused_and_not_kept(hub: Hub) -> None:
    """M11: with a length, and in pieces without one."""
    before = count_blobs(hub)
    assert hub.client.post("/cid", data=b"x" * 1001).status_code == 413
    assert chunked(hub, b"x" * 1001).status_code == 413
    assert count_blobs(hub) == before
    assert hub.client.post("/cid", data=b"x" * 1000).status_code == 201
    assert chunked(hub, b"y" * 1000).status_code == 201


def chunked(hub: Hub, body: bytes) -> TestResponse:
    environ: dict[str, Any] = {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
    return hub.client.post("/cid", input_stream=BytesIO(body), environ_overrides=environ)


@pytest.mark.parametrize("sent", [b"", b"cut"])
def test_a_body_that_was_cut_is_refused_and_not_kept(hub: Hub, sent: bytes) -> None:
    """M10, X17."""
    before = count_blobs(hub)
    answer = hub.client.post("/cid", input_stream=BytesIO(sent), environ_overrides={"CONTENT_LENGTH": "10"})
    assert answer.status_code == 400
    assert b"Content-Length says 10" in answer.get_data()
    assert count_blobs(hub) == before


@pytest.mark.parametrize("length", ["-1", "ten", "1e3", "9" * 30])
def test_a_length_that_is_not_a_number_is_refused(hub: Hub, length: str) -> None:
    answer = hub.client.post("/cid", input_stream=BytesIO(b"x"), environ_overrides={"CONTENT_LENGTH": length})
    assert answer.status_code == 400


def test_a_variable_is_set_and_the_hub_has_a_new_root(hub: Hub) -> None:
    store = hub.catalogue.store
    answer = put(hub, "/variables/greeting", "grüß".encode())
    assert answer.status_code == 201
    assert read_json(answer) == {"root": store.names.get("root"), "cid": cid_of("grüß".encode())}
    assert read_variable(store, "greeting") == "grüß".encode()
    assert b"greeting" in current_image(store)
    move = root_history(store, 1)[0]
    assert (move.who, move.why) == ("http", "set variable greeting")


def test_the_reason_is_kept(hub: Hub) -> None:
    put(hub, "/variables/a", b"1", X_Why="for the demo")
    assert root_history(hub.catalogue.store, 1)[0].why == "for the demo"


def test_a_variable_is_deleted_and_its_past_stays(hub: Hub) -> None:
    put(hub, "/variables/a", b"1")
    assert hub.client.delete("/variables/a").status_code == 200
    store = hub.catalogue.store
    assert read_variable(store, "a") is None
    assert [move.cid for move in store.names.past("variables/a")] == [None, cid_of(b"1")]
    assert hub.client.delete("/variables/a").status_code == 404


def test_a_change_applies_only_to_the_version_that_the_caller_saw(hub: Hub) -> None:
    put(hub, "/variables/a", b"1")
    tag = hub.client.get("/variables/a").headers["ETag"]
    assert tag == f'"{cid_of(b"1")}"'
    assert put(hub, "/variables/a", b"2", If_Match=tag).status_code == 200
    for condition in ({"If_Match": tag}, {"If_None_Match": "*"}, {"If_None_Match": f'"{cid_of(b"2")}"'}):
        answer = put(hub, "/variables/a", b"3", **condition)
        assert answer.status_code == 412
        assert cid_of(b"2").encode() in answer.get_data()
    assert put(hub, "/variables/new", b"3", If_Match="*").status_code == 412
    assert read_variable(hub.catalogue.store, "a") == b"2"
    assert put(hub, "/variables/new", b"3", If_None_Match="*").status_code == 201


@pytest.mark.parametrize("name", ["with space", "ümlaut", "a" * 129, "..", "a;b", "%00", "a%2Fb"])
def test_a_bad_name_is_refused(hub: Hub, name: str) -> None:
    root = hub.catalogue.store.names.get("root")
    assert put(hub, f"/variables/{name}", b"1").status_code in (400, 404, 405)
    assert hub.catalogue.store.names.get("root") == root


def test_a_variable_has_to_be_text(hub: Hub) -> None:
    answer = put(hub, "/variables/a", b"ok\xff")
    assert answer.status_code == 400
    assert b"byte 2" in answer.get_data() and b"POST the bytes to /cid" in answer.get_data()
    assert put(hub, "/cid", b"ok\xff").status_code == 405 and hub.client.post("/cid", data=b"ok\xff").status_code == 201
    assert read_variable(hub.catalogue.store, "a") is None


CHANGES = [
    ("PUT", f"/cid/{cid_of(b'x')}"),
    ("POST", "/cid"),
    ("PUT", "/variables/a"),
    ("DELETE", "/variables/mcps"),
]


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_nothing_can_be_changed_in_a_read_only_hub(sealed: Hub, method: str, path: str) -> None:
    root, before = sealed.catalogue.store.names.get("root"), count_blobs(sealed)
    answer = sealed.client.open(path, method=method, data=b"x")
    assert answer.status_code == 405
    assert b"read-only" in answer.get_data()
    assert answer.headers["Allow"] == "GET, HEAD"
    assert (sealed.catalogue.store.names.get("root"), count_blobs(sealed)) == (root, before)
    assert sealed.client.get("/variables/mcps").status_code == 200


@pytest.mark.parametrize(("method", "path"), CHANGES)
@pytest.mark.parametrize(
    "headers",
    [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://localhost:3000"}],
)
def test_no_other_site_can_change_anything(hub: Hub, method: str, path: str, headers: dict[str, str]) -> None:
    root, before = hub.catalogue.store.names.get("root"), count_blobs(hub)
    answer = hub.client.open(path, method=method, data=b"x", headers=headers)
    assert answer.status_code == 403
    assert (hub.catalogue.store.names.get("root"), count_blobs(hub)) == (root, before)


@pytest.mark.parametrize(("method", "path"), CHANGES)
@pytest.mark.parametrize("exposed", [{}, {"host": "0.0.0.0", "access": "open"}])
def test_only_the_operator_changes_something(tmp_path: Path, exposed: dict[str, Any], method: str, path: str) -> None:
    hub = Hub(tmp_path, **exposed)
    root, before = hub.catalogue.store.names.get("root"), count_blobs(hub)
    answer = hub.client.open(path, method=method, data=b"x")
    assert answer.status_code == 401
    assert b"only the operator" in answer.get_data()
    assert (hub.catalogue.store.names.get("root"), count_blobs(hub)) == (root, before)
    hub.close()


def test_a_condition_holds_against_other_processes_too(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker, with a lock of its own, comes between the look and the change."""
    first = read_json(put(hub, "/variables/shared", b"one"))["cid"]
    store, keep = hub.catalogue.store, hub.catalogue.store.blobs.put

    def between(data: bytes, cid: str | None = None) -> str:
        if data == b"two":
            change_names(store, {"variables/shared": keep(b"theirs")}, "another worker", "first")
        return str(keep(data, cid))

    monkeypatch.setattr(store.blobs, "put", between)
    assert put(hub, "/variables/shared", b"two", If_Match=f'"{first}"').status_code == 412
    assert read_variable(store, "shared") == b"theirs"
    assert put(hub, "/variables/shared", b"three").status_code == 200
