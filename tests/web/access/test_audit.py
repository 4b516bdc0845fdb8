"""The page /audit: the operator sees the state of verification and the last rows; others see nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.access.audit.chain import lines_of
from patchbay.access.audit.rows import encode_lines
from patchbay.topics import AUDIT
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub
from tests.web.browsing import BROWSER


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    made = team_hub(tmp_path_factory.mktemp("hub"))
    yield made
    made.activity.close()
    made.close()


def proof(hub: Hub) -> dict[str, str]:
    return {"Authorization": f"Bearer {hub.token}"}


def test_the_page_shows_rows_and_their_verification_to_the_operator_only(hub: Hub) -> None:
    """ACCESS 7: a page for the operator."""
    ann = new_key(hub, "ann")
    assert hub.client.get("/audit.json", headers=ann).status_code == 401
    assert "No rows yet." in hub.client.get("/audit", headers=proof(hub) | BROWSER).text
    for name in ("search", "<b>bold</b>"):
        params: dict[str, Any] = {"name": name, "arguments": {}}
        hub.send("notes", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, ann)
    page = hub.client.get("/audit", headers=proof(hub) | BROWSER)
    assert "rows 1 to 3 are intact and in order" in page.text and "key:ann" in page.text
    assert "&lt;b&gt;bold&lt;/b&gt;" in page.text and "<b>bold</b>" not in page.text
    data = hub.client.get("/audit.json?limit=2", headers=proof(hub)).get_json()
    assert data["verified"]["ok"] and data["first"] == 1 and [row["seq"] for row in data["rows"]] == [3, 2]
    assert hub.client.get("/audit.json?limit=0", headers=proof(hub)).status_code == 400


def test_the_page_names_a_row_that_was_changed_in_the_store(hub: Hub) -> None:
    hub.activity.close()
    journal = hub.catalogue.store.journal
    head, entry = journal.tail(AUDIT, 2)
    lines = [line.replace(b'"search"', b'"remove"') for line in lines_of(entry)]
    assert lines != lines_of(entry)
    first = journal.tail(AUDIT, 3)[-1]
    journal.remove(AUDIT, head.seq + 1)
    journal.append_all([(AUDIT, data, None) for data in (first.data, encode_lines(lines), head.data)], {})
    verified = hub.client.get("/audit.json", headers=proof(hub)).get_json()["verified"]
    assert not verified["ok"] and verified["wrong"] == 2
    page = hub.client.get("/audit", headers=proof(hub) | BROWSER).text
    assert "The chain is broken:" in page and 'role="alert"' in page


def test_a_hub_without_a_chain_says_how_to_switch_it_on(tmp_path: Path) -> None:
    plain = team_hub(tmp_path, access="personal")
    set_grants(plain, None)
    page = plain.client.get("/audit", headers=proof(plain) | BROWSER).text
    assert "This hub writes no audit chain: it is personal." in page and "--audit on" in page
    plain.close()
