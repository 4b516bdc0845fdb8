"""Operator access (issue part 8): who is the operator, what only the operator may do, and that no secret is told.

Sources: REQUIREMENTS VWR-6; THREATS 0.3, 1.4: S26, S27.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from werkzeug.test import TestResponse

from patchbay.cli.commands import main
from patchbay.errors import ConfigError
from patchbay.transports.operator_pages import local
from patchbay.transports.operator_token import OperatorToken
from patchbay.transports.operators import TRIES, WINDOW, TooManyTries, Tries
from tests.hubs import Hub
from tests.transports.browsing import BROWSER

FORM = "application/x-www-form-urlencoded"
BYTES = b"kept by the operator"


@pytest.fixture
def exposed(tmp_path: Path) -> Iterator[Hub]:
    """A hub that the network can reach."""
    hub = Hub(tmp_path, host="0.0.0.0")
    yield hub
    hub.close()


def token_of(hub: Hub) -> str:
    token = hub.app.extensions["operators"].take_fresh()
    assert isinstance(token, str)
    return token


def put(hub: Hub, **headers: str) -> TestResponse:
    """The smallest change. A cookie comes along where it is given, and else where one is in the client's jar."""
    client = hub.app.test_client(use_cookies=False) if "Cookie" in headers else hub.client
    return client.post("/cid", data=BYTES, headers={name.replace("_", "-"): text for name, text in headers.items()})


def log_in(hub: Hub, token: str, then: str = "/activity", **more: Any) -> TestResponse:
    headers = {"Sec-Fetch-Site": "same-origin"} | more.pop("headers", {})
    return hub.client.post("/login", data={"token": token, "next": then}, headers=headers, **more)


def test_on_loopback_without_a_token_the_person_at_the_machine_is_the_operator(tmp_path: Path) -> None:
    hub = Hub(tmp_path)
    assert hub.app.extensions["operators"].take_fresh() is None
    assert put(hub).status_code == 201
    assert "On this machine you are the" in hub.client.get("/servers", headers=BROWSER).text
    assert "whoever uses this machine may change it" in hub.client.get("/login", headers=BROWSER).text
    hub.close()


