"""One confined child process, for `program.run`: `confined_start.py` around it, and its exit code passed on.

A mounted program speaks to the hub as long as it runs (`client/connection/programs/`); a command of this module does
its work and ends, such as an installer of packages.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from patchbay.processes.confinement.program_folders import remove_temporary_folder
from patchbay.processes.confinement.program_plans import plan_start
from patchbay.processes.confinement.programs import ConfinementMissing, ProgramConfinement
from patchbay.processes.confinement.start_code import confining_words, make_start_file
from patchbay.processes.program import Command


@contextmanager
def confined_command(
    confinement: ProgramConfinement,
    words: Sequence[str],
    environment: Mapping[str, str],
    given: Mapping[str, str],
    folder: Path,
    pass_fds: Sequence[int] = (),
) -> Iterator[Command]:
    """Give a command that runs confined. It is run inside the block, once; its /tmp is removed at the end.

    `words` begin with the path of a program. `environment` is what the program inherits, `given` are variables that the
    confinement does not change. Where nothing confines, the command has all rights of this process. Raises
    ConfinementMissing, also for a list of hosts: only a mounted program has a proxy that leads to them.
    """
    confinement.check()
    if confinement.egress is not None:
        raise ConfinementMissing("a command cannot have a list of hosts: it has no proxy that reaches only these")
    if not confinement.is_on:
        yield Command(words, {**environment, **given}, folder, pass_fds=pass_fds)
        return
    start = plan_start(confinement, words, environment, given, str(folder))
    plan = make_start_file(start.plan)
    ours, theirs = socket.socketpair()
    try:
        around = (*confining_words([plan]), str(theirs.fileno()), start.folder)
        descriptors = (*pass_fds, plan, theirs.fileno())
        yield Command(words, dict(start.environment), folder, around=around, pass_fds=descriptors)
    finally:
        ours.close()
        theirs.close()
        os.close(plan)
        remove_temporary_folder(start.temporary)
