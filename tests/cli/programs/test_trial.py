"""`patchbay try` runs a program once in its confinement, lists its tools, and says what it tried."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

from patchbay import exit_codes
from patchbay.cli.programs.trial import CUT, MAX_RECORD_BYTES, UNCONFINED, UNREADABLE, Tried, sort_record
from patchbay.processes.confinement.programs import ProgramConfinement, ProgramPermissions, ProgramPlaces
from patchbay.processes.confinement.tracing import MAX_RECORDS, is_supported
from tests.checkout import ROOT
from tests.cli.workspace import Workspace

pytestmark = pytest.mark.process

PROGRAM = ROOT / "tests" / "attacks" / "spying_program.py"


@pytest.fixture
def place(workspace: Workspace) -> Workspace:
    """A user with a key and notes."""
    workspace.environment |= {
        "PATCHBAY_SERVERS": str(workspace.work / "servers"), "PATCHBAY_DATA": str(workspace.work / "data")
    }  # fmt: skip
    for name in (".ssh/id_ed25519", "notes/a", "private/b"):
        (workspace.home / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace.home / name).write_text("of the user")
    return workspace


def tried(place: Workspace, *words: str, options: str = "") -> dict[str, Any]:
    quoted = " ".join(f"'{word}'" for word in words)
    done = place.quick(f"patchbay try --json {options} {sys.executable} {PROGRAM} {quoted}")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_it_lists_the_tools_and_what_the_program_tried(place: Workspace) -> None:
    home = place.home
    found = tried(place, f"ssh={home}/.ssh/id_ed25519", f"change>{home}/notes/changed", f"note={home}/notes/a")
    assert [tool["name"] for tool in found["tools"]] == ["spied"]
    assert "refused" in json.loads(found["tools"][0]["description"])["ssh"]
    assert is_supported() and found["tried"]["complete"]
    assert found["tried"]["reads"] == ["~/.ssh/id_ed25519"]
    assert found["tried"]["writes"] == ["~/notes/changed"]
    assert found["wanted"] == [str(home / "notes")]
    assert "writes" not in found["definition"], "what the program wants is no reason to allow it"


def test_it_says_where_the_program_connects_to(place: Workspace) -> None:
    code = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('127.0.0.1', 9))"
    done = place.quick(f'patchbay try --json {sys.executable} -c "{code}"')
    assert done.code != 0, "it is no MCP server"
    assert json.loads(done.out)["tried"]["reaches"] == ["127.0.0.1 port 9"]


FORGER = """
import os
for descriptor in range(3, 64):
    try:
        os.write(descriptor, b"connect 'forged port 1'\\nread ((((\\n")
    except OSError:
        pass
