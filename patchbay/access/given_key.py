"""The key of all hubs on one store: given to each of them, and kept in its data folder.

Everything that reads the key reads it there. A node without the key, or with another one, does not start.
"""

from __future__ import annotations

from pathlib import Path

from patchbay.access.hub_key import KEY_BYTES, KEY_FILE, has_key, load_key, write_secret_once
from patchbay.errors import ConfigError
from patchbay.settings import GIVEN_KEY, Settings, secret
from patchbay.store import is_database_address


def place_given_key(settings: Settings) -> None:
    """Put the key of the settings into the data folder; does nothing without one, and for a hub in memory.

    Raises ConfigError for an unusable key, for another key in the folder, and for a store that several machines share
    when there is no key at all.
    """
    if settings.store == "memory":
        return
    key = read_given_key(settings)
    if key is None:
        if is_database_address(settings.store) and not has_key(settings.data):
            raise ConfigError(
                "--key-file",
                "",
                "a hub in PostgreSQL needs the one key of all hubs there: name its file, or set PATCHBAY_KEY."
                " `openssl rand -hex 32` makes a key for the first of them",
            )
        return
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not write_secret_once(settings.data / KEY_FILE, key.hex()) and load_key(settings.data) != key:
        raise ConfigError(
            "--key-file",
            "",
            f"another key is in {settings.data / KEY_FILE}; start this hub with another folder (--data)",
        )


def read_given_key(settings: Settings) -> bytes | None:
    """Return the key of the settings or of the environment; None without one. Raises ConfigError for an unusable one.

    Changes nothing.
    """
    text = _read(settings.key_file) if settings.key_file else secret(GIVEN_KEY).strip()
    if not text and not settings.key_file:
        return None
    if len(text) < 2 * KEY_BYTES or not _is_hexadecimal(text):
        found = f"found {len(text)} characters" if "\ufffd" not in text else "found bytes that are no text"
        place = f"--key-file {settings.key_file}" if settings.key_file else GIVEN_KEY
        raise ConfigError(
            place, "", f"expected {2 * KEY_BYTES} hexadecimal digits, {found}; `openssl rand -hex 32` makes a key"
        )
    return bytes.fromhex(text)


def _read(file: str) -> str:
    try:
        return Path(file).expanduser().read_bytes().decode("utf-8", "replace").strip()
    except OSError as problem:
        raise ConfigError("--key-file", "", f"{file} cannot be read: {problem.strerror}") from problem


def _is_hexadecimal(text: str) -> bool:
    try:
        bytes.fromhex(text)
    except ValueError:
        return False
    return True
