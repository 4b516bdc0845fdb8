"""The same requests to this hub and to a server of the official Python SDK: every difference is explained.

Compared are the HTTP status, the error code, and the shape of a result: its members, and those of what it lists.
`differences.json` holds the explanations. One that explains nothing any more fails, as does a difference without one.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.checkout import ROOT
from tests.hubs import sse_messages
from tests.interaction.cases import LEGACY, Case, cases
from tests.interaction.programs import Hub, free_port, running
from tests.waiting import BOUND

pytestmark = pytest.mark.process

FILE = Path(__file__).with_name("differences.json")
EXPLANATIONS: list[dict[str, str]] = json.loads(FILE.read_text("utf-8"))
CLIENT = {"name": "differential", "version": "1"}


class Server:
    """One of the two: sends cases, in a session for each revision, and says what came of them."""

    def __init__(self, url: str) -> None:
        self._address, self._path = urlsplit(url).netloc, urlsplit(url).path
        self._sessions = {version: self._open(version) for version in LEGACY}

    def outcome(self, case: Case) -> str:
        """Status with the error code or the shape of the result."""
        session = {"Mcp-Session-Id": self._sessions[case.version]} if case.session else {}
        status, _, messages = self._post(case.body, case.headers | session)
        return f"{status} {shape(messages[-1]) if messages else 'nothing'}"

    def _open(self, version: str) -> str:
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
        request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        known = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        _, headers, messages = self._post(json.dumps(request).encode(), known)
        assert messages[-1]["result"]["protocolVersion"] == version
        session = str(headers["Mcp-Session-Id"])
        done = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
        assert self._post(done, known | {"Mcp-Session-Id": session})[0] == 202
        return session

    def _post(self, body: bytes, headers: dict[str, str]) -> tuple[int, Any, list[Any]]:
        connection = http.client.HTTPConnection(self._address, timeout=BOUND)
        try:
            connection.request("POST", self._path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        kind = (answer.headers["Content-Type"] or "").partition(";")[0]
        if kind == "text/event-stream":
            return answer.status, answer.headers, list(sse_messages(data.replace(b"\r\n", b"\n")))
        return answer.status, answer.headers, [json.loads(data)] if kind == "application/json" and data else []


def shape(message: Any) -> str:
    """An error by its code, a result by its members; of a list also the members of its first entry."""
    if "error" in message:
        return str(message["error"]["code"])
    members = {name: value for name, value in message["result"].items() if name != "_meta"}
    if members.get("isError") is False:
        del members["isError"]
    return ", ".join(name + entries(value) for name, value in sorted(members.items())) or "{}"


def entries(value: Any) -> str:
    return f"[{' '.join(sorted(value[0]))}]" if isinstance(value, list) and value and isinstance(value[0], dict) else ""


@pytest.fixture(scope="module")
def servers(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Ours and theirs."""
    folder, port = tmp_path_factory.mktemp("sdk"), free_port()
    program = str(ROOT / "tests" / "interaction" / "sdk_server.py")
    url = f"http://127.0.0.1:{port}/mcp"
    with running([sys.executable, program, str(port)], url, folder, statuses=range(200, 500), ends=(0, -15, 143)):
        yield Server(hub.endpoint("everything")), Server(url)


def explains(explanation: dict[str, str], name: str, ours: str, theirs: str) -> bool:
    """Whether an explanation is one of this difference; its three patterns are regular expressions."""
    found = {"case": name, "ours": ours, "theirs": theirs}
    return all(re.fullmatch(explanation[key], value) for key, value in found.items())


def test_every_difference_is_explained_and_every_explanation_is_needed(servers: tuple[Server, Server]) -> None:
    """SUB-42: about 350 requests."""
    ours, theirs = servers
    used: set[int] = set()
    unexplained = []
    seen = list(cases())
    for case in seen:
        one, other = ours.outcome(case), theirs.outcome(case)
        if one == other:
            continue
        reasons = [n for n, explanation in enumerate(EXPLANATIONS) if explains(explanation, case.name, one, other)]
        used.update(reasons)
        if not reasons:
            unexplained.append(f"{case.name}\n    ours:   {one}\n    theirs: {other}")
    assert len(seen) > 300
    assert not unexplained, f"{len(unexplained)} differences without an explanation:\n" + "\n".join(unexplained)
    left = [explanation for n, explanation in enumerate(EXPLANATIONS) if n not in used]
    assert not left, f"explanations of differences that are gone: {json.dumps(left, indent=2)}"


def test_an_explanation_explains_its_own_difference_only() -> None:
    one = {"case": ".*: ping", "ours": "200 .*", "theirs": "404 -32601", "why": "x"}
    assert explains(one, "2025-11-25: ping", "200 {}", "404 -32601")
    for other in (
        ("2025-11-25: ping, cut off", "200 {}", "404 -32601"),
        ("2025-11-25: ping", "400 -32600", "404 -32601"),
        ("2025-11-25: ping", "200 {}", "200 -32601"),
    ):
        assert not explains(one, *other)


def test_every_explanation_gives_a_reason() -> None:
    for explanation in EXPLANATIONS:
        assert set(explanation) == {"case", "ours", "theirs", "why"}
        assert len(explanation["why"].split()) > 4, explanation