"""


def test_a_program_cannot_write_into_the_record_of_what_it_tried(place: Workspace) -> None:
    (place.work / "forger.py").write_text(FORGER)
    done = place.quick(f"patchbay try --json {sys.executable} -B {place.work / 'forger.py'}")
    assert done.code != 0, "it is no MCP server"
    tried = json.loads(done.out)["tried"]
    assert (tried["reaches"], tried["missing"], tried["complete"]) == ([], "", True)


def sorted_record(folder: Path, record: bytes) -> Tried:
    places = ProgramPlaces(folder / "programs")
    return sort_record(record, ProgramConfinement("tried", places, ProgramPermissions(), {"HOME": str(folder)}))


@pytest.mark.parametrize("line", [b"read ((((", b"read 1", b"other 'a'", b"connect " + b"(" * 5000, b"", b"\xff 'a'"])
def test_a_line_of_a_record_that_cannot_be_read_is_left_out_and_said(tmp_path: Path, line: bytes) -> None:
    tried = sorted_record(tmp_path, b"connect 'a port 1'\n" + line + b"\nconnect 'b port 2'\n")
    assert (tried.reaches, tried.missing) == (["a port 1", "b port 2"], UNREADABLE)


@pytest.mark.parametrize(
    "more", [b"read '/" + b"a" * MAX_RECORD_BYTES + b"'\n", b"read '/a'\n" * MAX_RECORDS], ids=["bytes", "lines"]
)
def test_a_record_that_is_full_is_not_complete(tmp_path: Path, more: bytes) -> None:
    tried = sorted_record(tmp_path, b"connect 'a port 1'\n" + more)
    assert (tried.reaches, tried.missing) == (["a port 1"], CUT)


def test_a_program_with_all_rights_of_the_user_has_no_record_and_the_answer_says_so(place: Workspace) -> None:
    changed = place.home / "notes" / "changed"
    found = tried(place, f"change>{changed}", options="--confine off")["tried"]
    assert changed.exists() and (found["writes"], found["missing"], found["complete"]) == ([], UNCONFINED, False)
    done = place.quick(f"patchbay try --confine off {sys.executable} {PROGRAM}")
    assert UNCONFINED in done.out and "It tried nothing" not in done.out


@pytest.mark.parametrize("options", ["", "--confine required", "--no-network"])
def test_a_program_that_cannot_be_confined_does_not_run(place: Workspace, options: str) -> None:
    place.environment["PATCHBAY_PROTECTIONS"] = ""
    changed = place.home / "notes" / "changed"
    done = place.quick(f"patchbay try {options} {sys.executable} {PROGRAM} 'change>{changed}'")
    assert done.code == exit_codes.UNREACHABLE and not done.out and not changed.exists()
    reasons = {"": "nothing would confine it", "--no-network": "no namespaces to enforce it"}
    assert reasons.get(options, "this machine lacks landlock and namespaces") in done.err


def test_nothing_of_the_program_stays_on_the_disk(place: Workspace) -> None:
    before = {one.name for one in Path(gettempdir()).glob("patchbay-try-*")}
    found = tried(place, "own>left-behind")
    assert json.loads(found["tools"][0]["description"])["own"] == "5"
    assert not (place.work / "data").exists() and not (place.work / "left-behind").exists()
    assert {one.name for one in Path(gettempdir()).glob("patchbay-try-*")} <= before


def test_it_saves_the_definition_without_what_only_the_program_wants(place: Workspace) -> None:
    change = f"change>{place.home}/private/changed"
    tried(place, change, options=f"--save spy --writes {place.home}/notes")
    saved = json.loads((place.work / "servers" / "spy.json").read_text())
    assert saved["writes"] == [str(place.home / "notes")]
    assert saved == {"kind": "upstream", "address": saved["address"], "writes": saved["writes"]}


def test_it_prints_what_the_words_of_the_user_name(place: Workspace) -> None:
    done = place.quick(f"patchbay try {sys.executable} {PROGRAM} --output-dir {place.home}/notes")
    assert done.code == 0, done.err
    assert f'"writes": ["{place.home}/notes"]' in done.out and "the option --output-dir names it" in done.out


def test_the_definition_has_the_variables_of_an_address_and_the_lines_that_they_name(place: Workspace) -> None:
    address = f"mcp+stdio:{sys.executable} {PROGRAM}?env.DB_URL=sqlite:///{place.home}/notes/a.db"
    done = place.quick(f"patchbay try --json --save spy '{address}'")
    assert done.code == 0, done.err
    wanted = {"kind": "upstream", "address": address, "writes": [str(place.home / "notes")]}
    assert json.loads(done.out)["definition"] == wanted
    assert json.loads((place.work / "servers" / "spy.json").read_text()) == wanted


def test_a_secret_of_an_address_is_a_reference_in_the_definition(place: Workspace) -> None:
    done = place.quick(
        f"patchbay try --json 'mcp+stdio:{sys.executable} {PROGRAM}?env.API_TOKEN=kaMz81_Qpe5Xo&env.A=b'"
    )
    assert done.code == 0, done.err
    assert json.loads(done.out)["definition"]["environment"] == {"API_TOKEN": "${API_TOKEN}", "A": "b"}


def test_a_program_that_ends_without_a_line_names_the_options_that_allow_it(place: Workspace) -> None:
    code = f"open('{place.home}/notes/new', 'w')"
    done = place.quick(f'patchbay try {sys.executable} -c "{code}"')
    assert done.code == exit_codes.UNREACHABLE
    assert f"Next: `patchbay try --writes {place.home}/notes ...` runs it with these lines" in done.err
    other = place.quick(f'patchbay try {sys.executable} -c "1/0"')
    assert other.code == exit_codes.UNREACHABLE and "patchbay try" not in other.err


def test_a_name_that_is_taken_is_said_with_the_command_that_replaces_it(place: Workspace) -> None:
    tried(place, options="--save spy")
    done = place.quick(f"patchbay try --save spy {sys.executable} {PROGRAM}")
    assert done.code == exit_codes.USAGE and "expected no server spy yet; `patchbay mount --replace`" in done.err


def test_a_url_is_no_program(place: Workspace) -> None:
    done = place.quick("patchbay try https://far.example/mcp")
    assert done.code == 2 and "expected a program" in done.err
