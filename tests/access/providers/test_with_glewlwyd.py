"""Sign-in with Glewlwyd, an identity provider of Debian's packages: groups, both logouts, a provider that is away."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from patchbay.access.people.people import People
from patchbay.stores.sqlite import SqliteStore
from tests.access.providers.glewlwyd import CLI, CLI_PAGE, CLIENT, SECRET, Glewlwyd, NotThere, running_glewlwyd
from tests.interaction.programs import free_port, plain_environment
from tests.serving.running import running
from tests.signing_in import challenge_of
from tests.waiting import BOUND, until

pytestmark = [pytest.mark.full, pytest.mark.process]


class Person:
    """A person with a browser at the hub and at Glewlwyd."""

    def __init__(self, base: str, provider: Glewlwyd, name: str) -> None:
        self.base = base
        self.browser = httpx2.Client(timeout=BOUND, headers={"Accept": "text/html", "Origin": base})
        provider.log_in(self.browser, name)
        provider.allow(self.browser)

    def sign_in(self) -> httpx2.Response:
        """Press the button; the script of Glewlwyd's page adds `g_continue` when the person has chosen the account."""
        answer = self.browser.get(f"{self.base}/sign-in/acme")
        assert answer.status_code == 303, answer.text
        answer = self.browser.get(answer.headers["location"] + "&g_continue")
        return self.browser.get(answer.headers["location"])

    def token(self, provider: Glewlwyd) -> str:
        """An access token of a client of this person, for the hub."""
        provider.allow(self.browser, CLI)
        verifier, resource = "v" * 43, f"{self.base}/mcp"
        query = {"response_type": "code", "client_id": CLI, "redirect_uri": CLI_PAGE, "scope": "openid research"}
        query |= {"code_challenge": challenge_of(verifier), "code_challenge_method": "S256", "resource": resource}
        answer = self.browser.get(f"{provider.issuer}/auth?{urlencode(query | {'nonce': 'n' * 20})}&g_continue")
        code = parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]
        form = {"grant_type": "authorization_code", "client_id": CLI, "redirect_uri": CLI_PAGE, "code": code}
        form |= {"code_verifier": verifier, "resource": resource}
        answer = httpx2.post(f"{provider.issuer}/token", data=form, timeout=BOUND)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    def groups(self) -> list[str] | None:
        """The groups of the own account; None for a browser that is not signed in."""
        answer = self.browser.get(f"{self.base}/account", headers={"Accept": "application/json"})
        return sorted(answer.json()["groups"]) if answer.status_code == 200 else None


def test_a_client_with_a_token_of_glewlwyd_and_a_browser_are_one_principal(tmp_path: Path) -> None:
    """As with oidc-provider: a grant to a group counts for both, and one account has the records of both."""
    port, folder = free_port(), tmp_path / "hub"
    base = f"http://127.0.0.1:{port}"
    (folder / "servers").mkdir(parents=True)
    (folder / "servers" / "echo.py").write_text('def echo(text: str) -> str:\n    """Echo."""\n    return text\n')
    with ExitStack() as stack:
        try:
            provider = stack.enter_context(running_glewlwyd(tmp_path / "glewlwyd", base, ("ann",)))
        except NotThere as problem:
            pytest.skip(str(problem))
        options = ["--issuer", provider.issuer, "--sign-in", f"Acme={provider.issuer}", "--sign-in-client", CLIENT]
        options += ["--sign-in-secret", "${ACME_SECRET}", "--groups-claim", "scope", "--sign-in-scopes", "research"]
        environment = plain_environment(folder) | {"ACME_SECRET": SECRET}
        hub = stack.enter_context(running(folder, *options, "--port", str(port), environ=environment))
        operator = hub.as_operator() | {"Accept": "application/json"}
        grants = {"grants": [{"to": ["research"], "may": ["see", "call"], "on": ["echo"]}]}
        httpx2.put(f"{base}/variables/access", json=grants, headers=operator, timeout=BOUND).raise_for_status()
        ann = Person(base, provider, "ann")
        stack.callback(ann.browser.close)
        ann.sign_in()
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        body = call | {"params": {"name": "echo", "arguments": {"text": "hello"}}}
        media = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
        bearer = media | {"Authorization": f"Bearer {ann.token(provider)}"}
        answers = [
            ann.browser.post(f"{base}/mcp/echo", json=body, headers=media),
            httpx2.post(f"{base}/mcp/echo", json=body, headers=bearer, timeout=BOUND),
        ]
        assert [answer.json()["result"]["content"][0]["text"] for answer in answers] == ["hello", "hello"]
        account = ann.browser.get(f"{base}/upstreams", headers={"Accept": "application/json"}).json()["principal"]
        caller = urlencode({"caller": account})

        def records() -> list[str]:
            found = httpx2.get(f"{base}/activity?{caller}", headers=operator, timeout=BOUND).json()["records"]
            return [each["principal"] for each in found]

        until(lambda: records() == [account] * 2)
        assert account.startswith(f"{provider.issuer}#")
        assert hub.end() == 0
        assert [line for line in hub.lines if "eyJ" in line or SECRET in line] == [], (
            "a token or a secret is in the log"
        )


