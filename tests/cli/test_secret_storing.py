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
