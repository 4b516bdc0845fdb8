"""Tools over plain HTTP: what runs by GET and by POST, where arguments come from, and what comes back as what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import TestResponse

from patchbay.catalogue.reading.queries import parse_arguments
from tests.hubs import Hub
from tests.web.browsing import read_json

KIOSK = '''"""A kiosk."""

from typing import Any

LOG = []


def kiosk(name: str = "nobody") -> str:
    """Greet."""
    return f"hello {name}"


def add(a: int, b: float = 0.5, exact: bool = False) -> dict[str, Any]:
    """Add."""
    return {"sum": a + b, "exact": exact}


def join(words: list[str], host: str = "none", accept: str = "none") -> str:
    """Join."""
    return " ".join(words) + f" {host} {accept}"


def pick(sizes: list[int] | None = None, limit: int | None = None) -> dict[str, Any]:
    """Pick."""
    return {"sizes": sizes, "limit": limit}


def moved() -> dict[str, Any]:
    """Elsewhere."""
    return {"redirect": "/kiosk?name=you%20two"}


def page() -> dict[str, Any]:
    """A page, Viewer's way."""
    return {"output": "<script>alert(1)</script>", "content_type": "text/html"}


def picture() -> bytes:
    """A picture."""
    return b"\\x89PNG\\r\\n\\x1a\\n" + bytes(8)


def octets() -> dict[str, Any]:
    """Bytes of some kind."""
    return {"output": [1, 2, 255], "content_type": "application/zip"}


def both() -> list[Any]:
    """Text and a picture."""
    return ["seen", b"\\x89PNG\\r\\n\\x1a\\n"]


def nothing() -> None:
    """Nothing."""


def odd() -> dict[str, Any]:
    """A block whose type would split a header."""
    return {"type": "image", "data": "AAAA", "mimeType": "image/png\\r\\nSet-Cookie: a=b"}


def embedded() -> dict[str, Any]:
    """A page as an embedded resource."""
    resource = {"uri": "x:y", "mimeType": "text/html", "text": "<script>alert(1)</script>"}
    return {"type": "resource", "resource": resource}


def garbled() -> dict[str, Any]:
    """A block that is not base64."""
    return {"type": "image", "data": "***", "mimeType": "image/png"}


def fails() -> str:
    """Fail."""
    raise ValueError("no <b>luck</b>")


def asks(context) -> str:
    """Ask."""
    return str(context.elicit("Who?", {"type": "object", "properties": {}}))


def change(value: str = "") -> str:
    """Change something."""
    return f"changed {value}"
