"""Small MCP servers, each of which behaves as some real servers do; every transport runs the same ones.

An animal gets one message at a time and says what it sends, in order. `greet` is the tool of every animal. What a
transport does differently for an animal (line breaks, headers, closed connections) is an attribute that it reads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]

FOLDER = Path(os.environ.get("ZOO_FOLDER", "."))
"""The folder with the logs of the animals and the files that they wait for."""

RELEASE = "release"
"""The file that `work` of the blocking animal, and the start of the slow one, wait for."""

POLL_SECONDS = 0.02
LARGE_CHARACTERS = 60_000
"""Characters of the result that fits into an answer of the hub and into an event of the official SDK."""

REVISIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
_NEVER = threading.Event()


def wait_for(file: str) -> None:
    """Return when a file of the folder exists."""
    while not (FOLDER / file).exists():
        _NEVER.wait(POLL_SECONDS)


def text(words: str) -> Json:
    """Return the result of a tool that answers with a text."""
    return {"content": [{"type": "text", "text": words}]}


def tool(name: str, **more: Any) -> Json:
    """Return the descriptor of a tool with optional text arguments."""
    return {"name": name, "inputSchema": {"type": "object"}, **more}


class Animal:
    """A plain server: it has tools only, and answers everything that it knows at once."""

    transports: tuple[str, ...] = ("stdio", "http", "sse")
    call: tuple[str, Json] = ("greet", {"name": "Ann"})
    """The call that the tests compare: a tool and its arguments."""

    is_one_at_a_time = False
    """Whether nothing is answered while a tool runs."""

    newline = "\n"
    banner: tuple[str, ...] = ()
    """Lines on standard output that are no messages, before each answer."""

    ends_after_calls = False
    closes_connections = False
    messages_of_session = 0
    """The number of messages after which a session is forgotten; 0: never."""

    accept = ""
    """The only value of the header Accept that is taken; empty: any."""

    is_chatty = False

    def __init__(self) -> None:
        self.lists = 0

    def answer(self, message: Json) -> Iterator[Json]:
        """Yield what is sent for a message; nothing for one without an answer."""
        method, params = message.get("method", ""), message.get("params", {})
        if "id" not in message or not method or self.is_silent_to(method):
            return
        found = self.result(method, params)
        yield {"jsonrpc": "2.0", "id": message["id"], **found}

    def is_silent_to(self, method: str) -> bool:
        """Whether a request with this method gets no answer."""
        return False

    def result(self, method: str, params: Json) -> Json:
        """Return the members `result` or `error` of an answer."""
        match method:
            case "initialize":
                return {"result": self.introduce(params)}
            case "ping":
                return {"result": {}}
            case "tools/list":
                self.lists += 1
                return {"result": {"tools": self.tools()}}
            case "tools/call":
                return {"result": self.run(params["name"], params.get("arguments", {}))}
        return {"error": {"code": -32601, "message": f"Method not found: {method}"}}

    def introduce(self, params: Json) -> Json:
        """Return the result of `initialize`."""
        revision = params["protocolVersion"] if params["protocolVersion"] in REVISIONS else REVISIONS[0]
        info = {"name": type(self).__name__, "version": "1"}
        return {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": info}

    def tools(self) -> list[Json]:
        """Return what `tools/list` answers."""
        return [tool("greet")]

    def run(self, name: str, arguments: Json) -> Json:
        """Return the result of a tool."""
        return text(f"Hello {arguments.get('name')}")


class SilentToPing(Animal):
    def is_silent_to(self, method: str) -> bool:
        return method == "ping"


class SilentToUnknown(Animal):
    def is_silent_to(self, method: str) -> bool:
        return method not in ("initialize", "ping", "tools/list", "tools/call")


class Blocking(Animal):
    is_one_at_a_time = True

    def tools(self) -> list[Json]:
        return [tool("greet"), tool("work")]

    def run(self, name: str, arguments: Json) -> Json:
        if name == "work":
            wait_for(RELEASE)
            return text("worked")
        return super().run(name, arguments)


class Noisy(Animal):
    transports = ("stdio",)
    banner = (
        "Server started, listening",
        "",
        "[INFO] handling a request",
        '{"level": "info"}',
        "null",
        "[]",
        "\x1b[1mok",
    )


class SlowToStart(Animal):
    transports = ("stdio",)


class Late(Animal):
    """It finishes a call that was cancelled, and answers it then."""

    def tools(self) -> list[Json]:
        return [tool("greet"), tool("late")]

    def run(self, name: str, arguments: Json) -> Json:
        if name == "late":
            wait_for("late")
            return text("too late")
        return super().run(name, arguments)


class EndsAfterEachCall(Animal):
    transports = ("stdio",)
    ends_after_calls = True


class ChangesItsTools(Animal):
    def tools(self) -> list[Json]:
        return [tool("greet", description=f"The greeting of list {self.lists}"), tool(f"tool_{self.lists}")]


class Chatty(Animal):
    transports = ("stdio", "http", "sse")
    is_chatty = True

    def introduce(self, params: Json) -> Json:
        return {**super().introduce(params), "capabilities": {"tools": {"listChanged": True}, "logging": {}}}

    def result(self, method: str, params: Json) -> Json:
        return {"result": {}} if method == "logging/setLevel" else super().result(method, params)


CHATTER: tuple[Json, ...] = (
    {"method": "notifications/message", "params": {"level": "info", "data": "still here"}},
    {"method": "notifications/progress", "params": {"progressToken": "unknown", "progress": 1}},
    {"method": "notifications/shiny", "params": {}},
    {"method": "notifications/tools/list_changed"},
)
"""What a chatty animal sends without end, one after the other."""


class ForgetsSessions(Animal):
    transports = ("http",)
    messages_of_session = 5


class AnswersInAnotherOrder(Animal):
    """It holds each second answer back until the next message, or for a moment."""


class OldRevision(Animal):
    def introduce(self, params: Json) -> Json:
        return {**super().introduce(params), "protocolVersion": "2024-11-05"}


class ClosesConnections(Animal):
    transports = ("http",)
    closes_connections = True


class Huge(Animal):
    def run(self, name: str, arguments: Json) -> Json:
        return text("é" * arguments.get("characters", LARGE_CHARACTERS))


class Crlf(Animal):
    newline = "\r\n"


class NoCapabilities(Animal):
    def introduce(self, params: Json) -> Json:
        found = super().introduce(params)
        del found["capabilities"]
        return found


class WrongRevision(Animal):
    def introduce(self, params: Json) -> Json:
        return {**super().introduce(params), "protocolVersion": "2099-01-01"}


class ErrorWithStructure(Animal):
    def tools(self) -> list[Json]:
        schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
        return [tool("greet", outputSchema=schema)]

    def run(self, name: str, arguments: Json) -> Json:
        return {**text("no such name"), "isError": True, "structuredContent": {"reason": "unknown", "code": 7}}


class OneOrderOfAccept(Animal):
    transports = ("http",)
    accept = "application/json, text/event-stream"


ANIMALS: dict[str, type[Animal]] = {
    "plain": Animal,
    "silent-to-ping": SilentToPing,
    "silent-to-unknown": SilentToUnknown,
    "blocking": Blocking,
    "noisy": Noisy,
    "slow-to-start": SlowToStart,
    "late": Late,
    "ends-after-each-call": EndsAfterEachCall,
    "changes-its-tools": ChangesItsTools,
    "chatty": Chatty,
    "forgets-sessions": ForgetsSessions,
    "another-order": AnswersInAnotherOrder,
    "old-revision": OldRevision,
    "closes-connections": ClosesConnections,
    "huge": Huge,
    "crlf": Crlf,
    "no-capabilities": NoCapabilities,
    "wrong-revision": WrongRevision,
    "error-with-structure": ErrorWithStructure,
    "one-order-of-accept": OneOrderOfAccept,
}
"""Every animal by its name, which is also the name of its mounts before the transport."""


def note(animal: str, transport: str, what: str) -> None:
    """Append a line to the log of an animal."""
    with (FOLDER / f"{animal}-{transport}.log").open("a", encoding="utf-8") as log:
        log.write(f"{what}\n")
