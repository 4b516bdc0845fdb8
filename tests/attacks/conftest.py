"""The hub for attackers that change no configuration: one process for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving.running import Hub, running

NOTES = '''"""Notes of somebody."""


def keep(context, key: str, value: str) -> str:
    """Keep a value."""
    context.state[key] = value
    return "kept"


def drop(context, key: str) -> str:
    """Drop a value."""
    del context.state[key]
    return "dropped"


def peek(context, uri: str) -> str:
    """Read a resource of the hub."""
    return context.read(uri)["text"]


def repeat(text: str, times: int) -> str:
    """Say a text many times."""
    return text * times


def sign(context) -> str:
    """Ask for a name, in the background."""
    context.background()
    return "signed by " + _name(context)


def greet(context) -> str:
    """Ask for a name."""
    return "Hello, " + _name(context)


def _name(context):
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return context.elicit("Who are you?", schema)["content"]["name"]
'''


@pytest.fixture(scope="package")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub as users start it, with a server `notes`."""
    folder: Path = tmp_path_factory.mktemp("attacked")
    (folder / "servers").mkdir()
    (folder / "servers" / "notes.py").write_text(NOTES)
    with running(folder) as hub:
        yield hub