@pytest.mark.parametrize("name", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP"])
def test_who_comes_through_a_proxy_is_not_at_the_machine(tmp_path: Path, name: str) -> None:
    hub = Hub(tmp_path)
    assert put(hub, **{name: "127.0.0.1"}).status_code == 401
    hub.close()


def test_who_comes_from_another_machine_or_by_another_name_is_not_at_the_machine(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "one")
    away = hub.client.post("/cid", data=BYTES, environ_overrides={"REMOTE_ADDR": "192.0.2.7"})
    assert away.status_code == 401
    hub.close()
    named = Hub(tmp_path / "two", allowed_hosts=("localhost", "hub.example"))
    for host in ("localhost", "hub.example"):
        assert put(named, Host=host).status_code == 401
    assert put(named, Authorization=f"Bearer {token_of(named)}").status_code == 201
    named.close()


def test_a_hub_that_the_network_reaches_makes_one_token_at_its_first_start_and_keeps_a_hash(tmp_path: Path) -> None:
    first = Hub(tmp_path, host="0.0.0.0", store="sqlite")
    token = token_of(first)
    assert first.app.extensions["operators"].take_fresh() is None
    first.close()
    again = Hub(tmp_path, host="0.0.0.0", store="sqlite")
    assert again.app.extensions["operators"].take_fresh() is None
    assert put(again, Authorization=f"bearer {token}").status_code == 201
    again.close()
    file = tmp_path / "data" / "operator"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not any(token.encode() in path.read_bytes() for path in (tmp_path / "data").iterdir() if path.is_file())


def test_a_token_that_was_made_for_a_hub_on_loopback_counts_there_too(tmp_path: Path) -> None:
    hub = Hub(tmp_path, store="sqlite")
    token = OperatorToken(hub.settings.data).renew()
    assert put(hub).status_code == 401
    assert put(hub, Authorization=f"Bearer {token}").status_code == 201
    hub.close()


def test_of_several_first_starts_one_makes_the_token(tmp_path: Path) -> None:
    made = [OperatorToken(tmp_path).first() for _ in range(3)]
    assert [token is None for token in made] == [False, True, True]
    assert made[0] and OperatorToken(tmp_path).fits(made[0])


def test_a_file_that_holds_no_hash_is_an_error_and_lets_nobody_in(tmp_path: Path) -> None:
    (tmp_path / "operator").write_text("open sesame")
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        OperatorToken(tmp_path).hash()


@pytest.mark.parametrize("value", ["Bearer", "Bearer ", "Bearer x", "Basic eDp5", "Bearer patchbay_\u00e9"])
def test_nothing_but_the_token_opens_the_hub(exposed: Hub, value: str) -> None:
    answer = put(exposed, Authorization=value)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_reading_and_calling_tools_needs_no_operator(exposed: Hub) -> None:
    assert exposed.client.get("/servers", headers=BROWSER | {"Authorization": "Bearer wrong"}).status_code == 200
    assert exposed.call("echo", "echo", {"message": "x"}).text == "x\n"


def test_logging_in_gives_a_session_and_logging_out_ends_it_everywhere(exposed: Hub) -> None:
    answer = log_in(exposed, token_of(exposed))
    assert (answer.status_code, answer.headers["Location"]) == (303, "/activity")
    cookie = answer.headers["Set-Cookie"]
    for flag in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"):
        assert flag in cookie
    assert "Secure" not in cookie
    assert put(exposed, Origin="http://localhost").status_code == 201
    assert "You are logged in as the" in exposed.client.get("/servers", headers=BROWSER).text
    assert exposed.client.post("/logout", headers={"Origin": "http://localhost"}).status_code == 303
    assert put(exposed, Origin="http://localhost").status_code == 401
    replayed = {"Cookie": cookie.partition(";")[0], "Origin": "http://localhost"}
    assert put(exposed, **replayed).status_code == 401


def test_over_tls_the_cookie_is_secure_and_bound_to_its_host(exposed: Hub) -> None:
    cookie = log_in(exposed, token_of(exposed), base_url="https://localhost").headers["Set-Cookie"]
    assert cookie.startswith("__Host-patchbay=") and "; Secure" in cookie and "Domain" not in cookie


def test_a_session_ends_with_its_token_and_cannot_be_changed_by_hand(exposed: Hub) -> None:
    cookie = log_in(exposed, token_of(exposed)).headers["Set-Cookie"].partition(";")[0]
    name, _, value = cookie.partition("=")
    for place in range(0, len(value), 7):
        bad = value[:place] + ("A" if value[place] != "A" else "B") + value[place + 1 :]
        assert put(exposed, Cookie=f"{name}={bad}", Origin="http://localhost").status_code == 401, place
    assert put(exposed, Cookie=cookie, Origin="http://localhost").status_code == 201
    exposed.app.extensions["operators"].token.renew()
    assert put(exposed, Cookie=cookie, Origin="http://localhost").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [{}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://localhost:3000"}],
)
def test_a_session_changes_nothing_without_same_origin_proof(exposed: Hub, headers: dict[str, str]) -> None:
    """THREATS 1.4: S26, S27."""
    log_in(exposed, token_of(exposed))
    assert exposed.client.post("/cid", data=BYTES, headers=headers).status_code == 403


@pytest.mark.parametrize("path", ["/login", "/logout"])
def test_no_other_site_logs_anybody_in_or_out(exposed: Hub, path: str) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Content-Type": FORM}
    assert exposed.client.post(path, data="token=x", headers=headers).status_code == 403


def test_a_read_only_hub_changes_nothing_for_its_operator_either(tmp_path: Path) -> None:
    hub = Hub(tmp_path, host="0.0.0.0", boot="readonly")
    answer = put(hub, Authorization=f"Bearer {token_of(hub)}")
    assert answer.status_code == 405
    hub.close()


def test_an_address_that_shows_wrong_tokens_is_soon_not_listened_to(exposed: Hub) -> None:
    token = token_of(exposed)
    assert [log_in(exposed, f"wrong{turn}").status_code for turn in range(TRIES)] == [401] * TRIES
    late = log_in(exposed, token)
    assert late.status_code == 429 and late.headers["Retry-After"] == "60"
    assert put(exposed, Authorization=f"Bearer {token}").status_code == 429
    elsewhere = log_in(exposed, token, environ_overrides={"REMOTE_ADDR": "192.0.2.9"})
    assert elsewhere.status_code == 303


def test_the_count_of_wrong_tokens_is_bounded_in_time_and_in_addresses() -> None:
    now = [0.0]
    tries = Tries(lambda: now[0])
    for _ in range(TRIES):
        tries.wrong("a")
    with pytest.raises(TooManyTries):
        tries.check("a")
    now[0] = WINDOW
    tries.check("a")
    for each in range(5000):
        tries.wrong(str(each))
    assert len(tries._wrong) == 1024


@pytest.mark.parametrize(
    "path",
    [
        *("//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)"),
        *("", "activity", "/a\r\nX: y", "/\tevil", "///evil.example", "\\/evil", "/" + "x" * 3000, "/@evil\n"),
    ],
)
def test_after_logging_in_one_stays_on_the_hub(exposed: Hub, path: str) -> None:
    """THREATS 1.4, open redirect after login."""
    assert local(path) == "/"
    assert log_in(exposed, token_of(exposed), path).headers["Location"] == "/"


def test_no_answer_and_no_log_line_holds_what_was_shown(exposed: Hub, caplog: pytest.LogCaptureFixture) -> None:
    token = token_of(exposed)
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
    operators = exposed.app.extensions["operators"]
    token = token_of(exposed)
    cookie = log_in(exposed, token).headers["Set-Cookie"].partition(";")[0]
    headers = {"Cookie": cookie, "Origin": "http://localhost"}
    with exposed.app.test_request_context("/", method="POST", headers=headers):
        good = operators.csrf()
        assert operators.check_change({"csrf": good}).operator
    other = {"Cookie": log_in(exposed, token).headers["Set-Cookie"].partition(";")[0], "Origin": "http://localhost"}
    for bad, sent in (("", headers), (good + "x", headers), (good, other)):
        with (
            exposed.app.test_request_context("/", method="POST", headers=sent),
            pytest.raises(Exception, match="load the page again"),
        ):
            operators.check_change({"csrf": bad})


def test_who_is_not_the_operator_gets_no_form_value(exposed: Hub) -> None:
    with exposed.app.test_request_context("/"):
        assert exposed.app.extensions["operators"].csrf() == ""


def test_the_command_line_makes_a_new_token(tmp_path: Path) -> None:
    made = CliRunner().invoke(main, ["token", "--data", str(tmp_path)])
    assert made.exit_code == 0, made.output
    assert re.fullmatch(r"patchbay_[\w-]{43}\n", made.stdout)
    assert OperatorToken(tmp_path).fits(made.stdout.strip())
    assert CliRunner().invoke(main, ["token", "--data", str(tmp_path), "--store", "memory"]).exit_code == 2
