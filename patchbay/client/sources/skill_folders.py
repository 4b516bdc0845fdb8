"""Save the verified files of a skill as a folder: whole or not at all, and never over a file that exists."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from patchbay.errors import InvalidParams

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
"""The names of the Agent Skills specification, which are names of folders on every platform."""

MAX_NAME_LENGTH = 64


def save_skill(parent: Path, name: str, files: Mapping[PurePosixPath, bytes]) -> Path:
    """Write the files of a skill to a new folder `parent/name` and return the folder. Creates `parent` if needed.

    Raises InvalidParams for a name that the Agent Skills specification does not allow, when the folder exists, and when
    it cannot be written.
    """
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_LENGTH:
        raise InvalidParams(
            f"the skill cannot be saved under its name {name!r:.80}: expected at most {MAX_NAME_LENGTH} lower-case "
            "letters, digits and single hyphens"
        )
    folder = parent / name
    if folder.exists() or folder.is_symlink():
        raise InvalidParams(f"{folder} exists: remove it or choose another directory for --save")
    try:
        parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=parent))
        try:
            _write_files(made, files)
            made.chmod(0o755)
            made.rename(folder)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
    except OSError as problem:
        raise InvalidParams(f"{folder} cannot be written: {problem.strerror or problem}") from problem
    return folder.absolute()


def _write_files(folder: Path, files: Mapping[PurePosixPath, bytes]) -> None:
    for path, data in files.items():
        file = folder.joinpath(*path.parts)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as output:
            output.write(data)
