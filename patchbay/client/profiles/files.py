"""Profiles as files: read strictly, written as a whole, with the previous version kept.

A reader holds a shared lock on the profile's directory and a writer an exclusive one, so a reader of this program sees
all of one version or all of the next. Each file is replaced whole, `_meta.json` last, so other programs never see half
a file. The previous files go to `.versions/TIME/` first; the newest MAX_KEPT_VERSIONS of them are kept.
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
from patchbay.jsonrpc import parse_file

VERSIONS_FOLDER = ".versions"
DELETED_FOLDER = ".deleted"
MAX_KEPT_VERSIONS = 20
"""Old versions of one profile that are kept."""

MAX_FILE_BYTES = 8 * 1024 * 1024
"""Bytes of the largest file that is read."""

PROFILE_NAME = re.compile(r"(?!\.)[A-Za-z0-9_.-]{1,128}")


def check_name(name: str) -> str:
    """Return a name that a profile may have. Raises ProfileError."""
    if not PROFILE_NAME.fullmatch(name):
        raise ProfileError("profile", "", f"expected a name of letters, digits, _ . and -, got {name[:200]!r}")
    return name


def read_json(path: Path) -> Any:
    """Read a strict JSON file: no comments, no duplicate keys. Raises ProfileError naming the file."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ProfileError(str(path), "", f"expected at most {MAX_FILE_BYTES} bytes")
        return parse_file(data)
    except OSError as problem:
        raise ProfileError(str(path), "", f"expected a readable file ({problem.strerror})") from problem
    except ParseError as problem:
        raise ProfileError(str(path), "", f"expected strict JSON; {problem.message}") from problem


@contextmanager
def lock_directory(directory: Path, alone: bool) -> Iterator[None]:
    """Lock a directory against writers (`alone`: against readers too).

    Waits; the kernel releases it when the process ends.
    """
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def list_tool_files(directory: Path) -> list[Path]:
    """List the tool files of a profile, sorted by name, without `_meta.json` and hidden files."""
    found = directory.glob("*.json") if directory.is_dir() else ()
    return sorted(path for path in found if path.stem != META_STEM and not path.name.startswith("."))


def write_profile(directory: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Replace the files of a profile; the previous files are kept as a version.

    Raises ProfileError; a new profile then leaves no file.
    """
    is_new = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with lock_directory(directory, alone=True):
            if (directory / f"{META_STEM}.json").exists():
                _store_version(directory)
            for name, content in files.items():
                replace_file(directory / name, _encode(content))
            for path in list_tool_files(directory):
                if path.name not in files:
                    path.unlink()
    except OSError as problem:
        if is_new:
            shutil.rmtree(directory, ignore_errors=True)
        raise ProfileError(
            str(directory), "", f"expected a directory that can be written ({problem.strerror})"
        ) from problem


def delete_profile(directory: Path) -> Path:
    """Move a profile to the folder of deleted profiles, and return its new path. Raises ProfileError."""
    try:
        home = directory.parent / DELETED_FOLDER / _format_time()
        home.mkdir(parents=True, mode=0o700)
        with lock_directory(directory, alone=True):
            return directory.rename(home / directory.name)
    except OSError as problem:
        raise ProfileError(
            str(directory), "", f"expected a profile that can be moved ({problem.strerror})"
        ) from problem


def restore_version(directory: Path, version: Path) -> None:
    """Replace the files of a profile with those of an old version, which is a folder; the present files are kept as a
    version. Raises ProfileError.
    """
    files = (version / f"{META_STEM}.json", *list_tool_files(version))
    write_profile(directory, {path.name: read_json(path) for path in files})


def restore_deleted(root: Path, name: str) -> Path | None:
    """Move the profile of this name that was deleted last back to the folder of profiles `root`.

    Returns its directory, None without a deleted profile. Raises ProfileError.
    """
    deleted = max((path for path in root.glob(f"{DELETED_FOLDER}/*/{name}") if path.is_dir()), default=None)
    try:
        return deleted.rename(root / name) if deleted is not None else None
    except OSError as problem:
        raise ProfileError(str(root / name), "", f"cannot be restored ({problem.strerror})") from problem


def list_versions(directory: Path) -> list[Path]:
    """List the directories of a profile's old versions, newest first."""
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


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically and sync it; `mode` has its permissions."""
    handle, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
