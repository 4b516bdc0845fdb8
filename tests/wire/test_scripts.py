"""Reading conversations: what each line becomes, and that no line is passed over."""

from __future__ import annotations

import pytest

from tests.wire.scripts import Expected, Happening, Opened, Said, Unreadable, read

WHOLE = """# Two sentences. Of a kind.
# Source: nowhere.
over: http, stdio
settings: page_size=2 listeners=1
server: beasts

open 2025-11-25 {"roots": {}} as mine
> modern "a b" tools/call {"name": "x"}
> _meta {"progressToken": 1}
> capabilities {"roots": {}}
> Mcp-Name: one
> Mcp-Name: two
> at plants
< 200
< Content-Type: text/<any>
< {"id": 1}
< = {"id": 2}
< id x-0 retry 1000
< id x-1 {"id": 3}
< text <any>
< ...
< end
call> POST /mcp
call> {"a": 1}
call< nothing
> reply 5 {}
> note notifications/x
! put plants tools=1
call> close
"""


def test_a_whole_conversation_is_read() -> None:
    script = read(WHOLE)
    assert script.comment == "Two sentences. Of a kind.\nSource: nowhere.\n"
    assert (script.over, script.server) == (("http", "stdio"), "beasts")
    assert script.settings == {"page_size": "2", "listeners": "1"}
    opened, said, *rest = script.steps
    assert opened == Opened(7, "2025-11-25", {"roots": {}}, "mine")
    assert isinstance(said, Said)
    assert (said.kind, said.words, said.server) == ("modern", ["a b", "tools/call", {"name": "x"}], "plants")
    assert said.headers == [("Mcp-Name", "one"), ("Mcp-Name", "two")]
    assert (said.meta, said.capabilities) == ({"progressToken": 1}, {"roots": {}})
    expected = [step for step in rest if isinstance(step, Expected)]
    assert [step.kind for step in expected] == [
        *("status", "header", "message", "message", "event", "event", "text", "...", "end", "nothing")
    ]
    assert [step.exactly for step in expected[2:4]] == [False, True]
    assert expected[4].value == {"id": "x-0", "retry": "1000", "message": None}
    posted = next(step for step in rest if isinstance(step, Said))
    assert (posted.channel, posted.kind, posted.words, posted.body) == ("call", "POST", ["/mcp"], '{"a": 1}')
    assert Happening(28, ["put", "plants", "tools=1"]) in rest
    assert [step.kind for step in rest if isinstance(step, Said)] == ["POST", "reply", "note", "close"]


@pytest.mark.parametrize(
    "line",
    [
        "hello",
        "> nonsense 1 x",
        "> Header: without a request",
        "> modern tools/list",
        "> modern 1 tools/list {",
        "< 20",
        "< {",
        "< certainly",
        "open",
        "> POST /mcp\n> neither header nor body",
        "a> POST /mcp\nb> Accept: x",
        "unknown: x",
    ],
)
def test_a_line_that_says_nothing_is_refused_by_its_number(line: str) -> None:
    with pytest.raises(Unreadable, match=f"line {1 + len(line.splitlines())}: "):
        read(f"# A comment.\n{line}")
