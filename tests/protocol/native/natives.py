"""Native calls for tests: a hub's worth of definitions, and what a call says in a line."""

from __future__ import annotations

from typing import Any

from patchbay.events import Pause
from patchbay.jsonrpc import Failure, Result, encode, parse
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.native.subscription import Native, Stream, parse_request
from tests.hubs import Hub

Json = dict[str, Any]


def definition(**functions: str) -> str:
    """A definition of functions that give a text; `{word}` in it stands for their parameter."""
    return "\n\n".join(
        f'def {name}({"word: str" if "{word}" in said else ""}) -> str:\n    """Say."""\n    return f"{said}"\n'
        for name, said in functions.items()
    )


TYPED = '''
from typing import TypedDict


class Sum(TypedDict):
    total: int


def right(a: int, b: int = 1) -> Sum:
    """Add."""
    return {"total": a + b}


def wrong() -> Sum:
    """Break the promise."""
    return {"total": "many"}
'''

LOOP = '''
def a(context) -> str:
    """Call b."""
    return context.call("loop", "b")["content"][-1]["text"]


def b(context) -> str:
    """Call a."""
    return context.call("loop", "a")["content"][-1]["text"]
'''

CODED = """{"tools": {"boxed": {"function": "boxed", "inputSchema": {
  "type": "object", "$defs": {"size": {"type": "integer"}}, "properties": {"size": {"$ref": "#/$defs/size"}}}}}}"""

FILES = {
    "deep.py": definition(main="deep {word}", main_b="deep b"),
    "deep_down.py": definition(b="deep_down b", deep_down="itself"),
    "a.py": definition(b_c="a b_c", b_d="a b_d"),
    "a_b.py": definition(c="a_b c"),
    "mail.py": definition(send="sent", unsubscribe_all="left"),
    "plain.json": '{"resources": {"a": {"uri": "plain://a", "name": "A", "text": "a"}}}',
    "typed.py": TYPED,
    "coded.py": 'def boxed(size: int = 0) -> str:\n    """Box."""\n    return f"box {size}"\n',
    "coded.mcp.json": CODED,
    "keeper.py": definition(note="noted {word}"),
    "keeper.mcp.json": (
        '{"auto_discover": true,'
        ' "resources": {"last": {"uri": "keeper://last", "name": "Last", "last_output_of": "note"}}}'
    ),
    "loop.py": LOOP,
    "big.py": 'def text(size: int) -> str:\n    """Give a text."""\n    return "é" * size\n',
}


def native(hub: Hub) -> Native:
    dispatcher = hub.app.parts.dispatcher
    return Native(dispatcher.services, dispatcher.cancellations)


def stream(hub: Hub, method: str, params: Any = None, owner: str = "me") -> Stream:
    request = parse_request({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    assert request is not None
    answer = native(hub).answer(request, TransportInfo("", connection=owner))
    assert not isinstance(answer, (Result, Failure)), answer
    return answer


def items(hub: Hub, method: str, params: Any = None) -> list[Json]:
    """The items of one call, as they are on the wire."""
    _, *rest = (parse(encode(said)) for said in stream(hub, method, params) if not isinstance(said, Pause))
    assert {said["method"] for said in rest} == {method}
    found = [said["params"]["result"] for said in rest]
    assert [item["type"] for item in found].index("done") == len(found) - 1
    return found


def text(hub: Hub, method: str, params: Any = None) -> str:
    return "".join(item["data"] for item in items(hub, method, params) if item["type"] == "data")


def refused(hub: Hub, method: str, params: Any = None) -> tuple[Json, str]:
    """The guidance of a call that cannot begin, and its error."""
    guidance, error, done = items(hub, method, params)
    assert (guidance["type"], error["type"], done["type"]) == ("guidance", "error", "done")
    assert error["recoverable"] is False
    return guidance, error["error"]


def call_native(hub: Hub, method: str, params: Any = None) -> Json:
    item, done = items(hub, method, params)
    assert (item["type"], done["type"]) == ("data", "done")
    assert item["content_type"].startswith("plexus.")
    return dict(item["data"])
