"""An MCP server over standard input and output that behaves as real servers do, and writes down what happens.

    python -S odd_server.py '{"log": PATH, ...}'

It handles one message at a time. It appends a line to `log` for its start and for each method that it receives.

| Member | Meaning |
| --- | --- |
| `capabilities` | what it declares; without this member it sends no `capabilities` |
| `mute` | methods that it does not answer |
| `speaks` | a file; while it is there, the methods of `mute` are answered |
| `starts` | a file; before it is there, the server reads nothing |
| `stuck` | a file; once it is there, the server answers nothing |

Its tools: `work` works for `seconds` and hears nothing meanwhile; `crash` ends with exit code 3.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

OPTIONS: dict[str, Any] = json.loads(sys.argv[1])
POLL_SECONDS = 0.01
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("work", "crash")]
LISTS: dict[str, dict[str, Any]] = {
    "tools/list": {"tools": TOOLS},
    "resources/list": {"resources": [{"uri": "x://a", "name": "a"}]},
    "resources/templates/list": {"resourceTemplates": []},
    "prompts/list": {"prompts": []},
}


def exists(option: str) -> bool:
    return option in OPTIONS and Path(OPTIONS[option]).exists()


def note(what: str) -> None:
    with Path(OPTIONS["log"]).open("a", encoding="utf-8") as log:
        log.write(f"{what}\n")


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        declared = {"capabilities": OPTIONS["capabilities"]} if "capabilities" in OPTIONS else {}
        info = {"name": "odd", "version": "1"}
        return {"result": {"protocolVersion": params["protocolVersion"], "serverInfo": info, **declared}}
    if method in LISTS:
        return {"result": LISTS[method]}
    if method == "ping":
        return {"result": {}}
    if method == "tools/call" and params["name"] == "work":
        time.sleep(params["arguments"]["seconds"])
        return {"result": {"content": [{"type": "text", "text": "worked"}]}}
    if method == "tools/call":
        sys.stderr.write("starting up\nno database at /var/lib/odd\n")
        sys.exit(3)
    return {"error": {"code": -32601, "message": f"no method {method}"}}


note("start")
while "starts" in OPTIONS and not exists("starts"):
    time.sleep(POLL_SECONDS)
for line in sys.stdin:
    message = json.loads(line)
    note(message["method"])
    is_mute = message["method"] in OPTIONS.get("mute", ()) and not exists("speaks")
    if "id" in message and not is_mute and not exists("stuck"):
        found = {"jsonrpc": "2.0", "id": message["id"], **answer(message["method"], message.get("params", {}))}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
