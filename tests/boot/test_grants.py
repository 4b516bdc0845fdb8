"""The variable `access`: what is a grant, what is refused where it is written, and what stays in force.

Sources: ACCESS section 3; issue 16 item 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.boot import change_names
from patchbay.boot.grants import parse_grants
from patchbay.errors import ConfigError
from patchbay.topics import ACCESS
from tests.access.team import set_grants, team_hub
from tests.hubs import Hub

GRANT = {"to": ["ann"], "may": ["call"], "on": ["notes"]}


def test_a_document_has_groups_grants_and_denials() -> None:
    text = {"groups": {"team": ["ann"]}, "grants": [GRANT], "denials": [{"to": ["*"], "on": ["notes.delete_*"]}]}
    found = parse_grants(orjson.dumps(text), ACCESS)
    assert found is not None
    assert found.groups == {"team": frozenset({"ann"})}
    assert [(row.place, row.to, row.may, row.on) for row in found.grants] == [
        ("grant 1", ("ann",), ("call",), ("notes",))
    ]
    assert [row.place for row in found.denials] == ["denial 1"]
    assert parse_grants(None, ACCESS) is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b"", ""),
        (b"{", ""),
        (b"[]", ""),
        (b"null", ""),
        (b'{"grants": [], "grants": []}', ""),
        (b'{"grant": []}', ""),
        (b'{"grants": {}}', "grants"),
        (b'{"grants": [{"to": ["ann"], "on": ["x"]}]}', "grants.0"),
        (b'{"grants": [{"to": [], "may": ["see"], "on": ["x"]}]}', "grants.0.to"),
        (b'{"grants": [{"to": "ann", "may": ["see"], "on": ["x"]}]}', "grants.0.to"),
        (b'{"grants": [{"to": ["ann"], "may": ["write"], "on": ["x"]}]}', "grants.0.may"),
        (b'{"grants": [{"to": ["ann"], "may": [], "on": ["x"]}]}', "grants.0.may"),
        *[
            (b'{"grants": [{"to": ["ann"], "may": ["operate"], "on": %s}]}' % on, "grants.0.on")
            for on in (b'["notes.*"]', b'["*", "notes"]', b'["n*"]', b'["mcp"]', b'["a.b"]', b'["room.demo"]')
        ],
        (b'{"grants": [{"to": ["ann"], "may": ["see"], "on": ["a b"]}]}', "grants.0.on"),
        (b'{"grants": [{"to": ["ann"], "may": ["see"], "on": [".x"]}]}', "grant 1"),
        (b'{"grants": [{"to": ["ann"], "may": ["see"], "on": ["x."]}]}', "grant 1"),
        (b'{"grants": [{"to": ["ann"], "may": ["see"], "on": ["x"], "until": 1}]}', "grants.0"),
        (b'{"denials": [{"to": ["ann"]}]}', "denials.0"),
        (b'{"denials": [{"to": ["ann"], "may": ["see"], "on": ["x"]}]}', "denials.0"),
        (b'{"groups": {"*": ["ann"]}}', "groups"),
        (b'{"groups": {"team": ["*"]}}', "groups.team"),
    ],
)
def test_a_text_that_is_not_a_document_is_refused_with_its_place(text: bytes, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_grants(text, ACCESS)
    assert caught.value.where == ACCESS
    assert caught.value.path.startswith(place)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = team_hub(tmp_path_factory.mktemp("grants"))
    yield hub
    hub.close()


def test_a_document_that_cannot_be_read_is_refused_where_it_is_written_and_changes_nothing(hub: Hub) -> None:
    set_grants(hub, {"grants": [GRANT]})
    before = hub.catalogue.grants
    for wrong in ({"grants": [{"to": ["*"]}]}, {"allow": "all"}):
        with pytest.raises(ConfigError):
            set_grants(hub, wrong)
        token = {"Authorization": f"Bearer {hub.token}"}
        assert hub.client.put("/variables/access", data=orjson.dumps(wrong), headers=token).status_code == 400
    hub.catalogue.refresh()
    assert hub.catalogue.grants is not None and hub.catalogue.grants.grants == before.grants
    assert hub.catalogue.access_problem is None


def test_the_last_readable_document_stays_in_force_and_the_pages_say_so(hub: Hub) -> None:
    """A store of another version may hold such a text all the same."""
    set_grants(hub, {"grants": [GRANT]})
    store = hub.catalogue.store
    store.names.move({ACCESS: store.blobs.put(b'{"grants": "all"}')}, "another version", "a wrong text")
    hub.catalogue.refresh()
    assert hub.catalogue.grants.grants[0].to == ("ann",)
    page: Any = hub.client.get("/access", headers={"Authorization": f"Bearer {hub.token}", "Accept": "text/html"})
    assert "cannot be used" in page.text or "is in force" in page.text
    set_grants(hub, None)
    assert hub.catalogue.grants is None


def test_a_first_document_that_cannot_be_read_grants_nothing(tmp_path: Path) -> None:
    hub = team_hub(tmp_path)
    store = hub.catalogue.store
    store.names.move({ACCESS: store.blobs.put(b"{}}")}, "another version", "a wrong text")
    hub.catalogue.refresh()
    assert hub.catalogue.grants is None or not hub.catalogue.grants.grants
    change_names(store, {ACCESS: None}, "test", "away")
    hub.close()


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"grants": [GRANT, GRANT | {"on": ["notes", "git/git_log"]}]}, "grant 2"),
        ({"denials": [{"to": ["*"], "on": ["/mcp/notes"]}]}, "denial 1"),
        ({"quotas": [{"on": ["notes/search"], "calls_per_minute": 3}]}, "quota 1"),
    ],
)
def test_a_new_document_with_a_pattern_that_can_never_match_is_refused(
    tmp_path: Path, row: dict[str, Any], place: str
) -> None:
    hub = team_hub(tmp_path)
    store = hub.catalogue.store
    cid = store.blobs.put(orjson.dumps(row))
    with pytest.raises(ConfigError, match=f"{place}.*can never match"):
        change_names(store, {ACCESS: cid}, "test", "wrong")
    assert store.names.get(ACCESS) is None
    assert parse_grants(orjson.dumps(row), ACCESS) is not None
    hub.close()


def test_an_earlier_document_with_such_a_pattern_can_be_put_back(tmp_path: Path) -> None:
    hub = team_hub(tmp_path)
    store = hub.catalogue.store
    before = store.blobs.put(orjson.dumps({"grants": [GRANT | {"on": ["git/git_log"]}]}))
    store.names.move({ACCESS: before}, "test", "an older version of the hub")
    set_grants(hub, {"grants": [GRANT]})
    change_names(store, {ACCESS: before}, "test", "put back")
    assert store.names.get(ACCESS) == before
    hub.close()
