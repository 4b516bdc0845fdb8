"""People call one mounted HTTP API, each with an own account at its authorization server (npm oidc-provider)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from patchbay.errors import ConfigError
from patchbay.kinds.openapi.configuration import parse_fields
from tests.access.tokens.issuers import Issuer, running_issuer
from tests.access.upstreams.guarded import (
    TOKEN_SECONDS,
    URL_CLIENT,
    Caller,
    begin,
    caller_of,
    connect,
    subject_of,
    tools_of,
)
from tests.checkout import ROOT
from tests.client.peers import served
from tests.hubs import Hub
from tests.interaction.programs import free_port
from tests.signing_in import BASE, HTML, shared_hub, signed_in
from tests.waiting import until


@dataclass(frozen=True)
class GuardedApi:
    """A running API that wants tokens, and its issuer."""

    issuer: Issuer
    url: str
    log: Path

    def mount(self) -> str:
        oauth = {"issuer": self.issuer.url, "resource": f"{self.url}/"}
        fields = {"document": f"{self.url}/openapi.json", "base": self.url, "account": "caller", "oauth": oauth}
        return json.dumps({"kind": "openapi", **fields})

    def authorizations(self, path: str) -> list[str]:
        """The header Authorization of all requests for a path so far."""
        rows = [json.loads(line) for line in self.log.read_text("utf-8").splitlines()]
        return [row["authorization"] for row in rows if row["path"] == path]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedApi]:
    folder = tmp_path_factory.mktemp("guarded")
    with running_issuer(folder / "issuer", seconds=TOKEN_SECONDS) as issuer:
        log, program = folder / "requests", str(ROOT / "tests/kinds/openapi/guarded_api.py")
        log.touch()
        words = ("--script", program, str(free_port()), issuer.url, str(issuer.keys_file), str(log))
        with served(r"running on (http://[\d.:]+)", *words) as url:
            yield GuardedApi(issuer, url, log)


@pytest.fixture
def hub(tmp_path: Path, guarded: GuardedApi) -> Iterator[Hub]:
    hub = shared_hub(tmp_path, files={"diary.json": guarded.mount()})
    until(lambda: hub.catalogue.find("diary").tools, lambda: hub.catalogue.find("diary"))
    yield hub
    hub.close()


@pytest.fixture
def ann(hub: Hub) -> Caller:
    return caller_of(hub, signed_in(hub, "ann"), "diary")


@pytest.fixture
def ben(hub: Hub) -> Caller:
    return caller_of(hub, signed_in(hub, "ben"), "diary")


def subject(caller: Caller) -> Any:
    """Who the API says that a caller is."""
    return caller.call("diary", "whoami").result["structuredContent"]["subject"]


@pytest.mark.node
@pytest.mark.process
def test_the_api_sees_two_subjects_and_never_a_token_of_the_hub_over_three_refreshes(
    hub: Hub, guarded: GuardedApi, ann: Caller, ben: Caller
) -> None:
    """Issue 17.2: credentials by caller. The document names the scopes, so that each token has them."""
    before, refreshes = len(guarded.authorizations("/whoami")), guarded.issuer.count("/token")
    assert tools_of(ann, "diary") == ["whoami", "status"]
    asked = parse_qs(urlsplit(begin(ann.browser.client, "diary")).query)
    assert asked["scope"] == ["mcp:use offline_access"]
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["resource"] == [f"{guarded.url}/"]
    assert "connected" in connect(ann.browser.client, "diary", "ann-there").text
    assert "connected" in connect(ben.browser.client, "diary", "ben-there").text
    for _ in range(4):
        assert subject(ann) == "ann-there"
        assert subject(ben) == "ben-there"
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(subject, [ann, ben] * 8)) == ["ann-there", "ben-there"] * 8
    # The tokens end so soon that each of these calls refreshed its own.
    assert guarded.issuer.count("/token") - refreshes >= 2 + 2 * 3
    seen = guarded.authorizations("/whoami")[before:]
    assert {subject_of(each.removeprefix("Bearer ")) for each in seen} == {"ann-there", "ben-there"}
    everything = guarded.log.read_text("utf-8")
    for secret in (ann.token, ben.token, hub.token):
        assert secret not in everything


@pytest.mark.node
@pytest.mark.process
def test_a_caller_without_an_account_is_asked_and_only_where_the_document_wants_one(
    guarded: GuardedApi, ann: Caller
) -> None:
    before = len(guarded.authorizations("/whoami"))
    refused = ann.call("diary", "whoami")
    assert refused.result["isError"]
    assert refused.text.endswith(f"{BASE}/upstreams/diary")
    asked = ann.call("diary", "whoami", URL_CLIENT).result
    ((key, question),) = asked["inputRequests"].items()
    assert (question["params"]["mode"], question["params"]["url"]) == ("url", f"{BASE}/upstreams/diary")
    assert ann.call("diary", "status").result["structuredContent"] == {"token": False}
    assert len(guarded.authorizations("/whoami")) == before
    page = ann.browser.client.get("/servers/diary", headers=HTML).text
    assert '<a href="/upstreams/diary">Connect yours</a>' in page
    answers = {"inputResponses": {key: {"action": "accept"}}, "requestState": asked["requestState"]}
    with ThreadPoolExecutor(1) as pool:
        retry = pool.submit(ann.call, "diary", "whoami", URL_CLIENT, **answers)
        connect(ann.browser.client, "diary", "ann-there")
        assert retry.result().result["structuredContent"] == {"subject": "ann-there"}


@pytest.mark.node
@pytest.mark.process
def test_a_disconnected_account_is_revoked_and_its_token_is_not_sent_again(guarded: GuardedApi, ann: Caller) -> None:
    connect(ann.browser.client, "diary", "ann-there")
    assert subject(ann) == "ann-there"
    (account,) = ann.browser.account()["upstreams"]
    assert (account["server"], account["issuer"]) == ("diary", guarded.issuer.url)
    before, sent = guarded.issuer.count("/token/revocation"), len(guarded.authorizations("/whoami"))
    assert ann.browser.change("disconnect", id=account["id"]).status_code == 303
    assert guarded.issuer.count("/token/revocation") == before + 1
    assert ann.call("diary", "whoami").text.endswith("/upstreams/diary")
    assert len(guarded.authorizations("/whoami")) == sent


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"account": "caller"}, "base: expected the URL of the API"),
        ({"account": "caller", "base": "https://x.example", "headers": {"authorization": "${T}"}}, "no header"),
        ({"oauth": {"issuer": "https://x.example"}}, "expected only beside"),
        (
            {"account": "caller", "base": "https://x.example", "oauth": {"client_id": "a", "client_secret": "b"}},
            "oauth.client_secret: expected a variable",
        ),
        ({"account": "caller", "base": "https://x.example", "oauth": {"issuer": "login"}}, "expected https://HOST"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_fields("diary", {"document": "https://x.example/openapi.json"} | fields, "diary.json")
