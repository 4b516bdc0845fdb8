"""Tools as a server lists them, for the tests of contracts and of drift."""

from __future__ import annotations

from typing import Any

GENE: dict[str, Any] = {"type": "string", "description": "Gene symbol"}
SEARCH: dict[str, Any] = {
    "name": "search",
    "description": "Search biomedical resources",
    "inputSchema": {
        "type": "object",
        "properties": {"gene": GENE, "disease": {"type": "string"}},
        "required": ["gene"],
    },
}
OTHER: dict[str, Any] = {"name": "other", "inputSchema": {"type": "object"}}
