"""Says why the system refused something to the code of a tool, and how the operator allows it.

The system says only `Permission denied`: the author of a tool cannot know that the hub is the reason. Where the
permissions of the file alone would have refused it too, there is nothing to add.

Sources: landlock(7), bwrap(1), errno(3).
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from socket import EAI_AGAIN, gaierror

from patchbay.processes.confinement.paths import DEVICE_FOLDER, AllowedPaths

NO_NETWORK = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH})
REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})

MAX_CAUSES = 8
"""Exceptions of one chain that are looked at."""

WRITES, READS = "writes", "reads"
"""The fields of a configuration that allow a place: to change it, or to read what a mounted program does not see."""

SUGGESTION = re.compile(rf'"({WRITES}|{READS})": (\["(?:[^"\\]|\\.)*"\])')
"""The line of a message that allows a place; its groups are the field and the JSON array."""

_REFUSED_LINE = re.compile(r"['‘\"]?((?:~|/)[^'’\":]*)['’\"]?: (?:Permission denied|Read-only file system)")
"""How programs tell that a path was refused: touch: cannot touch '/srv/a': Permission denied."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the code of one server may do: its `paths`, and whether it runs in the `sandbox` (`processes/sandbox.py`).

    `covered` means that mounts hide the hub's folders from it.
    """

    server: str
    paths: AllowedPaths
    sandbox: bool = False
    covered: bool = False

    def explain(self, problem: BaseException) -> str:
        """Return a sentence about the first refusal in the chain of an exception; empty without one."""
        sentences = (self._explain_one(one) for one in _chain(problem) if isinstance(one, OSError))
        return next(filter(None, sentences), "")

    def explain_output(self, text: str) -> str:
        """Return a sentence about a refused path that a program has printed; empty without one."""
        found = _REFUSED_LINE.search(text)
        return self._explain_path(Path(found[1]).expanduser()) if found else ""

    def _explain_one(self, problem: OSError) -> str:
        if _needs_network(problem):
            without = f"{self.server} runs in the sandbox, which has no network. {self._without_sandbox}"
            return without if self.sandbox else ""
        if problem.errno == errno.EFBIG:
            return f"A tool of {self.server} may write files of at most 1 GiB."
        if isinstance(problem, gaierror) or problem.errno not in REFUSED:
            return ""
        if isinstance(problem.filename, (str, bytes)):
            return self._explain_path(Path(os.fsdecode(problem.filename)))
        if problem.errno == errno.EACCES:
            return "A tool may listen only on a port that the system chooses (port 0)."
        return "A tool may neither signal nor examine processes that it did not start."

    def _explain_path(self, path: Path) -> str:
        place = Path(os.path.realpath(path))
        if any(place.is_relative_to(one) for one in (*self.paths.own, *self.paths.shown)):
            return ""
        if any(place.is_relative_to(one.resolve()) for one in (*self.paths.hidden, *self.paths.kept)):
            return "No tool may use the files of the hub itself."
        if place.is_relative_to(DEVICE_FOLDER):
            return f"A tool may use no devices but {DEVICE_FOLDER}/null, zero, full, random, urandom and tty."
        folder = _existing_folder(place)
        if self.sandbox:
            return (
                f"{self.server} runs in the sandbox, where only context.folder and /tmp can be changed."
                f" {self._without_sandbox}"
            )
        if self._may_write(place) or not os.access(place if place.exists() else folder, os.W_OK):
            return ""  # the permissions of the file are the reason
        return self._suggest(folder)

    def _may_write(self, place: Path) -> bool:
        return any(place.is_relative_to(one) for one in self.paths.writable(self.covered))

    def _suggest(self, folder: Path) -> str:
        listed = ", ".join(map(str, self.paths.writes)) or "none"
        return (
            f"Tools of {self.server} may change only their working folder, context.folder and the folders of its"
            f' "writes" (now: {listed}). To allow this folder, the operator adds {suggestion(folder)} to the'
            f" configuration of {self.server}: on the page /servers/{self.server}/settings, or in the file"
            f" servers/{self.server}.mcp.json."
        )

    @property
    def _without_sandbox(self) -> str:
        return f'The operator allows it by removing "sandbox" from the configuration of {self.server}.'


def suggestion(place: Path, field: str = WRITES) -> str:
    """Return the line of a configuration that allows a place: `"writes": ["~/notes"]`. `field` is WRITES or READS."""
    home = Path.home()
    shown = f"~/{place.relative_to(home)}" if place != home and place.is_relative_to(home) else str(place)
    return f'"{field}": {json.dumps([shown], ensure_ascii=False)}'


def find_suggestions(text: str) -> Sequence[tuple[str, str]]:
    """Return the lines that messages of this module suggest in a text: the field, WRITES or READS, and the place."""
    found = []
    for field, places in SUGGESTION.findall(text):
        with suppress(ValueError):  # the text may be that of a stranger, and no JSON
            found += [(field, place) for place in json.loads(places)]
    return found


def _needs_network(problem: OSError) -> bool:
    """Whether an error is that of a machine without a network."""
    if isinstance(problem, gaierror):  # its numbers are not those of errno(3)
        return problem.errno == EAI_AGAIN
    return problem.errno in NO_NETWORK


def _existing_folder(place: Path) -> Path:
    """Return the folder of a path, or the nearest one above it that exists."""
    return next((one for one in (place, *place.parents) if one.is_dir()), Path("/"))


def _chain(problem: BaseException) -> Iterator[BaseException]:
    """Yield an exception, and what caused it, step by step."""
    one: BaseException | None = problem
    for _ in range(MAX_CAUSES):
        if one is None:
            return
        yield one
        one = one.__cause__ or one.__context__
