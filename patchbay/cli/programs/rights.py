"""What a program may do that a command starts: its confinement, and the options that change it.

The options have the names of the fields of a mount. Without them, a program is confined as the setting `confine` says,
like a mounted one: a command that names a package is no reason to trust the package.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from patchbay.client.addresses.programs import identify_program, is_launched, is_same_in_each_folder, name_program
from patchbay.client.addresses.targets import Stdio, Target
from patchbay.client.errors import Unreachable
from patchbay.kinds.program_places import program_places
from patchbay.processes.confinement.program_denials import explain_denial
from patchbay.processes.confinement.programs import (
    BROWSER,
    DEFAULT,
    OFF,
    OWN,
    REQUIRED,
    USER,
    ProgramConfinement,
    ProgramPermissions,
    ProgramPlaces,
)
from patchbay.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])

OWN_COMMAND = "patchbay"
"""The program of this package, beside the Python that runs this."""

OPTIONS = (
    click.option(
        "--reads",
        multiple=True,
        metavar="PATH",
        help="Let the program that is started read this private place, such as ~/.config/gh. Repeatable.",
    ),
    click.option(
        "--writes",
        multiple=True,
        metavar="PATH",
        help="Let the program that is started change this folder or file. Repeatable.",
    ),
    click.option(
        "--home", type=click.Choice([OWN, USER]), default=OWN, help="Whose home folder the program sees [default own]."
    ),
    click.option(
        "--needs", type=click.Choice([BROWSER]), default=None, help="The program starts a browser, which needs more."
    ),
    click.option("--no-network", "network", flag_value=False, default=True, help="The program has no network."),
    click.option(
        "--confine",
        type=click.Choice([DEFAULT, REQUIRED, OFF]),
        default=None,
        help="Confine the program as far as this machine can, refuse to start it otherwise, or give it all your rights"
        " [default: the setting confine].",
    ),
)
NAMES = ("reads", "writes", "home", "needs", "network", "confine")
"""The parameters of the options."""

SETTINGS = ("writes", "confine")
"""Settings whose options have these names too; in a command with these options they come from the environment."""


def with_program_rights(command: Command) -> Command:
    """Add the options that say what a started program may do; `take_permissions` reads them."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def take_permissions(options: dict[str, Any]) -> ProgramPermissions:
    """Remove the values of the options from `options`, and return them; relative paths become absolute."""
    given = {name: options.pop(name) for name in NAMES}
    places = {name: tuple(make_absolute(one) for one in given[name]) for name in ("reads", "writes")}
    return ProgramPermissions(
        places["reads"], places["writes"], given["home"], given["needs"] or "", given["network"], given["confine"] or ""
    )


def take_fields(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the values of the options from `options`, and return the given ones as fields of a mount."""
    return make_fields(take_permissions(options))


def make_fields(found: ProgramPermissions) -> dict[str, Any]:
    """Return what was given of permissions as fields of a mount."""
    fields: dict[str, Any] = {name: list(getattr(found, name)) for name in ("reads", "writes")}
    fields |= {"home": found.home} if found.home != OWN else {}
    fields |= {"needs": found.needs, "confine": found.confine} | ({} if found.network else {"network": False})
    return {name: value for name, value in fields.items() if value or value is False}


def make_absolute(place: str) -> str:
    """Return a path that was typed as an absolute one; one in the home folder keeps its `~`."""
    return place if place == "~" or place.startswith("~/") else os.path.normpath(Path.cwd() / place)


@dataclass
class StartedPrograms:
    """What the programs of one command may do. `environ` is the environment of the command.

    `roots` are folders that the user tells servers they may use, so their programs may change them.
    """

    settings: Settings
    environ: Mapping[str, str]
    permissions: ProgramPermissions = field(default_factory=ProgramPermissions)
    roots: Sequence[str] = ()

    def confine(self, target: Target) -> ProgramConfinement | None:
        """Return what the program of a target may do; None for a URL, and for the hub's own program.

        A package of a registry starts in its own folder. Other programs start in the current folder, which they read:
        a script may be given by its name there.
        """
        if not isinstance(target, Stdio) or is_own_program(target, self.environ):
            return None
        return confine_typed(target, self._places, self.permissions, self.environ)

    @property
    def _places(self) -> ProgramPlaces:
        places = program_places(self.settings)
        roots = tuple(make_absolute(one) for one in self.roots)
        return replace(places, writes=(*places.writes, *roots))

    @contextmanager
    def explaining(self, target: Target) -> Iterator[None]:
        """Add which option helps to the failure of a program that was refused something at its start."""
        try:
            yield
        except Unreachable as problem:
            hint = self.explain(target, problem.message)
            if not hint:
                raise
            raise type(problem)(f"{problem.message}\n{hint}", problem.data) from problem

    def explain(self, target: Target, text: str) -> str:
        """Return which option allows what a program was refused, by what it said; empty if nothing was refused."""
        confinement = self.confine(target)
        return explain_denial(confinement, text) if confinement is not None else ""


def confine_typed(
    target: Stdio, places: ProgramPlaces, permissions: ProgramPermissions, environ: Mapping[str, str]
) -> ProgramConfinement:
    """Return the confinement of a program that a command line names.

    A relative name means another program in another current folder, with a folder of its own.
    """
    folder = "" if is_launched(target) else str(Path.cwd())
    placed = target
    if target.cwd or not is_same_in_each_folder(target):
        placed = replace(target, cwd=os.path.normpath(Path.cwd() / (target.cwd or "")))
    return ProgramConfinement(
        name_program(target), places, permissions, environ, identify_program(placed), folder, True
    )


def is_own_program(target: Stdio, environ: Mapping[str, str]) -> bool:
    """Whether a target is `patchbay stdio` of this installation, which confines what it runs itself."""
    own = Path(sys.executable).with_name(OWN_COMMAND)
    found = shutil.which(target.command, path=environ.get("PATH", ""))
    if target.command != OWN_COMMAND or target.args[:1] != ("stdio",) or target.env:
        return False
    return found is None or Path(found).resolve() == own.resolve()
