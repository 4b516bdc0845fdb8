"""One key calls a tool that keeps what it gets, again and again: the store grows, with each version in the history.

What is left is counted in the store itself.
Source: CWE-770 (allocation of resources without limits).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.catalogue.contents.tallies import SHARE_OF_LIMIT
from patchbay.catalogue.tool_state import CHANGE_BYTES
from patchbay.topics import STATE
from tests.access.team import set_grants
from tests.attacks.leftovers import attacker, shared_hub, two_nodes
from tests.databases import PostgresqlServer
from tests.hubs import Hub, modern_request

MOST = 1_000_000
TEXT_BYTES = 50_000
ATTEMPTS = 40
UNCOUNTED = MOST // SHARE_OF_LIMIT
PIECE = TEXT_BYTES + CHANGE_BYTES + 2

DEFINITION = '''"""Notes that the server keeps."""


def note(context, text: str, key: str = "note") -> str:
    """Keep a text."""
    context.state[key] = text
    return "kept"


def swap(context, text: str) -> str:
    """Keep a text under two keys."""
    return str(context.state.swap({"one": text, "two": text}, {}))


def forget(context, key: str = "note") -> str:
    """Delete a text."""
    del context.state[key]
    return "forgotten"
'''


def files(isolation: str) -> dict[str, str]:
    config = f'{{"auto_discover": true, "isolation": "{isolation}"}}'
    return {"notes.py": DEFINITION, "notes.mcp.json": config}


def limit(hub: Hub) -> None:
    """Let each caller do everything within the limit."""
    everything = [{"to": ["*"], "may": ["see", "call", "read"], "on": ["*"]}]
    set_grants(hub, {"grants": everything, "quotas": [{"to": ["*"], "state_bytes": MOST}]})


@pytest.fixture(params=["inline", "process"])
def hub(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Hub]:
    hub = shared_hub(tmp_path, files(request.param))
    limit(hub)
    yield hub
    hub.close()


def call(hub: Hub, headers: dict[str, str], tool: str, number: int) -> str:
    """Call a tool; return its text, or its error."""
    text = str(number).ljust(TEXT_BYTES, "x")
    arguments = {"text": text} if tool != "forget" else {}
    sent = modern_request("tools/call", {"name": tool, "arguments": arguments}, headers=headers)
    return hub.send("notes", *sent).text


def kept(hub: Hub) -> int:
    """The bytes of all versions of all values that the state of tools has or had."""
    store = hub.catalogue.store
    names = store.names.all(STATE)
    cids = {cid for name in names for row in store.names.past(name, limit=10_000) if (cid := row.cid) is not None}
    return sum(len(store.blobs.get(cid)) for cid in cids)


def test_what_calls_of_one_key_write_into_the_state_of_tools_has_a_limit(hub: Hub) -> None:
    """48.4: 40 versions of 50 kB leave 1 MB in the history, although the state itself has the newest only."""
    headers, other = attacker(hub), attacker(hub, "other")
    answers = [call(hub, headers, "note", number) for number in range(ATTEMPTS)]
    most = (MOST + UNCOUNTED) // PIECE
    assert answers[: MOST // PIECE] == ["kept"] * (MOST // PIECE)
    sentence = f"each caller may have {MOST} bytes of changes in the state of tools in 24 hours"
    assert all(sentence in one for one in answers[most:])
    assert MOST * 3 / 4 < kept(hub) <= MOST + UNCOUNTED
    assert sentence in call(hub, headers, "swap", ATTEMPTS)
    assert call(hub, headers, "forget", 0) == "forgotten"
    assert call(hub, other, "note", 1) == "kept"


def test_two_nodes_count_the_changes_of_one_key_together(tmp_path: Path, postgresql: PostgresqlServer) -> None:
    """48.4: the limit holds for both nodes together."""
    with two_nodes(tmp_path, postgresql.new_schema(), files=files("inline")) as hubs:
        limit(hubs[0])
        hubs[1].catalogue.refresh()
        headers = attacker(hubs[0])
        answers = [call(hubs[number % 2], headers, "note", number) for number in range(ATTEMPTS)]
        assert answers[-1].startswith("each caller may have") and answers[0] == "kept"
        assert MOST * 3 / 4 < kept(hubs[0]) <= MOST + 2 * UNCOUNTED
