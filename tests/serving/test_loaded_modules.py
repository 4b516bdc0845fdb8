"""A hub loads at its start what a usual call needs, and all else with the event that needs it (`late_imports.py`)."""

from __future__ import annotations

import http.client
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson
import pytest

from tests.checkout import ROOT
from tests.late_imports import LOADED_LATER
from tests.serving.running import ONE_WORKER, Hub, running
from tests.waiting import BOUND

pytestmark = pytest.mark.process

DEFINITION = '''import sys


def list_modules(prefix: str = "") -> list[str]:
    """List the modules of the process."""
    return sorted(name for name in sys.modules if name.startswith(prefix))
'''


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    servers = tmp_path / "servers"
    servers.mkdir()
    (servers / "modules.py").write_text(DEFINITION)
    (servers / "modules.mcp.json").write_text('{"isolation": "inline", "auto_discover": true}')
    with running(tmp_path, *ONE_WORKER) as hub:
        yield hub


def call(hub: Hub) -> set[str]:
    """Call the tool as a client does; return the modules of the worker."""
    params = {"name": "list_modules", "arguments": {"prefix": ""}}
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=BOUND)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    try:
        connection.request("POST", "/mcp/modules", body, headers)
        answer = orjson.loads(connection.getresponse().read())
    finally:
        connection.close()
    return set(orjson.loads(answer["result"]["content"][0]["text"]))


def loaded_early(modules: Iterable[str]) -> dict[str, list[str]]:
    """Return what of the table is loaded, by the event that it should wait for."""
    present = set(modules)
    found = {event: [name for name in names if name in present] for event, names in LOADED_LATER.items()}
    return {event: names for event, names in found.items() if names}


def test_a_start_and_a_call_load_nothing_that_waits_for_another_event(hub: Hub) -> None:
    modules = call(hub)
    assert "patchbay.protocol.run_tool" in modules
    assert loaded_early(modules) == {}


def test_the_first_page_loads_what_pages_need(hub: Hub) -> None:
    assert hub.get("/")[0] == 200
    assert set(LOADED_LATER["a page"]) <= call(hub)


def test_health_checks_load_no_page(hub: Hub) -> None:
    assert hub.get("/healthz") == (200, b"alive\n")
    assert hub.get("/readyz") == (200, b"ready\n")
    assert "patchbay.web.blueprints" not in call(hub)


def test_the_supervisor_loads_neither_the_application_nor_what_only_workers_need() -> None:
    program = "import sys; from patchbay.cli.commands.serve import serve_command; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert loaded_early(modules) == {}
    assert not {"flask", "jinja2", "patchbay.app", "patchbay.catalogue.catalogue"} & set(modules)
