"""Operator access (issue part 8): who is the operator, what only it may do, and that no answer contains a secret.

Sources: REQUIREMENTS VWR-6; THREATS 0.3, 1.4: S26, S27.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from flask import request
from werkzeug.test import TestResponse

from patchbay.access.operator_token import HASH_FILE
from patchbay.web.operator.login import local_path
from patchbay.web.operator.operators import MAX_WRONG_TOKENS, WRONG_TOKEN_SECONDS, TooManyWrongTokens, WrongTokenCounter
from patchbay.wire.requests.wsgi import request_of
from tests.hubs import Hub
from tests.web.browsing import BROWSER

FORM = "application/x-www-form-urlencoded"
BYTES = b"kept by the operator"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A hub as it is by default."""
    hub = Hub(tmp_path)
    yield hub
    hub.close()


@pytest.fixture
def exposed(tmp_path: Path) -> Iterator[Hub]:
    """A hub that the network can reach."""
    hub = Hub(tmp_path, host="0.0.0.0", access="open")
    yield hub
    hub.close()


def put(hub: Hub, **headers: str) -> TestResponse:
    """The smallest change. A cookie comes along where it is given, and else where one is in the client's jar."""
    client = hub.app.test_client(use_cookies=False) if "Cookie" in headers else hub.client
    return client.post("/cid", data=BYTES, headers={name.replace("_", "-"): text for name, text in headers.items()})


def log_in(hub: Hub, token: str, then: str = "/activity", **more: Any) -> TestResponse:
    headers = {"Sec-Fetch-Site": "same-origin"} | more.pop("headers", {})
    return hub.client.post("/login", data={"token": token, "next": then}, headers=headers, **more)


def link_of(hub: Hub) -> str:
    link = hub.app.parts.operators.links.make()
    assert isinstance(link, str)
    return link


def is_operator(hub: Hub, **headers: str) -> bool:
    with hub.app.test_request_context("/", headers={name.replace("_", "-"): text for name, text in headers.items()}):
        return bool(hub.app.parts.operators.is_operator(request_of(request.environ)))


def test_on_its_own_machine_too_the_operator_proves_it(hub: Hub) -> None:
    """THREATS 0.3: coming over loopback proves nothing."""
    assert put(hub).status_code == 401
    assert hub.client.put("/variables/x", data=b"1").status_code == 401
    assert put(hub, Authorization=f"Bearer {hub.token}").status_code == 201
    assert "Operator login" in hub.client.get("/servers", headers=BROWSER).text


def test_one_function_says_whether_a_request_is_the_operators(hub: Hub) -> None:
    cookie = hub.client.get(link_of(hub)).headers["Set-Cookie"].partition(";")[0]
    assert is_operator(hub, Authorization=f"Bearer {hub.token}")
    assert is_operator(hub, Cookie=cookie)
    assert not is_operator(hub)
    assert not is_operator(hub, Authorization="Bearer patchbay_wrong")
    assert not is_operator(hub, Authorization="Bearer patchbay_wrong", Cookie=cookie)
    assert not is_operator(hub, Cookie=cookie[:-1])


def test_a_link_logs_one_browser_in_once(hub: Hub) -> None:
    link = link_of(hub)
    entered = hub.client.get(f"{link}&next=/variables", headers=BROWSER)
    assert (entered.status_code, entered.headers["Location"]) == (303, "/variables")
    for flag in ("HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={30 * 24 * 3600}"):
        assert flag in entered.headers["Set-Cookie"]
    assert put(hub, Origin="http://localhost").status_code == 201
    other = hub.app.test_client()
    again = other.get(link, headers=BROWSER)
    assert again.status_code == 401 and "Set-Cookie" not in again.headers
    assert "patchbay login" in again.text
    assert other.post("/cid", data=BYTES, headers={"Origin": "http://localhost"}).status_code == 401
    reloaded = hub.client.get(link, headers=BROWSER)
    assert reloaded.status_code == 303 and "Set-Cookie" not in reloaded.headers


def test_a_link_is_used_up_for_all_workers_of_a_hub(tmp_path: Path) -> None:
    one, other = (Hub(tmp_path, store="sqlite") for _ in range(2))
    link = link_of(one)
    assert other.client.get(link).status_code == 303
    assert one.client.get(link).status_code == 401
    with ThreadPoolExecutor(8) as pool:
        link = link_of(one)
        clients = [hub.app.test_client() for hub in (one, other) * 4]
        assert sorted(pool.map(lambda client: client.get(link).status_code, clients)) == [303, *[401] * 7]
    one.close()
    other.close()


