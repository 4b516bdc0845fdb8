"""An MCP server over standard input and output that offers its app only to clients that show apps.

    python -S apps_server.py

The tool `declared` says whether its client has declared the extension, `whose` which app calls. `show` is listed for
clients that show apps. Its revisions are older than 2026-07-28.
"""

import json
import sys
from typing import Any

UI = "io.modelcontextprotocol/ui"
URI = "ui://card/view.html"
META = {
    "ui": {
        "csp": {"connectDomains": ["https://api.example"], "frameDomains": ["https://*.frames.example"]},
        "permissions": {"camera": {}, "clipboardWrite": {}},
        "domain": "a904794854a047f6.apps.example",
        "prefersBorder": False,
    },
    "example.org/more": [1, {"two": None}],
}
declared = False


def send(id: Any, **members: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, **members}) + "\n")
    sys.stdout.flush()


def tools() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"name": name, "inputSchema": {"type": "object"}} for name in ("declared", "whose")]
    show = {"name": "show", "inputSchema": {"type": "object"}, "_meta": {"ui": {"resourceUri": URI}}}
    return [*found, show] if declared else found


def call(params: dict[str, Any]) -> str:
    if params["name"] == "whose":
        return str(params["_meta"].get("io.patchbay/app"))
    return "declared" if declared else "not declared"


def serve() -> None:
    """Answer every line until the end."""
    global declared
    for line in sys.stdin:
        message = json.loads(line)
        id, method, params = message.get("id"), message.get("method"), message.get("params", {})
        if method == "initialize":
            declared = UI in params["capabilities"].get("extensions", {})
            extensions: dict[str, Any] = {"extensions": {UI: {}}} if declared else {}
            info = {"name": "apps", "version": "1"}
            capabilities = {"tools": {}, "resources": {}, **extensions}
            send(
                id,
                result={"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info},
            )
        elif method == "tools/list":
            send(id, result={"tools": tools()})
        elif method == "resources/list":
            send(id, result={"resources": []})
        elif method == "resources/read":
            content = {"uri": URI, "mimeType": "text/html;profile=mcp-app", "text": "<p>card", "_meta": META}
            send(id, result={"contents": [content]})
        elif method == "tools/call":
            send(id, result={"content": [{"type": "text", "text": call(params)}]})
        elif method == "ping":
            send(id, result={})
        elif id is not None and method is not None:
            send(id, error={"code": -32601, "message": f"no method {method}"})


if __name__ == "__main__":
    serve()
