"""Every operation of three real API servers through MCP Inspector's command line: `python -m tests.acceptance.apis`.

httpbin (Swagger 2.0), Jupyter Server (Swagger 2.0 in YAML, with a token) and Prefect (OpenAPI 3.1) come from PyPI, each
is mounted in a running hub, and each operation is called with the smallest arguments that its schema allows. An
operation is callable when the API itself answers, also with a refusal of such arguments. Prints a row for each server
and each operation that is not callable; exits 0 when all are. `--direct` calls with HTTP instead of Inspector, in a
tenth of the time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.client.peers import UV
from tests.interaction.peers import INSPECTOR, NODE
from tests.interaction.programs import free_port, plain_environment, running_hub, status_of
from tests.waiting import BOUND, until, until_every_worker

START_SECONDS = 180.0
CALL_SECONDS = 120.0
TOKEN = "a-token-of-this-run"
REFUSED_CURSOR = "params.cursor is not a cursor of this list"

Json = dict[str, Any]
Call = Callable[[str, Json], Json]


@dataclass(frozen=True)
class ApiServer:
    """One server: how uv runs it, the path that answers when it is ready, and how it is mounted.

    `{port}` and `{folder}` stand for a free port and an empty folder.
    """

    name: str
    packages: Sequence[str]
    command: Sequence[str]
    ready: str
    document: str
    fields: Json = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


HTTPBIN = ApiServer(
    "httpbin",
    ("httpbin", "flasgger", "gunicorn"),
    ("gunicorn", "httpbin:app", "--bind", "127.0.0.1:{port}", "--threads", "4"),
    "/get",
    "/spec.json",
)
JUPYTER = ApiServer(
    "jupyter",
    ("jupyter-server",),
    (
        *("jupyter", "server", "--no-browser", "--allow-root", "--port={port}", "--ip=127.0.0.1"),
        *("--ServerApp.root_dir={folder}", f"--IdentityProvider.token={TOKEN}"),
    ),
    "/api",
    "/api/spec.yaml",
    {"headers": {"Authorization": "token ${JUPYTER_TOKEN}"}},
)
PREFECT = ApiServer(
    "prefect",
    ("prefect", "fastapi<0.120"),
    ("prefect", "server", "start", "--host", "127.0.0.1", "--port", "{port}"),
    "/api/health",
    "/openapi.json",
    environment={"PREFECT_HOME": "{folder}", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"},
)
SERVERS = {one.name: one for one in (HTTPBIN, JUPYTER, PREFECT)}


@contextmanager
def running_api(server: ApiServer, folder: Path) -> Iterator[str]:
    """An API server while it runs; gives its URL. Ends it with all that it started."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    places = {"{port}": str(port), "{folder}": str(folder)}

    def fill(text: str) -> str:
        for mark, place in places.items():
            text = text.replace(mark, place)
        return text

    packages = [word for name in server.packages for word in ("--with", name)]
    command = [UV, "run", "--no-project", "--quiet", "--python", sys.executable, *packages, *map(fill, server.command)]
    environment = {**os.environ, "HOME": str(folder)}
    environment |= {"UV_CACHE_DIR": uv_cache()} | {name: fill(text) for name, text in server.environment.items()}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        end = time.monotonic() + START_SECONDS
        url = f"http://127.0.0.1:{port}"
        while status_of(url + server.ready) is None:
            assert process.poll() is None and time.monotonic() < end, (folder / "log").read_text()[-2000:]
            time.sleep(0.2)
        yield url
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def uv_cache() -> str:
    """The cache of uv, which does not depend on HOME here."""
    return subprocess.run([UV, "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()


def make_example(schema: Any, root: Json, depth: int = 0) -> Any:
    """Make the smallest value of a schema."""
    while isinstance(schema, dict) and "$ref" in schema:
        place: Any = root
        for word in schema["$ref"].removeprefix("#/").split("/"):
            place = place[word.replace("~1", "/").replace("~0", "~")]
        schema = place
    if not isinstance(schema, dict) or depth > 8:
        return "x"
    for key in ("default", "const"):
        if schema.get(key) is not None:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("allOf", "anyOf", "oneOf"):
        if schema.get(key):
            return make_example(schema[key][0], root, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return _make_typed(kind[0] if isinstance(kind, list) else kind, schema, root, depth)


def _make_typed(kind: str, schema: Json, root: Json, depth: int) -> Any:
    if kind == "object":
        names = schema.get("required", ())
        return {name: make_example(schema.get("properties", {}).get(name), root, depth + 1) for name in names}
    if kind == "array":
        return [make_example(schema.get("items"), root, depth + 1)] * schema.get("minItems", 0)
    if kind in ("integer", "number"):
        return max(1, schema.get("minimum", 1), schema.get("exclusiveMinimum", 0) + 1)
    formats = {
        "uuid": "00000000-0000-4000-8000-000000000000",
        "date-time": "2026-01-01T00:00:00Z",
        "date": "2026-01-01",
        "email": "a@example.com",
        "uri": "http://127.0.0.1/",
    }
    if "data: URI" in str(schema.get("description")):
        return "data:text/plain,hello"
    text = formats.get(str(schema.get("format")), "x" * max(1, schema.get("minLength", 1)))
    return {"string": text, "boolean": True, "null": None}.get(kind, text)


def call_with_inspector(endpoint: str, home: Path) -> Call:
    """Return what calls a tool with Inspector's command line; each call is a program of its own."""

    def call(tool: str, arguments: Json) -> Json:
        command = [str(NODE), str(INSPECTOR), "--cli", "--server-url", endpoint, "--transport", "http"]
        command += ["--connect-timeout", f"{BOUND * 1000:.0f}", "--format", "json", "--quiet"]
        command += ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments)]
        done = subprocess.run(
            command, env=plain_environment(home), capture_output=True, text=True, timeout=CALL_SECONDS
        )
        try:
            answer = json.loads(done.stdout)
        except json.JSONDecodeError:
            return {"content": [{"text": f"Inspector: {done.stderr or done.stdout}"[:500]}], "isError": True}
        found: Json = answer.get("result", answer)
        return found

    return call


def request(endpoint: str, method: str, params: Json) -> Json:
    """Send one request of 2025-11-25; return its result."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    answer = httpx2.post(endpoint, json=message, headers=headers, timeout=CALL_SECONDS)
    body = answer.text
    if "event-stream" in answer.headers["content-type"]:
        body = [line[5:] for line in body.splitlines() if line.startswith("data:") and "jsonrpc" in line][-1]
    found = json.loads(body)
    if "result" not in found:
        return {"content": [{"text": f"JSON-RPC: {found['error']}"}], "isError": True}
    result: Json = found["result"]
    return result


def call_directly(endpoint: str) -> Call:
    """Return what calls a tool with one HTTP request."""
    return lambda tool, arguments: request(endpoint, "tools/call", {"name": tool, "arguments": arguments})


def list_tools(endpoint: str) -> list[Json]:
    """Return all tools of a server. The listing begins anew when the list changes between two pages."""
    pages: list[Json] = until(lambda: _list_pages(endpoint), "pages of one list")
    return [tool for page in pages for tool in page["tools"]]


def _list_pages(endpoint: str) -> list[Json]:
    """Return the pages of the list of tools; none when it changed in the meantime, which makes its cursors invalid."""
    pages: list[Json] = []
    params: Json = {}
    while True:
        page = request(endpoint, "tools/list", params)
        if params and REFUSED_CURSOR in str(page):
            return []
        assert "tools" in page, page
        pages.append(page)
        if "nextCursor" not in page:
            return pages
        params = {"cursor": page["nextCursor"]}


def judge(result: Json) -> str:
    """Return what came of a call: the class of the API's status, or the reason why the API gave no answer."""
    text = "".join(part.get("text", "") for part in result.get("content", ()))
    if not result.get("isError"):
        return "2xx"
    words = text.partition("\n")[0].split(" answered ")
    if len(words) > 1 and words[1][:3].isdigit():
        return f"{words[1][0]}xx"
    return f"FAILED: {text[:300]}"


@dataclass
class Outcome:
    """What came of one server's operations."""

    name: str
    count: int
    found: dict[str, str]
    problems: list[str]
    seconds: float

    @property
    def failures(self) -> dict[str, str]:
        return {tool: word for tool, word in self.found.items() if word.startswith("FAILED")}

    def __str__(self) -> str:
        words = ", ".join(f"{word}: {many}" for word, many in sorted(Counter(self.found.values()).items()))
        callable_ones = len(self.found) - len(self.failures)
        return f"{self.name}: {self.count} operations, {callable_ones} callable ({words}) in {self.seconds:.0f} s"


@dataclass(frozen=True)
class MountedServer:
    """A server that is mounted in a running hub, at `endpoint`; `page` is the address of its page."""

    server: ApiServer
    endpoint: str
    page: str
    folder: Path


@contextmanager
def mounted_server(server: ApiServer, folder: Path) -> Iterator[MountedServer]:
    """Run a server and a hub that mounts it."""
    with running_api(server, folder / "api") as url:
        definition = folder / f"{server.name}.json"
        fields = {"kind": "openapi", "document": url + server.document, "base": url, "max_tools": 1000, "timeout": 60}
        definition.write_text(json.dumps({**fields, **server.fields}), "utf-8")
        environment = {**plain_environment(folder), "JUPYTER_TOKEN": TOKEN}
        with running_hub(folder / "hub", [definition], enable="echo", environment=environment) as hub:
            endpoint = f"{hub.url}/mcp/{server.name}"
            until_every_worker(lambda: list_tools(endpoint), "its tools")
            yield MountedServer(server, endpoint, f"{hub.url}/servers/{server.name}", folder)


def try_operations(mounted: MountedServer, direct: bool) -> Outcome:
    """Call each operation of a mounted server."""
    tools = list_tools(mounted.endpoint)
    page = httpx2.get(mounted.page, headers={"Accept": "application/json"}, follow_redirects=True).json()
    call = call_directly(mounted.endpoint) if direct else call_with_inspector(mounted.endpoint, mounted.folder)
    begun = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        work = {one["name"]: pool.submit(_try_tool, call, one) for one in tools}
        found = {name: running.result() for name, running in work.items()}
    problems = [f"{one['where']}: {one['reason']}" for one in page["server"]["problems"]]
    return Outcome(mounted.server.name, len(tools), found, problems, time.monotonic() - begun)


def _try_tool(call: Call, tool: Json) -> str:
    schema = tool["inputSchema"]
    try:
        return judge(call(tool["name"], make_example(schema, schema)))
    except (subprocess.TimeoutExpired, httpx2.HTTPError, KeyError) as problem:
        return f"FAILED: {problem!r:.300}"


def main() -> int:
    """Try the servers that are named, or all. Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers", nargs="*", choices=[*SERVERS, []], help="the servers to try [all]")
    parser.add_argument("--direct", action="store_true", help="call with HTTP instead of Inspector")
    given = parser.parse_args()
    failed = False
    for name in given.servers or SERVERS:
        with tempfile.TemporaryDirectory() as folder, mounted_server(SERVERS[name], Path(folder)) as mounted:
            outcome = try_operations(mounted, given.direct)
        sys.stdout.write(f"{outcome}\n")
        for place, reason in [*outcome.failures.items(), *(("not served", one) for one in outcome.problems)]:
            sys.stdout.write(f"    {place}: {reason}\n")
        sys.stdout.flush()
        failed = failed or bool(outcome.failures)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