def test_a_changed_link_is_refused_and_a_look_at_a_link_does_not_use_it_up(hub: Hub) -> None:
    link = link_of(hub)
    place = link.index("=") + 1
    for bad in (
        link[:-9] + ("A" if link[-9] != "A" else "B") + link[-8:],
        link[:place],
        link[:place] + "x" * 5000,
        link + "x",
    ):
        answer = hub.client.get(bad, headers=BROWSER)
        assert answer.status_code in (401, 429) and "Set-Cookie" not in answer.headers
    assert hub.client.head(link).status_code == 200
    assert hub.client.get(link.replace("/login", "/login.json")).status_code == 200
    assert hub.client.get(link).status_code == 303


def test_a_new_token_ends_the_links_that_were_made_before(hub: Hub) -> None:
    link = link_of(hub)
    hub.app.parts.operators.token.renew()
    assert hub.client.get(link).status_code == 401


@pytest.mark.parametrize("content", [b"", b"open sesame", b"\xff\xfe", b"0" * 63, None])
def test_a_damaged_file_proves_no_operator_and_shows_strangers_nothing_of_itself(
    tmp_path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    hub = Hub(tmp_path, store="sqlite")
    token, file = hub.token, tmp_path / "data" / HASH_FILE
    cookie = hub.client.get(link_of(hub)).headers["Set-Cookie"].partition(";")[0]
    link = link_of(hub)
    file.unlink()
    file.mkdir() if content is None else file.write_bytes(content)
    answers = [
        put(hub, Authorization=f"Bearer {token}"),
        put(hub, Cookie=cookie, Origin="http://localhost"),
        log_in(hub, token),
        hub.app.test_client().get(link),
    ]
    assert [answer.status_code for answer in answers] == [503] * 4
    answers += [hub.client.get(path, headers=BROWSER) for path in ("/", "/login", "/servers", "/variables")]
    assert [answer.status_code for answer in answers[4:]] == [200] * 4
    for answer in answers:
        told = answer.get_data(as_text=True) + str(answer.headers)
        assert str(file) not in told and "sesame" not in told and "hexadecimal" not in told
    assert str(file) in caplog.text
    hub.close()


@pytest.mark.parametrize("value", ["Bearer", "Bearer ", "Bearer x", "Basic eDp5", "Bearer patchbay_\u00e9"])
def test_nothing_but_the_token_opens_the_hub(exposed: Hub, value: str) -> None:
    answer = put(exposed, Authorization=value)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_reading_and_calling_tools_needs_no_operator(exposed: Hub) -> None:
    assert exposed.client.get("/servers", headers=BROWSER | {"Authorization": "Bearer wrong"}).status_code == 200
    assert exposed.call("echo", "echo", {"message": "x"}).text == "x\n"


def test_logging_in_gives_a_session_and_logging_out_ends_it_everywhere(exposed: Hub) -> None:
    answer = log_in(exposed, exposed.token)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/activity")
    cookie = answer.headers["Set-Cookie"]
    for flag in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=2592000"):
        assert flag in cookie
    assert "Secure" not in cookie
    assert put(exposed, Origin="http://localhost").status_code == 201
    assert "You are logged in as the" in exposed.client.get("/servers", headers=BROWSER).text
    assert exposed.client.post("/logout", headers={"Origin": "http://localhost"}).status_code == 303
    assert put(exposed, Origin="http://localhost").status_code == 401
    replayed = {"Cookie": cookie.partition(";")[0], "Origin": "http://localhost"}
    assert put(exposed, **replayed).status_code == 401


def test_over_tls_the_cookie_is_secure_and_bound_to_its_host(exposed: Hub) -> None:
    cookie = log_in(exposed, exposed.token, base_url="https://localhost").headers["Set-Cookie"]
    assert cookie.startswith("__Host-patchbay=") and "; Secure" in cookie and "Domain" not in cookie


def test_a_session_ends_with_its_token_and_cannot_be_changed_by_hand(exposed: Hub) -> None:
    cookie = log_in(exposed, exposed.token).headers["Set-Cookie"].partition(";")[0]
    name, _, value = cookie.partition("=")
    for place in range(0, len(value), 7):
        bad = value[:place] + ("A" if value[place] != "A" else "B") + value[place + 1 :]
        assert put(exposed, Cookie=f"{name}={bad}", Origin="http://localhost").status_code == 401, place
    assert put(exposed, Cookie=cookie, Origin="http://localhost").status_code == 201
    exposed.app.parts.operators.token.renew()
    assert put(exposed, Cookie=cookie, Origin="http://localhost").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [{}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://localhost:3000"}],
)
def test_a_session_changes_nothing_without_same_origin_proof(exposed: Hub, headers: dict[str, str]) -> None:
    """THREATS 1.4: S26, S27."""
    log_in(exposed, exposed.token)
    assert exposed.client.post("/cid", data=BYTES, headers=headers).status_code == 403


@pytest.mark.parametrize("site", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://localhost:3000"}])
@pytest.mark.parametrize("path", ["/login", "/logout"])
def test_no_other_site_logs_anybody_in_or_out(exposed: Hub, path: str, site: dict[str, str]) -> None:
    answer = exposed.client.post(path, data="token=x", headers={"Content-Type": FORM, **site})
    assert answer.status_code == 403


def test_a_read_only_hub_changes_nothing_for_its_operator_either(tmp_path: Path) -> None:
    hub = Hub(tmp_path, boot="readonly")
    answer = put(hub, Authorization=f"Bearer {hub.token}")
    assert answer.status_code == 405
    hub.close()


def test_wrong_tokens_are_throttled_and_the_right_one_never_is(exposed: Hub) -> None:
    """Behind a proxy strangers and the operator have one address."""
    token = exposed.token
    assert [log_in(exposed, f"wrong{turn}").status_code for turn in range(MAX_WRONG_TOKENS)] == [401] * MAX_WRONG_TOKENS
    late = log_in(exposed, "wrong again")
    assert late.status_code == 429 and late.headers["Retry-After"] == "60"
    assert put(exposed, Authorization="Bearer wrong").status_code == 429
    assert exposed.client.get("/login?once=wrong").status_code == 429
    assert put(exposed, Authorization=f"Bearer {token}").status_code == 201
    assert log_in(exposed, token).status_code == 303
    assert exposed.app.test_client().get(link_of(exposed)).status_code == 303
    assert log_in(exposed, "wrong", environ_overrides={"REMOTE_ADDR": "192.0.2.9"}).status_code == 401


def test_the_count_of_wrong_tokens_is_bounded_in_time_and_in_addresses() -> None:
    now = [0.0]
    tries = WrongTokenCounter(lambda: now[0])
    for _ in range(MAX_WRONG_TOKENS):
        tries.count("a")
    for _ in range(2):
        with pytest.raises(TooManyWrongTokens):
            tries.count("a")
    now[0] = WRONG_TOKEN_SECONDS
    tries.count("a")
    for each in range(5000):
        tries.count(str(each))
    assert len(tries._wrong) == 1024


@pytest.mark.parametrize(
    "path",
    [
        *("//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)"),
        *("", "activity", "/a\r\nX: y", "/\tevil", "///evil.example", "\\/evil", "/" + "x" * 20_000, "/@evil\n"),
    ],
)
def test_after_logging_in_one_stays_on_the_hub(exposed: Hub, path: str) -> None:
    """THREATS 1.4, open redirect after login."""
    assert local_path(path) == "/"
    assert log_in(exposed, exposed.token, path).headers["Location"] == "/"


def test_no_answer_and_no_log_line_holds_a_presented_token(exposed: Hub, caplog: pytest.LogCaptureFixture) -> None:
    token = exposed.token
    answers = [
        log_in(exposed, "almost-" + token),
        put(exposed, Authorization=f"Bearer {token}x"),
        log_in(exposed, token),
    ]
    answers += [exposed.client.get(path, headers=BROWSER) for path in ("/login", "/", "/activity", "/metrics")]
    answers.append(
        exposed.client.post("/login", data=b"token=" + token.encode() + b"\xff", headers={"Content-Type": FORM})
    )
    for answer in answers:
        assert token not in answer.get_data(as_text=True)
        assert not any(token in value for _, value in answer.headers)
    assert token not in caplog.text


def test_a_form_of_a_page_carries_a_value_of_its_own_session(exposed: Hub) -> None:
    operators = exposed.app.parts.operators
    token = exposed.token
    cookie = log_in(exposed, token).headers["Set-Cookie"].partition(";")[0]
    headers = {"Cookie": cookie, "Origin": "http://localhost"}
    with exposed.app.test_request_context("/", method="POST", headers=headers):
        good = operators.csrf()
        assert operators.check_change({"csrf": good}).is_operator
    other = {"Cookie": log_in(exposed, token).headers["Set-Cookie"].partition(";")[0], "Origin": "http://localhost"}
    for bad, sent in (("", headers), (good + "x", headers), (good, other)):
        with (
            exposed.app.test_request_context("/", method="POST", headers=sent),
            pytest.raises(Exception, match="reload the page"),
        ):
            operators.check_change({"csrf": bad})


def test_who_is_not_the_operator_gets_no_form_value(exposed: Hub) -> None:
    with exposed.app.test_request_context("/"):
        assert exposed.app.parts.operators.csrf() == ""
