"""The roots of a client reach a mounted program before the call that depends on them."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from patchbay.client.addresses.targets import Http
from patchbay.client.connection.connection import Connection
from tests.client.reaching import text
from tests.hubs import BOTH
from tests.interaction.programs import Hub, running_hub
from tests.serving.running import ONE_WORKER
from tests.waiting import BOUND, until

ROOTED = Path(__file__).with_name("rooted_server.py")

pytestmark = [pytest.mark.process]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("rooted")
    address = f"mcp+stdio:{shlex.join([sys.executable, '-S', str(ROOTED)])}"
    (folder / "rooted.json").write_text(json.dumps({"kind": "upstream", "address": address}), "utf-8")
    with running_hub(folder / "hub", [folder / "rooted.json"], options=ONE_WORKER) as hub:
        with Connection.open(Http(hub.endpoint("rooted"))) as caller:
            until(caller.list_tools, "its tools")
        yield hub


def announce(hub: Hub, caller: Connection) -> None:
    """Tell the hub, in the session of a caller, that its roots have changed; the hub knows it at the end."""
    http = caller._async_connection.http
    assert http is not None and http._session_id is not None
    headers = {"Mcp-Session-Id": http._session_id, "Accept": BOTH}
    body = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
    assert httpx2.post(hub.endpoint("rooted"), json=body, headers=headers, timeout=BOUND).status_code == 202


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_first_call_of_a_session_works_in_the_roots_of_its_client(hub: Hub, era: Any) -> None:
    """Issue 50, item 4: it worked with the folders of the command line, and the second call with the roots.

    In 2026-07-28 a caller has no session.
    """
    for _ in range(5):
        with Connection.open(
            Http(hub.endpoint("rooted")), era=era, ask=lambda *_: {"roots": [{"uri": "file:///ada"}]}
        ) as caller:
            assert [text(caller.call_tool("roots")) for _ in range(2)] == ["file:///ada"] * 2


def test_callers_without_a_session_each_work_in_their_own_roots(hub: Hub) -> None:
    """In 2026-07-28 they share a connection, one after the other: the second one got the roots of the first."""
    for uri in ("file:///ada", "file:///ben", "file:///ada"):
        roots = {"roots": [{"uri": uri}]}
        with Connection.open(Http(hub.endpoint("rooted")), era="modern", ask=lambda *_, roots=roots: roots) as caller:
            assert [text(caller.call_tool("roots")) for _ in range(2)] == [uri] * 2


def test_the_first_call_after_a_change_works_in_the_new_roots(hub: Hub) -> None:
    """Issue 50, item 4: narrowed roots were ignored once."""
    present, asked = ["file:///wide"], list[str]()

    def answer(method: str, _: Any) -> Any:
        asked.append(method)
        return {"roots": [{"uri": uri} for uri in present]}

    with Connection.open(Http(hub.endpoint("rooted")), era="legacy", ask=answer) as caller:
        assert text(caller.call_tool("roots")) == "file:///wide"
        for uri in ("file:///wide/narrow", "file:///wide/narrower"):
            present[:] = [uri]
            announce(hub, caller)
            assert text(caller.call_tool("roots")) == uri
        assert asked == ["roots/list"] * 3, "the client is asked once for each change"


def test_calls_at_once_all_work_in_the_roots(hub: Hub) -> None:
    """The calls beside the one that brings the roots wait for it."""
    with (
        Connection.open(
            Http(hub.endpoint("rooted")), era="legacy", ask=lambda *_: {"roots": [{"uri": "file:///ada"}]}
        ) as caller,
        ThreadPoolExecutor(4) as crowd,
    ):
        texts = list(crowd.map(lambda _: text(caller.call_tool("roots")), range(4)))
    assert texts == ["file:///ada"] * 4


def test_a_client_without_roots_is_not_asked(hub: Hub) -> None:
    with Connection.open(Http(hub.endpoint("rooted")), era="legacy") as caller:
        assert text(caller.call_tool("roots")) == "file:///command-line"
