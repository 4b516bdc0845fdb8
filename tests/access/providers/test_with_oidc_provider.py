"""Sign-in with oidc-provider, a certified provider of another project, at hubs that run as users run them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import httpx2
import pytest

from tests.access.tokens.browsers import follow
from tests.access.tokens.issuers import Issuer, running_issuer
from tests.interaction.programs import free_port, plain_environment
from tests.serving.running import Hub, running
from tests.signing_in import challenge_of
from tests.waiting import BOUND, until

pytestmark = [pytest.mark.node, pytest.mark.process]

SECRET, CLI = "a secret of tests", "http://127.0.0.1:9/callback"
ECHO = 'def echo(text: str) -> str:\n    """Echo."""\n    return text\n'


@dataclass
class Company:
    """A provider with its file of clients and people, and a hub of two workers whose people sign in there."""

    issuer: Issuer
    hub: Hub
    file: Path

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.hub.port}"

    def describe(self, id: str, **claims: Any) -> None:
        """Change what the provider says about a person."""
        known = json.loads(self.file.read_text())
        known["people"][id] = claims
        self.file.write_text(json.dumps(known))


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    folder = tmp_path_factory.mktemp("company")
    port, hub_folder, file = free_port(), folder / "hub", folder / "people.json"
    base = f"http://127.0.0.1:{port}"
    clients = [
        {
            "client_id": "patchbay",
            "client_secret": SECRET,
            "grant_types": ["authorization_code", "refresh_token"],
            "redirect_uris": [f"{base}/sign-in/acme/callback"],
            "post_logout_redirect_uris": [f"{base}/login"],
            "backchannel_logout_uri": f"{base}/sign-in/acme/backchannel-logout",
            "backchannel_logout_session_required": True,
        },
        {
            "client_id": "cli",
            "token_endpoint_auth_method": "none",
            "application_type": "native",
            "grant_types": ["authorization_code"],
            "redirect_uris": [CLI],
        },
    ]
    file.write_text(json.dumps({"clients": clients, "people": {}}))
    (hub_folder / "servers").mkdir(parents=True)
    (hub_folder / "servers" / "echo.py").write_text(ECHO)
    environment = plain_environment(hub_folder) | {"ACME_SECRET": SECRET}
    with running_issuer(folder / "issuer", more=file) as issuer:
        options = ["--issuer", issuer.url, "--sign-in", f"Acme={issuer.url}", "--sign-in-client", "patchbay"]
        options += ["--sign-in-secret", "${ACME_SECRET}", "--workers", "2", "--port", str(port)]
        with running(hub_folder, *options, environ=environment) as hub:
            yield Company(issuer, hub, file)
            assert hub.end() == 0
            assert not any("eyJ" in line or SECRET in line for line in hub.lines), "a token or a secret is in the log"


class Person:
    """A person with a browser, which is at the hub and at the provider."""

    def __init__(self, company: Company, name: str) -> None:
        self.company, self.name = company, name
        self.browser = httpx2.Client(timeout=BOUND, headers={"Accept": "text/html", "Origin": company.base})

    def sign_in(self) -> httpx2.Response:
        # After a test in which the provider was away, the hub asks it again a moment later.
        answer = until(self._begin, "a provider that answers")
        back = follow(self.browser, answer.headers["location"], self.name, f"{self.company.base}/sign-in/")
        return self.browser.get(back)

    def _begin(self) -> httpx2.Response | None:
        answer = self.browser.get(f"{self.company.base}/sign-in/acme")
        return answer if answer.status_code == 303 else None

    def account(self) -> Any:
        """The data of the own account; None for a browser that is not signed in."""
        answer = self.browser.get(f"{self.company.base}/account", headers={"Accept": "application/json"})
        return answer.json() if answer.status_code == 200 else None

    def token(self) -> str:
        """An access token of a client of this person, for the hub."""
        verifier, resource = "v" * 43, f"{self.company.base}/mcp"
        query = {"response_type": "code", "client_id": "cli", "redirect_uri": CLI, "scope": "openid mcp:use"}
        query |= {"code_challenge": challenge_of(verifier), "code_challenge_method": "S256", "resource": resource}
        page = f"{self.company.issuer.url}/auth?{urlencode(query)}"
        back = follow(self.browser, page, self.name, CLI)
        form = {"grant_type": "authorization_code", "client_id": "cli", "redirect_uri": CLI, "resource": resource}
        form |= {"code": parse_qs(urlsplit(back).query)["code"][0], "code_verifier": verifier}
        answer = httpx2.post(f"{self.company.issuer.url}/token", data=form, timeout=BOUND)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])


Meet = Callable[[str], Person]


@pytest.fixture
def meet(company: Company) -> Iterator[Meet]:
    """Return a function that makes a person with a browser of its own."""
    with ExitStack() as stack:

        def meet(name: str) -> Person:
            person = Person(company, name)
            stack.callback(person.browser.close)
            return person

        yield meet


def as_operator(company: Company, method: str, path: str, body: Any = None) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {company.hub.token()}", "Accept": "application/json"}
    data = None if body is None else json.dumps(body)
    return httpx2.request(method, company.base + path, content=data, headers=headers, timeout=BOUND)


def test_a_person_signs_in_and_has_the_groups_of_the_provider(company: Company, meet: Meet) -> None:
    company.describe("ann", groups=["research"], email="ann@example.org", email_verified=True)
    ann = meet("ann")
    assert ann.sign_in().headers["location"] == "/account"
    shown = ann.account()
    assert (shown["shown"], shown["email"], shown["groups"]) == ("Name of ann", "ann@example.org", ["research"])
    company.describe("ann", groups=["ops"], email="ann@example.org", email_verified=False)
    ann.sign_in()
    assert (ann.account()["email"], ann.account()["groups"]) == ("", ["ops"])


def test_a_token_of_a_client_and_the_session_of_a_browser_are_one_principal(company: Company, meet: Meet) -> None:
    """One principal: the grants of a group, the records of calls, and the limits are the same."""
    company.describe("eva", groups=["research"])
    eva, ben = meet("eva"), meet("ben")
    company.describe("ben", groups=["sales"])
    grants = {"grants": [{"to": ["research"], "may": ["see", "call"], "on": ["echo"]}]}
    assert as_operator(company, "PUT", "/variables/access", grants).status_code == 201
    call: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    call["params"] = {"name": "echo", "arguments": {"text": "hello"}}
    media = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    for person, expected in ((eva, "hello"), (ben, None)):
        assert person.sign_in().status_code == 303
        token = {"Authorization": f"Bearer {person.token()}"}
        answers = [
            person.browser.post(f"{company.base}/mcp/echo", json=call, headers=media),
            httpx2.post(f"{company.base}/mcp/echo", json=call, headers=media | token, timeout=BOUND),
        ]
        found = [answer.json().get("result", {}).get("content", [{}])[0].get("text") for answer in answers]
        assert found == [expected, expected]
    caller = urlencode({"caller": f"{company.issuer.url}#eva"})
    until(lambda: len(as_operator(company, "GET", f"/activity?{caller}").json()["records"]) == 2)
    assert as_operator(company, "DELETE", "/variables/access").status_code == 200


def test_a_sign_out_of_the_hub_ends_the_session_at_the_provider(company: Company, meet: Meet) -> None:
    cleo = meet("cleo")
    cleo.sign_in()
    answer = cleo.browser.post(f"{company.base}/logout/person")
    assert answer.status_code == 200 and cleo.account() is None
    address = answer.headers["refresh"].partition("url=")[2]
    back = follow(cleo.browser, address, "", f"{company.base}/login")
    assert urlsplit(back).path == "/login"
    answer = cleo.browser.get(f"{company.base}/sign-in/acme")
    page = cleo.browser.get(answer.headers["location"])
    page = cleo.browser.get(urljoin(str(page.url), page.headers["location"]))
    assert 'name="login"' in page.text, "the provider asks who it is"


def test_a_sign_out_at_the_provider_ends_the_session_of_the_hub_in_every_worker(company: Company, meet: Meet) -> None:
    """The provider sends a logout token to the hub; a session of another person stays."""
    dora, fred = meet("dora"), meet("fred")
    dora.sign_in()
    fred.sign_in()
    assert dora.account() is not None
    follow(dora.browser, f"{company.issuer.url}/session/end", "", f"{company.issuer.url}/session/end/success")
    until(lambda: all(dora.account() is None for _ in range(8)))
    assert fred.account() is not None


def test_the_page_says_that_the_provider_is_away_and_signed_in_people_stay(company: Company, meet: Meet) -> None:
    gina = meet("gina")
    gina.sign_in()
    company.issuer.control("down")
    try:
        found = until(lambda: _away(company))
        assert "Acme does not answer now" in found and "patchbay login" in found
        assert gina.account() is not None
        assert as_operator(company, "GET", "/people").status_code == 200
    finally:
        company.issuer.control("up")


def _away(company: Company) -> str:
    """The page of a sign-in, once the worker has noticed; its last metadata is good for a minute."""
    answer = httpx2.get(f"{company.base}/sign-in/acme", headers={"Accept": "text/html"}, timeout=BOUND)
    return answer.text if answer.status_code == 503 else ""


def test_a_request_for_a_new_proof_is_answered_with_its_time(company: Company, meet: Meet) -> None:
    hugo = meet("hugo")
    hugo.sign_in()
    answer = hugo.browser.get(f"{company.base}/sign-in/acme?again=yes&next=/upstreams")
    back = follow(hugo.browser, answer.headers["location"], "hugo", f"{company.base}/sign-in/")
    assert hugo.browser.get(back).headers["location"] == "/upstreams"


def test_the_account_of_a_person_can_be_connected_at_mounted_servers(company: Company, meet: Meet) -> None:
    ida = meet("ida")
    ida.sign_in()
    answer = ida.browser.get(f"{company.base}/upstreams", headers={"Accept": "application/json"})
    assert answer.json()["principal"] == f"{company.issuer.url}#ida"
