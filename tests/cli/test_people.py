"""The commands `patchbay invite` and `patchbay people`, beside a hub that serves the same data folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from patchbay import exit_codes
from patchbay.cli import main
from tests.hubs import Hub
from tests.signing_in import PASSWORD, Browser, OAuthClient, shared_hub
from tests.waiting import until


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = shared_hub(tmp_path, store="sqlite")
    yield hub
    hub.close()


def run(hub: Hub, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--data", str(hub.settings.data)], prog_name="patchbay")


def test_a_person_is_invited_listed_and_removed(hub: Hub) -> None:
    """A running hub follows: the session and the client of a removed person end."""
    assert run(hub, "people", "list").stdout == ""
    link = run(hub, "invite", "Ann", "--at", "https://hub.example.org/").stdout.strip()
    assert link.startswith("https://hub.example.org/invitation?key=")
    browser = Browser(hub)
    fields = {"key": link.partition("=")[2], "password": PASSWORD, "again": PASSWORD}
    assert browser.client.post("/invitation", data=fields).status_code == 303
    client = OAuthClient(hub).register().sign_in(browser)
    name, _, *rest = run(hub, "people", "list").stdout.split("\t")
    assert (name, rest) == ("ann", ["password, 0 passkeys", "1 sessions", "1 clients\n"])
    assert run(hub, "people", "remove", "ann").exit_code == exit_codes.OK
    assert browser.account() is None
    bearer = {"Authorization": f"Bearer {client.access}"}
    until(lambda: hub.app.test_client().get("/mcp/echo", headers=bearer).status_code == 401, "the token ends")
    assert run(hub, "people", "list").stdout == ""


def test_a_link_is_for_the_address_of_the_hub_by_default(hub: Hub) -> None:
    assert run(hub, "invite", "ann").stdout.startswith("http://127.0.0.1:8000/invitation?key=")


def test_a_wrong_name_gives_one_sentence(hub: Hub) -> None:
    for arguments in (("invite", "not a name"), ("invite", "operator"), ("people", "remove", "nix")):
        result = run(hub, *arguments)
        assert result.exit_code == exit_codes.USAGE and result.stdout == "" and result.stderr.count("\n") == 1


def test_a_hub_in_memory_has_no_accounts_for_commands(hub: Hub) -> None:
    result = run(hub, "invite", "ann", "--store", "memory")
    assert result.exit_code == exit_codes.USAGE and "/people" in result.stderr


ACME = ("--access", "shared", "--sign-in", "Acme Group=https://id.example.org", "--sign-in-client", "hub")


def test_a_person_is_invited_to_a_sign_in_with_a_provider_and_the_invitation_withdrawn(hub: Hub) -> None:
    """The page /people did both, and no command did."""
    invited = run(
        hub, "invite", "Ann@Example.org", "--provider", "acme-group", "--at", "https://hub.example.org", *ACME
    )
    assert invited.stdout == "https://hub.example.org/sign-in/acme-group\n"
    assert invited.stderr == "ann@example.org is invited to sign in with https://id.example.org\n"
    by_url = run(hub, "invite", "248289761001", "--provider", "https://id.example.org")
    assert by_url.stdout == "http://127.0.0.1:8000/login\n"
    assert run(hub, "invite", "248289761001", "--provider", "https://other.example.org").exit_code == exit_codes.OK
    page = hub.log_in().client.get("/people", headers={"Accept": "text/html"}).text
    assert "ann@example.org" in page and page.count("248289761001</th>") == 2
    listed = [line.split("\t") for line in run(hub, "people", "list").stdout.splitlines()]
    assert [(who, at, state) for who, _, at, state in listed] == [
        ("ann@example.org", "at https://id.example.org", "invited"),
        ("248289761001", "at https://id.example.org", "invited"),
        ("248289761001", "at https://other.example.org", "invited"),
    ]
    assert run(hub, "people", "withdraw", "ANN@example.org").exit_code == exit_codes.OK
    unclear = run(hub, "people", "withdraw", "248289761001")
    assert unclear.exit_code == exit_codes.USAGE and "name one with --provider" in unclear.stderr
    assert run(hub, "people", "withdraw", "248289761001", "--provider", "Acme Group", *ACME).exit_code == exit_codes.OK
    assert run(hub, "people", "list").stdout.count("\n") == 1


def test_an_invitation_is_withdrawn_after_its_provider_left_the_settings(hub: Hub) -> None:
    gone = "https://other.example.org"
    for url in (gone, "https://id.example.org"):
        assert run(hub, "invite", "ann@example.org", "--provider", url).exit_code == exit_codes.OK
    done = run(hub, "people", "withdraw", " ann@example.org ", "--provider", gone, *ACME)
    assert done.exit_code == exit_codes.OK, done.stderr
    assert done.stdout == "the invitation of ann@example.org is withdrawn\n"
    listed = run(hub, "people", "list").stdout
    assert gone not in listed and "https://id.example.org" in listed


def test_an_unknown_provider_invites_no_person(hub: Hub) -> None:
    for more, words in (
        (("--provider", "acme"), "expected the URL of the identity provider"),
        (("--provider", "other", *ACME), "expected a name or URL of --sign-in (Acme Group=https://id.example.org)"),
        (("--provider", "https://other.example.org", *ACME), "expected a name or URL of --sign-in"),
    ):
        result = run(hub, "invite", "ann@example.org", *more)
        assert result.exit_code == exit_codes.USAGE and result.stdout == ""
        assert words in result.stderr and result.stderr.count("\n") == 1
    missing = run(hub, "people", "withdraw", "ann@example.org")
    assert missing.exit_code == exit_codes.USAGE and "people list" in missing.stderr
