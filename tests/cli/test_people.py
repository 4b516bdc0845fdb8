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
