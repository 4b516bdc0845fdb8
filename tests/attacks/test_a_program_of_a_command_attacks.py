"""A program that a command starts, and not the hub, attacks the hub and the user as it starts.

`patchbay call mcp+npx://...` is as little reason to trust a package as a mount of it is. Each way in which a command
starts programs runs the attack, with confinement and without; without it, the attacks must succeed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from patchbay.catalogue.operating.updates import list_offered
from patchbay.cli.client_session import open_session
from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.targets import Stdio
from patchbay.kinds.program_places import program_places
from patchbay.settings import Settings

pytestmark = pytest.mark.process

PROGRAM = Path(__file__).with_name("spying_program.py")


@dataclass
class Machine:
    """A user with a home and a hub; `address` is that of the program that attacks them."""

    folder: Path
    environ: dict[str, str]
    address: str

    def run(self, *words: str) -> str:
        """Run a command of `patchbay` in the user's notes; return its output."""
        done = subprocess.run(
            [sys.executable, "-m", "patchbay", *words],
            env=self.environ, cwd=self.folder / "home" / "notes", capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def planted(self) -> Path:
        """The server that the program wants the hub to run."""
        return self.folder / "servers" / "planted.py"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    with TemporaryDirectory(prefix="commanded-") as name:
        folder = Path(name)
        for path, text in (
            ("home/.ssh/id_ed25519", "private"),
            ("home/notes/a.md", "a note"),
            ("data/operator-token", "token"),
            ("servers/own.py", ""),
        ):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        (folder / "run").mkdir(mode=0o700)
        environ = {
            "PATH": os.environ["PATH"], "HOME": str(folder / "home"), "XDG_RUNTIME_DIR": str(folder / "run"),
            "PATCHBAY_DATA": str(folder / "data"), "PATCHBAY_SERVERS": str(folder / "servers"),
            "NEIGHBOUR_TOKEN": "s3cret-of-another-server",
        }  # fmt: skip
        for each, value in environ.items():
            monkeypatch.setenv(each, value)
        home = folder / "home"
        words = [
            f"token={folder}/data/operator-token", f"ssh={home}/.ssh/id_ed25519", f"note={home}/notes/a.md",
            f"plant>{folder}/servers/planted.py", f"change>{home}/notes/changed",
        ]  # fmt: skip
        quoted = " ".join(f"'{word}'" for word in words)
        made = Machine(folder, environ, f"mcp+stdio:{sys.executable} {PROGRAM} {quoted}")
        yield made
        if any((folder / "run").iterdir()):  # a command with --keep has run
            with suppress(AssertionError):
                made.run("connections", "stop")


def _by_command(machine: Machine, *options: str) -> str:
    return str(json.loads(machine.run("mcp", "tools", machine.address, *options))["description"])


def _by_kept_connection(machine: Machine, *options: str) -> str:
    return _by_command(machine, "--keep", *options)


def _by_announcer(machine: Machine, *options: str) -> str:
    """Start it as `patchbay room announce` does, which listens to what a server sends by itself."""
    target = parse_address(machine.address).target
    assert isinstance(target, Stdio)
    with open_session(listener=lambda method, params: None) as work:
        return str(work.context.connections.get(target).list_tools()[0]["description"])


def _by_rehearsal_of_an_update(machine: Machine, *options: str) -> str:
    """Start it as `patchbay outdated --update` and the page of updates do."""
    fields = {"kind": "upstream", "address": machine.address}
    listed = list_offered("spy", fields, program_places(Settings.load()))
    return str(next(entry["description"] for (kind, _), entry in listed.items() if kind == "tool"))


WAYS = (_by_command, _by_kept_connection, _by_announcer, _by_rehearsal_of_an_update)


@pytest.mark.parametrize("confine", ["default", "off"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.removeprefix("_by_"))
def test_it_reads_no_secret_and_plants_no_server(
    machine: Machine, way: Callable[[Machine], str], confine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATCHBAY_CONFINE", confine)
    machine.environ["PATCHBAY_CONFINE"] = confine
    found = json.loads(way(machine))
    is_confined = confine == "default"
    for name in ("token", "ssh", "plant", "change"):
        assert found[name].startswith("refused: ") == is_confined, (name, found)
    assert machine.planted.exists() == (not is_confined)
    assert found["note"] == "a note"
    assert "s3cret" not in found["variables"]
    assert (found["home"] == str(machine.folder / "home")) == (not is_confined)


@pytest.mark.parametrize("way", [_by_command, _by_kept_connection], ids=["command", "kept_connection"])
def test_an_option_of_the_command_opens_a_folder_and_nothing_of_the_hub(
    machine: Machine, way: Callable[..., str]
) -> None:
    machine.environ["PATCHBAY_CONFINE"] = "default"
    options = ("--writes", ".", "--writes", str(machine.folder / "servers"), "--reads", str(machine.folder / "data"))
    found = json.loads(way(machine, *options, "--reads", "~/.ssh"))
    assert (found["change"], found["ssh"]) == ("5", "private")
    assert found["token"].startswith("refused: ") and found["plant"].startswith("refused: ")
    assert json.loads(way(machine, "--confine", "off"))["token"] == "token"
    assert json.loads(way(machine))["change"].startswith("refused: ")


@pytest.mark.parametrize("way", [(), ("--keep",)], ids=["command", "kept_connection"])
def test_a_program_whose_network_cannot_be_restricted_does_not_start(machine: Machine, way: tuple[str, ...]) -> None:
    words = ["mcp", "tools", machine.address, "--no-network", "--confine", "off", *way]
    done = subprocess.run(
        [sys.executable, "-m", "patchbay", *words],
        env=machine.environ, cwd=machine.folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0 and not done.stdout
    assert '"network": false, and its confinement is switched off' in done.stderr
    assert not machine.planted.exists()


def test_a_failure_names_the_option_that_allows_it(machine: Machine) -> None:
    machine.environ["PATCHBAY_CONFINE"] = "default"
    note = machine.folder / "home" / "notes" / "b"
    address = f'mcp+stdio:{sys.executable} -c \'open("{note}", "w")\''
    words = [sys.executable, "-m", "patchbay", "inspect", address]
    done = subprocess.run(words, env=machine.environ, cwd=machine.folder, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and not note.exists()
    assert "To allow this, add --writes '~/notes' to the command." in done.stderr
