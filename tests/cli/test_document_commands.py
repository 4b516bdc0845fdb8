"""Every command that seed document 000 shows for MCP servers, as written; test_document_addresses.py has the others.

The document's servers are real ones, fetched as it says. They have changed since: BioMCP's `search` now wants `query`
where the document gives `gene` (the very change it describes), and Context7 has no tool `search` any more. So those
commands go as far as the server's own answer, which is a record: a refusal today, results again if the tool returns.
Where the document shortens an address to `mcp+uvx://...`, its BioMCP stands here. What is not a command is not here:
forms with `<uri>`, `{server}` or `params`, and `jn http explore` and its like, which the document itself rejects.

BioMCP is a large program. Each form of its address starts it as any command does; the other commands for a started
form find it running, as with `--keep` (PATCHBAY_KEEP), which changes neither the command nor the server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import copy

import pytest

from patchbay import exit_codes
from tests.cli.workspace import SEARCH, Json, Workspace, kept_programs, launch

pytestmark = pytest.mark.process

BIOMCP = "mcp+uvx://biomcp-python/biomcp?command=run"
LAUNCH = {"command": "uv", "args": ["run", "--with", "biomcp-python", "biomcp", "run"], "transport": "stdio"}

ANSWERED = (exit_codes.OK, exit_codes.FAILED)
"""The server responded. The test does not check the result, which depends on the tool and on its service."""

STARTED = [
    (f'jn inspect "{BIOMCP}"', (exit_codes.OK,), "\n  search: "),
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
    ('jn inspect "@biomcp"', (exit_codes.OK,), "\n  search: "),
]
"""The command, how it ends, and what it writes; each command starts its server."""

KEPT = [
    (f'jn inspect "{BIOMCP}" --format json', (exit_codes.OK,), '"inputSchema"'),
    (f'jn inspect "{BIOMCP}" --format text', (exit_codes.OK,), "Transport: stdio"),
    (f'jn cat "{BIOMCP}&tool=search&gene=BRAF"', ANSWERED, '"tool": "search"'),
    (f'jn cat "{BIOMCP}&tool=search&gene=BRAF&disease=melanoma"', ANSWERED, '"tool": "search"'),
    (f'jn cat "{BIOMCP}&tool=search&gene=EGFR"', ANSWERED, '"tool": "search"'),
    (f'jn head "{BIOMCP}&tool=search&gene=BRAF"', ANSWERED, '"tool": "search"'),
    (f'jn mcp tools "{BIOMCP}"', (exit_codes.OK,), '"name": "search"'),
    (f'jn mcp schema "{BIOMCP}" search', (exit_codes.OK,), '"inputSchema"'),
    (f'jn mcp hash "{BIOMCP}"', (exit_codes.OK,), "\n"),
    (f'jn profile explore "{BIOMCP}"', (exit_codes.OK,), '"discoverable"'),
]
"""The same for commands that use the BioMCP that an earlier one of them started."""


@pytest.fixture(scope="module")
def fetching(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The document's presets and its minimal profile. The packages of a program are put into its folder once."""
    workspace = Workspace(tmp_path_factory.mktemp("fetching"))
    workspace.profile("biomcp", LAUNCH)
    place = workspace.work / ".jn"
    place.mkdir()
    row = {"launcher": "uvx", "package": "biomcp-python", "command": "biomcp", "args": ["run"]}
    (place / "mcp-launchers.json").write_text(json.dumps({"biomcp": row}))
    return workspace


@pytest.fixture(scope="module")
def keeping(fetching: Workspace) -> Iterator[Workspace]:
    """The same folder, where commands leave their program running for the next command."""
    workspace = copy(fetching)
    workspace.environment = {"PATCHBAY_KEEP": "1"}
    with kept_programs(workspace):
        yield workspace


@pytest.mark.parametrize(("line", "codes", "shown"), STARTED, ids=[row[0] for row in STARTED])
def test_a_command_for_a_fetched_server_runs_as_written(
    fetching: Workspace, line: str, codes: tuple[int, ...], shown: str
) -> None:
    """JN-22 to JN-24, JN-32, JN-36, JN-55, JN-63, JN-69."""
    check(fetching, line, codes, shown)


@pytest.mark.parametrize(("line", "codes", "shown"), KEPT, ids=[row[0] for row in KEPT])
def test_a_command_for_a_running_fetched_server_runs_as_written(
    keeping: Workspace, line: str, codes: tuple[int, ...], shown: str
) -> None:
    """JN-22, JN-23, JN-32, JN-36, JN-55, JN-63."""
    check(keeping, line, codes, shown)


def check(workspace: Workspace, line: str, codes: tuple[int, ...], shown: str) -> None:
    """Run a command; check how it ends and what it writes."""
    ended = workspace.quick(line)
    assert ended.code in codes, ended
    assert shown in ended.out, ended
    assert "Traceback" not in ended.err


def test_the_output_of_a_fetched_server_is_written_to_files_as_documented(keeping: Workspace) -> None:
    """JN-38, JN-63: the same exploration as `jn mcp explore "..."`, and the whole pipeline of the usage examples.

    JN-C16: `filter` is plain jq, so this expression gives a boolean per record, and those are what the file holds.
    """
    ended = keeping.run(f'jn mcp explore "{BIOMCP}" > schema.json')
    assert ended.code == exit_codes.OK, ended
    explored = json.loads((keeping.work / "schema.json").read_text())
    assert "search" in {tool["name"] for tool in explored["discoverable"]["tools"]}
    called = f'jn cat "{BIOMCP}&tool=search&gene=BRAF"'
    ended = keeping.run(f"{called} | jn filter '.text | contains(\"Phase 3\")' | jn put results.json")
    assert ended.code in ANSWERED, ended
    found = json.loads((keeping.work / "results.json").read_text())
    assert found
    assert all(isinstance(value, bool) for value in found)


