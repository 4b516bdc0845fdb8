"""Host, Origin and same-origin proof, as tables: accepted requests, refused requests, and the status of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.datastructures import Headers

from patchbay.errors import PatchbayError, Refused
from patchbay.hosts.names import authority, is_loopback
from patchbay.settings import Settings
from patchbay.wire.requests.security import (
    CSP,
    Misdirected,
    check_host_and_origin,
    check_same_origin,
)

PLAIN = Settings()
PUBLIC = Settings(allowed_hosts=("hub.example", "hub.example:8443"), allowed_origins=("https://app.example",))
PORTED = Settings(allowed_hosts=("hub.example:8443", "::1"))

GOOD_HOSTS = [
    ("localhost", PLAIN),
    ("LocalHost:8000", PLAIN),
    ("127.0.0.1", PLAIN),
    ("127.0.0.1:65535", PLAIN),
    ("[::1]", PLAIN),
    ("[::1]:8080", PLAIN),
    ("hub.example", PUBLIC),
    ("hub.example:1", PUBLIC),
    ("hub.example:8443", PORTED),
    ("[::1]:9", PORTED),
]

BAD_HOSTS = [
    (None, PLAIN),
    ("", PLAIN),
    (" ", PLAIN),
    ("evil.example", PLAIN),
    ("localhost.", PLAIN),
    ("localhost.evil.example", PLAIN),
    ("evil.example:localhost", PLAIN),
    ("localhost:8000:9000", PLAIN),
    ("localhost,localhost", PLAIN),
    ("localhost, evil.example", PLAIN),
    ("localhost:", PLAIN),
    ("localhost:0", PLAIN),
    ("localhost:65536", PLAIN),
    ("localhost:80a", PLAIN),
    ("localhost:+80", PLAIN),
    ("localhost:٨٠", PLAIN),
    ("user@localhost", PLAIN),
    ("localhost/", PLAIN),
    ("localhost/?x=", PLAIN),
    ("localhost#", PLAIN),
    ("localhost\t", PLAIN),
    ("localhost\n", PLAIN),
    ("http://localhost", PLAIN),
    ("::1", PLAIN),
    ("[::1", PLAIN),
    ("[::1]8080", PLAIN),
    ("[::2]", PLAIN),
    ("127.0.0.2", PLAIN),
    ("127.1", PLAIN),
    ("2130706433", PLAIN),
    ("0.0.0.0", PLAIN),
    ("*", PLAIN),
    ("localhost" + "x" * 300, PLAIN),
    ("localhost", PUBLIC),
    ("sub.hub.example", PUBLIC),
    ("hub.example", PORTED),
    ("hub.example:8444", PORTED),
]

GOOD_ORIGINS = [
    (None, "localhost:8000", PLAIN),
    ("http://localhost", "localhost:8000", PLAIN),
    ("http://localhost:6274", "localhost:8000", PLAIN),
    ("https://127.0.0.1:1", "localhost", PLAIN),
    ("HTTP://LOCALHOST:3000", "localhost", PLAIN),
    ("http://[::1]:8000", "127.0.0.1:8000", PLAIN),
    ("https://app.example", "hub.example", PUBLIC),
    ("https://hub.example", "hub.example", PUBLIC),
    ("https://hub.example:8443", "hub.example:8443", PUBLIC),
    ("https://hub.example", "hub.example:443", PUBLIC),
]

BAD_ORIGINS = [
    ("null", "localhost", PLAIN),
    ("null", "localhost", Settings(allowed_origins=("null",))),
    ("", "localhost", PLAIN),
    ("*", "localhost", PLAIN),
    ("http://evil.example", "localhost", PLAIN),
    ("http://localhost.evil.example", "localhost", PLAIN),
    ("http://evil.example#localhost", "localhost", PLAIN),
    ("http://localhost@evil.example", "localhost", PLAIN),
    ("http://localhost:8000/", "localhost:8000", PLAIN),
    ("http://localhost:8000/path", "localhost:8000", PLAIN),
    ("http://localhost http://evil.example", "localhost", PLAIN),
    ("http://localhost,http://evil.example", "localhost", PLAIN),
    ("http://127.0.0.2", "localhost", PLAIN),
    ("file://", "localhost", PLAIN),
    ("file://localhost", "localhost", PLAIN),
    ("chrome-extension://localhost", "localhost", PLAIN),
    ("localhost", "localhost", PLAIN),
    ("https://app.example:8443", "hub.example", PUBLIC),
    ("http://app.example", "hub.example", PUBLIC),
    ("https://app.example.evil", "hub.example", PUBLIC),
    ("https://hub.example:9", "hub.example", PUBLIC),
    ("http://localhost", "hub.example", PUBLIC),
    ("http://hub.example", "hub.example:443", PUBLIC),
]


@pytest.mark.parametrize(("host", "settings"), GOOD_HOSTS)
def test_an_allowed_host_passes(host: str, settings: Settings) -> None:
    check_host_and_origin(host, None, settings)


@pytest.mark.parametrize(("host", "settings"), BAD_HOSTS)
def test_any_other_host_is_refused_with_421(host: str | None, settings: Settings) -> None:
    with pytest.raises(Misdirected) as caught:
        check_host_and_origin(host, None, settings)
    assert caught.value.status == 421
    assert "allowed_hosts" in caught.value.message


@pytest.mark.parametrize(("origin", "host", "settings"), GOOD_ORIGINS)
def test_an_allowed_origin_passes(origin: str | None, host: str, settings: Settings) -> None:
    check_host_and_origin(host, origin, settings)


@pytest.mark.parametrize(("origin", "host", "settings"), BAD_ORIGINS)
def test_any_other_origin_is_refused_with_403(origin: str, host: str, settings: Settings) -> None:
    """T14.4."""
    with pytest.raises(Refused) as caught:
        check_host_and_origin(host, origin, settings)
    assert caught.value.status == 403


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_makes_the_check_fail_in_another_way(host: str, origin: str) -> None:
    try:
        check_host_and_origin(host, origin, PLAIN)
    except PatchbayError as problem:
        assert problem.status in (403, 421)


@given(st.text(max_size=40))
def test_an_authority_has_a_canonical_spelling(text: str) -> None:
    found = authority(text)
    if found is not None:
        name, port = found
        assert text.lower() in (name, f"{name}:{port}") or int(text.rpartition(":")[2]) == port


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]"])
def test_loopback_is_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "hub.example", "", "localhost.example"])
def test_addresses_outside_loopback_are_recognized(host: str) -> None:
    assert not is_loopback(host)


PROOFS = [
    ({}, True),
    ({"Sec-Fetch-Site": "same-origin"}, True),
    ({"Sec-Fetch-Site": "none"}, True),
    ({"Sec-Fetch-Site": "same-site"}, False),
    ({"Sec-Fetch-Site": "cross-site"}, False),
    ({"Sec-Fetch-Site": ""}, False),
    ({"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost:8000"}, False),
    ({"Origin": "http://localhost:8000"}, True),
    ({"Origin": "http://localhost:3000"}, False),
    ({"Origin": "http://127.0.0.1:8000"}, False),
    ({"Origin": "null"}, False),
    ({"Origin": ""}, False),
]


@pytest.mark.parametrize(("headers", "proven"), PROOFS)
def test_only_the_same_origin_or_no_browser_may_change_something(headers: dict[str, str], proven: bool) -> None:
    sent = Headers({"Host": "localhost:8000", **headers})
    if proven:
        check_same_origin(sent)
        return
    with pytest.raises(Refused) as caught:
        check_same_origin(sent)
    assert caught.value.status == 403


def test_the_policy_allows_no_inline_code_and_no_other_site() -> None:
    assert "unsafe" not in CSP
    assert "http" not in CSP
    assert CSP.startswith("default-src 'none'")
