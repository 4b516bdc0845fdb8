"""The server that the conversations in tests/wire are with: small tools, one for each thing a wire can show."""

import time
from typing import Any, Literal

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def greet(name: str, greeting: str = "Hello") -> str:
    """Greet someone."""
    return f"{greeting}, {name}!"


def choose(colour: Literal["red", "green"]) -> str:
    """Choose a colour."""
    return colour


def fails(message: str = "no luck") -> str:
    """Always fail."""
    raise ValueError(message)


def table(rows: int) -> dict[str, int]:
    """Give squares by number."""
    return {str(row): row * row for row in range(rows)}


def numbers() -> list[int]:
    """Give numbers, which are not an object."""
    return [1, 2, 3]


def sound() -> bytes:
    """Give a sound."""
    return b"RIFF\x26\x00\x00\x00WAVEfmt " + bytes(32)


def link() -> dict:
    """Give a link to a resource."""
    return {"type": "resource_link", "uri": "wire://readme", "name": "Readme"}


def steps(context, numbers: list[float]) -> str:
    """Report each number as progress."""
    for number in numbers:
        context.progress(number, 10, f"at {number:g}")
    return "done"


def logs(context) -> str:
    """Log one line on each level."""
    for level in ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"):
        context.log(f"a line on {level}", level=level, logger="wire")
    return "logged"


def meta(context) -> dict[str, Any]:
    """Give back what stood in `_meta` besides the protocol's own."""
    return {key: value for key, value in context.meta.items() if not key.startswith("io.modelcontextprotocol/")}


def hangs(context) -> str:
    """Go on until the caller cancels."""
    context.progress(1)
    try:
        while True:
            time.sleep(0.01)
    finally:
        context.state["hung"] = "was cancelled"


def hung(context) -> str:
    """Say what became of the last call that hung."""
    end = time.monotonic() + 25
    while "hung" not in context.state and time.monotonic() < end:
        time.sleep(0.01)
    return context.state.get("hung", "is hanging still")


def asks(context) -> str:
    """Ask the caller for a name."""
    return f"Hello, {context.elicit('What is your name?', NAME, key='name')['content']['name']}!"


def asks_also(context, for_what: str = "") -> str:
    """Ask the same for another reason."""
    return f"Bye, {context.elicit('What is your name?', NAME, key='name')['content']['name']}!"


def counted(context) -> str:
    """Say how often this ran."""
    context.state["count"] = context.state.get("count", 0) + 1
    return str(context.state["count"])


def lasting(context) -> str:
    """Ask in the background, where the caller has hung up."""
    context.background(required=True)
    return f"Hello, {context.elicit('What is your name?', NAME, key='name')['content']['name']}!"


def forever(context) -> str:
    """Go on in the background until it is cancelled."""
    context.background(required=True)
    try:
        while True:
            time.sleep(0.01)
    finally:
        context.state["hung"] = "was cancelled"


def changes(context, kind: Literal["tools", "prompts", "resources"]) -> str:
    """Say that a list changed."""
    context.changed(kind)
    return kind


def touches(context, uri: str) -> str:
    """Say that a resource changed."""
    context.updated(uri)
    return uri


def routed(region: str = "", count: int = 0, dry: bool = False, where: dict | None = None) -> str:
    """Take arguments that are repeated in headers."""
    return f"{region} {count} {dry} {where}"


def promising(value: Any) -> Any:
    """Give what was asked for."""
    return value


def _asked(context) -> str:
    return f"for {context.elicit('What is your name?', NAME, key='name')['content']['name']}"


def _asking(context) -> str:
    return f"Greet {context.elicit('What is your name?', NAME, key='name')['content']['name']}."


def _item(id: str) -> dict[str, str]:
    return {"id": id}
