"""The least that Flask can do for the same answer: parse the JSON, take the argument, write the JSON."""

from __future__ import annotations

from typing import Any

from flask import Flask, request

app = Flask(__name__)


@app.post("/mcp")
def call() -> dict[str, Any]:
    """Answer `tools/call` with its argument `message`, unchecked."""
    asked = request.get_json()
    text = asked["params"]["arguments"]["message"]
    return {"jsonrpc": "2.0", "id": asked["id"], "result": {"content": [{"type": "text", "text": text}]}}
