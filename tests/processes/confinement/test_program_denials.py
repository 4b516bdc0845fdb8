"""What is said about a path that a confined program was refused. What the program prints is text of a stranger."""

from __future__ import annotations

import os
import socket
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from patchbay.processes.confinement.program_denials import explain_browser, explain_denial, is_proposable
from patchbay.processes.confinement.programs import (
    BROWSER,
    REQUIRED,
    ProgramConfinement,
    ProgramPermissions,
    ProgramPlaces,
    find_namespace_way,
)
from patchbay.processes.confinement.protections import LANDLOCK

REFUSALS = (
    "Error: EACCES: permission denied, open '{}'",
    "PermissionError: [Errno 13] Permission denied: '{}'",
    "touch: cannot touch '{}': Permission denied",
    "Error: ENOENT: no such file or directory, open '{}'",
    "cat: {}: No such file or directory",
)
PATHS = st.builds(
    lambda start, rest: start + rest, st.sampled_from(["/", "~/", "/tmp/", "/proc/self/"]), st.text(st.characters())
)


def _confinement(folder: Path, reads: tuple[str, ...] = (), writes: tuple[str, ...] = ()) -> ProgramConfinement:
    places = ProgramPlaces(folder / "data" / "programs", (folder / "data",), confine=REQUIRED)
    return ProgramConfinement("notes", places, ProgramPermissions(reads, writes), {"HOME": str(folder / "home")})


@given(st.sampled_from(REFUSALS), PATHS)
@example(REFUSALS[0], "/" + "a" * 300)
@example(REFUSALS[1], "/tmp/\0")
@example(REFUSALS[2], "/tmp/\ud800")
@example(REFUSALS[3], "~/" + "a" * 300)
def test_no_text_of_a_program_raises(refusal: str, path: str) -> None:
    assert isinstance(explain_denial(_confinement(Path(tempfile.gettempdir())), refusal.format(path)), str)


@given(st.text(st.characters()))
def test_no_text_without_a_refusal_raises(text: str) -> None:
    assert isinstance(explain_denial(_confinement(Path(tempfile.gettempdir())), text), str)


@pytest.mark.parametrize("refusal", REFUSALS)
def test_links_that_lead_in_a_circle_raise_nothing(refusal: str, tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert isinstance(explain_denial(_confinement(tmp_path), refusal.format(tmp_path / "circle")), str)


@pytest.mark.parametrize("place", ["/" + "a" * 300, "/tmp/\0", "/tmp/\ud800"])
def test_a_place_of_a_configuration_that_no_file_system_has_opens_nothing(place: str, tmp_path: Path) -> None:
    paths = _confinement(tmp_path, reads=(place,), writes=(place,)).allowed_paths()
    assert not paths.writes and not paths.shown


def test_a_circle_of_links_among_the_places_of_a_configuration_opens_nothing(tmp_path: Path) -> None:
    """The program itself may make it in a folder that it may change."""
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    paths = _confinement(tmp_path, writes=(str(tmp_path / "circle"),)).allowed_paths()
    assert not paths.writes


def test_no_line_opens_a_folder_of_the_hub_or_one_above_it(tmp_path: Path) -> None:
    for name in ("data/programs", "notes"):
        (tmp_path / "hub" / name).mkdir(parents=True)
    environ, hub = {"HOME": str(tmp_path / "home")}, [tmp_path / "hub" / "data"]
    for name in ("data", "data/programs", "."):
        assert not is_proposable(tmp_path / "hub" / name, environ, hub), name
    assert is_proposable(tmp_path / "hub" / "notes", environ, hub)
    assert not is_proposable("/tmp/\ud800", environ, hub)


def test_no_line_opens_a_folder_with_a_socket_of_a_service(tmp_path: Path) -> None:
    """Agents of ssh and tmux listen in folders of /tmp."""
    environ, folder = {"HOME": str(tmp_path / "home")}, tmp_path / "agents"
    folder.mkdir()
    assert is_proposable(folder, environ, [])
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(folder / "agent"))
        assert not is_proposable(folder, environ, [])
        assert not is_proposable(folder / "agent", environ, [])


@pytest.mark.parametrize(("name", "field"), [("there", "reads"), ("new", "writes")])
def test_a_place_in_the_tmp_of_the_user_is_opened_to_read_what_is_there_and_to_write_what_is_not(
    name: str, field: str, tmp_path: Path
) -> None:
    """Without namespaces the program sees the same /tmp: what is missing there is missing."""
    (tmp_path / "there").write_text("")
    said = explain_denial(_confinement(tmp_path), f"[Errno 2] No such file or directory: '{tmp_path}/{name}'")
    assert (f'"{field}": ["{tmp_path}"]' in said) == bool(find_namespace_way())


@pytest.mark.parametrize(
    "said",
    [
        "Error: browserType.launch: Chromium sandboxing failed!",
        "[1:1:FATAL:zygote_host_impl_linux.cc(128)] No usable sandbox! If you are running on Ubuntu 23.10+",
        "Running as root without --no-sandbox is not supported.",
    ],
)
def test_a_browser_without_a_sandbox_of_its_own_names_the_line_and_as_root_what_to_do(
    said: str, tmp_path: Path
) -> None:
    confinement = _confinement(tmp_path)
    assert '"needs": "browser"' in explain_browser(confinement, said, False)
    typed = replace(confinement, is_typed=True)
    assert "add --needs browser to the command" in explain_browser(typed, said, False)
    assert "such as --no-sandbox" in explain_browser(confinement, said, True)
    has_line = replace(confinement, permissions=ProgramPermissions(needs=BROWSER))
    assert explain_browser(has_line, said, False) == "" and "--no-sandbox" in explain_browser(has_line, said, True)
    walled = replace(confinement, places=replace(confinement.places, wanted=(LANDLOCK,), confine=""))
    assert "below Landlock alone" in explain_browser(walled, said, False)
    assert explain_denial(confinement, said) == explain_browser(confinement, said, os.geteuid() == 0)
    assert explain_browser(confinement, "the sandbox of the playground", False) == ""
