"""A hub whose scripts close issues, which needs an approval, and how tests decide about the calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.hubs import Answer, Hub, modern_request
from tests.waiting import until

ISSUES = '''"""Issues."""

from pathlib import Path


def find(folder: str, count: int = 3) -> list[int]:
    """Find open issues."""
    with (Path(folder) / "found").open("a") as file:
        file.write("found ")
    return list(range(1, count + 1))


def close(folder: str, number: int) -> str:
    """Close an issue."""
    with (Path(folder) / "closed").open("a") as file:
        file.write(f"{number} ")
    return f"closed {number}"
'''
FILES = {
    "issues.py": ISSUES,
    "issues.mcp.json": json.dumps(
        {
            "auto_discover": True,
            "isolation": "inline",
            "tools": {"close": {"approve": True}},
            "listing": {"scripts": "also"},
        }
    ),
}
FORMS: dict[str, Any] = {"elicitation": {"form": {}}}

CODE = """import asyncio
import issues

print("looking")
numbers = await issues.find(folder=folder, count=count)


async def close(number):
    try:
        return await issues.close(folder=folder, number=number)
    except RuntimeError as problem:
        return str(problem)


await asyncio.gather(*[close(number) for number in numbers])
"""


PLAIN = """import asyncio
import issues

await asyncio.gather(*[issues.close(folder=folder, number=number) for number in range(1, count + 1)])
"""
"""A script that closes issues without a look for them."""


def closing_hub(folder: Path, **settings: Any) -> Hub:
    """A hub with the issues, whose calls do not wait for a decision."""
    hub = Hub(folder, FILES, **settings)
    hub.catalogue.hub.gate.wait_seconds = 0.0
    return hub


def close_issues(
    hub: Hub,
    folder: Path,
    count: int = 3,
    capabilities: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    server: str = "issues",
    code: str = CODE,
    rehearse: bool = False,
    **params: Any,
) -> Answer:
    """The answer to the script that closes issues, or to its rehearsal."""
    arguments = {"code": code, "inputs": {"folder": str(folder), "count": count}}
    wanted = {"name": "run_script", "arguments": arguments | ({"rehearse": True} if rehearse else {})}
    return hub.send(server, *modern_request("tools/call", wanted | params, capabilities, headers=headers))


def words(folder: Path, file: str = "closed") -> list[str]:
    """What the tools have written."""
    return (folder / file).read_text().split() if (folder / file).exists() else []


def waiting(hub: Hub) -> list[dict[str, Any]]:
    """The calls that wait for a decision."""
    headers = {"Authorization": f"Bearer {hub.token}", "Accept": "application/json"}
    found: Any = hub.client.get("/approvals", headers=headers).json
    return [one for one in found["approvals"] if one["waits"]]


def decide(hub: Hub, id: str, do: str = "approve", **ticks: str) -> None:
    """Decide about a call or a question, as an administrator."""
    headers = {"Authorization": f"Bearer {hub.token}", "Accept": "application/json"}
    given = {name.replace("_", "."): value for name, value in ticks.items()}
    answer = hub.client.post("/approvals", data={"id": id, "do": do, **given}, headers=headers)
    assert answer.status_code == 200, answer.text


def runs(hub: Hub) -> Any:
    """The suspended runs of a hub."""
    return hub.app.parts.dispatcher.services.scripts.runs


def ended(hub: Hub, id: str) -> Any:
    """The outcome of a run, once it has ended."""
    until(lambda: (head := runs(hub).heads.get(id)) is not None and head.ended, "the end of the run")
    return runs(hub).seals.open_outcome(runs(hub).read(id))


def answers_to(asked: Answer, action: str = "accept", content: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The members of a retry that answers the one question of an InputRequiredResult."""
    assert asked.result["resultType"] == "input_required", asked.result
    ((key, _),) = asked.result["inputRequests"].items()
    given = {"action": action} | ({"content": dict(content or {})} if action == "accept" else {})
    return {"inputResponses": {key: given}, "requestState": asked.result["requestState"]}
