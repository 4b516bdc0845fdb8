"""`patchbay stdio --native` as a client starts it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from patchbay import exit_codes
from patchbay.cli import main
from tests.serving.test_stdio_process import Child, started

pytestmark = pytest.mark.process


def items(child: Child, method: str, params: Any = None) -> list[Any]:
    """The items of a call, up to the last; its answer comes first."""
    id = child.ask(method, params)["result"]
    found: list[Any] = []
    while not found or found[-1]["type"] != "done":
        message = child.read()
        assert (message["method"], message["params"]["subscription"]) == (method, id)
        found.append(message["params"]["result"])
    return found


def test_nothing_but_messages_stands_on_the_output_and_there_is_no_handshake(tmp_path: Path) -> None:
    """SUB-40, SUB-37: logs on standard error."""
    with started(tmp_path, "--native", "--log-level", "debug") as child:
        assert items(child, "noisy.noisy")[0]["data"] == "quiet"
        assert items(child, "noisy")[0]["data"] == "quiet"
        assert items(child, "echo.echo", ["hello"])[0]["data"] == "hello\n"
        code, rest, log = child.ends()
    assert (code, rest) == (exit_codes.OK, b"")
    assert "Traceback" not in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_time_whatever_runs(tmp_path: Path, number: signal.Signals) -> None:
    """SUB-5, SUB-40."""
    with started(tmp_path, "--native") as child:
        assert child.ask("noisy.hangs")["id"] == 1
        child.until(lambda message: "log" in str(message))
        child.process.send_signal(number)
        code, _, log = child.ends()
    assert code == exit_codes.OK
    assert "Traceback" not in log


def test_a_server_beside_native_is_refused() -> None:
    result = CliRunner().invoke(main, ["stdio", "echo", "--native"])
    assert (result.exit_code, "leave SERVER out" in result.output) == (exit_codes.USAGE, True)
