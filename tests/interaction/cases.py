"""Requests that are sent to two servers to compare their answers: every method with good and bad parameters in every
revision, and a seeded choice of what can be wrong around them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.hubs import BOTH, modern_request

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
SEED, CHOSEN = 20260728, 200
"""Of the choice, and how many it makes."""

UNKNOWN = "no such session"


@dataclass(frozen=True)
class Case:
    """One request. `session` says whether it is made in a session; an unknown one has its id among the headers."""

    name: str
    version: str
    headers: dict[str, str]
    body: bytes
    session: bool


METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "tools/list": ("tools/list", {}),
    "tools/list with an unknown cursor": ("tools/list", {"cursor": "nonsense"}),
    "tools/list with a number for a cursor": ("tools/list", {"cursor": 5}),
    "tools/call": ("tools/call", {"name": "greet", "arguments": {"name": "Ada"}}),
    "tools/call of a simple text": ("tools/call", {"name": "test_simple_text"}),
    "tools/call of what fails": ("tools/call", {"name": "test_error_handling", "arguments": {}}),
    "tools/call without an argument": ("tools/call", {"name": "greet", "arguments": {}}),
    "tools/call with a wrong argument": ("tools/call", {"name": "greet", "arguments": {"name": ["Ada"]}}),
    "tools/call with one argument more": ("tools/call", {"name": "greet", "arguments": {"name": "Ada", "x": 1}}),
    "tools/call of an unknown tool": ("tools/call", {"name": "no_such_tool", "arguments": {}}),
    "tools/call without a name": ("tools/call", {"arguments": {}}),
    "tools/call with a list of arguments": ("tools/call", {"name": "greet", "arguments": ["Ada"]}),
    "tools/call with progress": ("tools/call", {"name": "test_simple_text", "_meta": {"progressToken": "t"}}),
    "resources/list": ("resources/list", {}),
    "resources/templates/list": ("resources/templates/list", {}),
    "resources/read": ("resources/read", {"uri": "test://static-text"}),
    "resources/read of a template": ("resources/read", {"uri": "test://template/7/data"}),
    "resources/read of what is not there": ("resources/read", {"uri": "test://nothing"}),
    "resources/read without a uri": ("resources/read", {}),
    "resources/read of a number": ("resources/read", {"uri": 5}),
    "prompts/list": ("prompts/list", {}),
    "prompts/get": ("prompts/get", {"name": "test_simple_prompt"}),
    "prompts/get with arguments": (
        "prompts/get",
        {"name": "test_prompt_with_arguments", "arguments": {"arg1": "a", "arg2": "b"}},
    ),
    "prompts/get without its arguments": ("prompts/get", {"name": "test_prompt_with_arguments"}),
    "prompts/get of an unknown prompt": ("prompts/get", {"name": "no_such_prompt"}),
    "completion/complete": (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "test_prompt_with_arguments"},
            "argument": {"name": "arg1", "value": "par"},
        },
    ),
    "completion/complete of nothing": ("completion/complete", {"ref": {"type": "ref/nothing"}}),
    "ping": ("ping", {}),
    "server/discover": ("server/discover", {}),
    "an unknown method": ("no/such/method", {}),
    "tasks/get": ("tasks/get", {"taskId": "no-such-task"}),
}

Change = Callable[[Case], Case]


def headers(**changed: str | None) -> Change:
    """Other headers; None leaves one out."""
    names = {name.replace("_", "-"): value for name, value in changed.items()}

    def change(case: Case) -> Case:
        kept = {name: value for name, value in case.headers.items() if name not in names}
        return replace(case, headers=kept | {name: value for name, value in names.items() if value is not None})

    return change


def body(**changed: Any) -> Change:
    """Other members of the message."""
    return lambda case: replace(case, body=json.dumps(json.loads(case.body) | changed).encode())


def text(data: bytes) -> Change:
    return lambda case: replace(case, body=data)


ANYWHERE: dict[str, Change] = {
    "that takes JSON alone": headers(Accept="application/json"),
    "that takes a page alone": headers(Accept="text/html"),
    "sent as text": headers(Content_Type="text/plain"),
    "with a type that has parameters": headers(Content_Type="application/json; charset=utf-8"),
    "from a foreign origin": headers(Origin="https://evil.example"),
    "to a foreign host": headers(Host="evil.example"),
    "without an id, though it is a request": body(id=None),
    "with a fraction for an id": body(id=1.5),
    "with truth for an id": body(id=True),
    "in JSON-RPC 1.0": body(jsonrpc="1.0"),
    "with a list of params": body(params=[1]),
    "with a number for a method": body(method=5),
    "that is cut off": text(b'{"jsonrpc": "2.0", "id": 1'),
    "that is empty": text(b""),
    "that is a number": text(b"5"),
    "that is an empty array": text(b"[]"),
    "naming an unknown revision": headers(MCP_Protocol_Version="1999-01-01"),
}
IN_A_SESSION: dict[str, Change] = {
    "without its session": lambda case: replace(case, session=False),
    "in an unknown session": lambda case: replace(
        case, session=False, headers={**case.headers, "Mcp-Session-Id": UNKNOWN}
    ),
    "naming no revision": headers(MCP_Protocol_Version=None),
    "naming the newest revision": headers(MCP_Protocol_Version=MODERN),
}
IN_THE_NEWEST: dict[str, Change] = {
    "without Mcp-Method": headers(Mcp_Method=None),
    "with another Mcp-Method": headers(Mcp_Method="another/method"),
    "with another Mcp-Name": headers(Mcp_Name="another"),
    "naming no revision": headers(MCP_Protocol_Version=None),
    "naming an older revision": headers(MCP_Protocol_Version="2025-11-25"),
    "without _meta": body(params={}),
    "with an unknown session": headers(Mcp_Session_Id=UNKNOWN),
}


def plain(version: str, name: str) -> Case:
    """A method with its parameters, with nothing wrong around them."""
    method, params = METHODS[name]
    common = {"Content-Type": "application/json", "Accept": BOTH}
    if version == MODERN:
        meta = params.get("_meta")
        message, known = modern_request(method, params, meta=meta)
        return Case(f"{version}: {name}", version, common | known, json.dumps(message).encode(), session=False)
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    known = {"MCP-Protocol-Version": version}
    return Case(f"{version}: {name}", version, common | known, json.dumps(message).encode(), session=True)


def cases() -> Iterator[Case]:
    """Every method in every revision, then the choice of what is wrong; no case twice."""
    versions = (*LEGACY, MODERN)
    yield from (plain(version, name) for version in versions for name in METHODS)
    chosen: set[str] = set()
    choice = random.Random(SEED)
    while len(chosen) < CHOSEN:
        version, name = choice.choice(versions), choice.choice(list(METHODS))
        changes = ANYWHERE | (IN_THE_NEWEST if version == MODERN else IN_A_SESSION)
        change = choice.choice(list(changes))
        if f"{version}: {name}, {change}" not in chosen:
            chosen.add(f"{version}: {name}, {change}")
            yield replace(changes[change](plain(version, name)), name=f"{version}: {name}, {change}")
