"""HTTP APIs are addressed like MCP servers: called, listed, kept as profiles. The API is a server of this test.

Issue 12 part 16; JN-64, JN-66.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from patchbay import exit_codes
from tests.cli.workspace import Workspace

KEY = {"name": "X-Key", "in": "header", "required": True, "schema": {"type": "string"}}
GENE = {"name": "gene", "in": "path", "required": True, "schema": {"type": "string"}}
LIMIT = {"name": "limit", "in": "query", "schema": {"type": "integer", "default": 5}}
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Trials", "version": "1"},
    "paths": {
        "/trials/{gene}": {
            "get": {"operationId": "listTrials", "summary": "Trials of a gene.", "parameters": [KEY, GENE, LIMIT]}
        },
        "/scan": {
            "post": {
                "operationId": "upload",
                "requestBody": {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}},
            }
        },
        "/health": {"get": {"operationId": "health", "summary": "Whether it works."}},
    },
}


class Trials(BaseHTTPRequestHandler):
    """The API: it answers what it was asked, and has no MCP server."""

    def do_GET(self) -> None:
        if self.path == "/openapi.json":
            return self._send_json(200, DOCUMENT)
        if self.path.startswith("/trials/"):
            return self._send_json(200, {"path": self.path, "keys": self.headers.get_all("X-Key")})
        if self.path == "/welcome":
            return self._send(200, "text/html", b"<h1>Trials</h1>")
        return self._send_json(404, {"detail": "no such page"})

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/scan":
            return self._send_json(200, {"type": self.headers["Content-Type"], "size": len(data)})
        self._send_json(404, {"detail": "no such page"})

    def _send_json(self, status: int, value: Any) -> None:
        self._send(status, "application/json", json.dumps(value).encode())

    def _send(self, status: int, media_type: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Write no log line."""


@pytest.fixture(scope="module")
def api() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Trials)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_an_operation_is_called_with_words_beside_the_address(workspace: Workspace, api: str) -> None:
    """A required header parameter comes from `header.*`, once, and a number stays a number."""
    workspace.environment["KEY"] = "secret7"
    ended = workspace.quick(f"jn call 'openapi+{api}?header.x-key=${{KEY}}' listTrials gene=BRAF limit=3")
    assert ended.code == exit_codes.OK, ended.err
    assert ended.records == [{"path": "/trials/BRAF?limit=3", "keys": ["secret7"]}]
    by_argument = workspace.quick(f"jn call openapi+{api} listTrials gene=TP53 X-Key=mine")
    assert by_argument.records == [{"path": "/trials/TP53", "keys": ["mine"]}]
    asked_for = workspace.quick(f"jn call 'openapi+{api}?operation=listTrials&header.X-Key=k' gene=TP53")
    assert asked_for.records[0]["keys"] == ["k"]


def test_a_file_is_sent_to_an_api_and_the_answer_is_saved(workspace: Workspace, api: str) -> None:
    """33.11: the bytes of the file, with its name and type; the JSON of the answer in a file."""
    (workspace.work / "gene").write_text("BRAF")
    (workspace.work / "scan.png").write_bytes(b"\x89PNG\xff")
    ended = workspace.quick(f"jn call openapi+{api} listTrials gene=@gene X-Key=k -o found.json")
    assert ended.code == exit_codes.OK, ended.err
    assert json.loads((workspace.work / "found.json").read_text()) == {"path": "/trials/BRAF", "keys": ["k"]}
    sent = workspace.quick(f"jn call openapi+{api} upload body=@scan.png")
    assert sent.code == exit_codes.OK, sent.err
    assert sent.records == [{"type": "image/png", "size": 5}]


def test_errors_name_missing_arguments_and_unknown_operations(workspace: Workspace, api: str) -> None:
    missing = workspace.quick(f"jn call openapi+{api} listTrials gene=BRAF")
    assert (missing.code, "expected the argument 'X-Key' (header)" in missing.err) == (exit_codes.USAGE, True)
    unknown = workspace.quick(f"jn call openapi+{api} list_trials gene=BRAF")
    assert "there is no operation 'list_trials'; did you mean 'listTrials'?" in unknown.err
    assert "expected an operation (OPERATION or operation=)" in workspace.quick(f"jn call openapi+{api}").err
    assert "expected call, for an HTTP API" in workspace.quick(f"jn prompt openapi+{api} listTrials").err


