"""A kind of server for tests: each line `NAME = NUMBER` of a `.countdown` file is a tool that counts down."""

from __future__ import annotations

from patchbay.activation import Call, Events, Handler
from patchbay.descriptors import Descriptor, Discovery
from patchbay.errors import ConfigError
from patchbay.events import Text
from patchbay.kind import Confinement, Fields, Kind

MARK = b"; countdown"


def _discover(name: str, text: str) -> Discovery:
    return Discovery(tuple(_tool(tool, start) for tool, start in _lines(name, text)), (), "Counts down.")


def _lines(name: str, text: str) -> list[tuple[str, int]]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        tool, equals, start = (part.strip() for part in line.partition("="))
        if not line.strip() or line.startswith(";"):
            continue
        if not equals or not start.isdigit():
            raise ConfigError(name, f"line {number}", f"expected NAME = NUMBER; got {line!r}")
        found.append((tool, int(start)))
    return found


def _tool(name: str, start: int) -> Descriptor:
    wire = {"name": name, "description": f"Count down from {start}.", "inputSchema": {"type": "object"}}
    return Descriptor("tool", name, wire, {"start": start}, "discovered")


def _make_handler(source: bytes, cid: str, name: str, config: Fields, using: object) -> Handler:
    def handle(call: Call) -> Events:
        yield Text(" ".join(str(number) for number in range(call.target["start"], -1, -1)))

    return handle


def _confine(config: Fields, isolation: str, memory: int, upstream: object) -> Confinement:
    return Confinement("inline", None, False, False, "it counts inside the hub")


KIND = Kind(
    "countdown",
    "Countdown",
    language="ini",
    endings=(".countdown",),
    recognizes=lambda source: source.startswith(MARK),
    discover=_discover,
    make_handler=_make_handler,
    confine=_confine,
)
