"""A confined command: it does not start where what it may not do would not be enforced."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from patchbay.processes.confined_command import confined_command
from patchbay.processes.confinement.programs import (
    OFF,
    ConfinementMissing,
    ProgramConfinement,
    ProgramPermissions,
    ProgramPlaces,
)
from patchbay.processes.confinement.protections import LANDLOCK, NAMESPACES
from patchbay.processes.program import run

REACH = "import socket; print(socket.if_nameindex())"


def confinement_of(
    folder: Path, network: bool | tuple[str, ...], wanted: tuple[str, ...] = (LANDLOCK, NAMESPACES), confine: str = ""
) -> ProgramConfinement:
    places = ProgramPlaces(folder / "programs", wanted=wanted)
    return ProgramConfinement("command", places, ProgramPermissions(network=network, confine=confine), os.environ)


@pytest.mark.parametrize("network", [False, (), ("pypi.org:443",)], ids=["none", "an empty list", "a list"])
@pytest.mark.parametrize(
    ("wanted", "confine", "reason"),
    [
        ((LANDLOCK, NAMESPACES), OFF, "its confinement is switched off"),
        ((), "", "no namespaces to enforce it"),
        ((LANDLOCK,), "", "no namespaces to enforce it"),
    ],
    ids=["off", "nothing confines", "Landlock alone"],
)
def test_a_restricted_network_without_namespaces_is_refused(
    tmp_path: Path, network: bool | tuple[str, ...], wanted: tuple[str, ...], confine: str, reason: str
) -> None:
    confinement = confinement_of(tmp_path, network, wanted, confine)
    with pytest.raises(ConfinementMissing, match=reason), confined_command(confinement, ["x"], {}, {}, tmp_path):
        raise AssertionError("it is given")


@pytest.mark.parametrize("network", [(), ("pypi.org:443",)], ids=["an empty list", "a list"])
def test_a_list_of_hosts_is_refused_because_a_command_has_no_proxy(tmp_path: Path, network: tuple[str, ...]) -> None:
    confinement = confinement_of(tmp_path, network)
    with pytest.raises(ConfinementMissing, match="no proxy"), confined_command(confinement, ["x"], {}, {}, tmp_path):
        raise AssertionError("it is given")


@pytest.mark.parametrize("network", [True, False])
def test_a_command_has_the_network_that_its_permissions_say(tmp_path: Path, network: bool) -> None:
    words = [sys.executable, "-c", REACH]
    with confined_command(confinement_of(tmp_path, network), words, {}, {}, tmp_path) as command:
        said = b"".join(piece[1] for piece in run(command) if piece)
    here = socket.if_nameindex()
    assert said.decode().strip() == str(here if network else [here[0]]), "a new network has the loopback device alone"
