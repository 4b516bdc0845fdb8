"""The frame of an app: its policy, from what the app declares (SEP-1865, content security policy enforcement)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient

from patchbay.web.rendering.app_frames import MAX_POLICY_CHARACTERS, MAX_SOURCES, accept_sources, app_policy
from tests.hubs import Hub

NOTHING = (
    "sandbox allow-scripts allow-forms; default-src 'none'; connect-src 'none'; script-src 'unsafe-inline';"
    " style-src 'unsafe-inline'; img-src data: blob:; font-src data:; media-src data: blob:; frame-src 'none';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("hub"))
    yield hub
    hub.close()


@pytest.fixture
def client(hub: Hub) -> FlaskClient:
    return hub.client


def policy(client: FlaskClient, csp: Any) -> str:
    """The policy of the frame of an app that declares this."""
    answer = client.get("/render/app", query_string={"csp": json.dumps(csp)})
    assert answer.status_code == 200, answer.text
    return answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "csp", [{}, {"connectDomains": []}, {"connectDomains": "https://a.example"}, {"other": ["https://a.example"]}]
)
def test_an_app_that_declares_nothing_may_load_and_reach_nothing(client: FlaskClient, csp: Any) -> None:
    """37.2."""
    assert policy(client, csp) == NOTHING


def test_declared_sources_are_added_to_their_directives_alone(client: FlaskClient) -> None:
    """37.2."""
    declared = {
        "connectDomains": ["https://api.example", "wss://live.example:8443"],
        "resourceDomains": ["https://*.cdn.example/lib/"],
        "frameDomains": ["https://video.example"],
        "baseUriDomains": ["https://base.example"],
    }
    found = dict(each.split(" ", 1) for each in policy(client, declared).split("; "))
    assert found["connect-src"] == "https://api.example wss://live.example:8443"
    for name in ("script-src", "style-src"):
        assert found[name] == "'unsafe-inline' https://*.cdn.example/lib/"
    assert found["font-src"] == "data: https://*.cdn.example/lib/"
    assert (found["frame-src"], found["base-uri"]) == ("https://video.example", "https://base.example")
    assert found["default-src"] == "'none'"


@pytest.mark.parametrize(
    "source",
    [
        *(
            "*",
            "https:",
            "data:",
            "blob:",
            "'self'",
            "'unsafe-eval'",
            "https://*",
            "https://",
            "ftp://a.example",
            7,
            None,
        ),
        *("https://a.example; script-src *", "https://a.example 'self'", "https://a.example\nx", "https://a.example,*"),
        *("https://user@a.example", "https://a.example?x=;y", "//a.example", "a.example", "https://a..example"),
    ],
)
def test_what_is_no_source_of_one_host_never_reaches_the_policy(client: FlaskClient, source: Any) -> None:
    """37.2: an entry cannot end its directive, add another one, or stand for every host."""
    assert policy(client, {kind: [source] for kind in ("connectDomains", "frameDomains")}) == NOTHING


@pytest.mark.parametrize("host", ["localhost", "localhost:80", "LOCALHOST:*", "127.0.0.1", "127.0.0.1:9999", "[::1]"])
def test_a_source_of_the_hub_is_left_out(client: FlaskClient, host: str) -> None:
    """37.2: an app that declares the hub itself reaches it no more than others."""
    assert (
        policy(client, {"connectDomains": [f"http://{host}"], "resourceDomains": [f"http://{host}/static/"]}) == NOTHING
    )


def test_a_wildcard_that_covers_the_hub_is_left_out() -> None:
    """37.2."""
    declared = {"connectDomains": ["https://*.team.example", "https://*.other.example"]}
    assert accept_sources(declared, ["hub.team.example:443"]) == {"connectDomains": ["https://*.other.example"]}


def test_the_sources_of_one_kind_are_bounded() -> None:
    """37.2."""
    declared = {"connectDomains": [f"https://host{number}.example" for number in range(2 * MAX_SOURCES)]}
    assert len(accept_sources(declared, [])["connectDomains"]) == MAX_SOURCES
    assert app_policy(accept_sources({}, [])) == NOTHING


@pytest.mark.parametrize("text", ["{", "[]", "7", "x" * (MAX_POLICY_CHARACTERS + 1)])
def test_other_text_than_the_policy_of_an_app_is_refused(client: FlaskClient, text: str) -> None:
    """37.2."""
    assert client.get("/render/app", query_string={"csp": text}).status_code == 400


def test_only_pages_with_forms_may_frame_an_app_and_only_the_frame_of_an_app_may_be_framed(client: FlaskClient) -> None:
    """37.2."""
    html = {"Accept": "text/html"}
    shown = client.get("/servers/echo", headers=html).headers["Content-Security-Policy"]
    assert "frame-src 'self'" in shown and "frame-ancestors 'none'" in shown
    assert "frame-src" not in client.get("/history", headers=html).headers["Content-Security-Policy"]
    frame = client.get("/render/app").headers
    assert frame["Referrer-Policy"] == "no-referrer" and "Set-Cookie" not in frame