def test_the_operations_are_listed_as_tools_are(workspace: Workspace, api: str) -> None:
    tools = workspace.quick(f"jn mcp tools openapi+{api}").records
    assert [one["name"] for one in tools] == ["listTrials", "upload", "health"]
    schema = json.loads(workspace.quick(f"jn mcp schema openapi+{api} listTrials").out)["inputSchema"]
    assert sorted(schema["required"]) == ["X-Key", "gene"]
    assert json.loads(workspace.quick(f"jn mcp explore openapi+{api}").out)["plugin"] == "http"
    shown = workspace.quick(f"jn inspect openapi+{api}").out
    assert "listTrials(X-Key: string, gene: string, limit?: integer = 5)" in shown
    cid = workspace.quick(f"jn mcp hash openapi+{api} --kind cid").out.strip()
    assert f"\nDigest of the tools: {cid}\n" in shown
    pinned = f"jn call 'openapi+{api}?schema={cid}&header.X-Key=k' listTrials gene=A"
    assert workspace.quick(pinned).code == exit_codes.OK
    assert workspace.quick(pinned.replace(cid, cid[:-4] + "aaaa")).code == exit_codes.CHANGED


def test_a_profile_is_made_of_an_api_and_used_by_its_name(workspace: Workspace, api: str) -> None:
    """JN-58: `${VAR}` is kept as it is written, and looked up at each use."""
    made = workspace.quick(f"jn profile new http trials 'openapi+{api}?header.X-Key=${{KEY}}' --tool listTrials")
    assert made.code == exit_codes.USAGE  # the variable is needed to ask the API
    workspace.environment["KEY"] = "k1"
    made = workspace.quick(f"jn profile new http trials 'openapi+{api}?header.X-Key=${{KEY}}' --tool listTrials")
    assert made.code == exit_codes.OK, made.err
    folder = workspace.home / ".local/jn/profiles/http/trials"
    assert sorted(path.name for path in folder.iterdir()) == ["_meta.json", "listTrials.json"]
    assert "${KEY}" in (folder / "_meta.json").read_text()
    assert workspace.quick("jn profile validate @trials").out == "@trials: valid: The contract holds\n"
    workspace.environment["KEY"] = "k2"
    assert workspace.quick("jn call @trials listTrials gene=BRAF").records[0]["keys"] == ["k2"]
    wrong = workspace.quick(f"jn profile new mcp trials2 openapi+{api}")
    assert (wrong.code, "profile new http trials2" in wrong.err) == (exit_codes.USAGE, True)


@pytest.mark.parametrize(
    "command", ["inspect {}/", "call {} listTrials gene=A", "mcp tools {}", "profile new mcp x {}", "cat {}"]
)
def test_the_root_of_an_api_suggests_its_address(workspace: Workspace, api: str, command: str) -> None:
    ended = workspace.quick(f"jn {command.format(api)}")
    assert ended.code == exit_codes.UNREACHABLE
    assert f"an HTTP API describes itself there, whose address is openapi+{api}" in ended.err
    assert ended.err.count("no MCP server is there") == 1
    assert "\nNext: use the address of an MCP server; that of an HTTP API begins with openapi+\n" in ended.err


def test_a_page_for_browsers_is_told_from_an_mcp_server(workspace: Workspace, api: str) -> None:
    ended = workspace.quick(f"jn inspect {api}/welcome")
    assert ended.code == exit_codes.UNREACHABLE
    sentence = "/welcome: no MCP server is there: it answers with a page for browsers"
    assert f"{sentence}; an HTTP API describes itself there" in ended.err


def test_a_profile_of_an_api_is_mounted_by_its_name(workspace: Workspace, api: str, tmp_path: Path) -> None:
    """Its headers stay references to variables; its time limit stays, unless the command gives another."""
    workspace.environment["KEY"] = "k1"
    made = workspace.quick(f"jn profile new http trials 'openapi+{api}?header.X-Key=${{KEY}}' --minimal")
    assert made.code == exit_codes.OK, made.err
    meta = Path(made.out.strip())
    profile = json.loads(meta.read_text())
    meta.write_text(json.dumps(profile | {"connection": profile["connection"] | {"timeout": 9}}))
    expected = {"kind": "openapi", "document": api, "headers": {"X-Key": "${KEY}"}, "timeout": 9}
    for name, options, changed in (
        ("library", "", {}),
        ("shelf", "--call-timeout 3 --tag a", {"timeout": 3.0, "include": {"tags": ["a"]}}),
    ):
        mounted = workspace.quick(f"patchbay mount {name} @trials --servers {tmp_path} {options}")
        assert mounted.code == exit_codes.OK, mounted.err
        assert json.loads((tmp_path / f"{name}.json").read_text()) == expected | changed


