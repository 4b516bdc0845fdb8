"""What stands in the servers folder of the tests' hub: all reference servers, and a server with hard schemas."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from patchbay.cid import cid_of
from tests.checkout import ROOT
from tests.content.model_endpoint import KEY, Endpoint
from tests.wire.hostile import HOSTILE

REFERENCE = ROOT / "reference_templates"
CLAUDE = ROOT / "tests/content/claude_program.py"

ATELIER = '''"""Forms of every kind, which answer with what they were given."""

import time


def order(context, **given) -> dict:
    """Take an order."""
    return given


def say(text: str) -> str:
    """Say a text back."""
    return text


def links() -> list:
    """Give links to resources, one of which this server has."""
    return [
        {"type": "resource_link", "uri": "atelier://notes", "name": "notes", "mimeType": "text/markdown"},
        {"type": "resource_link", "uri": "javascript:alert(1)", "name": "bad"},
        {"type": "resource_link", "uri": "https://example.org/a", "name": "far"},
    ]


def picture() -> bytes:
    """Give a drawing with a script in it."""
    return {"type": "image", "mimeType": "image/svg+xml", "data": "{drawing}"}


def steps(many: int, context) -> str:
    """Count slowly, and say so."""
    for number in range(1, many + 1):
        context.progress(number, total=many, message=f"step {number}")
        context.log(f"at {number}")
        if context.cancelled:
            return "stopped"
        time.sleep(0.05)
    return "counted"
'''

DRAWING = (
    "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHdpZHRoPSI0MCIgaGVpZ2h0PSI0MCI+PHNjcmlwdD5hbGVydCgxKTwvc2Nya"
    "XB0PjxjaXJjbGUgY3g9IjIwIiBjeT0iMjAiIHI9IjE1Ii8+PC9zdmc+"
)
"""A circle with a script beside it, in base64."""

ORDER: dict[str, Any] = {
    "type": "object",
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string", "maxLength": 80}, "city": {"type": "string", "maxLength": 80}},
            "required": ["city"],
        }
    },
    "properties": {
        "who": {"type": "string", "maxLength": 80, "description": "Your name."},
        "email": {"type": "string", "format": "email"},
        "day": {"type": "string", "format": "date"},
        "moment": {"type": "string", "format": "date-time"},
        "size": {"type": "string", "enum": ["small", "large"], "default": "small"},
        "many": {"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
        "weight": {"type": "number"},
        "gift": {"type": "boolean", "default": True},
        "fragile": {"type": "boolean"},
        "address": {"$ref": "#/$defs/address"},
        "colours": {"type": "array", "items": {"enum": ["red", "green", "blue"]}},
        "parts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": 80}, "count": {"type": "integer"}},
                "required": ["name"],
            },
        },
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "extra": {"description": "Anything."},
    },
    "required": ["who", "address"],
    "additionalProperties": False,
}

HOURS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "opens": {"type": "string", "format": "time", "default": "10:30:00Z"},
        "until": {"type": "string", "format": "date-time", "default": "soon"},
    },
}
"""Defaults that a browser's own fields do not take as they are, and one that is not a moment."""

ATELIER_CONFIG: dict[str, Any] = {
    "title": "Atelier",
    "icons": [{"src": "https://far.example/icon.png"}, {"src": f"data:image/svg+xml;base64,{DRAWING}"}],
    "auto_discover": True,
    "instructions": "Measure twice.",
    "tools": {
        "order": {"description": "Take an order.", "inputSchema": ORDER, "function": "order"},
        "hours": {"description": "Say when it is open.", "inputSchema": HOURS, "function": "order"},
    },
    "resources": {
        "notes": {"uri": "atelier://notes", "mimeType": "text/markdown", "text": "# Notes\n\n* **one**\n* two\n"},
    },
}

HOSTILE_SOURCE = '''"""Whatever a stranger may write."""

from patchbay.errors import ToolFailed

_SAID = {said!r}


def say(number: int) -> str:
    """Say it as text."""
    return _SAID[number]


def fail(number: int) -> str:
    """Say it as an error."""
    raise ToolFailed(_SAID[number])


def mixed(number: int) -> list:
    """Say it in every field of every kind of content."""
    text = _SAID[number]
    return [
        {{"type": "text", "text": text}},
        {{"type": "resource_link", "uri": text, "name": text, "title": text, "description": text, "mimeType": text}},
        {{"type": "resource", "resource": {{"uri": text, "mimeType": text, "text": text}}}},
        {{"type": "resource", "resource": {{"uri": "x:y", "mimeType": "text/markdown", "text": text}}}},
        {{"type": "image", "mimeType": text, "data": "AAAA"}},
        {{"type": "audio", "mimeType": text, "data": "AAAA"}},
    ]


def tell(number: int, context) -> str:
    """Say it while working, and ask it."""
    text = _SAID[number]
    context.progress(1, total=2, message=text)
    context.log(text)
    field = {{"type": "string", "title": text, "description": text, "default": text}}
    form = {{"type": "object", "properties": {{"a": field}}}}
    return str(context.elicit(text, form, key="q"))
'''


class Stage:
    """A folder for `patchbay serve`, with a model endpoint and a stand-in for `claude` that its servers reach."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.model = Endpoint()
        servers = folder / "servers"
        servers.mkdir()
        for name, text in self._files().items():
            (servers / name).write_text(text)

    def close(self) -> None:
        self.model.close()

    def _files(self) -> dict[str, str]:
        programs = self.folder / "bin"
        programs.mkdir()
        program = programs / "claude"
        program.write_text(f"#!{sys.executable}\n{CLAUDE.read_text()}")
        program.chmod(0o755)
        transform = (REFERENCE / "mcps/transforms/cone_prompts.py").read_bytes()
        cone = {"environment": {"CONE_URL": self.model.url, "CONE_KEY": KEY, "CONE_MODELS": "small"}}
        return {
            **reference("bash"),
            **reference("claudecode", environment={"PATH": f"{programs}:/usr/bin:/bin"}),
            **reference("cone", **cone, prompts_transform_cid=cid_of(transform)),
            "atelier.py": ATELIER.replace("{drawing}", DRAWING),
            "atelier.mcp.json": json.dumps(ATELIER_CONFIG),
            "hostile.py": HOSTILE_SOURCE.format(said=HOSTILE),
            "hello.py": (ROOT / "servers/hello.py").read_text(),
            "broken.py": "def x(:\n",
        }


def reference(name: str, environment: dict[str, str] | None = None, **more: Any) -> dict[str, str]:
    """A reference server as a drop-in, with more in its environment and its configuration."""
    config: dict[str, Any] = json.loads((REFERENCE / f"mcps/configs/{name}.json").read_text())
    config["environment"] = config.get("environment", {}) | (environment or {})
    definition = (REFERENCE / f"servers/definitions/{name}.py").read_text()
    return {f"{name}.py": definition, f"{name}.mcp.json": json.dumps(config | more)}