'''

WRITERS = ("change",)


def config() -> str:
    names = [line[4:].partition("(")[0] for line in KIOSK.splitlines() if line.startswith("def ")]
    return orjson.dumps({"auto_discover": True, "annotations": {"readOnlyHint": True}} | _writers(names)).decode()


def _writers(names: list[str]) -> dict[str, Any]:
    return {"tools": {name: {"annotations": {"readOnlyHint": False}} for name in names if name in WRITERS}}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {
        "kiosk.py": KIOSK,
        "kiosk.mcp.json": config(),
        "off.py": KIOSK,
        "off.mcp.json": '{"enabled": false, "auto_discover": true}',
        "broken.py": "def x(:\n",
    }
    hub = Hub(tmp_path_factory.mktemp("plain"), files, body_limit=10_000)
    yield hub
    hub.close()


def get(hub: Hub, path: str, status: int = 200, **headers: str) -> TestResponse:
    answer = hub.client.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    assert answer.status_code == status, answer.get_data(as_text=True)
    return answer


def post(hub: Hub, path: str, body: bytes, kind: str, status: int = 200, **headers: str) -> TestResponse:
    sent = {name.replace("_", "-"): value for name, value in headers.items()} | {"Content-Type": kind}
    answer = hub.client.post(path, data=body, headers={name: value for name, value in sent.items() if value})
    assert answer.status_code == status, answer.get_data(as_text=True)
    return answer


def test_the_tool_named_like_the_server_answers_at_its_name(hub: Hub) -> None:
    """VWR-24."""
    assert get(hub, "/kiosk?name=you").get_data(as_text=True) == "hello you"
    assert get(hub, "/kiosk/kiosk").get_data(as_text=True) == "hello nobody"


def test_arguments_of_a_query_are_read_as_their_types(hub: Hub) -> None:
    """VWR-25."""
    assert read_json(get(hub, "/kiosk/add?a=2&b=0.5&exact=true")) == {"sum": 2.5, "exact": True}
    text = get(hub, "/kiosk/join?words=a&words=b%20c&words=%C3%BC").get_data(as_text=True)
    assert text.startswith("a b c ü")
    assert get(hub, '/kiosk/join?words=["x","y"]').get_data(as_text=True).startswith("x y")


@pytest.mark.parametrize(
    ("query", "picked"),
    [
        ("limit=5", {"sizes": None, "limit": 5}),
        ("sizes=1&sizes=2", {"sizes": [1, 2], "limit": None}),
        ("sizes=3&limit=null", {"sizes": [3], "limit": None}),
        ("sizes=[4,5]", {"sizes": [4, 5], "limit": None}),
    ],
)
def test_arguments_that_may_be_missing_are_read_as_their_types(hub: Hub, query: str, picked: dict[str, Any]) -> None:
    """VWR-25: alternatives in the schema, and names that come more than once."""
    assert read_json(get(hub, f"/kiosk/pick?{query}")) == picked
    form = "application/x-www-form-urlencoded"
    assert read_json(post(hub, "/kiosk/pick", query.encode(), form)) == picked


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "a"),
        ("?a=two", "a"),
        ("?a=1.5", "a"),
        ("?a=1&a=2", "more than once"),
        ("?a=1&nobody=2", "nobody"),
        ("?a=%ff", "UTF-8"),
        ("?" + "&".join(f"x{n}=1" for n in range(1500)), "fields"),
    ],
)
def test_arguments_that_do_not_fit_are_named(hub: Hub, query: str, said: str) -> None:
    assert said in get(hub, f"/kiosk/add{query}", 400).get_data(as_text=True)


def test_no_header_is_ever_an_argument(hub: Hub) -> None:
    """V-F6."""
    answer = get(hub, "/kiosk/join?words=a", Accept="text/plain", Words="b")
    assert answer.get_data(as_text=True) == "a none none"


def test_a_tool_that_may_change_something_runs_by_post_only(hub: Hub) -> None:
    """VWR-25, S26."""
    answer = get(hub, "/kiosk/change?value=x", 405)
    assert answer.headers["Allow"] == "POST"
    assert "POST" in answer.get_data(as_text=True)
    form = "application/x-www-form-urlencoded"
    assert post(hub, "/kiosk/change", b"value=x+y", form).get_data(as_text=True) == "changed x y"
    assert post(hub, "/kiosk/change", b'{"value": "z"}', "application/json").get_data(as_text=True) == "changed z"
    assert post(hub, "/kiosk/change", b"", "").get_data(as_text=True) == "changed "


@pytest.mark.parametrize(
    "headers",
    [{"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}, {"Origin": "http://localhost:3000"}],
)
def test_no_other_site_can_run_a_tool_by_post(hub: Hub, headers: dict[str, str]) -> None:
    """S26, S27."""
    post(hub, "/kiosk/change", b"value=x", "application/x-www-form-urlencoded", 403, **headers)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"value=x", "text/plain", 415),
        (b"value=x", "", 415),
        (b"{}", "multipart/form-data; boundary=x", 415),
        (b"[1]", "application/json", 400),
        (b"{", "application/json", 400),
        (b'{"value": "a", "value": "b"}', "application/json", 400),
        (b'{"value": NaN}', "application/json", 400),
        (b"x" * 10_001, "application/json", 413),
    ],
)
def test_a_body_that_cannot_be_used_is_refused(hub: Hub, body: bytes, kind: str, status: int) -> None:
    post(hub, "/kiosk/change", body, kind, status)


RESULTS = [
    ("kiosk", b"hello nobody", "text/plain; charset=utf-8"),
    ("add?a=1", b'{"sum":1.5,"exact":false}', "application/json"),
    ("moved", b"hello you two", "text/plain; charset=utf-8"),
    ("picture", b"\x89PNG\r\n\x1a\n" + bytes(8), "image/png"),
    ("page", b"<script>alert(1)</script>", "text/plain; charset=utf-8"),
    ("octets", b"\x01\x02\xff", "application/zip"),
    ("nothing", b"", "text/plain; charset=utf-8"),
    ("odd", b"\0\0\0", "application/octet-stream"),
]


@pytest.mark.parametrize(("tool", "body", "kind"), RESULTS)
def test_a_result_has_its_own_content_type(hub: Hub, tool: str, body: bytes, kind: str) -> None:
    """V-F8."""
    answer = get(hub, f"/kiosk/{tool}")
    assert (answer.get_data(), answer.headers["Content-Type"]) == (body, kind)
    assert answer.headers["Content-Security-Policy"].startswith("sandbox;")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "Set-Cookie" not in answer.headers


def test_a_page_that_a_tool_gives_cannot_run_in_the_hub(hub: Hub) -> None:
    """T14.2: as embedded HTML it keeps its type, and its headers forbid the browser to run scripts."""
    answer = get(hub, "/kiosk/embedded")
    assert (answer.get_data(), answer.mimetype) == (b"<script>alert(1)</script>", "text/html")
    assert answer.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")


def test_arguments_in_json_have_to_fit_too(hub: Hub) -> None:
    answer = post(hub, "/kiosk/add", b'{"a": "two"}', "application/json", 400, Accept="application/json")
    assert read_json(answer)["data"]["details"][0]["path"] == "a"


def test_a_result_of_several_kinds_comes_back_as_json(hub: Hub) -> None:
    answer = get(hub, "/kiosk/both")
    assert [item["type"] for item in read_json(answer)["content"]] == ["text", "image"]


def test_a_failure_is_a_sentence(hub: Hub) -> None:
    """T5.5."""
    answer = get(hub, "/kiosk/fails", 500)
    assert (answer.mimetype, answer.get_data(as_text=True)) == ("text/plain", "ValueError: no <b>luck</b>\n")
    assert read_json(get(hub, "/kiosk/fails", 500, Accept="application/json")) == {
        "error": "ValueError: no <b>luck</b>"
    }


def test_content_that_is_garbled_is_an_error_of_the_tool(hub: Hub) -> None:
    assert "base64" in get(hub, "/kiosk/garbled", 500).get_data(as_text=True)


def test_a_tool_that_asks_is_for_mcp_clients(hub: Hub) -> None:
    answer = hub.client.get("/kiosk/asks")
    assert answer.status_code == 500
    assert "elicitation" in answer.get_data(as_text=True)


@pytest.mark.parametrize(
    "path", ["/nobody", "/kiosk/nobody", "/off", "/off/add?a=1", "/broken", "/broken/x", "/favicon.ico", "/../etc"]
)
def test_a_missing_or_disabled_tool_is_not_found(hub: Hub, path: str) -> None:
    """T14.1, T14.3."""
    answer = hub.client.get(path)
    assert answer.status_code == 404
    assert len(answer.get_data(as_text=True).split()) > 3


def test_the_hub_s_own_addresses_go_first(hub: Hub) -> None:
    assert get(hub, "/servers").mimetype == "text/html"
    assert get(hub, "/variables/mcps").mimetype == "text/html"
    assert get(hub, "/healthz").get_data() == b"alive\n"


def test_the_output_is_remembered_as_any_other(tmp_path: Path) -> None:
    hub = Hub(tmp_path)
    hub.client.post("/echo", json={"message": "over HTTP"})
    found = hub.modern("echo", "resources/read", {"uri": "echo://last"})
    assert "over HTTP" in found.result["contents"][0]["text"]
    hub.close()


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "c", "d"]), st.text(max_size=20)), max_size=5, unique_by=lambda p: p[0]
    )
)
def test_text_is_never_lost_when_it_is_read_as_a_type(pairs: list[tuple[str, str]]) -> None:
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "array"}, "d": True}}
    found = parse_arguments(pairs, schema)
    assert set(found) == {name for name, _ in pairs}
    assert all(found[name] == text for name, text in pairs if name in ("a", "d"))
