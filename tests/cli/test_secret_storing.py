"""`patchbay mount` on a terminal offers to store the secrets of a mount in the hub. Issue 56, 1."""

from __future__ import annotations

import json

import pytest

from tests.cli.workspace import Workspace

LITERAL = "sk-literal-0123456789"


@pytest.fixture
def hub(workspace: Workspace) -> Workspace:
    """A desk with a folder for the servers of its hub."""
    workspace.environment |= {"PATCHBAY_SERVERS": str(workspace.folder / "servers")}
    return workspace


def test_a_literal_secret_is_stored_and_a_reference_is_written(hub: Workspace) -> None:
    line = (
        f"patchbay mount far https://far.example/mcp --header 'Authorization: Bearer {LITERAL}' --header 'X-Team: blue'"
    )
    refused = hub.quick(line)
    assert refused.code != 0
    assert "not a secret" in refused.err
    done = hub.on_terminal(line, [("Store FAR_AUTHORIZATION in the hub, for far alone?", "\n")])
    assert done.code == 0, done
    written = (hub.folder / "servers" / "far.json").read_text()
    assert json.loads(written)["headers"] == {"Authorization": "Bearer ${FAR_AUTHORIZATION}", "X-Team": "blue"}
    assert LITERAL not in written
    assert "FAR_AUTHORIZATION  far" in hub.quick("patchbay secret list").out


def test_a_missing_secret_is_asked_for_without_echo_and_may_be_left_for_later(hub: Workspace) -> None:
    line = "patchbay mount {} https://far.example/mcp --header 'X-Key: ${{FAR_KEY}}'"
    later = hub.on_terminal(line.format("one"), [("Value of FAR_KEY", "\n")])
    assert later.code == 0, later
    assert "FAR_KEY" not in hub.quick("patchbay secret list").out
    done = hub.on_terminal(line.format("two"), [("Value of FAR_KEY", f"{LITERAL}\n")])
    assert done.code == 0, done
    assert LITERAL not in done.out
    assert "FAR_KEY  two" in hub.quick("patchbay secret list").out


def test_a_secret_that_a_file_has_is_not_asked_for(hub: Workspace) -> None:
    folder = hub.folder / "secrets"
    folder.mkdir()
    (folder / "FAR_KEY").write_text("value")
    hub.environment["PATCHBAY_SECRETS_DIR"] = str(folder)
    line = "patchbay mount three https://far.example/mcp --header 'X-Key: ${FAR_KEY}' --header 'X-Other: ${FAR_OTHER}'"
    done = hub.on_terminal(line, [("Value of FAR_OTHER", f"{LITERAL}\n")])
    assert done.code == 0, done
    assert "FAR_KEY" not in done.out
    listed = hub.quick("patchbay secret list").out
    assert "FAR_OTHER  three" in listed
    assert "FAR_KEY" not in listed
