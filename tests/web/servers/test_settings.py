"""The form for the settings of a server and the text beside it: one document, errors beside their fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from patchbay.web.servers.settings_fields import MAX_TOOLS
from tests.hubs import Hub
from tests.web.browsing import BROWSER, read
from tests.wire.hostile import Reader

CALM = 'def wait(n: int = 1) -> str:\n    """Wait."""\n    return "done"\n'
SHAPED = {
    "auto_discover": True,
    "title": "Shaped",
    "resources": {"map": {"uri": "town://map", "text": "x"}},
    "limits": {"inline": 100},
}
MANY = "\n\n\n".join(f'def tool_{n}() -> str:\n    """Do {n}."""\n    return "{n}"' for n in range(MAX_TOOLS))
FAR = {"kind": "upstream", "address": "http://127.0.0.1:1/mcp"}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub for these changes alone; each test changes a server of its own."""
    files = {f"{name}.py": CALM for name in ("plain", "shaped", "wrong", "both", "stale", "told", "places", "lent")}
    files["many.py"] = MANY
    files |= {f"{name}.mcp.json": json.dumps(SHAPED) for name in ("shaped", "wrong", "both", "told")}
    files |= {"far.json": json.dumps(FAR), "notes.json": json.dumps({"kind": "documents", "root": "/usr/share/doc"})}
    found = Hub(tmp_path_factory.mktemp("settings"), files).log_in()
    yield found
    found.close()


def form_of(hub: Hub, name: str) -> dict[str, str]:
    """What a browser sends for the unchanged form of a server."""
    html = read(hub, f"/servers/{name}/settings").partition("data-settings")[2].partition("</form>")[0]
    fields = {
        key: unescape(value) for key, value in re.findall(r'<input[^>]* name="([^"]*)"[^>]* value="([^"]*)"', html)
    }
    for key, value in re.findall(r'<textarea[^>]*name="([^"]*)"[^>]*>\n(.*?)</textarea>', html, flags=re.S):
        fields[key] = unescape(value)
    for key, inner in re.findall(r'<select[^>]*name="([^"]*)"[^>]*>(.*?)</select>', html, flags=re.S):
        chosen = re.search(r'<option value="([^"]*)" selected', inner)
        fields[key] = unescape(chosen[1]) if chosen else ""
    return fields


def send(hub: Hub, name: str, status: int, fields: dict[str, str] | None = None, **changed: str) -> TestResponse:
    """Send the form of a server with some fields changed; `__` in a name stands for a dot."""
    sent = (fields or form_of(hub, name)) | {key.replace("__", "."): value for key, value in changed.items()}
    answer = hub.client.post(f"/servers/{name}/configuration", data={"action": "save"} | sent, headers=BROWSER)
    assert answer.status_code == status, Reader(answer.text).text[:3000]
    return answer


def stored(hub: Hub, file: str) -> Any:
    return json.loads((hub.settings.servers / file).read_text())


def problem_of(answer: TestResponse, name: str) -> str:
    """The sentence beside the field of a page."""
    found = re.search(rf'id="{re.escape(name)}-problem">(.*?)</p>', answer.text)
    assert found, Reader(answer.text).text[:3000]
    return unescape(found[1])


def test_the_form_of_a_server_without_a_configuration_makes_one_that_still_lists_its_functions(hub: Hub) -> None:
    answer = send(
        hub, "plain", 303, title="Plain words", timeout="7", tools__wait__approve="true", environment="A=1\nB=x=y"
    )
    assert "The settings are saved." in read(hub, answer.headers["Location"])
    assert stored(hub, "plain.mcp.json") == {
        "auto_discover": True,
        "title": "Plain words",
        "timeout": 7,
        "environment": {"A": "1", "B": "x=y"},
        "tools": {"wait": {"approve": True}},
    }
    server = next(one for one in hub.catalogue.all() if one.name == "plain")
    assert server.title == "Plain words" and server.timeout == 7
    assert server.tools["wait"].target["approve"] is True


def test_a_form_with_as_many_tools_as_it_shows_can_be_saved(hub: Hub) -> None:
    form = form_of(hub, "many")
    assert sum(key.startswith("tools.") and key.endswith(".approve") for key in form) == MAX_TOOLS
    send(hub, "many", 303, form, title="Many")
    assert stored(hub, "many.mcp.json")["title"] == "Many"


def test_what_the_form_does_not_know_stays_and_an_empty_field_is_removed(hub: Hub) -> None:
    send(hub, "shaped", 303, title="", limits__inline="", mask_errors="true")
    assert stored(hub, "shaped.mcp.json") == {
        "auto_discover": True,
        "resources": SHAPED["resources"],
        "mask_errors": True,
    }


def test_the_text_and_the_form_are_one_document(hub: Hub) -> None:
    typed = json.dumps(SHAPED | {"description": "By hand."})
    answer = send(hub, "both", 200, action="check", text=typed, timeout="9")
    shown = unescape(re.search(r'<textarea id="text"[^>]*>\n(.*?)</textarea>', answer.text, re.S)[1])  # type: ignore[index]
    assert json.loads(shown) == SHAPED | {"description": "By hand.", "timeout": 9}
    assert ">\nBy hand.</textarea>" in answer.text and 'value="9"' in answer.text
    assert stored(hub, "both.mcp.json") == SHAPED
    text = send(hub, "both", 422, text=json.dumps(SHAPED | {"title": "One"}), title="Two")
    assert "The text has another new value" in problem_of(text, "title")


