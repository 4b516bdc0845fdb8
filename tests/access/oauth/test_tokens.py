"""Codes and tokens: used once, rotated, ended everywhere, also when several processes use them at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from patchbay.access.authentication import Credentials, Unauthorized
from patchbay.access.keys import PersonalKeys
from patchbay.access.oauth import codes as codes_module
from patchbay.access.oauth import tokens as tokens_module
from patchbay.access.oauth.access_token_scheme import AccessTokenScheme
from patchbay.access.oauth.clients import Client
from patchbay.access.oauth.tokens import InvalidGrant, IssuedTokens
from patchbay.access.people.accounts import Accounts
from patchbay.access.people.people import MAX_CLIENTS
from patchbay.access.principals import Principal
from patchbay.settings import Settings
from patchbay.stores.sqlite import SqliteStore
from tests.waiting import until

CLIENT = Client(id="registered.x", name="C", redirect_uris=("https://client.example/",))
HUB = "https://hub.example"
ECHO = f"{HUB}/mcp/echo"


class Worker:
    """The accounts as one process of a hub has them."""

    def __init__(self, folder: Path, minutes: float = 15) -> None:
        settings = Settings(data=folder, token_minutes=minutes)
        self.store = SqliteStore(folder)
        self.accounts = Accounts(settings, self.store.journal, PersonalKeys(self.store))
        self.tokens = self.accounts.tokens

    def code(self, resource: str = ECHO, scopes: tuple[str, ...] = ("call", "see")) -> str:
        person = self.accounts.people.find("ann") or self.accounts.people.create("ann", "", password="hash")
        assert person is not None
        return self.accounts.codes.make(person, CLIENT, None, scopes, resource, "challenge")

    def sign_in(self, resource: str = ECHO) -> IssuedTokens:
        return self.tokens.redeem(self.code(resource))

    def works(self, issued: IssuedTokens) -> bool:
        return self.tokens.verify(issued.access) is not None


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    return Worker(tmp_path)


@pytest.fixture
def other(tmp_path: Path, worker: Worker) -> Worker:
    return Worker(tmp_path)


def at_once(*actions: Callable[[], IssuedTokens]) -> list[IssuedTokens | InvalidGrant]:
    """Do all of it at the same moment."""
    done: list[IssuedTokens | InvalidGrant] = []
    start = threading.Barrier(len(actions))

    def act(action: Callable[[], IssuedTokens]) -> None:
        start.wait()
        try:
            done.append(action())
        except InvalidGrant as problem:
            done.append(problem)

    threads = [threading.Thread(target=act, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


def test_a_code_gives_tokens_once_and_its_second_use_ends_them(worker: Worker, other: Worker) -> None:
    """RFC 6749, section 4.1.2."""
    code = worker.code()
    issued = worker.tokens.redeem(code)
    assert worker.works(issued) and other.works(issued)
    with pytest.raises(InvalidGrant, match="used before"):
        other.tokens.redeem(code)
    assert not other.works(issued)
    until(lambda: not worker.works(issued), "the token is refused by every worker")
    with pytest.raises(InvalidGrant):
        worker.tokens.refresh(issued.refresh)


def test_a_new_client_above_the_limit_ends_the_oldest(worker: Worker) -> None:
    """48.4"""
    issued = [worker.sign_in() for _ in range(MAX_CLIENTS + 1)]
    person = worker.accounts.people.find("ann")
    assert person is not None and len(person.clients) == MAX_CLIENTS
    assert [worker.works(one) for one in issued] == [False] + [True] * MAX_CLIENTS
    with pytest.raises(InvalidGrant):
        worker.tokens.refresh(issued[0].refresh)


def test_a_code_that_many_use_at_once_leaves_no_token(worker: Worker, other: Worker) -> None:
    code = worker.code()
    done = at_once(*(lambda each=each: each.tokens.redeem(code) for each in (worker, other) * 4))
    issued = [one for one in done if isinstance(one, IssuedTokens)]
    assert len(issued) == 1
    until(lambda: not worker.works(issued[0]), "the token ends")


def test_an_old_code_gives_nothing(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes_module, "CODE_SECONDS", -1)
    with pytest.raises(InvalidGrant):
        worker.tokens.redeem(worker.code())
    with pytest.raises(InvalidGrant):
        worker.tokens.redeem("unknown")


def test_a_code_of_before_a_change_of_credentials_gives_nothing(worker: Worker) -> None:
    code = worker.code()
    people = worker.accounts.people
    assert people.create("ann", people.generation("ann"), password="new") is not None
    with pytest.raises(InvalidGrant):
        worker.tokens.redeem(code)


def test_each_refresh_gives_a_new_refresh_token_and_keeps_the_session(worker: Worker, other: Worker) -> None:
    issued = worker.sign_in()
    for _ in range(20):
        fresh = other.tokens.refresh(issued.refresh)
        assert fresh.refresh != issued.refresh and worker.works(fresh)
        issued = fresh
    assert [len(each.clients) for each in worker.accounts.people.list()] == [1]


def test_a_second_use_of_a_refresh_token_ends_the_family(worker: Worker, other: Worker) -> None:
    """RFC 9700, section 4.14.2."""
    stolen = worker.sign_in()
    fresh = worker.tokens.refresh(stolen.refresh)
    with pytest.raises(InvalidGrant, match="used before"):
        other.tokens.refresh(stolen.refresh)
    with pytest.raises(InvalidGrant):
        worker.tokens.refresh(fresh.refresh)
    assert not other.works(fresh) and not other.works(stolen)
    until(lambda: not worker.works(fresh), "the token ends in each worker")


def test_a_refresh_token_that_many_use_at_once_ends_the_family(worker: Worker, other: Worker) -> None:
    stolen = worker.sign_in()
    refresh = [lambda each=each: each.tokens.refresh(stolen.refresh) for each in (worker, other) * 4]
    done = at_once(*refresh)
    issued = [one for one in done if isinstance(one, IssuedTokens)]
    assert len(issued) <= 1
    until(lambda: not any(worker.works(one) for one in issued), "the family ends")


def test_an_access_token_ends_by_time_and_the_refresh_token_goes_on(tmp_path: Path) -> None:
    worker = Worker(tmp_path, minutes=0.01)
    issued = worker.sign_in()
    until(lambda: not worker.works(issued), "the token is too old")
    assert worker.works(worker.tokens.refresh(issued.refresh))


def test_an_old_refresh_token_is_refused(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "REFRESH_SECONDS", -1)
    with pytest.raises(InvalidGrant):
        worker.tokens.refresh(worker.sign_in().refresh)


def test_tokens_end_with_the_account_and_by_the_person(worker: Worker, other: Worker) -> None:
    first, second = worker.sign_in(), worker.sign_in()
    assert other.works(first) and other.works(second)
    person = worker.accounts.people.find("ann")
    assert person is not None
    assert worker.tokens.end("ann", person.clients[0].family)
    assert not worker.works(first) and worker.works(second)
    until(lambda: not other.works(first), "the ended family is refused by each worker")
    worker.accounts.people.remove("ann")
    until(lambda: not other.works(second) and not worker.works(second), "all end with the account")
    with pytest.raises(InvalidGrant):
        worker.tokens.refresh(second.refresh)
    assert worker.accounts.people.create("ann", worker.accounts.people.generation("ann"), password="h") is not None
    assert not worker.works(second), "a new account of the same name has no old tokens"


def test_no_secret_is_stored(worker: Worker, tmp_path: Path) -> None:
    code = worker.code()
    issued = worker.tokens.redeem(code)
    worker.store.close()
    data = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.name.startswith("patchbay"))
    for secret in (code, *issued.access.split("."), *issued.refresh.split(".")):
        assert secret.encode() not in data


def test_wrong_texts_are_not_tokens(worker: Worker) -> None:
    issued = worker.sign_in()
    key = issued.access.partition(".")[0]
    wrong = ["", "x", key, f"{key}.", f"{key}.x", issued.access + "x", issued.refresh, "patchbay_access_." + "x" * 500]
    assert not any(worker.tokens.verify(text) for text in wrong)
    for text in ("", issued.access, "patchbay_refresh_x.y", "patchbay_refresh_.y", "patchbay_refresh_" + "x" * 500):
        with pytest.raises(InvalidGrant):
            worker.tokens.refresh(text)
    assert worker.works(issued)


def authenticated(worker: Worker, issued: IssuedTokens, resource: str, url: str = "") -> Principal | None:
    headers = {"authorization": f"Bearer {issued.access}"}
    credentials = Credentials("POST", url or resource, headers, resource=resource)
    return AccessTokenScheme(worker.tokens).authenticate(credentials)


AUDIENCES: list[tuple[str, str, str, bool]] = [
    (ECHO, ECHO, "", True),
    (ECHO, ECHO + "/", "", True),
    (ECHO, f"{HUB}/mcp/other", "", False),
    (ECHO, f"{HUB}/mcp", "", False),
    (ECHO, "", f"{HUB}/rpc", False),
    (f"{HUB}/mcp", ECHO, "", True),
    (f"{HUB}/mcp", f"{HUB}/mcp", "", True),
    (HUB, ECHO, "", True),
    (HUB, "", f"{HUB}/rpc", True),
    (HUB, "https://other.example/mcp", "", False),
    (ECHO, "https://other.example/mcp/echo", "", False),
]


@pytest.mark.parametrize(("audience", "resource", "url", "fits"), AUDIENCES)
def test_a_token_is_for_its_resource(worker: Worker, audience: str, resource: str, url: str, fits: bool) -> None:
    """RFC 8707; MCP specification, basic/authorization (access token usage)."""
    issued = worker.sign_in(audience)
    if not fits:
        with pytest.raises(Unauthorized):
            authenticated(worker, issued, resource, url)
        return
    principal = authenticated(worker, issued, resource, url)
    assert principal == Principal("ann", name="ann", agent=CLIENT.label, scopes=frozenset(("call", "see")))


def test_the_principal_stays_the_same_over_a_refresh(worker: Worker) -> None:
    issued = worker.sign_in()
    before = authenticated(worker, issued, ECHO)
    assert authenticated(worker, worker.tokens.refresh(issued.refresh), ECHO) == before
    narrow = authenticated(worker, worker.tokens.refresh(worker.sign_in().refresh, ("see", "read")), ECHO)
    assert narrow is not None and narrow.scopes == frozenset(("see",))
