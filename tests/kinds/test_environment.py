"""The environment that a configuration gives to code in its own processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.config import parse_config, resolved
from patchbay.errors import ConfigError
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.kinds.registry import Handlers
from tests.hubs import Hub
from tests.kinds.calls import call_of, events

SHOW = b"import os\n\ndef main(name: str) -> str:\n    return os.environ.get(name, 'none')\n"
HUB = {"KEY": "secret", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain $5 {x}", "plain $5 {x}"),
        ("${KEY}", "secret"),
        ("Bearer ${KEY}!", "Bearer secret!"),
        ("${MISSING:-http://localhost:9/v1}", "http://localhost:9/v1"),
        ("${EMPTY:-other}", "other"),
        ("${KEY:-other}", "secret"),
    ],
)
def test_a_reference_stands_for_a_variable_of_the_hub(text: str, value: str) -> None:
    """J-F3, X-16: the configuration holds the reference, never the secret."""
    assert resolved({"A": text}, "notes", HUB) == {"A": value}


def test_a_variable_with_an_empty_value_is_not_set() -> None:
    assert resolved({"A": "${MISSING:-}", "B": "${EMPTY}", "C": ""}, "notes", HUB) == {}


def test_a_value_is_not_read_again_for_references() -> None:
    assert resolved({"A": "${ODD}"}, "notes", {"ODD": "${KEY}", "KEY": "secret"}) == {"A": "${KEY}"}


def test_a_variable_that_is_not_set_is_an_error_that_names_it() -> None:
    """J-F3"""
    with pytest.raises(ConfigError, match=r"notes: at environment\.A: .* NOT_THERE"):
        resolved({"A": "${NOT_THERE}"}, "notes", HUB)


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"environment": {"1A": "x"}}, "environment"),
        ({"environment": {"A": "${}"}}, "environment.A"),
        ({"environment": {"A": "${A"}}, "environment.A"),
        ({"environment": {"A": "${A-b}"}}, "environment.A"),
        ({"environment": {"A": "\0"}}, "environment.A"),
        ({"environment": {"A": 5}}, "environment.A"),
        ({"environment": {"A": "x"}, "isolation": "inline"}, "environment"),
    ],
)
def test_an_environment_that_cannot_be_is_refused(config: dict[str, Any], place: str) -> None:
    """VWR-15: the error names the place."""
    with pytest.raises(ConfigError) as caught:
        parse_config(orjson.dumps(config), "notes.mcp.json")
    assert caught.value.path == place


def test_dollars_that_are_not_references_are_text() -> None:
    fields = {"environment": {"A": "$HOME costs $5 ${B:-$}$"}}
    assert parse_config(orjson.dumps(fields), "notes.mcp.json") == fields


@pytest.fixture
def hosts() -> Iterator[WorkerPool]:
    hosts = WorkerPool()
    yield hosts
    hosts.close()


def output_of(handlers: Handlers, kind: str, source: bytes, config: dict[str, Any], **arguments: str) -> str:
    handler = handlers(kind, source, "cid", "notes", config)
    assert handler is not None
    return "".join(
        getattr(event, "text", "") or getattr(event, "message", "") for event in events(handler, call_of(arguments))
    )


@pytest.mark.parametrize("isolation", ["process", "inline"])
def test_a_definition_sees_its_own_environment_and_no_other_servers(hosts: WorkerPool, isolation: str) -> None:
    """X-16: whatever the hub's setting, such a server has its own processes."""
    handlers = Handlers(hosts, isolation)
    assert output_of(handlers, "python", SHOW, {"environment": {"NOTES_A": "one"}}, name="NOTES_A") == "one"
    assert output_of(handlers, "python", SHOW, {"environment": {"NOTES_A": "two"}}, name="NOTES_A") == "two"
    assert output_of(handlers, "python", SHOW, {"isolation": "process"}, name="NOTES_A") == "none"


def test_a_call_without_a_variable_it_needs_fails_and_names_it(hosts: WorkerPool) -> None:
    """J-F3"""
    config = {"environment": {"NOTES_A": "${PATCHBAY_TESTS_NOT_THERE}"}}
    for kind, source in (("python", SHOW), ("shell", b"@bash_command date")):
        assert "PATCHBAY_TESTS_NOT_THERE" in output_of(Handlers(hosts, "process"), kind, source, config)


def test_a_script_sees_its_environment(hosts: WorkerPool) -> None:
    """V-F12"""
    config = {"environment": {"NOTES_A": "one"}}
    assert output_of(Handlers(hosts, "process"), "shell", b'echo "$NOTES_A"', config) == "one\n"


def test_a_page_shows_the_reference_and_not_the_value(tmp_path: Path) -> None:
    """X-16"""
    config = {"auto_discover": True, "environment": {"NOTES_HOME": "${HOME}/notes"}}
    hub = Hub(tmp_path, {"notes.py": SHOW.decode(), "notes.mcp.json": orjson.dumps(config).decode()})
    shown = hub.call("notes", "notes", {"name": "NOTES_HOME"}).text
    assert shown.endswith("/notes") and "$" not in shown
    page = hub.client.get("/servers/notes", headers={"Accept": "text/html"}).get_data(as_text=True)
    assert shown not in page
    hub.close()
