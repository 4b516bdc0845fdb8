"""Each caller's access token is exchanged, or vouched for, at the authorization server of a mounted server.

The issuer is oidc-provider; the mounted servers are hubs that run as programs: one takes the tokens of the issuer, the
other trusts its identity assertions. Each of them says in its records who has called.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner

from patchbay.cli.commands.patchbay import main
from tests.access.oauth.conftest import ECHO
from tests.access.oauth.test_program_sdks import make_program
from tests.access.tokens.issuers import Issuer, running_issuer
from tests.hubs import BOTH, Answer, Hub, modern_request
from tests.serving.running import Hub as RunningHub
from tests.serving.running import running
from tests.signing_in import BASE
from tests.waiting import until

pytestmark = [pytest.mark.node, pytest.mark.process]

EXCHANGER = {"client_id": "exchanger", "client_secret": "${EXCHANGER_SECRET}"}


@dataclass
class Site:
    """The issuer, the two hubs behind, and the hub of the callers, which mounts them as `near` and `far`."""

    issuer: Issuer
    near: RunningHub
    far: RunningHub
    hub: Hub

    def token(self, server: str, subject: str = "ann", **changes: Any) -> str:
        """An access token of a person for a server of the hub."""
        return self.issuer.mint(f"{BASE}/mcp/{server}", sub=subject, **changes)


def mount(url: str, way: str, **oauth: str) -> str:
    oauth = {**EXCHANGER, **oauth}
    return json.dumps({"kind": "upstream", "address": url, "account": "caller", "way": way, "oauth": oauth})


def url_of(hub: RunningHub) -> str:
    return f"http://127.0.0.1:{hub.port}/mcp/echo"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        issuer = stack.enter_context(running_issuer(folder / "issuer"))
        behind = []
        for name, setting in (("near", "--issuer"), ("far", "--assertion-issuers")):
            (folder / name / "servers").mkdir(parents=True)
            (folder / name / "servers" / "echo.py").write_text(ECHO)
            behind.append(stack.enter_context(running(folder / name, "--access", "shared", setting, issuer.url)))
        near, far = behind
        patch.setenv("EXCHANGER_SECRET", "exchanger-secret")
        patch.setenv("FAR_SECRET", make_program(far, "exchanger")["client_secret"])
        asserted = {
            "issuer": f"http://127.0.0.1:{far.port}",
            "client_secret": "${FAR_SECRET}",
            "identity_client_id": "exchanger",
            "identity_client_secret": "${EXCHANGER_SECRET}",
        }
        files = {
            "near.json": mount(url_of(near), "exchange", issuer=issuer.url),
            "elsewhere.json": mount(url_of(near), "exchange", issuer="http://127.0.0.1:9"),
            "aimed.json": mount(url_of(near), "exchange", issuer=issuer.url, audience="https://elsewhere.example"),
            "far.json": mount(url_of(far), "assertion", scope="see call", **asserted),
        }
        hub = Hub(folder / "hub", files, access="shared", issuer=issuer.url)
        stack.callback(hub.close)
        yield Site(issuer, near, far, hub)


def call(site: Site, server: str, token: str, text: str = "hello", tool: str = "echo") -> Answer:
    arguments = {"text": text} if tool == "echo" else {}
    body, headers = modern_request("tools/call", {"name": tool, "arguments": arguments}, None)
    headers |= {"Authorization": f"Bearer {token}", "Accept": BOTH}
    return Answer.of(site.hub.app.test_client().post(f"/mcp/{server}", json=body, headers=headers))


def open_mount(site: Site, server: str) -> None:
    """Let a first caller call, so that the lists of the server can be read, and wait for them."""
    token = site.token(server, "first")

    def is_listed() -> bool:
        call(site, server, token, tool="sign_in")
        return any(tool == "echo" for tool in site.hub.catalogue.find(server).tools)

    until(is_listed, lambda: site.hub.catalogue.find(server).standing.health)


def callers_at(hub: RunningHub) -> dict[str, int]:
    """The calls of the tool at a hub behind, by caller, as `patchbay usage` prints them there."""
    data = ["--data", str(hub.folder / "data"), "--server", "echo", "--format", "json"]
    done = CliRunner().invoke(main, ["usage", *data])
    assert done.exit_code == 0, done.output
    return {row["caller"]: row["calls"] for row in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("server", ["near", "far"])
def test_each_call_arrives_as_its_own_caller(site: Site, server: str) -> None:
    open_mount(site, server)
    behind = getattr(site, server)
    people = [f"{server}-person-{number}" for number in range(3)]
    tokens = {name: site.token(server, name) for name in people}

    def run(number: int) -> bool:
        name = people[number % 3]
        return call(site, server, tokens[name], text=name).text == name

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(90)))
    expected = {f"{site.issuer.url}#{name}": 30 for name in people}
    until(lambda: expected.items() <= callers_at(behind).items(), lambda: callers_at(behind))


@pytest.mark.parametrize(("server", "requests"), [("near", 1), ("far", 1)])
def test_one_token_of_a_caller_is_exchanged_once_and_another_one_again(site: Site, server: str, requests: int) -> None:
    open_mount(site, server)
    first, second = site.token(server, "twice", jti="1"), site.token(server, "twice", jti="2")
    before = site.issuer.count("/token")
    for token in (first, first, second, second, first):
        assert call(site, server, token).text == "hello"
    assert site.issuer.count("/token") - before == 2 * requests


@pytest.mark.parametrize("server", ["near", "far"])
def test_a_caller_whose_account_ended_at_the_issuer_is_refused_with_the_reason(site: Site, server: str) -> None:
    open_mount(site, server)
    refused = call(site, server, site.token(server, "left-ann"))
    assert refused.result["isError"] and "invalid_grant" in refused.text
    assert not any("left-ann" in name for name in callers_at(getattr(site, server)))


@pytest.mark.parametrize("server", ["near", "far"])
def test_a_caller_without_a_token_of_the_issuer_is_refused_with_the_next_step(site: Site, server: str) -> None:
    open_mount(site, server)
    for token in (site.hub.app.parts.keys.make(f"robot-{server}"), site.hub.token):
        refused = call(site, server, token)
        assert refused.result["isError"] and "signs in at that issuer" in refused.text
    assert not any("robot" in name for name in callers_at(getattr(site, server)))


def test_a_token_goes_to_no_other_authorization_server_than_its_issuer(site: Site) -> None:
    refused = call(site, "elsewhere", site.token("elsewhere"), tool="sign_in")
    assert refused.result["isError"] and "expected an access token of http://127.0.0.1:9" in refused.text


def test_a_token_for_another_audience_opens_nothing(site: Site) -> None:
    assert not call(site, "aimed", site.token("aimed", "aimed"), tool="sign_in").result["isError"]
    mount = site.hub.catalogue.find("aimed")
    until(lambda: "401" in mount.standing.health.reason or mount.standing.health.tries, lambda: mount.standing.health)
    assert list(mount.tools) == ["sign_in"] and not any("aimed" in name for name in callers_at(site.near))


def test_no_token_is_in_an_answer_a_record_or_a_page(site: Site) -> None:
    open_mount(site, "near")
    token = site.token("near", "quiet")
    answers = [call(site, "near", token).body, call(site, "aimed", site.token("aimed", "quiet"), tool="sign_in").body]
    operator = {"Authorization": f"Bearer {site.hub.token}"}
    pages = ("/activity.json", "/servers/near.json", "/servers/aimed.json", "/upstreams.json", "/openapi.json")
    answers += [site.hub.app.test_client().get(path, headers=operator).get_data() for path in pages]
    shown = b"\n".join(answers).decode()
    assert token not in shown and "exchanger-secret" not in shown and "eyJ" not in shown


def test_an_exchanged_token_is_used_no_longer_than_the_one_of_the_caller(site: Site) -> None:
    open_mount(site, "near")
    short = site.token("near", "short", exp=int(time.time()) + 6)
    assert call(site, "near", short).text == "hello"
    before = site.issuer.count("/token")
    until(lambda: call(site, "near", short).status == 401 or site.issuer.count("/token") > before)
