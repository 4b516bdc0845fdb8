"""Arguments from files, and results saved as files. Issue 33 part 11."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from patchbay import exit_codes
from patchbay.cli.files.results import save_contents
from tests.cli.workspace import Workspace
from tests.interaction.programs import running_hub

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=")
DEFINITION = f'''"""Tools that tell what they were given."""
from typing import Any


def tell(text: str = "", count: int = 0, data: bytes = b"", rows: list[int] = [], many: list[str] = []) -> str:
    """Tell the arguments."""
    return repr((text, count, data, rows, many))


def draw(pictures: int = 1) -> list[Any]:
    """Draw pictures, with a caption."""
    picture = {{"type": "image", "data": "{base64.b64encode(PIXEL).decode()}", "mimeType": "image/png"}}
    return [{{"type": "text", "text": "a dot"}}, *[picture] * pictures]


def fail() -> str:
    """Fail."""
    raise ValueError("no")
'''


@pytest.fixture
def tools(workspace: Workspace) -> Workspace:
    """A workspace with the server `tools` of this hub, and files in the working folder."""
    servers = workspace.folder / "servers"
    servers.mkdir()
    (servers / "tools.py").write_text(DEFINITION)
    workspace.environment |= {"PATCHBAY_SERVERS": str(servers), "PATCHBAY_ISOLATION": "inline"}
    for name, data in {
        "note.md": b"h\xc3\xa9llo\n",
        "count": b"12\n",
        "rows.json": b"[1, 2]\n",
        "dot.png": PIXEL,
    }.items():
        (workspace.work / name).write_bytes(data)
    return workspace


def told(workspace: Workspace, words: str, stdin: str = "") -> str:
    ended = workspace.quick(f"jn call /mcp/tools tell {words} --text", stdin)
    assert ended.code == exit_codes.OK, ended.err
    return ended.out.rstrip("\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("text=@note.md", ("héllo\n", 0, b"", [], [])),
        ("text=@- count=@count", ("piped", 12, b"", [], [])),
        ("data=@dot.png", ("", 0, PIXEL, [], [])),
        ("rows=@rows.json", ("", 0, b"", [1, 2], [])),
        ("many=@note.md many=@count", ("", 0, b"", [], ["héllo\n", "12\n"])),
        ("text=@@note.md", ("@note.md", 0, b"", [], [])),
        ("text=@", ("@", 0, b"", [], [])),
    ],
)
def test_an_argument_has_the_contents_of_a_file_as_the_tool_asks_for_them(
    tools: Workspace, words: str, expected: tuple[object, ...]
) -> None:
    """33.11: text, a number, bytes, JSON, several files, and a text that begins with @."""
    assert told(tools, words, "piped") == repr(expected)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "text=@none",
            "text=@none: the file cannot be read (No such file or directory); the text @none is written text=@@none",
        ),
        ("text=@dot.png", "text=@dot.png: expected UTF-8 text, because the tool takes a text; the byte at 0 is 0x89"),
        ("text=@- data=@-", "data=@-: standard input is read already; name a file"),
        ("text=@note.md text=x", "text: expected either texts or files, got both"),
    ],
)
def test_a_file_that_cannot_be_an_argument_is_named(tools: Workspace, words: str, sentence: str) -> None:
    """33.11: and nothing is called."""
    ended = tools.quick(f"jn call /mcp/tools tell {words}")
    assert ended.code == exit_codes.USAGE
    assert sentence in " ".join((ended.err + ended.out).replace("│", " ").split())


def test_a_record_of_standard_input_leaves_none_for_a_file(tools: Workspace) -> None:
    """33.11: with --each, standard input has the records; a file gives each call the same argument."""
    refused = tools.quick("jn call /mcp/tools tell text=@- --each", '{"count": 1}')
    assert "standard input is read already" in refused.err
    ended = tools.quick("jn call /mcp/tools tell text=@note.md --each", '{"count": 1}\n{"count": 2}\n')
    assert [one["text"] for one in ended.records] == [repr(("héllo\n", n, b"", [], [])) for n in (1, 2)]


def test_contents_are_saved_under_a_path(tools: Workspace) -> None:
    """33.11: the first one under its name, further ones with a number; the records name the files."""
    ended = tools.quick("jn call /mcp/tools draw pictures=2 --output out/shot.png")
    assert ended.code == exit_codes.OK, ended.err
    assert [(one["saved"], one["bytes"]) for one in ended.records] == [
        ("out/shot.png", 5), ("out/shot-2.png", len(PIXEL)), ("out/shot-3.png", len(PIXEL)),
    ]  # fmt: skip
    assert not any("blob" in one or "text" in one for one in ended.records)
    assert (tools.work / "out/shot.png").read_text() == "a dot"
    assert (tools.work / "out/shot-3.png").read_bytes() == PIXEL
    assert len(list((tools.work / "out").iterdir())) == 3


def test_contents_are_saved_in_a_folder_by_tool_and_type(tools: Workspace) -> None:
    """33.11: a file is replaced, and an error leaves no file."""
    for _ in range(2):
        assert tools.quick("jn call /mcp/tools draw -o pictures/").code == exit_codes.OK
    assert sorted(one.name for one in (tools.work / "pictures").iterdir()) == ["draw-1.txt", "draw-2.png"]
    failed = tools.quick("jn call /mcp/tools fail -o failed/")
    assert failed.code == exit_codes.FAILED and failed.records[0]["isError"]
    assert not (tools.work / "failed").exists()


def test_a_path_that_cannot_be_written_is_named(tools: Workspace) -> None:
    """33.11: with the reason."""
    ended = tools.quick("jn call /mcp/tools draw -o note.md/shot.png")
    assert ended.code == exit_codes.USAGE
    assert "note.md/shot.png" in ended.err and "expected a file that can be written" in ended.err


def test_the_records_of_a_file_are_saved_together(tmp_path: Path) -> None:
    """33.11: JSON of an HTTP API: one value as it is, several as a list; a member named text is no content."""
    records = [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}]
    assert list(save_contents(records, str(tmp_path / "all.json"))) == [
        {"records": 2, "saved": str(tmp_path / "all.json"), "bytes": (tmp_path / "all.json").stat().st_size}
    ]
    assert json.loads((tmp_path / "all.json").read_text()) == records
    list(save_contents(records[:1], str(tmp_path / "one.json")))
    assert json.loads((tmp_path / "one.json").read_text()) == records[0]


LINKED = '''"""Takes contents by their links."""
from pathlib import Path
from typing import Annotated

from pydantic import Field


def measure(table: Annotated[Path, Field(json_schema_extra={"format": "cid"})]) -> int:
    """Count the bytes of a file."""
    return table.stat().st_size
'''


def test_a_large_file_is_uploaded_where_the_tool_takes_a_link(workspace: Workspace) -> None:
    """Issue 55, item 7: it is larger than a request may be. Without a hub that listens, the content itself is sent."""
    servers = workspace.folder / "servers"
    servers.mkdir()
    (servers / "linked.py").write_text(LINKED)
    workspace.environment |= {"PATCHBAY_SERVERS": str(servers), "PATCHBAY_ISOLATION": "inline"}
    (workspace.work / "small").write_bytes(b"\xff" * 1000)
    (workspace.work / "large").write_bytes(b"\xff" * 6_000_000)
    (workspace.work / "huge").write_bytes(b"\xff" * 17_000_000)
    assert workspace.quick("jn call /mcp/linked measure table=@small --text").out.strip() == "1000"
    with running_hub(workspace.folder / "running", [servers / "linked.py"]) as hub:
        url = hub.endpoint("linked")
        ended = workspace.quick(f"jn call {url} measure table=@large --text")
        assert ended.code == exit_codes.OK and ended.out.strip() == "6000000", ended.err
        refused = workspace.quick(f"jn call {url} measure table=@huge --text")
        assert refused.code != exit_codes.OK and "setting upload_limit" in " ".join((refused.err + refused.out).split())
