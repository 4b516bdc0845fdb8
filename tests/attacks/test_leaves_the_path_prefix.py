"""Uses the path prefix of a hub behind a proxy to lead a browser elsewhere, or to get what belongs beside the hub.

Sources: issue 47 item 16; CWE-601 (open redirect); RFC 8707, section 2 (audiences).
"""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from email.message import Message
from http.cookiejar import CookieJar
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import Request

import httpx2
import pytest

from patchbay.access.oauth.resources import BadResource, parse_resource
from patchbay.access.tokens.audiences import list_audiences
from tests.serving.running import Hub, running
from tests.signing_in import HTML

pytestmark = [pytest.mark.process]

PREFIX = "/hub"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with running(tmp_path_factory.mktemp("hub"), "--access", "shared", "--path-prefix", PREFIX) as found:
        yield found
        assert found.end() == 0


@pytest.fixture
def client(hub: Hub) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=f"http://127.0.0.1:{hub.port}", headers=HTML, timeout=60) as client:
        yield client


def raw(hub: Hub, target: str) -> tuple[int, str]:
    """Send a request target as it is written; return status and Location."""
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=60)
    try:
        connection.putrequest("GET", target)
        for name, value in {**HTML, **hub.as_operator()}.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.headers.get("Location", "")
    finally:
        connection.close()


ELSEWHERE = [
    *("//evil.example", "/hub//evil.example", "/hub/..//evil.example", "https://evil.example/", "/\\evil.example"),
    *("/../other/", "/hub/../other/", "/hub/%2e%2E/other/", "/hub/a/.%2e/../other/", "/hub/..", "/hub/..?next=/hub"),
]


@pytest.mark.parametrize("then", [*ELSEWHERE, "/hub/%2F%2Fevil.example", "/hubevil"])
def test_a_login_link_leads_to_a_page_below_the_prefix_only(hub: Hub, client: httpx2.Client, then: str) -> None:
    answer = client.get(f"{PREFIX}{hub.login_path()}&next={quote(then, safe='')}")
    assert answer.status_code == 303
    place = urlsplit(urljoin(str(answer.url), answer.headers["Location"]))
    assert (place.scheme, place.netloc) == ("http", f"127.0.0.1:{hub.port}")
    assert place.path.startswith(f"{PREFIX}/")


@pytest.mark.parametrize("path", ["//evil.example", "//evil.example/..", "/hub//evil.example", "/%2F/evil.example"])
def test_a_path_with_two_slashes_redirects_to_no_other_host(hub: Hub, path: str) -> None:
    status, location = raw(hub, path)
    assert status in (303, 308, 400, 404)
    assert urlsplit(urljoin(f"http://127.0.0.1:{hub.port}/", location)).netloc == f"127.0.0.1:{hub.port}"


@pytest.mark.parametrize(
    "path",
    ["/hubevil/mcp", "/hubevil/servers", "/HUB/servers", "/hub/../servers", "/hub/hub/servers", "/hub%2F..%2Fservers"],
)
def test_a_path_that_is_not_below_the_prefix_is_not_taken_for_one_below_it(hub: Hub, path: str) -> None:
    """A person who is signed in gets the pages of the hub; these paths are none."""
    assert raw(hub, "/hub/servers")[0] == 200
    assert raw(hub, path)[0] == 404


def test_cookies_go_to_the_prefix_and_not_beside_it(hub: Hub, client: httpx2.Client) -> None:
    """RFC 6265bis, section 5.1.4."""
    answer = client.get(f"{PREFIX}{hub.login_path()}")
    jar = CookieJar()
    base = f"http://127.0.0.1:{hub.port}"
    jar.extract_cookies(_Answer(answer.headers["Set-Cookie"]), Request(f"{base}{PREFIX}/login"))  # type: ignore[arg-type]

    def sent(path: str) -> bool:
        request = Request(f"{base}{path}")
        jar.add_cookie_header(request)
        return request.has_header("Cookie")

    assert [sent(path) for path in ("/hub", "/hub/", "/hub/mcp")] == [True] * 3
    assert [sent(path) for path in ("/", "/hubevil", "/hubevil/hub/", "/other/hub/")] == [False] * 4


class _Answer:
    """The headers of an answer, as a cookie jar reads them."""

    def __init__(self, cookie: str) -> None:
        self._headers = Message()
        self._headers["Set-Cookie"] = cookie

    def info(self) -> object:
        return self._headers


def test_a_token_for_another_application_at_the_host_is_not_one_for_the_hub() -> None:
    accepted = list_audiences("https://a.example/hub/mcp/echo", "", PREFIX)
    assert accepted == {f"https://a.example/hub{path}" for path in ("", "/mcp", "/mcp/echo")}
    for other in ("https://a.example", "https://a.example/mcp", "https://a.example/hubevil/mcp"):
        with pytest.raises(BadResource):
            parse_resource(other, "https://a.example/hub")
    assert parse_resource("https://a.example/hub/mcp/echo", "https://a.example/hub") == "https://a.example/hub/mcp/echo"


def test_a_page_shows_no_link_that_a_visitor_wrote_into_the_path(hub: Hub, client: httpx2.Client) -> None:
    answer = client.get(f"{PREFIX}/servers//evil.example", headers=hub.as_operator())
    assert answer.status_code == 404
    assert 'href="//evil' not in answer.text and "href='//evil" not in answer.text