def test_people_sign_in_with_their_groups_and_out_from_both_sides(tmp_path: Path) -> None:
    port, folder = free_port(), tmp_path / "hub"
    base = f"http://127.0.0.1:{port}"
    (folder / "servers").mkdir(parents=True)
    with ExitStack() as stack:
        try:
            provider_runs = stack.enter_context(ExitStack())
            provider = provider_runs.enter_context(running_glewlwyd(tmp_path / "glewlwyd", base, ("ann", "ben")))
        except NotThere as problem:
            pytest.skip(str(problem))
        options = ["--sign-in", f"Acme={provider.issuer}", "--sign-in-client", CLIENT, "--port", str(port)]
        options += ["--sign-in-secret", "${ACME_SECRET}", "--groups-claim", "scope", "--sign-in-scopes", "research"]
        environment = plain_environment(folder) | {"ACME_SECRET": SECRET}
        hub = stack.enter_context(running(folder, *options, environ=environment))
        ann, ben = (Person(base, provider, name) for name in ("ann", "ben"))
        for person in (ann, ben):
            stack.callback(person.browser.close)
            assert person.sign_in().headers["location"] == "/account"
            assert person.groups() == ["openid", "research"]
        leave_from_the_hub(ann)
        assert ben.groups() is not None
        end_at_the_provider(ben, provider, find_sid(folder / "data"))
        again = Person(base, provider, "ann")
        stack.callback(again.browser.close)
        again.sign_in()
        provider_runs.close()
        assert again.groups() == ["openid", "research"], "who is signed in stays so while the provider is away"
        answer = ben.browser.get(f"{base}/sign-in/acme/callback?code=x&state=y")
        assert answer.status_code == 400 and "patchbay login" in ben.browser.get(f"{base}/login").text
        assert hub.end() == 0
        assert not any("eyJ" in line or SECRET in line for line in hub.lines), "a token or a secret is in the log"


def leave_from_the_hub(person: Person) -> None:
    """Sign out at the hub: the browser is led to the page of the provider that ends its session there."""
    answer = person.browser.post(f"{person.base}/logout/person")
    assert answer.status_code == 200 and person.groups() is None
    answer = person.browser.get(answer.headers["refresh"].partition("url=")[2])
    asked = parse_qs(urlsplit(answer.headers["location"]).query)
    assert asked["prompt"] == ["end_session"] and asked["client_id"] == [CLIENT]


def end_at_the_provider(person: Person, provider: Glewlwyd, sid: str) -> None:
    """End the session as the provider's page does; it tells the hub."""
    provider.send(person.browser, "DELETE", f"oidc/session/{sid}/")
    until(lambda: person.groups() is None)


def find_sid(data: Path) -> str:
    """The session at the provider of the only person who is signed in."""
    store = SqliteStore(data)
    try:
        (found,) = (session.sid for person in People(store.journal).list() for session in person.sessions)
    finally:
        store.close()
    return found