@pytest.mark.parametrize(
    ("connection", "sentence"),
    [
        (
            {"base_url": "https://a.example"},
            "connection.document: expected an OpenAPI document; without one use `patchbay call`",
        ),
        ({"document": 5}, "connection.document: expected an OpenAPI document; without one use `patchbay call`"),
        ({"document": "https://a.example/o.json", "headers": 5}, "connection.headers: expected an object of strings"),
    ],
)
def test_a_profile_without_a_usable_document_is_not_mounted(
    workspace: Workspace, connection: dict[str, Any], sentence: str
) -> None:
    meta = workspace.work / ".jn" / "profiles" / "http" / "bare" / "_meta.json"
    meta.parent.mkdir(parents=True)
    meta.write_text(json.dumps({"plugin": "http", "connection": connection}))
    ended = workspace.quick("patchbay mount bare @bare --servers ./served --header 'X: y'")
    assert (ended.code, ended.err) == (exit_codes.USAGE, f"patchbay: @bare: at {sentence}\n")
    assert not (workspace.work / "served" / "bare.json").exists()


def shop(api: str) -> str:
    """The document of a file, whose server is the API."""
    return json.dumps({**DOCUMENT, "servers": [{"url": api}]})


@pytest.mark.parametrize("options", ["", "--minimal"])
def test_a_profile_of_a_document_in_a_file_works_from_another_folder(
    options: str, workspace: Workspace, api: str, tmp_path: Path
) -> None:
    """33.7: the profile holds a path that does not depend on the folder of the command."""
    (workspace.work / "document.json").write_text(shop(api))
    made = workspace.quick(f"jn profile new http shop openapi+file:document.json {options}")
    assert made.code == exit_codes.OK, made.err
    called = workspace.quick("jn call @shop listTrials gene=A limit=3 X-Key=k", folder=workspace.home)
    mounted = workspace.quick(f"patchbay mount shop @shop --servers {tmp_path}", folder=workspace.home)
    assert called.records == [{"path": "/trials/A?limit=3", "keys": ["k"]}]
    assert mounted.code == exit_codes.OK
    assert json.loads((tmp_path / "shop.json").read_text())["document"] == str(workspace.work / "document.json")


def test_the_profile_of_a_project_holds_a_path_that_is_right_in_each_checkout(workspace: Workspace, api: str) -> None:
    """33.7: the path is relative to the profile, and `patchbay mount` follows it too."""
    (workspace.work / "document.json").write_text(shop(api))
    made = workspace.quick("jn profile new http shop openapi+file:document.json --project")
    assert made.code == exit_codes.OK, made.err
    meta = workspace.work / ".jn/profiles/http/shop/_meta.json"
    assert json.loads(meta.read_text())["connection"] == {"document": "../../../../document.json"}
    moved = workspace.work.rename(workspace.folder / "moved")
    called = workspace.quick("jn call @shop listTrials gene=A limit=3 X-Key=k", folder=moved)
    assert called.records == [{"path": "/trials/A?limit=3", "keys": ["k"]}]
    mounted = workspace.quick("patchbay mount shop @shop --servers ./served", folder=moved)
    assert mounted.code == exit_codes.OK
    assert json.loads((moved / "served/shop.json").read_text())["document"] == str(moved / "document.json")


@pytest.mark.parametrize(
    ("document", "options", "sentence"),
    [
        (None, "", "gone.json: expected a readable file"),
        (None, "--minimal", "gone.json: expected a readable file"),
        ("{", "--minimal", "gone.json"),
        ("{}", "", "gone.json"),
    ],
)
def test_a_profile_that_would_fail_is_not_written(
    document: str | None, options: str, sentence: str, workspace: Workspace
) -> None:
    """33.7: what `new` writes is validated before; a failed `new` leaves no file."""
    if document is not None:
        (workspace.work / "gone.json").write_text(document)
    ended = workspace.quick(f"jn profile new http shop openapi+file:gone.json {options}")
    assert (ended.code, ended.out) == (exit_codes.USAGE, "")
    assert sentence in ended.err
    assert not (workspace.home / ".local/jn/profiles/http").exists()
