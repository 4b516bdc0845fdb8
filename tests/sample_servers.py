"""A hub with a few small servers, shared by the tests of the protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hubs import Hub

ZOO = '''"""A zoo of tools."""

import time
from typing import Any, Literal


def greet(name: str, greeting: str = "Hello") -> str:
    """Greet someone."""
    return f"{greeting}, {name}!"


def fails(message: str = "no luck") -> str:
    """Always fail."""
    raise ValueError(message)


def picture() -> bytes:
    """Give bytes."""
    return b"\\x89PNG\\r\\n\\x1a\\n" + bytes(16)


def table(rows: int) -> dict[str, int]:
    """Give a mapping."""
    return {str(row): row * row for row in range(rows)}


def number() -> int:
    """Give a number."""
    return 7


def same(value: Any = None) -> Any:
    """Give back what came."""
    return {"value": value}


def large(size: int) -> str:
    """Give a long text."""
    return "x" * size


def slow(context, steps: int = 3) -> str:
    """Take steps and tell of them."""
    for step in range(steps):
        context.progress(step + 1, steps, f"step {step + 1}")
        context.log(f"did {step + 1}", level="debug" if step == 0 else "warning")
        time.sleep(0.01)
    return "done"


def hangs() -> str:
    """Never end by itself."""
    while True:
        time.sleep(0.02)


def asks(context) -> str:
    """Ask the caller for a name."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    answer = context.elicit("What is your name?", schema, key="name")
    return f"Hello, {answer['content']['name']}!" if answer["action"] == "accept" else "Never mind."


def asks_twice(context) -> str:
    """Ask twice, one question after the other."""
    schema = {"type": "object", "properties": {"v": {"type": "string"}}}
    first = context.elicit("First?", schema, key="first")["content"]["v"]
    second = context.elicit("Second?", schema, key="second")["content"]["v"]
    return f"{first} {second}"


def touched(context) -> str:
    """Say that the lists may have changed."""
    context.changed("tools")
    return "said"


def lasting(context, required: bool = False) -> str:
    """Go on in the background."""
    context.background(required=required)
    context.log("in the background", level="warning")
    return "it lasted"


def choose(colour: Literal["red", "green"]) -> str:
    """Choose a colour."""
    return colour


def _private() -> str:
    return "hidden"


def note() -> str:
    """The text of a resource."""
    return "a note, made when read"


def item(id: str) -> dict[str, str]:
    """The content of a template."""
    return {"id": id}
'''

CONFIG = """{
  "description": "A zoo of everything",
  "instructions": "Look, do not feed.",
  "auto_discover": true,
  "timeout": 2,
  "resources": {
    "readme": {"uri": "zoo://readme", "name": "Readme", "mimeType": "text/plain", "text": "Welcome."},
    "pixel": {"uri": "zoo://pixel", "name": "Pixel", "mimeType": "image/png", "blob": "iVBORw0KGgo="},
    "note": {"uri": "zoo://note", "name": "Note", "mimeType": "text/plain", "function": "note"},
    "mcps": {"uri": "zoo://mcps", "name": "Configuration", "mimeType": "application/json", "variable": "mcps"}
  },
  "resource_templates": {
    "item": {"uriTemplate": "zoo://item/{id}", "name": "Item", "mimeType": "application/json", "function": "item"}
  },
  "prompts": {
    "plain": {"description": "No arguments",
      "messages": [{"role": "user", "content": {"type": "text", "text": "Say hello."}}]},
    "about": {"description": "With arguments",
      "arguments": [{"name": "topic", "required": true}, {"name": "tone"}],
      "messages": [{"role": "user", "content": {"type": "text", "text": "Tell me about {{topic}} ({{tone}})."}}]}
  },
  "completions": {"about": {"topic": ["apes", "ants", "bears"]}}
}"""


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that serves `zoo` beside the boot image's servers; tests of one file share it and change nothing."""
    hub = Hub(tmp_path_factory.mktemp("zoo"), {"zoo.py": ZOO, "zoo.mcp.json": CONFIG})
    yield hub
    hub.close()