VARIANT: Json = {**SEARCH, "name": "variant_search"}
DRIFTED: Json = {
    **SEARCH,
    "inputSchema": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "disease": {"type": "string"}, "filters": {"type": "object"}},
        "required": ["query"],
    },
}
TEXT = "A Phase 3 trial"

PROFILED = [
    ("jn --help", "Examples:"),
    ('jn inspect "@biomcp"', "gene (required)"),
    ('jn cat "@biomcp?list=tools"', '"name": "variant_search"'),
    ('jn cat "@biomcp?tool=search&gene=BRAF"', TEXT),
    ('jn cat "@biomcp/search?gene=BRAF"', TEXT),
    ("jn profile list --type mcp", "@biomcp  mcp  user"),
    ("jn profile info @biomcp", "BioMCP: Biomedical data"),
    ("jn profile explore @biomcp", '"discoverable"'),
    ("jn profile validate @biomcp", "@biomcp: valid"),
    ("jn profile version @biomcp", "\n"),
    ("jn profile diff @biomcp", "No changes."),
    ("jn mcp explore biomcp", '"version_hash"'),
]
"""The command and what it writes; all of them succeed."""

PIPED = [
    ('echo \'{"gene": "TP53"}\' | jn put "@biomcp/variant_search"', TEXT),
    ('jn cat "@biomcp/search?gene=BRAF" | jn filter \'.text | contains("Phase 3")\' | jn put results.json', ""),
    (
        'jn cat "@biomcp/search?gene=BRAF" | jn filter \'select(.text | contains("Phase 3"))\' | jn put results.ndjson',
        "",
    ),
]
"""The second is the document's; the third says what the document means by it (JN-C16)."""


@pytest.fixture
def profiled(workspace: Workspace) -> Workspace:
    """The document's BioMCP as it was then, and its profile as it is about to be saved."""
    address = workspace.serve(SEARCH, VARIANT, text=TEXT)
    parameters = {"gene": {"required": True}, "disease": {}}
    notes = "Returns prose, not JSON. Good for LLM consumption."
    document = {
        "plugin": "mcp",
        "server": "biomcp",
        "description": "BioMCP: Biomedical data",
        "connection": launch(address),
        "schema_hash": workspace.quick(f"jn mcp hash '{address}'").out.strip(),
        "schema_updated": "2025-11-12",
        "tools": {"search": {"parameters": parameters, "output_format": "text/plain", "notes": notes}},
        "tested_with": ["search?gene=BRAF"],
    }
    (workspace.work / "profile.json").write_text(json.dumps(document))
    assert workspace.run("jn profile create biomcp < profile.json").code == exit_codes.OK
    return workspace


def test_the_commands_for_a_profile_run_as_written(profiled: Workspace) -> None:
    """JN-7 to JN-9, JN-12, JN-38, JN-55 to JN-58, JN-60 to JN-63: with a server of the shape of the document's."""
    for line, shown in PROFILED:
        ended = profiled.quick(line)
        assert (ended.code, ended.err) == (exit_codes.OK, ""), (line, ended)
        assert shown in ended.out, (line, ended)
    for line, shown in PIPED:
        ended = profiled.run(line)
        assert (ended.code, ended.err) == (exit_codes.OK, ""), (line, ended)
        assert shown in ended.out, (line, ended)
    assert json.loads((profiled.work / "results.json").read_text()) == [True]
    (row,) = map(json.loads, (profiled.work / "results.ndjson").read_text().splitlines())
    assert (row["tool"], row["text"]) == ("search", TEXT)


def test_the_commands_for_a_server_that_has_changed_run_as_written(profiled: Workspace) -> None:
    """JN-46, JN-47, JN-59: the warning, the ways out of it, and the update with its questions on a terminal."""
    questions = [("Update examples in profile?", "y\n"), ("Test updated profile?", "y\n")]
    ended = profiled.on_terminal("jn profile update @biomcp", questions)
    assert ended.code == exit_codes.OK, ended

    profiled.serve(DRIFTED, VARIANT, text=TEXT)
    warned = profiled.quick('jn cat "@biomcp/search?gene=BRAF"')
    assert "Required parameter 'gene' renamed to 'query'" in warned.err
    assert 'Ignore (may cause errors): jn cat "@biomcp/search?gene=BRAF" --ignore-schema' in warned.err
    ignored = profiled.quick('jn cat "@biomcp/search?gene=BRAF" --ignore-schema')
    assert (ignored.code, ignored.err, ignored.out) == (exit_codes.OK, "", warned.out)

    ended = profiled.on_terminal("jn profile update biomcp", questions)
    assert ended.code == exit_codes.OK, ended
    assert "Update profile to use 'query' instead of 'gene'" in ended.out
    assert 'Running: jn cat "@biomcp/search?query=BRAF"' in ended.out
    after = profiled.quick('jn cat "@biomcp/search?query=BRAF"')
    assert (after.code, after.err, after.records[0]["text"]) == (exit_codes.OK, "", TEXT)


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


def test_scripts_are_run_as_written(workspace: Workspace) -> None:
    """JN-25, JN-26: relative paths; the number is a number for the tool that wants one."""
    (workspace.work / "my_server.py").write_text(OWN)
    (workspace.work / "server.js").write_text(MODERN)
    ended = workspace.quick('jn cat "mcp+python://./my_server.py?tool=fetch_data&id=123"')
    assert ended.records[0]["text"] == "data 123", ended
    ended = workspace.quick('jn cat "mcp+node://./server.js?tool=analyze&file=data.csv"')
    assert json.loads(ended.records[0]["text"]) == {"file": "data.csv"}, ended
