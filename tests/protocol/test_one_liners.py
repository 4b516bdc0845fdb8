"""One program as a server: awk, grep, sed and curl, dropped in as one line each and called as MCP clients call."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from patchbay.messages.versions import REVISIONS
from tests.hubs import MODERN, Hub
from tests.protocol.test_tools import listed
from tests.waiting import until

PEOPLE = "ada lovelace 36\ngrace hopper 85\nalan turing 41\n"
FILES = {
    "awk.sh": "@bash_command awk\n# Run an awk program over the input.\n",
    "grep.sh": "@bash_command grep -n\n",
    "sed.sh": "@bash_command sed -E\n# Edit the input line by line.\n",
    "curl.sh": "@bash_command curl -sS --fail --max-time 5\n# Fetch a URL.\n",
    "fields.sh": "@bash_command cut\n",
    "fields.mcp.json": """{"tools": {"fields": {"description": "Some fields of each line",
        "argv": ["--delimiter={separator}", "--fields={wanted}"],
        "inputSchema": {"type": "object", "required": ["wanted"], "additionalProperties": false, "properties": {
            "separator": {"type": "string"}, "wanted": {"type": "string"}, "input": {"type": "string"}}}}}}""",
}


class Answers(BaseHTTPRequestHandler):
    """Says which path was asked for, and knows none that begins with /no."""

    def do_GET(self) -> None:
        body = f"you asked for {self.path}\n".encode()
        self.send_response(404 if self.path.startswith("/no") else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of a web server on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("one-liners"), FILES)
    yield hub
    hub.close()


@pytest.mark.parametrize("version", REVISIONS)
@pytest.mark.parametrize(
    ("server", "described"),
    [
        ("awk", "Run an awk program over the input."),
        ("grep", "Run grep -n"),
        ("sed", "Edit the input line by line."),
        ("curl", "Fetch a URL."),
    ],
)
def test_a_one_liner_is_one_tool_with_a_description(hub: Hub, server: str, described: str, version: str) -> None:
    """VWR-23, V-F11, V-C6."""
    (tool,) = listed(hub, server, version).values()
    assert (tool["name"], tool["description"]) == (server, described)
    assert set(tool["inputSchema"]["properties"]) == {"args", "input"}


@pytest.mark.parametrize("version", REVISIONS)
@pytest.mark.parametrize(
    ("server", "args", "output"),
    [
        ("awk", '{ sum += $3 } END { print "sum:", sum; print NR > "/dev/stderr" }', "sum: 162\n"),
        ("awk", "$3 > 40 { print $1 }", "grace\nalan\n"),
        ("grep", "l[ao]", "1:ada lovelace 36\n3:alan turing 41\n"),
        ("sed", r"s/^(\w+) (\w+).*/\2, \1/; 2d", "lovelace, ada\nturing, alan\n"),
    ],
)
def test_an_argument_is_the_programs_own_language(hub: Hub, server: str, args: str, output: str, version: str) -> None:
    """V-F11, V-F12: the argument is handed over whole, the input is stdin."""
    answer = hub.call(server, server, {"args": args, "input": PEOPLE}, version)
    assert answer.result.get("isError") is not True, answer.text
    assert answer.text == output


@pytest.mark.parametrize("version", REVISIONS)
def test_curl_fetches(hub: Hub, site: str, version: str) -> None:
    answer = hub.call("curl", "curl", {"args": f"{site}/a?b=c&d=$HOME"}, version)
    assert answer.text == "you asked for /a?b=c&d=$HOME\n"


@pytest.mark.parametrize(
    ("server", "arguments", "words"),
    [
        ("grep", {"args": "nobody", "input": PEOPLE}, "grep ended with exit code 1"),
        ("awk", {"args": "{ print", "input": PEOPLE}, "awk ended with exit code"),
        ("sed", {"args": "s/a", "input": PEOPLE}, "sed ended with exit code 1: sed: -e expression"),
        (
            "curl",
            {"args": "{site}/nothing"},
            "curl ended with exit code 22: curl: (22) The requested URL returned error: 404",
        ),
        ("curl", {"args": "http://127.0.0.1:1/"}, "curl ended with exit code 7"),
        ("awk", {"program": "1"}, "program"),
    ],
)
def test_a_program_that_fails_says_how(hub: Hub, site: str, server: str, arguments: dict[str, str], words: str) -> None:
    """V-F13: the exit code and the end of stderr."""
    given = {key: value.replace("{site}", site) for key, value in arguments.items()}
    answer = hub.call(server, server, given, MODERN)
    assert answer.result["isError"] is True
    assert words in answer.text


def test_an_option_in_the_argument_is_one_word_of_its_own(hub: Hub, tmp_path: Path) -> None:
    """X-16: nothing after the first word can become another argument, or a command."""
    canary = tmp_path / "canary"
    for args in (
        f"-o {canary} x",
        f"x; touch {canary}",
        f"$(touch {canary})",
        f"`touch {canary}`",
        f"x\ntouch {canary}",
    ):
        for server in ("grep", "sed", "curl"):
            hub.call(server, server, {"args": args, "input": PEOPLE}, MODERN)
    assert not canary.exists()


def test_a_configured_command_has_arguments_of_its_own_names(hub: Hub) -> None:
    """V-C6."""
    arguments = {"separator": " ", "wanted": "1,3", "input": PEOPLE}
    assert hub.call("fields", "fields", arguments, MODERN).text == "ada 36\ngrace 85\nalan 41\n"
    assert "wanted" in hub.call("fields", "fields", {"separator": " "}, MODERN).text


def test_a_limit_of_the_configuration_reaches_the_command(hub: Hub) -> None:
    (hub.servers / "limits.sh").write_text("#!/usr/bin/env bash\nulimit -d\n")
    (hub.servers / "limits.mcp.json").write_text('{"auto_discover": true, "memory": 77}')
    until(lambda: hub.call("limits", "limits", {}, MODERN).status == 200, "the new server is there")
    assert hub.call("limits", "limits", {}, MODERN).text == f"{77 * 1024}\n"
