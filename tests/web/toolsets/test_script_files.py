"""A script comes into the form of a toolset as a file too. A wrong file loses nothing that was typed."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from patchbay.python_functions.script_function import MAX_CODE_CHARACTERS
from tests.catalogue.operating.test_toolset_changes import GIT
from tests.hubs import Hub
from tests.web.toolsets.test_toolsets import post, stored
from tests.wire.hostile import Reader

PAGE = "/toolsets/new"
SCRIPT = '''import release


async def count(repo: str) -> str:
    """Read the log."""
    return await release.log(repo=repo)
'''
TYPED = {
    "name": "release",
    "title": "Work",
    "new-script-name": "logs",
    "new-script": "async def typed() -> int:\n    return 1",
}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    found = Hub(tmp_path, {"git.py": GIT}).log_in()
    yield found
    found.close()


def send(hub: Hub, data: bytes, status: int = 303, path: str = PAGE, field: str = "new-script", **fields: str) -> str:
    """Send the form with a file in place of the text of a field."""
    file = {f"file:{field}": (BytesIO(data), "count.py")}
    return str(post(hub, path, status, "git.log", **{"action": "save", **fields}, **file).get_data(as_text=True))


def test_a_file_becomes_a_tool_of_the_toolset(hub: Hub) -> None:
    """Issue 55: a script is chosen as a file, also with a byte order mark and the line ends of Windows."""
    send(hub, b"\xef\xbb\xbf" + SCRIPT.replace("\n", "\r\n").encode(), name="release")
    assert stored(hub, "release")["tools"] == {"count": {"script": SCRIPT}}


def test_a_file_replaces_the_script_of_a_tool(hub: Hub) -> None:
    send(hub, SCRIPT.encode(), name="release")
    chosen = {"had": "git.log\nscript:count", "was-0": "log", "was-1": "count", "choose-1": "on"}
    send(hub, SCRIPT.replace("Read", "Count").encode(), 303, "/toolsets/release", "script-1", **chosen)
    assert "Count the log" in stored(hub, "release")["tools"]["count"]["script"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xfe#", "The file of the new script: expected Python as UTF-8 text; byte 1 is not UTF-8"),
        (b"a = 1\n\0", "The file of the new script: expected Python as UTF-8 text; byte 7 is a zero"),
        (b" \n", "The file of the new script: expected Python with one typed function; the file is empty"),
        (
            b"#" * (MAX_CODE_CHARACTERS + 1),
            "The file of the new script: expected at most 100,000 bytes; it has 100,001",
        ),
    ],
)
def test_a_wrong_file_is_refused_and_what_was_typed_stays(hub: Hub, data: bytes, reason: str) -> None:
    page = send(hub, data, 400, **TYPED)
    shown = Reader(page).text
    assert "Nothing was saved." in shown and reason in shown
    assert 'value="Work"' in page and 'value="release"' in page and "async def typed() -&gt; int:" in page
    assert not (hub.servers / "release.json").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("value = 1\n", "The new script: expected a function"),
        ("def one() -> int:\n    return 1\n\n\ndef two() -> int:\n    return 2\n", "two"),
        ("def one(x) -> int:\n    return 1\n", "x"),
        ("def one( -> int:\n", "line 1"),
    ],
)
def test_a_file_that_is_not_one_typed_function_is_shown_with_its_fault(hub: Hub, text: str, reason: str) -> None:
    page = send(hub, text.encode(), 400, name="release", title="Work")
    assert reason in Reader(page).text and 'value="Work"' in page
    assert text.splitlines()[0].replace(">", "&gt;") in page
    assert not (hub.servers / "release.json").exists()


def test_a_form_with_a_file_of_another_field_leaves_it_out(hub: Hub) -> None:
    send(hub, b"Evil", field="title", name="release", title="Work")
    assert stored(hub, "release")["title"] == "Work"


def test_a_form_without_a_file_and_one_of_a_program_are_read(hub: Hub) -> None:
    none = {"file:new-script": (BytesIO(b""), "")}
    post(hub, PAGE, 303, "git.log", name="release", action="save", **none)
    post(hub, PAGE, 303, "git.log", name="other", action="save")
    assert stored(hub, "release")["include"] == stored(hub, "other")["include"] == ["git.log"]
