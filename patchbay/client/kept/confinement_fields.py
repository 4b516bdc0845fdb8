"""The confinement of a kept program as JSON, for the background process that starts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from patchbay.client.addresses.secrets import is_evident_secret
from patchbay.processes.confinement.programs import ProgramConfinement, ProgramPermissions, ProgramPlaces

_PLACES = ("hidden", "kept", "own")


def encode_confinement(confinement: ProgramConfinement | None) -> dict[str, Any] | None:
    """Return a confinement as a JSON object, without its environment; None for a program with all rights.

    A confinement that is off and restricts the network stays: the background process refuses to start such a program.
    """
    if confinement is None or (not confinement.is_on and confinement.permissions.network is True):
        return None
    places = {one.name: getattr(confinement.places, one.name) for one in fields(ProgramPlaces)}
    del places["is_secret"]
    places |= {name: [str(one) for one in places[name]] for name in _PLACES} | {"folder": str(places["folder"])}
    given = {name: getattr(confinement, name) for name in ("name", "program", "start_folder", "is_typed")}
    return {**given, "places": places, "permissions": asdict(confinement.permissions)}


def decode_confinement(given: Mapping[str, Any] | None, environ: Mapping[str, str]) -> ProgramConfinement | None:
    """Return the confinement of a JSON object. `environ` is the environment of the command, which names its places."""
    if given is None:
        return None
    places = {**given["places"], "is_secret": is_evident_secret, "folder": Path(given["places"]["folder"])}
    places |= {name: tuple(Path(one) for one in places[name]) for name in _PLACES}
    places |= {name: tuple(places[name]) for name in ("wanted", "writes")}
    permissions = dict(given["permissions"])
    permissions |= {name: tuple(permissions[name]) for name in ("reads", "writes")}
    others = {name: given[name] for name in ("name", "program", "start_folder", "is_typed")}
    return ProgramConfinement(
        places=ProgramPlaces(**places), permissions=ProgramPermissions(**permissions), environ=environ, **others
    )
