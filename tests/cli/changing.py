"""A server whose tools are what a file says at this moment: `python -S changing.py TOOLS.json`.

The file is `{"tools": [...], "text": "..."}`; a call answers `text`, or its arguments as JSON; a `result` in the file
replaces the whole answer. Each start and each call is a line of `TOOLS.json.log`. It speaks the handshake by hand and
starts in milliseconds.
Tools by name: `ask` asks what its arguments say and answers the answer, `fail` reports an error, `slow` never answers,
`steps` reports progress, `warned` a warning after it, `stuck` reports it once and never answers, `die` ends the server.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

FILE = sys.argv[1]
RESOURCE = {"uri": "resource://trials/NCT1", "name": "NCT1", "description": "A trial", "mimeType": "text/plain"}
PROMPT = {"name": "summary", "description": "Sum up", "arguments": [{"name": "style", "required": True}]}


def noted(words: str) -> None:
    with open(f"{FILE}.log", "a") as log:  # noqa: PTH123 - pathlib takes longer to load than everything else here
        log.write(words + "\n")


def read_plan() -> dict[str, Any]:
    with open(FILE) as file:  # noqa: PTH123
        found: dict[str, Any] = json.load(file)
    return found


def send_message(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def call(params: dict[str, Any]) -> dict[str, Any]:
    name, arguments = params["name"], params.get("arguments", {})
    noted(f"call {name} {json.dumps(arguments, sort_keys=True)}")
    if name == "die":
        sys.exit(3)
    if name == "slow":
        time.sleep(600)
    if name in ("steps", "warned", "stuck"):
        token = params.get("_meta", {}).get("progressToken")
        for step in (1, 2, 3):
            given = {"progressToken": token, "progress": step, "total": 3, "message": f"step {step}"}
            send_message({"method": "notifications/progress", "params": given})
            time.sleep(600 if name == "stuck" else 0.2)
        if name == "warned":
            send_message({"method": "notifications/message", "params": {"level": "warning", "data": "watch out"}})
    if name == "ask":
        send_message({"id": "q", "method": arguments["method"], "params": arguments["params"]})
        heard = json.loads(sys.stdin.readline())
        return {"content": [{"type": "text", "text": json.dumps(heard.get("result") or heard.get("error"))}]}
    plan = read_plan()
    if "result" in plan:
        result: dict[str, Any] = plan["result"]
        return result
    text = plan.get("text") or json.dumps(arguments, sort_keys=True)
    return {"content": [{"type": "text", "text": text}], "isError": name == "fail"}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        capabilities: dict[str, Any] = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
        info = {"name": "changing", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": "a trial"}]}
    if method == "prompts/get":
        text = f"Sum up, {params.get('arguments', {}).get('style', 'somehow')}"
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
    lists: dict[str, dict[str, Any]] = {
        "tools/list": {"tools": read_plan()["tools"]},
        "resources/list": {"resources": [RESOURCE]},
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "resource://trials/{id}", "name": "trial"}]},
        "prompts/list": {"prompts": [PROMPT]},
    }
    return call(params) if method == "tools/call" else lists.get(method)


def main() -> None:
    noted("start")
    while line := sys.stdin.readline():
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(message["method"], message.get("params", {}))
        failure = {"code": -32601, "message": f"no method {message['method']}"}
        send_message({"id": message["id"]} | ({"result": result} if result is not None else {"error": failure}))


main()
