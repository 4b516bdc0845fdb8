"""`patchbay account`: a key at a mounted server comes from no argument, is used at once, and is printed nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from patchbay.cli.commands.patchbay import main
from tests.access.upstreams.keyed import key_of, processes_with, program_mount
from tests.serving.running import Hub, running
from tests.waiting import until

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    servers = folder / "servers"
    servers.mkdir()
    (servers / "tool.json").write_text(program_mount())
    (servers / "echo.py").write_text('def echo(text: str) -> str:\n    """Say it again."""\n    return text\n')
    with running(folder, "--servers", str(servers), "--workers", "1") as hub:
        until(lambda: hub.get("/mcp/tool")[0] != 404, "it is served")
        yield hub


def run(hub: Hub, *arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["account", *arguments, "--data", str(hub.folder / "data")], input=given)


def test_a_key_from_standard_input_or_a_file_is_used_at_once_and_printed_nowhere(hub: Hub, tmp_path: Path) -> None:
    first, second = key_of("ann"), key_of("ann")
    (tmp_path / "key").write_text(f"{second}\n")
    stored = run(hub, "set", "tool", "-", given=f"{first}\n")
    assert stored.exit_code == 0, stored.output
    until(lambda: bool(processes_with(first)), "the lists are read with the key")
    again = run(hub, "set", "tool", str(tmp_path / "key"))
    until(lambda: bool(processes_with(second)) and not processes_with(first), "the new key is used")
    listed = run(hub, "list")
    assert listed.stdout.splitlines()[1].split()[0] == "tool"
    assert "key" in listed.stdout
    removed = run(hub, "remove", "tool")
    until(lambda: not processes_with(second), "the process ends")
    assert not any(key in each.output for each in (stored, again, listed, removed) for key in (first, second))
    assert run(hub, "remove", "tool").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("set", "tool"), "no terminal to ask"),
        (("set", "tool", "key-of-ann-typed"), "never an argument"),
        (("set", "echo", "-"), "wants no account of its callers"),
        (("set", "nothing", "-"), "wants no account of its callers"),
        (("set", "tool", "-", "--for", "key:nobody"), "key"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_a_sentence(hub: Hub, arguments: tuple[str, ...], words: str) -> None:
    refused = run(hub, *arguments, given="x")
    assert refused.exit_code != 0
    assert words in refused.output
    assert "typed" not in refused.output
    assert "Traceback" not in refused.output
