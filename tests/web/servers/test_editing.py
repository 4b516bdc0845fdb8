"""Servers written on a page: what would be listed, what is wrong and where, saving, and who may."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from patchbay.cid import cid_of
from patchbay.web.servers.editing import STATIC_SAMPLE
from tests.hubs import Hub
from tests.waiting import until
from tests.web.browsing import BROWSER, TOWN, read
from tests.wire.hostile import HOSTILE, Reader

GREET = '''"""Greets."""


def greet(name: str) -> str:
    """Say hello.

    Args:
        name: Who.
    """
    return f"hello {name}"
'''


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("hub"), {"town.py": TOWN, "broken.py": "def x(:\n"}).log_in()
    yield hub
    hub.close()


def csrf(hub: Hub, path: str) -> str:
    found = re.search(r'name="csrf" value="([^"]*)"', read(hub, path))
    assert found
    return found[1]


def post(hub: Hub, path: str, headers: dict[str, str] | None = None, **fields: str) -> TestResponse:
    sent = {"csrf": csrf(hub, path), **fields}
    return hub.client.post(path, data=sent, headers={**BROWSER, **(headers or {})})


def preview_text(answer: TestResponse) -> str:
    """The text of the preview."""
    html = answer.get_data(as_text=True)
    assert Reader(html).faults == []
    return Reader(html.partition('id="preview"')[2]).text


def served(hub: Hub, name: str) -> Any:
    return next((one for one in hub.catalogue.all() if one.name == name), None)


def test_the_listing_is_previewed_before_the_source_is_saved(hub: Hub) -> None:
    """VWR-22: from the syntax tree alone."""
    source = GREET + "\ndef _hidden(): ...\n\ndef many(*names): ...\n"
    text = preview_text(post(hub, "/servers/new", action="check", name="greeter", source=source))
    for part in ("Greets.", "greet", "Say hello.", "Who.", "required", "it takes *names"):
        assert part in text
    assert served(hub, "greeter") is None
    assert hub.catalogue.store.blobs.missing([cid_of(source.encode())])


def test_nothing_runs_while_it_is_written(hub: Hub, tmp_path: Path) -> None:
    """CVE-2026-42271: a preview that ran what it showed."""
    canary = tmp_path / "canary"
    touch = f"open({str(canary)!r}, 'w').name"
    source = f"{touch}\n\n\ndef f(a: str = {touch}) -> str:\n    return a\n"
    assert "f" in preview_text(post(hub, "/servers/new", action="check", name="runs", source=source))
    assert not canary.exists()


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("def f(:\n    pass\n", ("line 1", "not valid Python", "invalid syntax")),
        ("x = 1\n\n\ndef f()\n    return 1\n", ("line 4", "expected ':'")),
        ("def f():\nreturn 1\n", ("line 2", "expected an indented block")),
        ("a = 'open\n", ("line 1", "unterminated string")),
        ("def f(a, a): ...\n", ("line 1", "duplicate argument")),
        ("#!/bin/sh\n@bash_command\n", ("Run", "args")),
        ("@bash_command\n", ("line 1", "expected the name of a command")),
        ("x = 1\n", ("No tool",)),
    ],
)
def test_a_message_says_what_is_wrong_and_where(hub: Hub, source: str, parts: tuple[str, ...]) -> None:
    text = preview_text(post(hub, "/servers/new", action="check", name="wrong", source=source))
    for part in parts:
        assert part.lower() in text.lower()


@pytest.mark.parametrize("name", ["servers", "new", "a b", "..", "x" * 129, "TOWN", "town", "naïve"])
def test_an_invalid_name_is_refused_and_the_typed_source_stays(hub: Hub, name: str) -> None:
    answer = post(hub, "/servers/new", action="save", name=name, source=GREET)
    assert answer.status_code in (400, 409, 422)
    html = answer.get_data(as_text=True)
    assert 'class="note fault"' in html
    area = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", html, re.DOTALL)
    assert area and unescape(area[1]) == GREET
    assert served(hub, "town").definition == cid_of(TOWN.encode())


def test_a_saved_server_is_served_at_once_with_its_reason(hub: Hub) -> None:
    answer = post(
        hub, "/servers/new", action="save", name="fresh", source=GREET.replace("\n", "\r\n"), why="for guests"
    )
    assert (answer.status_code, answer.headers["Location"]) == (303, "/servers/fresh")
    assert hub.call("fresh", "greet", {"name": "Ada"}).text == "hello Ada"
    assert served(hub, "fresh").definition == cid_of(GREET.encode())
    newest = hub.catalogue.store.names.past("root", 1)[0]
    assert (newest.who, newest.why) == ("operator", "for guests")


def test_a_new_server_of_texts_and_prompts_is_saved_as_a_configuration(hub: Hub) -> None:
    """A JSON object is valid Python too, but it is not the file of a Python server."""
    assert "shop://hours" in preview_text(post(hub, "/servers/new", action="check", name="shop", source=STATIC_SAMPLE))
    assert post(hub, "/servers/new", action="save", name="shop", source=STATIC_SAMPLE).status_code == 303
    assert (served(hub, "shop").kind, list(served(hub, "shop").prompts)) == ("static", ["plan"])


def test_a_new_server_that_is_broken_is_not_saved(hub: Hub) -> None:
    answer = post(hub, "/servers/new", action="save", name="bad", source="def f(:\n", anyway="yes")
    assert answer.status_code == 422
    assert "not saved" in Reader(answer.get_data(as_text=True)).text
    assert served(hub, "bad") is None


def test_an_edit_says_what_it_means_for_clients_and_makes_a_version(hub: Hub) -> None:
    post(hub, "/servers/new", action="save", name="edited", source=GREET)
    before = served(hub, "edited")
    changed = GREET.replace("name: str", "name: str, times: int")
    text = preview_text(post(hub, "/servers/edited/edit", action="check", source=changed))
    assert "breaking" in text and "times" in text
    assert post(hub, "/servers/edited/edit", action="save", source=changed).status_code == 303
    assert "times" in str(served(hub, "edited").tools["greet"].wire)
    assert hub.call(f"edited@{before.version}", "greet", {"name": "Ada"}).text == "hello Ada"


def test_an_edit_of_a_file_changes_the_file(hub: Hub) -> None:
    path = hub.servers / "filed.py"
    path.write_text(GREET)
    until(lambda: served(hub, "filed"), "the file is served")
    path.chmod(0o640)
    changed = GREET.replace("hello", "welcome")
    assert post(hub, "/servers/filed/edit", action="save", source=changed).status_code == 303
    assert path.read_text() == changed
    assert path.stat().st_mode & 0o777 == 0o640
    assert hub.call("filed", "greet", {"name": "Ada"}).text == "welcome Ada"


def test_an_edit_of_a_mounted_server_is_previewed_without_a_new_connection(hub: Hub) -> None:
    """The tools are those that were read before from the same address; another address is not contacted."""
    program = Path(__file__).parents[2] / "upstreams" / "changing_server.py"
    mount = {"kind": "upstream", "address": f"mcp+stdio:{sys.executable} {program}"}
    (hub.servers / "far.json").write_text(json.dumps(mount))
    until(lambda: served(hub, "far") and served(hub, "far").tools, "the mounted server lists its tools")
    name = next(iter(served(hub, "far").tools))
    text = preview_text(
        post(hub, "/servers/far/edit", action="check", source=json.dumps(mount | {"title": "Far away"}))
    )
    assert name in text and "connects to no other server" not in text
    other = json.dumps(mount | {"address": f"mcp+stdio:{sys.executable} /absent.py"})
    unread = preview_text(post(hub, "/servers/far/edit", action="check", source=other))
    assert name not in unread and "This address was not read before." in unread
    wrong = preview_text(
        post(hub, "/servers/far/edit", action="check", source=json.dumps(mount | {"address": "mcp+no://x"}))
    )
    assert "at address: the launcher 'no' is not known" in wrong


def test_a_broken_edit_is_saved_only_by_who_says_so(hub: Hub) -> None:
    post(hub, "/servers/new", action="save", name="fragile", source=GREET)
    refused = post(hub, "/servers/fragile/edit", action="save", source="def f(:\n")
    assert refused.status_code == 422
    assert not served(hub, "fragile").broken
    assert post(hub, "/servers/fragile/edit", action="save", source="def f(:\n", anyway="yes").status_code == 303
    assert "line 1" in served(hub, "fragile").broken
    html = read(hub, "/servers/fragile")
    assert "This server is broken" in html and "Edit line 1" in html and "/servers/fragile/edit#L1" in html
    assert "line 1" in preview_text(hub.client.get("/servers/fragile/edit", headers=BROWSER))


def test_a_newer_version_of_another_person_is_not_overwritten(hub: Hub) -> None:
    post(hub, "/servers/new", action="save", name="shared", source=GREET)
    mine = GREET.replace("hello", "mine")
    answer = post(hub, "/servers/shared/edit", action="save", source=mine, base=cid_of(b"what it was before"))
    assert answer.status_code == 409
    assert "mine" in answer.get_data(as_text=True)
    assert served(hub, "shared").definition == cid_of(GREET.encode())
    assert post(hub, "/servers/new", action="save", name="shared", source=mine).status_code == 409


@pytest.mark.parametrize("action", ["check", "save"])
@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://localhost:9"}, {"Sec-Fetch-Site": "same-site"}]
)
def test_another_site_can_neither_look_nor_save(hub: Hub, action: str, headers: dict[str, str]) -> None:
    """THREATS 1.4 (CSRF): looking takes the same right as saving."""
    for path in ("/servers/new", "/servers/town/edit"):
        assert post(hub, path, headers, action=action, name="evil", source=GREET).status_code == 403
    assert served(hub, "evil") is None
    assert hub.client.post("/servers/new", data={"action": action, "name": "evil", "source": GREET}).status_code == 403


def test_a_read_only_hub_saves_nothing(tmp_path: Path) -> None:
    hub = Hub(tmp_path, boot="readonly").log_in()
    fields = {"action": "save", "name": "evil", "source": GREET, "csrf": csrf(hub, "/servers/new")}
    for path in ("/servers/new", "/servers/echo/edit"):
        assert hub.client.post(path, data=fields).status_code == 405
    assert served(hub, "evil") is None
    hub.close()


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_source_stays_text(hub: Hub, text: str) -> None:
    """T14.2: as a name, in a docstring, a default, a comment and a line that is wrong."""
    source = f'"""{text}"""\n# {text}\n\n\ndef f(a: str = {text!r}) -> str:\n    {text!r}\n    return a\n'
    for wrong in (source, f"{text}\n{source}"):
        answer = post(hub, "/servers/new", action="check", name=text, source=wrong)
        html = answer.get_data(as_text=True)
        assert Reader(html).faults == []
        area = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", html, re.DOTALL)
        assert area and unescape(area[1]) == wrong


def text_in(html: str) -> str:
    found = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", html, re.DOTALL)
    assert found
    return unescape(found[1])


SAME = {"Sec-Fetch-Site": "same-origin"}


def test_a_page_that_has_grown_too_old_loses_no_text(hub: Hub) -> None:
    """It comes back with a new proof, and the next press saves it."""
    mine = GREET.replace("hello", "mine")
    for path, name in (("/servers/new", "aged"), ("/servers/town/edit", "town")):
        fields = {"csrf": "of long ago", "action": "save", "name": name, "source": mine, "why": "because"}
        answer = hub.client.post(path, data=fields, headers={**BROWSER, **SAME})
        html = answer.get_data(as_text=True)
        assert answer.status_code == 403 and text_in(html) == mine and 'value="because"' in html
        assert "This form is too old" in html and "press the button again" in html
        assert "greet" not in html.partition('id="preview"')[2], "nothing is looked into before the proof is good"
        assert served(hub, "aged") is None
    fresh = re.findall(r'name="csrf" value="([^"]+)"', html)
    again = {**fields, "csrf": fresh[0], "source": TOWN}
    assert hub.client.post(path, data=again, headers={**BROWSER, **SAME}).status_code == 303


def test_a_person_who_is_no_longer_the_operator_keeps_the_text(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"town.py": TOWN})
    fields = {"csrf": "", "action": "save", "source": GREET}
    answer = hub.client.post("/servers/town/edit", data=fields, headers={**BROWSER, **SAME})
    assert answer.status_code == 401 and text_in(answer.get_data(as_text=True)) == GREET
    assert "log in in another tab" in answer.get_data(as_text=True)
    assert served(hub, "town").definition == cid_of(TOWN.encode())
    for headers in (BROWSER, {**BROWSER, "Sec-Fetch-Site": "cross-site"}, SAME):
        shown = hub.client.post("/servers/town/edit", data=fields, headers=headers).get_data(as_text=True)
        assert "greet" not in shown, "only a page of the hub itself gets back what it sent"
    hub.close()


def test_an_edit_of_a_server_that_is_gone_meanwhile_can_be_saved_as_a_new_one(hub: Hub) -> None:
    fields = {"csrf": csrf(hub, "/servers/new"), "action": "save", "source": GREET, "base": cid_of(b"x")}
    answer = hub.client.post("/servers/vanished/edit", data=fields, headers=BROWSER)
    html = answer.get_data(as_text=True)
    assert answer.status_code == 404 and text_in(html) == GREET
    assert 'action="/servers/new"' in html and 'name="name" value="vanished"' in html
