"""Describe which program of a mounted server runs, where, and with which rights."""

from __future__ import annotations

import os
import pwd
from pathlib import PurePath
from urllib.parse import urlsplit

from patchbay.client.addresses.targets import Http, Stdio, Target, mask_url
from patchbay.kind import Confinement


def mount_confinement(target: Target | None) -> Confinement:
    """Return how the server behind a mount runs. `target` is how it is reached, None while that is unknown."""
    if isinstance(target, Stdio):
        sentence = (
            f"the program {PurePath(target.command).name} runs on this machine, started by the hub: unconfined,"
            f" with all rights of the hub's user ({_user()}), its files and its network, without a memory limit"
        )
        return Confinement("program", None, False, False, sentence)
    if isinstance(target, Http):
        parts = urlsplit(mask_url(target.url))
        place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        return Confinement(
            "none", None, False, False, f"at {place}, with the rights it has there; the hub starts nothing"
        )
    sentence = "not known yet: the profile or preset that its address names was not read"
    return Confinement("none", None, False, False, sentence)


def _user() -> str:
    """Return the user of this process."""
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user id {number}"
