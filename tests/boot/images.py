"""A valid image with its blobs, and stores that hold them."""

import json
from typing import Any

from patchbay import boot
from patchbay.cid import cid_of
from patchbay.store import Store
from patchbay.stores.memory import MemoryStore

CODE = b"def main() -> str:\n    return 'hello'\n"
OTHER = b"@bash_command echo\n"
PAGE = b"<h1>hello</h1>\n"
TRANSFORM = b"def generate_tools(server_name, context): return []\n"
ATTACHED = b"a resource"
CONFIG = boot.canonical_json(
    {
        "tools_transform_cid": cid_of(TRANSFORM),
        "resources": {"r": {"uri": "r://1", "cid": cid_of(ATTACHED)}, "t": {"uri": "r://2", "text": "t"}},
    }
)
MCPS = boot.canonical_json({"hello": {"config_cid": cid_of(CONFIG)}})
BLOBS = [CODE, OTHER, PAGE, TRANSFORM, ATTACHED, CONFIG, MCPS]


def document(**parts: Any) -> dict[str, Any]:
    """Return a valid image, with some parts replaced."""
    good: dict[str, Any] = {
        "version": 1,
        "readonly": False,
        "servers": [
            {"name": "hello", "definition_cid": cid_of(CODE), "kind": "python", "enabled": True},
            {"name": "echo", "definition_cid": cid_of(OTHER), "kind": "shell", "enabled": False},
        ],
        "variables": [
            {"name": "mcps", "definition": cid_of(MCPS), "enabled": True},
            {"name": "greeting", "definition": "hi", "enabled": True},
            {"name": "off", "definition": "unused", "enabled": False},
        ],
        "templates": [{"name": "mcp/meta.html", "cid": cid_of(PAGE)}],
    }
    return good | parts


def encoded(**parts: Any) -> bytes:
    return json.dumps(document(**parts)).encode()


def filled() -> MemoryStore:
    store = MemoryStore()
    for blob in BLOBS:
        store.blobs.put(blob)
    return store


def booted() -> MemoryStore:
    store = filled()
    boot.import_image(store, encoded(), "first.json", "me", "first")
    return store


def state(store: Store) -> tuple[dict[str, str], int, bytes]:
    return store.names.all(), len(store.names.past()), boot.current_image(store)