def test_an_error_stands_beside_its_field_and_nothing_is_lost(hub: Hub) -> None:
    form = form_of(hub, "wrong")
    wrong = {"timeout": "-3", "memory": "much", "tools.wait.schedule": "each day", "title": "Kept"}
    answer = send(hub, "wrong", 422, form | wrong)
    assert "expected a number; this is 'much'" in problem_of(answer, "memory")
    answer = send(hub, "wrong", 422, form | wrong | {"memory": "64"})
    assert "expected a number above 0; this is -3" in problem_of(answer, "timeout")
    assert 'value="-3"' in answer.text and 'value="Kept"' in answer.text and 'value="each day"' in answer.text
    answer = send(hub, "wrong", 422, form | wrong | {"memory": "64", "timeout": "3"})
    assert "is not a cron expression" in problem_of(answer, "tools.wait.schedule")
    answer = send(hub, "wrong", 422, environment="NOSIGN")
    assert "expected NAME=value in each line" in problem_of(answer, "environment")
    answer = send(hub, "wrong", 422, text="{,")
    assert "The text is not JSON" in Reader(answer.text).text and "{,</textarea>" in answer.text
    answer = send(hub, "wrong", 422, text='{"titel": "x"}')
    assert "did you mean title?" in Reader(answer.text).text
    assert stored(hub, "wrong.mcp.json") == SHAPED


def test_a_reader_of_json_gets_the_errors_with_their_places(hub: Hub) -> None:
    fields = form_of(hub, "told") | {"timeout": "-3", "action": "save"}
    answer = hub.client.post("/servers/told/configuration", data=fields, headers={"Accept": "application/json"})
    assert answer.status_code == 400 and "at timeout: expected a number above 0" in answer.text


def test_a_newer_configuration_is_not_overwritten(hub: Hub) -> None:
    old = form_of(hub, "stale")
    send(hub, "stale", 303, title="First")
    answer = send(hub, "stale", 422, old, title="Second")
    assert "another configuration was saved meanwhile" in Reader(answer.text).text and 'value="Second"' in answer.text
    assert stored(hub, "stale.mcp.json")["title"] == "First"


def test_a_mount_keeps_its_file_and_its_kind(hub: Hub) -> None:
    send(hub, "far", 303, title="Far", changes='"hold"', headers="X-Team=blue")
    assert stored(hub, "far.json") == FAR | {"title": "Far", "changes": "hold", "headers": {"X-Team": "blue"}}
    answer = send(hub, "far", 422, text=json.dumps(stored(hub, "far.json") | {"reads": ["/etc"]}))
    assert "expected only for the address of a program" in Reader(answer.text).text
    answer = send(hub, "far", 422, text='{"kind": "documents", "root": "/etc"}')
    assert "expected the kind that the server has" in Reader(answer.text).text


def test_a_place_has_to_exist_outside_the_hub(hub: Hub, tmp_path: Path) -> None:
    answer = send(hub, "places", 422, writes=str(tmp_path / "absent"))
    assert "make it first" in problem_of(answer, "writes")
    answer = send(hub, "places", 422, writes=str(hub.settings.servers))
    assert "of the hub itself" in problem_of(answer, "writes")
    send(hub, "places", 303, writes=str(tmp_path))
    assert stored(hub, "places.mcp.json")["writes"] == [str(tmp_path)]


def test_a_reader_elsewhere_serves_no_other_folder_of_the_machine(hub: Hub) -> None:
    fields = form_of(hub, "notes") | {"root": "/etc", "action": "save"}
    away = {"environ_base": {"REMOTE_ADDR": "203.0.113.7"}}
    answer = hub.client.post("/servers/notes/configuration", data=fields, headers=BROWSER, **away)
    assert answer.status_code in (401, 403, 422)
    assert stored(hub, "notes.json")["root"] == "/usr/share/doc"


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_another_site_changes_no_settings(hub: Hub, headers: dict[str, str]) -> None:
    fields = form_of(hub, "lent") | {"title": "Evil", "action": "save"}
    assert hub.client.post("/servers/lent/configuration", data=fields, headers=headers).status_code == 403
    assert hub.client.post("/servers/lent/configuration", data=fields | {"csrf": "made up"}).status_code == 403
    assert not (hub.settings.servers / "lent.mcp.json").exists()


def test_the_settings_of_a_server_that_is_built_in_are_saved_in_the_hub(hub: Hub) -> None:
    others = {one.name: one.config_cid for one in hub.catalogue.all() if one.name not in ("echo", "plain")}
    answer = send(hub, "echo", 303, title="Echo of mine")
    assert "The settings are saved." in read(hub, answer.headers["Location"])
    server = next(one for one in hub.catalogue.all() if one.name == "echo")
    assert server.title == "Echo of mine" and "echo" in server.tools
    assert others == {one.name: one.config_cid for one in hub.catalogue.all() if one.name in others}
