"""One key makes calls that are refused, without an end: each would be a row that is kept for a year.

Source: CWE-779 (logging of excessive data).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.access.audit.chain import newest_rows, read_lines, texts_of
from patchbay.access.audit.verification import verify
from patchbay.topics import AUDIT
from tests.access.team import set_grants
from tests.attacks.leftovers import attacker, left, shared_hub, two_nodes
from tests.databases import PostgresqlServer
from tests.hubs import Hub, modern_request

REFUSED = 400
ROWS = 60
"""The default of the setting `audit_refusals`."""

MAX_ROW_BYTES = 1000


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = shared_hub(tmp_path)
    yield hub
    hub.close()


def call(hub: Hub, headers: dict[str, str], name: str, **arguments: Any) -> None:
    hub.send("large", *modern_request("tools/call", {"name": name, "arguments": arguments}, headers=headers))


def unknown_tool(hub: Hub, headers: dict[str, str], number: int) -> None:
    call(hub, headers, f"no-such-tool-{number}")


def wrong_arguments(hub: Hub, headers: dict[str, str], number: int) -> None:
    call(hub, headers, "large", **{f"wrong{number}": "x" * 400})


def unknown_resource(hub: Hub, headers: dict[str, str], number: int) -> None:
    hub.send("large", *modern_request("resources/read", {"uri": f"x://{number}"}, headers=headers))


def unknown_prompt(hub: Hub, headers: dict[str, str], number: int) -> None:
    hub.send("large", *modern_request("prompts/get", {"name": f"p{number}"}, headers=headers))


def unknown_event(hub: Hub, headers: dict[str, str], number: int) -> None:
    hub.send("large", *modern_request("events/subscribe", {"name": f"e{number}"}, headers=headers))


def over_plain_http(hub: Hub, headers: dict[str, str], number: int) -> None:
    hub.client.post("/large/large", data={"nothing": f"{number}"}, headers=headers)


ATTACKS: tuple[Callable[[Hub, dict[str, str], int], None], ...] = (
    *(unknown_tool, wrong_arguments, unknown_resource, unknown_prompt, unknown_event, over_plain_http),
)


def written_rows(hub: Hub) -> list[dict[str, Any]]:
    """The rows of the chain, newest first, after everything was written."""
    hub.activity.flush()
    assert hub.activity.audit is not None
    hub.activity.audit.sign()
    return newest_rows(hub.catalogue.store.journal, 10_000)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_refused_calls_beyond_a_number_are_one_row(
    hub: Hub, attack: Callable[[Hub, dict[str, str], int], None]
) -> None:
    """48.4: the number and the key are in the chain, which can still be verified."""
    headers = attacker(hub)
    for number in range(REFUSED):
        attack(hub, headers, number)
    rows = written_rows(hub)
    calls = [row for row in rows if row["kind"] == "call"]
    together = [row for row in rows if row["kind"] == "dropped"]
    assert len(calls) <= ROWS
    assert len(calls) + sum(row["count"] for row in together) in (REFUSED, 0)
    assert all(row["principal"] == "key:attacker" for row in together)
    assert left(hub.catalogue.store, AUDIT).bytes <= ROWS * MAX_ROW_BYTES
    assert verify(texts_of(read_lines(hub.catalogue.store.journal))).ok


def test_calls_over_a_quota_are_one_row(hub: Hub) -> None:
    everything = [{"to": ["*"], "may": ["see", "call", "read"], "on": ["*"]}]
    set_grants(hub, {"grants": everything, "quotas": [{"to": ["*"], "calls_per_minute": 1}]})
    headers = attacker(hub)
    for _ in range(REFUSED // 2):
        call(hub, headers, "large", size=1)
        hub.send("large", *modern_request("resources/read", {"uri": "server://large"}, headers=headers))
    rows = written_rows(hub)
    assert len([row for row in rows if row["kind"] == "call"]) == 1 + ROWS
    assert sum(row["count"] for row in rows if row["kind"] == "dropped") == REFUSED - 1 - ROWS


def test_calls_that_begin_have_a_row_each(hub: Hub) -> None:
    headers = attacker(hub)
    for _ in range(5):
        call(hub, headers, "large", size=1)
    for number in range(2 * ROWS):
        unknown_tool(hub, headers, number)
    for _ in range(5):
        call(hub, headers, "large", size=1)
    assert len([row for row in written_rows(hub) if row["kind"] == "call" and row["outcome"] == "ok"]) == 10


def test_two_nodes_write_one_chain_with_the_rows_of_both(tmp_path: Path, postgresql: PostgresqlServer) -> None:
    with two_nodes(tmp_path, postgresql.new_schema()) as hubs:
        headers = attacker(hubs[0])
        for number in range(REFUSED):
            unknown_tool(hubs[number % 2], headers, number)
        rows = [row for hub in hubs for row in written_rows(hub)]
        unique = {row["seq"]: row for row in rows}.values()
        calls = [row for row in unique if row["kind"] == "call"]
        assert len(calls) <= 2 * ROWS
        assert len(calls) + sum(row["count"] for row in unique if row["kind"] == "dropped") == REFUSED
        assert verify(texts_of(read_lines(hubs[0].catalogue.store.journal))).ok
