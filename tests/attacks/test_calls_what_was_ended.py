"""A stranger tries to call a definition at its pin after the operator removed, corrected or revoked it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import pytest

from tests.attacks.requests import call, fill_in, send, send_request
from tests.checkout import ROOT
from tests.serving.running import Hub, running
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

LEAKY = 'def leak() -> str:\n    """Leak."""\n    return "the secret"\n'
MENDED = LEAKY.replace("the secret", "nothing")

REQUESTS_FOR_BOTH = 24
"""Number of requests after which both workers have probably answered: each connection goes to either of them."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("revoking")
    with running(folder, "--workers", "2") as hub:
        yield hub


def drop_in(hub: Hub, name: str, source: str) -> str:
    """Save a definition as a file of the watched folder. Return its version once both workers serve it."""
    part = hub.folder / "part"
    part.write_text(source)
    before = versions(hub, name)
    part.rename(hub.folder / "servers" / f"{name}.py")
    until(lambda: not versions(hub, name) & {"", *before}, f"{name} is served by both workers")
    [served] = versions(hub, name)
    return served


def versions(hub: Hub, name: str) -> set[str]:
    """The versions of a server that the workers serve."""
    return {version(hub, name) for _ in range(REQUESTS_FOR_BOTH)}


def version(hub: Hub, name: str) -> str:
    """Return the version of a server that one worker serves; empty when it serves none."""
    got = send(hub, "GET", f"/servers/{name}.json")
    return str(got.json["server"]["version"]) if got.status == 200 else ""


def status(hub: Hub, address: str, **headers: str) -> int:
    return send_request(hub, address, "tools/call", {"name": "leak", "arguments": {}}, headers=headers).status


def refused_everywhere(hub: Hub, address: str) -> bool:
    """Whether both workers refuse an address; connections are distributed over them."""
    return {status(hub, address) for _ in range(REQUESTS_FOR_BOTH)} == {404}


def served_everywhere(hub: Hub, address: str) -> bool:
    """Whether both workers serve an address."""
    return {status(hub, address) for _ in range(REQUESTS_FOR_BOTH)} == {200}


def revoke(hub: Hub, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command, as a user of this machine types it."""
    command = [sys.executable, "-m", "patchbay", "revoke", *arguments, "--data", str(hub.folder / "data")]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=BOUND, check=False)


def test_the_pins_of_a_removed_name_are_for_the_operator_alone(hub: Hub) -> None:
    pin = f"gone@{drop_in(hub, 'gone', LEAKY)}"
    assert "the secret" in str(call(hub, pin, "leak"))
    (hub.folder / "servers" / "gone.py").unlink()
    until(lambda: refused_everywhere(hub, "gone") and refused_everywhere(hub, pin), "the name and its pin are refused")
    never = send_request(hub, pin[:-1] + "a", "tools/list", {})
    for headers in ({}, {"Authorization": "Bearer patchbay_" + "A" * 43}):
        got = send_request(hub, pin, "tools/list", {}, headers=headers)
        assert got.status == never.status == 404 and b"has never had the version" in got.body
    for path in (f"/servers/{pin}", f"/mcp/meta/{pin}.json"):
        assert send(hub, "GET", path).status == 404
        assert send(hub, "GET", path, headers=hub.as_operator()).status == 200
    assert "the secret" in str(call(hub, pin, "leak", headers=hub.as_operator()))


def test_a_mended_definition_is_revoked_by_command_while_the_hub_runs(hub: Hub) -> None:
    old = drop_in(hub, "tool", LEAKY)
    new = drop_in(hub, "tool", MENDED)
    assert "the secret" in str(call(hub, f"tool@{old}", "leak"))
    done = revoke(hub, old, "--why", "it leaks its secret")
    assert (done.returncode, "it leaks its secret" in done.stdout) == (0, True), done.stderr
    until(lambda: refused_everywhere(hub, f"tool@{old}"), "both workers refuse the version")
    got = send_request(hub, f"tool@{old}", "tools/list", {})
    assert b"was revoked on" in got.body and b"it leaks its secret" in got.body
    page = send(hub, "GET", f"/servers/tool@{old}", headers={"Accept": "text/html"})
    assert page.status == 404 and b"it leaks its secret" in page.body
    assert b"it leaks its secret" in send(hub, "GET", "/servers/tool/past", headers={"Accept": "text/html"}).body
    moves = send(hub, "GET", "/history/names.json").json["moves"]
    assert [(move["who"], move["why"]) for move in moves if move["name"] == f"revoked/{old}"] == [
        ("command line", "it leaks its secret")
    ]
    assert "nothing" in str(call(hub, "tool", "leak")) and "nothing" in str(call(hub, f"tool@{new}", "leak"))
    assert send_request(hub, f"tool@{old}", "tools/list", {}, headers=hub.as_operator()).status == 404
    assert revoke(hub, old, "--lift").returncode == 0
    until(lambda: served_everywhere(hub, f"tool@{old}"), "the version is served again")


def test_a_definition_that_is_served_now_is_revoked_on_the_page(hub: Hub) -> None:
    """By its definition's CID: under every name, pinned or not, and at /mcp too."""
    first, second = drop_in(hub, "one", LEAKY + "\n"), drop_in(hub, "two", LEAKY + "\n")
    definition = send(hub, "GET", "/servers/one.json").json["server"]["definition"]
    refused = send(
        hub,
        "POST",
        "/history/revoke",
        f"target={definition}&why=x".encode(),
        {"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert refused.status == 401
    assert fill_in(hub, "/history/revoke", target=definition, why="").status == 400
    assert fill_in(hub, "/history/revoke", target=definition, why="it leaks").status == 303
    for address in ("one", "two", f"one@{first}", f"two@{second}", f"one@{definition}"):
        until(partial(refused_everywhere, hub, address), f"{address} is refused")
    assert "one__leak" not in str(send_request(hub, "", "tools/list", {}).last_message)
    assert send(hub, "GET", "/one/leak").status == 404
    assert b"it leaks" in send(hub, "GET", "/servers/one", headers={"Accept": "text/html"}).body
    assert fill_in(hub, "/history/revoke", target=definition, do="lift").status == 303
    for address in ("one", f"two@{second}"):
        until(partial(served_everywhere, hub, address), f"{address} is served again")


def test_a_name_is_revoked_with_all_that_it_ever_was(hub: Hub) -> None:
    old, new = drop_in(hub, "named", LEAKY), drop_in(hub, "named", MENDED)
    assert revoke(hub, "named").returncode != 0
    assert revoke(hub, "nmaed", "--why", "a typo").returncode != 0
    assert revoke(hub, "named", "--why", "not ours").returncode == 0
    for address in ("named", f"named@{old}", f"named@{new}"):
        until(partial(refused_everywhere, hub, address), f"{address} is refused")
    drop_in_again = hub.folder / "servers" / "named.py"
    drop_in_again.write_text(MENDED + "\n# again\n")
    until(lambda: b"# again" in send(hub, "GET", "/servers/named.json").body, "the new file is read")
    assert refused_everywhere(hub, "named")
