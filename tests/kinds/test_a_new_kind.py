"""A kind of server that is only a folder: `tests/kinds/countdown/`. No file of the package mentions it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from patchbay.boot.generate import BootImageGenerator
from patchbay.kind import known_kinds, register
from tests.hubs import Hub
from tests.kinds.countdown.kind import KIND
from tests.waiting import until

BROWSER = {"Accept": "text/html"}
LAUNCH = "; countdown\nrocket = 3\n"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    unregister = register(KIND)
    found = Hub(tmp_path_factory.mktemp("hub"), {"launch.countdown": LAUNCH, "hello.py": "def hello(): ..."})
    yield found.log_in()
    found.close()
    unregister()


def page(hub: Hub, path: str) -> str:
    answer = hub.client.get(path, headers=BROWSER)
    assert answer.status_code == 200, answer.text
    return answer.text


def post(hub: Hub, path: str, **fields: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page(hub, "/servers/new"))
    assert found is not None
    return html.unescape(hub.client.post(path, data={"csrf": found[1], **fields}, headers=BROWSER).text)


def test_a_file_of_the_kind_is_discovered_listed_and_called(hub: Hub) -> None:
    listed = hub.modern("launch", "tools/list").result["tools"]
    assert [(one["name"], one["description"]) for one in listed] == [("rocket", "Count down from 3.")]
    assert hub.modern("launch", "tools/call", {"name": "rocket", "arguments": {}}).text == "3 2 1 0"
    assert hub.catalogue.find("launch").kind == "countdown"


def test_the_pages_of_a_server_show_the_kind_and_colour_its_definition(hub: Hub) -> None:
    meta = page(hub, "/servers/launch") + page(hub, "/servers/launch/settings")
    assert "rocket" in meta and "It counts inside the hub." in meta
    text = page(hub, "/servers/launch/source")
    assert "countdown, from servers/launch.countdown" in meta
    assert '<span class="t-comment">; countdown</span>' in text
    content = page(hub, f"/cid/{hub.catalogue.find('launch').definition}")
    assert f"<h1>{KIND.title}</h1>" in content and ".countdown" in content
    assert '<span class="t-comment">; countdown</span>' in content


def test_the_editor_recognizes_previews_and_saves_a_definition_of_the_kind(hub: Hub) -> None:
    seen = post(hub, "/servers/new", action="check", name="tea", source=LAUNCH.replace("rocket", "kettle"))
    assert "kettle" in seen and "Count down from 3." in seen and '<label for="source">Countdown</label>' in seen
    wrong = post(hub, "/servers/new", action="check", name="tea", source=LAUNCH + "tea\n")
    assert "Expected NAME = NUMBER; got 'tea'." in wrong and '<span class="t-comment">; countdown</span>' in wrong
    post(hub, "/servers/launch/edit", action="save", source=LAUNCH + "egg = 1\n")
    assert (hub.servers / "launch.countdown").read_text() == LAUNCH + "egg = 1\n"
    assert hub.modern("launch", "tools/call", {"name": "egg", "arguments": {}}).text == "1 0"


def test_a_configuration_beside_a_definition_of_the_kind_counts(hub: Hub) -> None:
    (hub.servers / "slow.countdown").write_text(LAUNCH)
    (hub.servers / "slow.mcp.json").write_text(json.dumps({"title": "Slow", "listing": {"exclude": ["rocket"]}}))
    until(lambda: hub.catalogue.refresh() or "slow" in {one.name for one in hub.catalogue.all()}, "slow is served")
    found = hub.catalogue.find("slow")
    assert (found.title, dict(found.tools)) == ("Slow", {})


def test_a_boot_image_may_hold_a_definition_of_the_kind(hub: Hub, tmp_path: Path) -> None:
    row = {"name": "launch", "definition_cid": "reference_templates/launch.countdown", "enabled": True}
    source = {"version": 1, "readonly": False, "servers": [row], "variables": [], "templates": []}
    (tmp_path / "one.boot.source.json").write_text(json.dumps(source))
    (tmp_path / "mcps.source.json").write_text("{}")
    (tmp_path / "launch.countdown").write_text(LAUNCH)
    image = json.loads(BootImageGenerator(tmp_path).generate()["one.boot.json"])
    assert image["servers"][0]["kind"] == "countdown"


def test_two_kinds_cannot_have_the_same_name_or_ending(hub: Hub) -> None:
    with pytest.raises(ValueError, match="registered already for countdown"):
        register(replace(KIND, endings=(".other",)))
    with pytest.raises(ValueError, match=r"registered already for \.py"):
        register(replace(KIND, name="other", endings=(".py",)))


def test_a_removed_kind_is_unknown(hub: Hub) -> None:
    unregister = register(replace(KIND, name="brief", endings=(".brief",)))
    assert "brief" in [kind.name for kind in known_kinds()]
    unregister()
    assert "brief" not in [kind.name for kind in known_kinds()]
