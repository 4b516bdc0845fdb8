"""Writes static/parts.html, which shows each part of the pages once, from templates/parts.html.

python scripts/parts_page.py            writes the page
python scripts/parts_page.py --check    exits 1 when the page is stale
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from patchbay.stores import open_store
from patchbay.web.rendering.templates import Pages
from patchbay.web.servers.settings_fields import FormField
from scripts.generated_files import write_or_check

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "static" / "parts.html"

AT = 1_767_225_600.0
"""The time in the examples, as Unix time."""

_NO_SERVER = {
    "icon": None,
    "trouble": None,
    "broken": None,
    "last": None,
    "version": "",
    "tools": 3,
    "counts": ["3 tools"],
    "page": "#card",
}

FIELDS = (
    (FormField(("title",), "Title", "The display name of the server.", "line"), "Weather", ""),
    (
        FormField(("timeout",), "Time limit of a call (seconds)", "", "number", least=0),
        "-3",
        "expected a number above 0",
    ),
    (
        FormField(
            ("mask",), "Hide messages", "Whether callers see them.", "choice", (("true", "Yes"), ("false", "No"))
        ),
        "true",
        "",
    ),
    (FormField(("token",), "Token", "It is not shown again.", "secret"), "", ""),
    (FormField(("writes",), "May change", "Folders. One in each line.", "lines"), "/srv/notes\n~/maps", ""),
)


def page() -> str:
    """The page as HTML."""
    servers = [
        _NO_SERVER
        | {
            "name": "weather",
            "title": "Weather",
            "kind": "python",
            "status": "on",
            "endpoint": "/mcp/weather",
            "description": "The weather of three cities.",
        },
        _NO_SERVER
        | {
            "name": "notes",
            "title": "Notes",
            "kind": "documents",
            "status": "on",
            "endpoint": "/mcp/notes",
            "description": "A folder.",
            "trouble": "its folder does not exist",
        },
        _NO_SERVER
        | {
            "name": "tides",
            "title": "Tides",
            "kind": "python",
            "status": "broken",
            "endpoint": "/mcp/tides",
            "description": "",
            "broken": "line 4: expected ')'",
            "tools": 0,
            "counts": [],
        },
    ]
    fields = [_values(one, value, problem) for one, value, problem in FIELDS]
    text = Pages(open_store("memory", ROOT)).page("parts.html", servers=servers, fields=fields, at=AT)
    return text.strip() + "\n"


def _values(one: FormField, value: str, problem: str) -> dict[str, Any]:
    names = ("name", "label", "hint", "form", "options", "least", "most", "step", "default")
    return {name: getattr(one, name) for name in names} | {"value": value, "list": "", "problem": problem}


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page, __doc__))
