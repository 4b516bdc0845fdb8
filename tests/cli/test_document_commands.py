"""Every command that seed document 000 shows in its examples, as written there.

The document's servers are real ones, fetched as it says. They have changed since: BioMCP's `search` now wants `query`
where the document gives `gene` (the very change it describes), and Context7 has no tool `search` any more. So those
commands go as far as the server's own answer, which is a record: a refusal today, results again if the tool returns.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchbay.cli import exits
from tests.cli.desk import SEARCH, Desk, launch

pytestmark = pytest.mark.process

BIOMCP = "mcp+uvx://biomcp-python/biomcp?command=run"
LAUNCH = {"command": "uv", "args": ["run", "--with", "biomcp-python", "biomcp", "run"], "transport": "stdio"}

ANSWERED = (exits.OK, exits.FAILED)
"""The server answered; whether its tool can do what is asked is its own affair, and that of the service behind it."""

FETCHED = [
    (f'jn inspect "{BIOMCP}"', (exits.OK,), "\n  search: "),
    (f'jn inspect "{BIOMCP}" --format json', (exits.OK,), '"inputSchema"'),
    (f'jn inspect "{BIOMCP}" --format text', (exits.OK,), "Transport: stdio"),
    (f'jn cat "{BIOMCP}&tool=search&gene=BRAF"', ANSWERED, '"tool": "search"'),
    (f'jn cat "{BIOMCP}&tool=search&gene=BRAF&disease=melanoma"', ANSWERED, '"tool": "search"'),
    (f'jn cat "{BIOMCP}&tool=search&gene=EGFR"', ANSWERED, '"tool": "search"'),
    (f'jn head "{BIOMCP}&tool=search&gene=BRAF"', ANSWERED, '"tool": "search"'),
    (f'jn mcp explore "{BIOMCP}"', (exits.OK,), '"version_hash"'),
    (f'jn mcp explore "{BIOMCP}" > schema.json', (exits.OK,), ""),
    (f'jn mcp tools "{BIOMCP}"', (exits.OK,), '"name": "search"'),
    (f'jn mcp schema "{BIOMCP}" search', (exits.OK,), '"inputSchema"'),
    (f'jn mcp hash "{BIOMCP}"', (exits.OK,), "\n"),
    (f'jn profile explore "{BIOMCP}"', (exits.OK,), '"discoverable"'),
    ('jn cat "mcp+npx://@upstash/context7-mcp@latest?tool=search&library=fastapi"', ANSWERED, "search"),
    (
        'jn cat "mcp://biomcp?launcher=uvx&package=biomcp-python&command=run&tool=search&gene=BRAF"',
        ANSWERED,
        '"tool": "search"',
    ),
    ('jn cat "mcp://biomcp?tool=search&gene=BRAF"', ANSWERED, '"tool": "search"'),
    (
        'jn cat "mcp://context7?launcher=npx&package=@upstash/context7-mcp@latest&tool=search&library=mcp"',
        ANSWERED,
        "search",
    ),
    ('jn inspect "@biomcp"', (exits.OK,), "\n  search: "),
    ('jn cat "@biomcp?list=tools"', (exits.OK,), '"name": "search"'),
    ('jn cat "@biomcp?tool=search&gene=BRAF"', ANSWERED, '"tool": "search"'),
]
"""The command, how it ends, and what it writes."""


@pytest.fixture
def registry(desk: Desk) -> Path:
    """The document's presets and its minimal profile."""
    desk.profile("biomcp", LAUNCH)
    place = desk.work / ".jn"
    place.mkdir()
    row = {"launcher": "uvx", "package": "biomcp-python", "command": "biomcp", "args": ["run"]}
    (place / "mcp-launchers.json").write_text(json.dumps({"biomcp": row}))
    return place


@pytest.mark.parametrize(("line", "codes", "shown"), FETCHED, ids=[row[0] for row in FETCHED])
def test_a_command_for_a_fetched_server_runs_as_written(
    desk: Desk, registry: Path, line: str, codes: tuple[int, ...], shown: str
) -> None:
    """JN-22 to JN-24, JN-32, JN-36, JN-55, JN-63, JN-69."""
    command, _, to = line.partition(" > ")
    ended = desk.quick(command)
    assert ended.code in codes, ended
    assert shown in ended.out, ended
    assert "Traceback" not in ended.err
    assert to in ("", "schema.json")


PIPELINES = [
    'jn cat "@biomcp/search?gene=BRAF" | jn filter \'.text | contains("Phase 3")\' | jn put results.ndjson',
    'echo \'{"gene": "TP53"}\' | jn put "@biomcp/variant_search"',
    'jn head "@biomcp/search?gene=BRAF"',
    'jn cat "@biomcp/search?gene=BRAF" --ignore-schema',
    "jn profile list --type mcp",
    "jn profile info @biomcp",
    "jn profile explore @biomcp",
    "jn profile validate @biomcp",
    "jn profile version @biomcp",
    "jn profile diff @biomcp",
    "jn mcp explore biomcp",
    "jn profile create other < profile.json",
    "jn profile update @biomcp --yes",
    "jn profile update biomcp --yes",
]


def test_the_commands_for_a_profile_run_as_written(desk: Desk) -> None:
    """JN-7, JN-12, JN-38, JN-47, JN-55 to JN-62: with a server of the shape that the document's BioMCP has."""
    variant = {**SEARCH, "name": "variant_search"}
    meta = launch(desk.serve(SEARCH, variant, text="A Phase 3 trial"))
    parameters = {"gene": {"type": "string", "required": True}, "disease": {"type": "string"}}
    document = {**meta, "tools": {"search": {"tool": "search", "parameters": parameters}}}
    (desk.work / "profile.json").write_text(json.dumps({**document, "tested_with": ["search?gene=BRAF"]}))
    assert desk.run("jn profile create biomcp --pin < profile.json").code == exits.OK
    for line in PIPELINES:
        if " | " in line or " < " in line:
            ended = desk.run(line.replace("| jn put results.ndjson", ""))
        else:
            ended = desk.quick(line)
        assert (ended.code, "Traceback" in ended.err) == (exits.OK, False), (line, ended)


MODERN = """
const lines = require("readline").createInterface({ input: process.stdin });
const tool = { name: "analyze", inputSchema: { type: "object", properties: { file: { type: "string" } } } };
const info = { name: "own", version: "1" };
const answers = {
  initialize: () => ({ protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: info }),
  "tools/list": () => ({ tools: [tool] }),
  "tools/call": (params) => ({ content: [{ type: "text", text: JSON.stringify(params.arguments) }] }),
};
lines.on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const answer = answers[method];
  const rest = answer ? { result: answer(params) } : { error: { code: -32601, message: "no method" } };
  console.log(JSON.stringify({ jsonrpc: "2.0", id, ...rest }));
});
"""
OWN = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("own")


@server.tool()
def fetch_data(id: int) -> str:
    return f"data {id}"


server.run()
"""


def test_scripts_are_run_as_written(desk: Desk) -> None:
    """JN-25, JN-26: relative paths; the number is a number for the tool that wants one."""
    (desk.work / "my_server.py").write_text(OWN)
    (desk.work / "server.js").write_text(MODERN)
    ended = desk.quick('jn cat "mcp+python://./my_server.py?tool=fetch_data&id=123"')
    assert ended.records[0]["text"] == "data 123", ended
    ended = desk.quick('jn cat "mcp+node://./server.js?tool=analyze&file=data.csv"')
    assert json.loads(ended.records[0]["text"]) == {"file": "data.csv"}, ended
