"""A hub with a small town in it, and a browser of a few lines: what the tests of pages share."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import orjson
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from patchbay.boot import change_names
from tests.hubs import Hub

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}

TOWN = '''"""A small town."""


def visit(place: str, days: int = 2) -> str:
    """Go somewhere.

    Args:
        place: Where to go.
        days: How long to stay.
    """
    return f"{place} for {days}"


def _inner() -> str:
    return "hidden"


def many(*places: str) -> str:
    """Cannot be called by name."""
    return "x"
'''


def town_hub(folder: Path) -> Hub:
    """A hub with the reference servers, a town, a server that is broken and one that is off."""
    files = {"town.py": TOWN, "town.mcp.json": town_config().decode(), "broken.py": "def x(:\n", "off.py": TOWN}
    registries: dict[str, Any] = dict.fromkeys(("registry", "pypi", "npm"), "http://127.0.0.1:1")
    return Hub(folder, files | {"off.mcp.json": '{"enabled": false, "auto_discover": true}'}, **registries)


def town_config() -> bytes:
    config = {
        "auto_discover": True,
        "title": "Town",
        "instructions": "Ask before you go.",
        "resources": {"map": {"uri": "town://map", "mimeType": "text/plain", "text": "x", "description": "A map."}},
        "prompts": {
            "plan": {
                "description": "Plan a trip.",
                "arguments": [{"name": "where", "required": True, "description": "Where to."}],
                "messages": [{"content": "Plan {{where}}"}],
            }
        },
    }
    return orjson.dumps(config)


def set_variable(hub: Hub, name: str, value: bytes, why: str) -> None:
    store = hub.catalogue.store
    change_names(store, {f"variables/{name}": store.blobs.put(value)}, why, why)


def get(browser: FlaskClient | Hub, path: str, status: int = 200) -> TestResponse:
    """A page as a browser asks for it: through the `client` of pytest-flask, or that of a hub of the test's own.

    Redirects are followed, except for a test that expects one.
    """
    client = browser.client if isinstance(browser, Hub) else browser
    answer = client.get(path, headers=BROWSER, follow_redirects=status not in (303, 308))
    assert answer.status_code == status, answer.get_data(as_text=True)[:2000]
    return answer


def read(browser: FlaskClient | Hub, path: str, status: int = 200) -> str:
    answer = get(browser, path, status)
    assert answer.mimetype == "text/html"
    return answer.get_data(as_text=True)


def links(html: str) -> set[str]:
    return {unescape(each) for each in re.findall(r'href="([^"]+)"', html)}


def read_json(answer: TestResponse) -> Any:
    """The JSON value of an answer."""
    return orjson.loads(answer.get_data())
