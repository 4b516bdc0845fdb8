"""A caller whose credentials ended keeps what it opened before: streams, WebSockets, calls, webhooks.

On one hub with two processes, and on two hubs with one PostgreSQL. The hubs send keepalives so rarely that a stream
which looks at its credentials only then does not end within the bound of these tests.
Sources: ACCESS section 2 (revoked in every worker within a second); issue 48 item 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from patchbay.activation import TASKS
from tests.attacks.open_things import DESK, PATIENT, ROOM, Open, everything_open, list_ended, list_open
from tests.attacks.requests import send, send_request
from tests.cli.servers.commands import run_command
from tests.databases import PostgresqlServer
from tests.interaction.nodes import running_nodes
from tests.protocol.webhooks.receiver import HOST, SECRET, Receiver, receiving
from tests.serving.running import Hub, running
from tests.signing_in import HTML, PASSWORD, answer_in, challenge_of, hidden_fields
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

OPTIONS = ("--access", "shared", "--keepalive", "600", "--threads", "200", "--webhook-hosts", HOST)
OF_PAGES = ("/activity/events", "the changes of a room", "the events of a room", "a WebSocket", "a silent WebSocket")
PEOPLE: list[str] = []
"""The names of the people of all tests: a removed name has no second account here."""
KNOWS_TASKS: dict[str, Any] = {"extensions": {TASKS: {}}}
VERIFIER = "v" * 50
REDIRECT = "http://127.0.0.1:7777/callback"


@dataclass
class Place:
    """The hubs of one store, and where the commands of its operator find it."""

    hubs: list[Hub]
    environment: Mapping[str, str]
    receiver: Receiver

    @property
    def hub(self) -> Hub:
        """The hub on whose machine the operator types."""
        return self.hubs[0]

    def command(self, *arguments: str) -> str:
        """Run a command of the operator in this process, which runs no hub; return its output."""
        ended = run_command(self.hub.folder, *arguments, variables=self.environment)
        assert ended.code == 0, ended.err
        return ended.out.strip()

    def new_key(self, name: str, *options: str) -> dict[str, str]:
        """Make a key; return the headers of its requests."""
        return {"Authorization": f"Bearer {self.command('key', 'new', name, *options)}"}

    @contextmanager
    def everything_open(self, headers: Mapping[str, str], *names: str) -> Iterator[dict[str, Open]]:
        """Open everything at every hub."""
        with ExitStack() as stack:
            found: dict[str, Open] = {}
            for number, hub in enumerate(self.hubs):
                streams = stack.enter_context(everything_open(hub, headers, *names))
                found |= {f"{name} at hub {number}": one for name, one in streams.items()}
            assert not list_ended(found)
            yield found


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    with receiving(tmp_path_factory.mktemp("receiver")) as (found, authority), pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(authority))
        yield found


def prepare(servers: Path) -> None:
    servers.mkdir()
    (servers / "desk.py").write_text(DESK)
    (servers / "desk.mcp.json").write_text(PATIENT)


def begin(hub: Hub) -> None:
    """Wait until a hub serves the server, and make the room."""
    operator = hub.as_operator()
    until(lambda: send(hub, "GET", "/servers/desk.json", headers=operator).status == 200, "the server is served")
    answer = send(hub, "PUT", f"/rooms/{ROOM}", b"{}", {"Content-Type": "application/json", **operator})
    assert answer.status in (201, 409), answer.body


@pytest.fixture(scope="module")
def one_hub(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("hub")
    prepare(folder / "servers")
    with running(folder, *OPTIONS, "--workers", "2") as hub:
        begin(hub)
        yield Place([hub], {}, receiver)


@pytest.fixture(scope="module")
def two_hubs(
    tmp_path_factory: pytest.TempPathFactory, postgresql: PostgresqlServer, receiver: Receiver
) -> Iterator[Place]:
    folder, address = tmp_path_factory.mktemp("nodes"), postgresql.new_schema()
    prepare(folder / "servers")
    with running_nodes(folder, address, 2, *OPTIONS) as nodes:
        for hub in nodes.hubs:
            begin(hub)
        yield Place(nodes.hubs, {"PATCHBAY_STORE": address, "PATCHBAY_KEY_FILE": str(folder / "key")}, receiver)


@pytest.fixture(params=["one_hub", "two_hubs"])
def place(request: pytest.FixtureRequest) -> Place:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Place)
    return found


@pytest.fixture
def bystander(place: Place, request: pytest.FixtureRequest) -> Iterator[dict[str, Open]]:
    """What another caller has open meanwhile, which goes on."""
    headers = place.new_key(re.sub(r"\W+", "-", request.node.name)[-40:].strip("-"))
    with place.everything_open(headers, "events/stream", "a WebSocket") as found:
        yield found
        assert not list_ended(found)


class Person:
    """A person with a browser at one hub."""

    def __init__(self, place: Place, name: str) -> None:
        self.name = name
        self.base = f"http://127.0.0.1:{place.hub.port}"
        self.browsers: list[httpx2.Client] = []
        self.browser = self.open_browser()
        key = place.command("invite", name).partition("=")[2]
        form = {"key": key, "password": PASSWORD, "again": PASSWORD}
        assert self.browser.post(f"{self.base}/invitation", data=form).status_code == 303

    def close(self) -> None:
        for browser in self.browsers:
            browser.close()

    def open_browser(self) -> httpx2.Client:
        browser = httpx2.Client(timeout=BOUND, headers={**HTML, "Origin": self.base})
        self.browsers.append(browser)
        return browser

    def sign_in(self) -> httpx2.Client:
        """Sign in with one more browser."""
        browser = self.open_browser()
        answer = browser.post(f"{self.base}/login/password", data={"name": self.name, "password": PASSWORD})
        assert answer.status_code == 303, answer.text
        return browser

    def cookies(self, browser: httpx2.Client) -> dict[str, str]:
        """The headers of the requests of a browser, which has one session."""
        return {"Cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}

    def change(self, do: str, **fields: str) -> None:
        """Send a form of the page of the account."""
        csrf = hidden_fields(self.browser.get(f"{self.base}/account").text, "csrf")
        answer = self.browser.post(f"{self.base}/account", data={**csrf, "do": do, **fields})
        assert answer.status_code == 303, answer.text

    def account(self) -> Any:
        return self.browser.get(f"{self.base}/account", headers={"Accept": "application/json"}).json()

    def sign_in_client(self) -> dict[str, str]:
        """Let a client sign in for the person; return the headers of its requests."""
        body = {"redirect_uris": [REDIRECT], "client_name": "Tests"}
        id = self.browser.post(f"{self.base}/oauth/register", json=body).json()["client_id"]
        query = {
            **{"response_type": "code", "client_id": id, "redirect_uri": REDIRECT, "state": "s"},
            **{"code_challenge": challenge_of(VERIFIER), "code_challenge_method": "S256"},
        }
        page = self.browser.get(f"{self.base}/oauth/authorize", params=query)
        fields = hidden_fields(page.text, "csrf", "request")
        answer = self.browser.post(f"{self.base}/oauth/authorize", data={**fields, "decision": "allow"})
        code = answer_in(answer.headers["location"])["code"]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT, "code_verifier": VERIFIER}
        tokens = self.browser.post(f"{self.base}/oauth/token", data={"client_id": id, **form}).json()
        # A token is for one address: a balancer in front of several hubs has the same for all.
        return {"Authorization": f"Bearer {tokens['access_token']}", "Host": self.base.removeprefix("http://")}


@pytest.fixture
def person(place: Place) -> Iterator[Person]:
    """A person with an account."""
    with closing(Person(place, f"mallory{len(PEOPLE)}")) as found:
        PEOPLE.append(found.name)
        yield found


def expect_end(streams: Mapping[str, Open]) -> None:
    """Wait until all of this has ended."""
    until(lambda: not list_open(streams), lambda: f"these go on: {list_open(streams)}")


def subscribe(hub: Hub, headers: Mapping[str, str], url: str) -> dict[str, Any]:
    """Subscribe a webhook without an end; return the answer."""
    delivery = {"mode": "webhook", "url": url, "secret": SECRET}
    params = {"name": "said", "delivery": delivery, "ttlMs": None}
    return dict(send_request(hub, "desk", "events/subscribe", params, headers=headers).last_message)


def say(place: Place, text: str) -> None:
    """Emit an event at each hub, as the operator."""
    for hub in place.hubs:
        params = {"name": "say", "arguments": {"text": text}}
        answer = send_request(hub, "desk", "tools/call", params, headers=hub.as_operator()).last_message
        assert not answer["result"].get("isError"), answer


def test_everything_of_a_revoked_key_ends(place: Place, bystander: dict[str, Open]) -> None:
    key = place.new_key("eve")
    with place.everything_open(key) as streams:
        assert "result" in subscribe(place.hub, key, place.receiver.url)
        say(place, "before")
        until(lambda: "before" in str(place.receiver.events), "the webhook is delivered")
        place.command("key", "revoke", "eve")
        expect_end(streams)
        until(lambda: "terminated" in str(place.receiver.controls), "the webhook ends")
    say(place, "a secret")
    until(lambda: all("a secret" in one.text for name, one in bystander.items() if "events" in name), "the others hear")
    assert "a secret" not in str(place.receiver.events)
    assert "a secret" not in "".join(one.text for one in streams.values())


def test_a_key_that_is_made_anew_with_fewer_grants_leaves_nothing_of_the_old_one(
    place: Place, bystander: dict[str, Open]
) -> None:
    """The principal has the same id; its webhook and its streams were of the old key."""
    key = place.new_key("eve-anew")
    place.receiver.controls.clear()
    place.receiver.events.clear()
    with place.everything_open(key) as streams:
        assert "result" in subscribe(place.hub, key, place.receiver.url)
        place.command("key", "revoke", "eve-anew")
        fewer = place.new_key("eve-anew", "--grants", "see:desk")
        expect_end(streams)
        until(lambda: "terminated" in str(place.receiver.controls), "the webhook ends")
    for hub in place.hubs:
        assert "error" in subscribe(hub, fewer, place.receiver.url)
    say(place, "after")
    assert "after" not in str(place.receiver.events)


def test_tasks_and_jobs_of_a_revoked_key_are_cancelled(place: Place) -> None:
    """A new key of the same name is the same principal, so that it can read them."""
    key = place.new_key("adam")
    tasks: list[str] = []
    for hub in place.hubs:
        for tool in ("toil", "labour"):
            call: dict[str, Any] = {"name": tool, "arguments": {}}
            made = send_request(hub, "desk", "tools/call", call, KNOWS_TASKS, key).last_message["result"]
            assert made["status"] == "working"
            tasks.append(made["taskId"])
    place.command("key", "revoke", "adam")
    again = place.new_key("adam")

    def read_states(hub: Hub) -> list[str]:
        answers = [send_request(hub, "desk", "tasks/get", {"taskId": id}, KNOWS_TASKS, again) for id in tasks]
        return [one.last_message["result"]["status"] for one in answers]

    for hub in place.hubs:
        until(
            lambda hub=hub: not set(read_states(hub)) - {"cancelled", "failed"},  # type: ignore[misc]
            lambda hub=hub: f"they are {read_states(hub)}",  # type: ignore[misc]
        )


def test_everything_of_a_removed_person_ends(place: Place, person: Person, bystander: dict[str, Open]) -> None:
    client, cookies = person.sign_in_client(), person.cookies(person.browser)
    with place.everything_open(client) as streams, everything_open(place.hub, cookies, *OF_PAGES) as pages:
        place.command("people", "remove", person.name)
        expect_end({**streams, **{f"{name} of the browser": one for name, one in pages.items()}})
    for hub in place.hubs:
        assert send_request(hub, "desk", "tools/list", {}, headers=client).status == 401


def test_everything_of_a_client_that_a_person_ended_ends_and_the_browser_goes_on(
    place: Place, person: Person, bystander: dict[str, Open]
) -> None:
    client, cookies = person.sign_in_client(), person.cookies(person.browser)
    [ended] = person.account()["clients"]
    other = person.sign_in_client()
    with (
        place.everything_open(client) as streams,
        place.everything_open(other, "events/stream") as of_other,
        everything_open(place.hub, cookies, *OF_PAGES) as pages,
    ):
        person.change("end-client", id=ended["id"])
        expect_end(streams)
        assert not list_ended(pages) and not list_ended(of_other)


def test_what_other_browsers_have_open_ends_with_a_changed_password(
    place: Place, person: Person, bystander: dict[str, Open]
) -> None:
    thief = person.sign_in()
    own, stolen = person.cookies(person.browser), person.cookies(thief)
    with everything_open(place.hub, own, *OF_PAGES) as kept, everything_open(place.hub, stolen, *OF_PAGES) as streams:
        person.change("password", password=PASSWORD + " two", again=PASSWORD + " two")
        expect_end(streams)
        assert not list_ended(kept)


def test_everything_of_an_old_token_of_the_operator_ends(place: Place, bystander: dict[str, Open]) -> None:
    old = place.hub.as_operator()
    with everything_open(place.hub, old) as streams:
        place.command("token")
        assert place.hub.as_operator() != old
        expect_end(streams)
    assert send_request(place.hub, "desk", "tools/list", {}, headers=old).status == 401


def test_what_the_operator_of_a_personal_hub_has_open_ends_with_the_token(tmp_path: Path) -> None:
    """There the operator and everybody else are one principal."""
    prepare(tmp_path / "servers")
    with running(tmp_path, "--keepalive", "600") as hub:
        with (
            everything_open(hub, hub.as_operator(), "/activity/events") as streams,
            everything_open(hub, {}, "/activity/events", "events/stream") as of_all,
        ):
            Place([hub], {}, Receiver(0)).command("token")
            expect_end(streams)
            assert not list_ended(of_all)
        assert hub.end() == 0
