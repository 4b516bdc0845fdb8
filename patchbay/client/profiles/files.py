"""Profiles as files: read strictly, written so that nobody sees half of one, the version before kept.

A reader holds a shared lock on the profile's directory and a writer an exclusive one, so a reader of this program sees
all of a version or all of the next; each file is replaced whole, `_meta.json` last, so that others never see half a
file. What was there before goes to `.versions/TIME/` first, the newest KEPT of them stay.
Sources: JN-58, JN-59, JN-C7; DESIGN section 4 (nothing lost).
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from patchbay.client.addresses.variables import ProfileError
from patchbay.client.profiles.layouts import META_STEM
from patchbay.errors import ParseError
from patchbay.jsonrpc import parse

VERSIONS_FOLDER = ".versions"
DELETED_FOLDER = ".deleted"
MAX_KEPT_VERSIONS = 20
"""How many old versions of one profile are kept."""

MAX_FILE_BYTES = 8 * 1024 * 1024
"""Bytes of the largest file that is read."""

PROFILE_NAME = re.compile(r"(?!\.)[A-Za-z0-9_.-]{1,128}")


def check_name(name: str) -> str:
    """The name itself, when it is one a profile may have. Raises ProfileError."""
    if not PROFILE_NAME.fullmatch(name):
        raise ProfileError("profile", "", f"expected a name of letters, digits, _ . and -, got {name[:200]!r}")
    return name


def read_json(path: Path) -> Any:
    """The value of a strict JSON file: no comments, no duplicate keys (JN-C7). Raises ProfileError naming the file."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ProfileError(str(path), "", f"expected at most {MAX_FILE_BYTES} bytes")
        return parse(data)
    except OSError as problem:
        raise ProfileError(str(path), "", f"expected a readable file ({problem.strerror})") from problem
    except ParseError as problem:
        raise ProfileError(str(path), "", f"expected strict JSON; {problem.message}") from problem


@contextmanager
def lock_directory(directory: Path, alone: bool) -> Iterator[None]:
    """Hold a directory against writers (`alone`: against readers too). Waits; the kernel frees it with the process."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def list_tool_files(directory: Path) -> list[Path]:
    """The tool files of a profile, sorted by name; `_meta.json` and hidden files are none."""
    found = directory.glob("*.json") if directory.is_dir() else ()
    return sorted(path for path in found if path.stem != META_STEM and not path.name.startswith("."))


def write_profile(directory: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Make these the files of a profile; what was there is kept as a version. Raises ProfileError."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with lock_directory(directory, alone=True):
            if (directory / f"{META_STEM}.json").exists():
                _store_version(directory)
            for name, content in files.items():
                _replace_file(directory / name, _encode(content))
            for path in list_tool_files(directory):
                if path.name not in files:
                    path.unlink()
    except OSError as problem:
        raise ProfileError(
            str(directory), "", f"expected a directory that can be written ({problem.strerror})"
        ) from problem


def delete_profile(directory: Path) -> Path:
    """Take a profile away; answers where it is kept. Raises ProfileError."""
    try:
        home = directory.parent / DELETED_FOLDER / _format_time()
        home.mkdir(parents=True, mode=0o700)
        with lock_directory(directory, alone=True):
            return directory.rename(home / directory.name)
    except OSError as problem:
        raise ProfileError(
            str(directory), "", f"expected a profile that can be taken away ({problem.strerror})"
        ) from problem


def list_versions(directory: Path) -> list[Path]:
    """The directories of a profile's old versions, newest first."""
    home = directory / VERSIONS_FOLDER
    return sorted((path for path in home.iterdir() if path.is_dir()), reverse=True) if home.is_dir() else []


def _store_version(directory: Path) -> None:
    home = directory / VERSIONS_FOLDER / _format_time()
    home.mkdir(parents=True, mode=0o700)
    for path in (directory / f"{META_STEM}.json", *list_tool_files(directory)):
        shutil.copy2(path, home / path.name)
    for old in list_versions(directory)[MAX_KEPT_VERSIONS:]:
        shutil.rmtree(old)


def _format_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H%M%S.%fZ")


def _encode(content: Mapping[str, Any]) -> bytes:
    return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _replace_file(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
