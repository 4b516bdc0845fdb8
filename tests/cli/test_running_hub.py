"""Every command that prints an address of the hub prints that of the hub that runs on its data folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from patchbay.cli import main
from tests.serving.running import Hub, running

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with running(tmp_path_factory.mktemp("hub")) as made:
        yield made


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub behind a proxy, as docs/sharing.md starts it."""
    hosts = ("--allowed-hosts", "localhost,127.0.0.1,hub.example.org", "--access", "shared")
    with running(tmp_path_factory.mktemp("named"), *hosts) as made:
        yield made


def say(folder: Path, *words: str) -> str:
    result = CliRunner().invoke(main, [*words, "--data", str(folder / "data")], prog_name="patchbay")
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("words", [("login",), ("invite", "ann"), ("open", "--print")])
def test_a_command_prints_the_port_of_the_running_hub(hub: Hub, words: tuple[str, ...]) -> None:
    assert say(hub.folder, *words).startswith(f"http://127.0.0.1:{hub.port}/")


@pytest.mark.parametrize("words", [("login",), ("invite", "ann")])
def test_a_link_for_people_has_the_name_behind_the_proxy(named: Hub, words: tuple[str, ...]) -> None:
    assert say(named.folder, *words).startswith("https://hub.example.org/")
    assert named.line_with("/login?once=").count("https://hub.example.org/login")


def test_options_come_before_the_running_hub(hub: Hub) -> None:
    assert say(hub.folder, "login", "--port", "9").startswith("http://127.0.0.1:9/")
    assert say(hub.folder, "invite", "bob", "--public-url", "https://x.example").startswith("https://x.example/")
    assert say(hub.folder, "invite", "cid", "--at", "https://y.example").startswith("https://y.example/")
