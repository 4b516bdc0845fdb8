"""Describe which program of a mounted server runs, where, and with which rights, and who shares its state."""

from __future__ import annotations

import os
import pwd
from pathlib import PurePath
from urllib.parse import urlsplit

from patchbay.client.addresses.targets import Http, Stdio, Target, mask_url
from patchbay.kind import Confinement
from patchbay.processes.confinement.programs import ProgramConfinement
from patchbay.upstreams.configuration import SHARED
from patchbay.upstreams.connections.standing_connection import StandingConnection


def mount_confinement(target: Target | None, confinement: ProgramConfinement | None = None) -> Confinement:
    """Return how the server behind a mount runs.

    `target` is how it is reached, None while that is unknown; `confinement` is that of a program, None without one.
    """
    if isinstance(target, Stdio) and confinement is not None and confinement.refusal:
        sentence = f"the program {PurePath(target.command).name} does not start: {confinement.refusal}"
        return Confinement("program", None, False, False, sentence)
    if isinstance(target, Stdio) and confinement is not None and confinement.is_on:
        memory = confinement.memory_mib
        program = PurePath(target.command).name
        begin = f"the program {program} runs on this machine, started by the hub as {_user()}: confined"
        lacks = "" if len(confinement.names) > 1 else ", as far as this machine can"
        sentence = f"{begin}{lacks}. {confinement.sentence} Each process has at most {memory} MiB of memory"
        return Confinement("program", memory, False, False, sentence)
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


def describe_sessions(standing: StandingConnection) -> str:
    """Return who shares the state of a mounted server, and how many processes or sessions run, as a sentence.

    Empty for a server that keeps no state for a connection, and for one that does not answer.
    """
    mount, connection = standing.mount, standing.connection
    if connection is None or not connection.keeps_state:
        return ""
    each, several = ("process", "processes") if standing.is_program else ("session there", "sessions there")
    if mount.sessions == SHARED and not mount.has_caller_credentials:
        return f"All callers share one {each}"
    count = 1 + standing.call_connections.count
    return (
        f"Each session of a client has its own {each}; {count} {f'{each} is' if count == 1 else f'{several} are'}"
        f" {'running' if standing.is_program else 'open'} (at most {1 + mount.session_limit}), and one ends after"
        f" {mount.session_idle / 60:g} minutes without a call"
    )


def _user() -> str:
    """Return the user of this process."""
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user id {number}"
