"""Which redirect URIs may be registered, and which one a request may use: two tables."""

from __future__ import annotations

import pytest

from patchbay.access.oauth.redirect_uris import BadRedirectUri, check_redirect_uri, is_registered

GOOD = [
    "https://client.example/callback",
    "https://client.example:8443/callback?tenant=1",
    "https://client.example",
    "http://127.0.0.1/callback",
    "http://127.0.0.1:5000/callback",
    "http://localhost:5000/",
    "http://[::1]:5000/callback",
]
BAD = [
    "",
    "callback",
    "/callback",
    "//client.example/callback",
    "http://client.example/callback",
    "http://127.0.0.1.client.example/callback",
    "http://localhost.client.example/",
    "http://127.0.0.2/callback",
    "http://0.0.0.0/callback",
    "http://2130706433/callback",
    "http://0x7f.1/",
    "https://client.example/callback#fragment",
    "https://client.example/callback#",
    "https://user@client.example/callback",
    "https://user:secret@client.example/callback",
    "https://client.example@evil.example/callback",
    "https://client.example\\@evil.example/",
    "https://client.example\\.evil.example/",
    "https://client.example /callback",
    "https://client.example/call\nback",
    "https://client.example/call\tback",
    "https://client.example/\x00",
    "https://*.client.example/callback",
    "https://client.example:0/callback",
    "https://client.example:99999/callback",
    "https://client.example:port/callback",
    "https:///callback",
    "https:client.example/callback",
    "https://",
    "https://-client.example/",
    "https://client.example;form-action/",
    "HTTPS://client.example/callback",
    "https://clïent.example/callback",
    "https://[::2]/callback",
    "https://[::1/callback",
    "javascript:alert(1)",
    "javascript://client.example/%0aalert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "ftp://client.example/",
    "com.example.app:/callback",
    "cursor://anysphere/callback",
    " https://client.example/callback",
    "https://client.example/" + "x" * 500,
]

MATCHES: list[tuple[str, str, bool]] = [
    ("https://c.example/cb", "https://c.example/cb", True),
    ("https://c.example/cb/", "https://c.example/cb", False),
    ("https://c.example/cb?x=1", "https://c.example/cb", False),
    ("https://c.example/CB", "https://c.example/cb", False),
    ("https://c.example:443/cb", "https://c.example/cb", False),
    ("https://c.example/cb/../x", "https://c.example/cb", False),
    ("https://c.example/cb%2f", "https://c.example/cb/", False),
    ("https://sub.c.example/cb", "https://c.example/cb", False),
    ("https://c.example.evil.example/cb", "https://c.example/cb", False),
    ("http://127.0.0.1:1/cb", "http://127.0.0.1/cb", True),
    ("http://127.0.0.1:1/cb", "http://127.0.0.1:2/cb", True),
    ("http://127.0.0.1/cb", "http://127.0.0.1:2/cb", True),
    ("http://[::1]:1/cb", "http://[::1]:2/cb", True),
    ("http://localhost:1/cb", "http://localhost:2/cb", True),
    ("http://localhost:1/cb", "http://127.0.0.1:1/cb", False),
    ("http://127.0.0.1:1/cb", "http://localhost/cb", False),
    ("http://127.0.0.1:1/other", "http://127.0.0.1:1/cb", False),
    ("http://127.0.0.1:1/cb?x", "http://127.0.0.1:1/cb", False),
    ("https://127.0.0.1:1/cb", "http://127.0.0.1:1/cb", False),
    ("https://127.0.0.1:1/cb", "https://127.0.0.1:2/cb", False),
    ("http://127.0.0.1:1@evil.example/cb", "http://127.0.0.1/cb", False),
    ("http://127.0.0.1:1#@evil.example/cb", "http://127.0.0.1/cb", False),
    ("http://127.0.0.1:1/cb#x", "http://127.0.0.1:1/cb", False),
    ("http://127.0.0.1:70000/cb", "http://127.0.0.1/cb", False),
    ("http://127.0.0.1\\evil.example/cb", "http://127.0.0.1/cb", False),
]


@pytest.mark.parametrize("uri", GOOD)
def test_https_and_loopback_may_be_registered(uri: str) -> None:
    check_redirect_uri(uri)
    assert is_registered(uri, [uri])


@pytest.mark.parametrize("uri", BAD)
def test_other_uris_may_not(uri: str) -> None:
    with pytest.raises(BadRedirectUri):
        check_redirect_uri(uri)
    assert not is_registered(uri, [uri])


@pytest.mark.parametrize(("asked", "registered", "fits"), MATCHES)
def test_a_request_uses_a_registered_uri_exactly_but_for_the_port_of_loopback(
    asked: str, registered: str, fits: bool
) -> None:
    """RFC 8252, section 7.3; RFC 9700, section 2.1."""
    assert is_registered(asked, ["https://other.example/", registered]) == fits
