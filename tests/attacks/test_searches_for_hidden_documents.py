"""A member searches in a library for documents that the grants deny, and looks at numbers and suggestions.

Source: CWE-203 (observable discrepancy).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub

HIDDEN = 70
GRANTS = {
    "grants": [{"to": ["key:ann"], "may": ["see", "call", "read"], "on": ["library"]}],
    "denials": [{"to": ["key:ann"], "on": ["library.docs://library/secret/*"]}],
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    (folder / "texts" / "secret").mkdir(parents=True)
    for number in range(HIDDEN):
        (folder / "texts" / "secret" / f"{number}.md").write_text(f"# Bread {number}\n\nzebrafinch bread\n")
    (folder / "texts" / "open.md").write_text("# A long text\n\nIt also has bread, at the end of many words.\n")
    hub = team_hub(folder)
    config = {"kind": "documents", "root": str(folder / "texts")}
    (hub.servers / "library.json").write_text(json.dumps(config))
    hub.catalogue.read_folder()
    hub.catalogue.refresh()
    set_grants(hub, GRANTS)
    yield hub
    hub.close()


def search(hub: Hub, query: str, headers: dict[str, str]) -> dict[str, Any]:
    answer = hub.client.get(f"/servers/library/documents.json?q={query}", headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.get_json()["found"]
    return found


def test_no_number_and_no_suggestion_shows_what_is_denied(hub: Hub) -> None:
    ann, operator = new_key(hub, "ann"), {"Authorization": f"Bearer {hub.token}"}
    assert search(hub, "bread", operator)["total"] == HIDDEN + 1
    assert search(hub, "zebrafinhc", operator)["didYouMean"] == "zebrafinch"
    found = search(hub, "bread", ann)
    assert [each["path"] for each in found["results"]] == ["open.md"], "also when denied documents fit better"
    assert found["total"] == 1
    assert "zebrafinch" not in json.dumps(search(hub, "zebrafinhc", ann))
    assert set(search(hub, "zebrafinch", ann)) == set(search(hub, "nowhere", ann))
