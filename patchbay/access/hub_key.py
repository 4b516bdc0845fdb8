"""The hub's own random key, made at the first start and readable only by its owner. There is no default key."""

from __future__ import annotations

import hmac
import os
import secrets
from hashlib import sha256
from pathlib import Path

from patchbay.errors import ConfigError

KEY_BYTES = 32
KEY_FILE = "key"


def hub_id(key: bytes) -> str:
    """Return the public identifier of the hub with this key. It reveals nothing about the key."""
    return hmac.new(key, b"the name of this hub", sha256).hexdigest()[:32]


def has_key(folder: Path) -> bool:
    """Whether this folder holds the key of a hub."""
    return (folder / KEY_FILE).exists()


def load_key(folder: Path | None) -> bytes:
    """Return the key in `<folder>/key` (32 random bytes in hexadecimal); make it if absent. None makes a new key.

    Of several processes that start at once, the first one decides the key. Raises ConfigError for an unusable file.
    """
    if folder is None:
        return secrets.token_bytes(KEY_BYTES)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / KEY_FILE
    if not path.exists():
        write_secret_once(path, secrets.token_hex(KEY_BYTES))
    try:
        key = bytes.fromhex(path.read_text().strip())
    except (OSError, ValueError) as problem:
        raise ConfigError(str(path), "", f"expected {2 * KEY_BYTES} hexadecimal digits ({problem})") from problem
    if len(key) < KEY_BYTES:
        raise ConfigError(str(path), "", f"expected {2 * KEY_BYTES} hexadecimal digits, found {2 * len(key)}")
    return key


def write_secret_once(path: Path, text: str) -> bool:
    """Write a secret to a new file that only its owner can read; return False if the file already exists.

    Of several processes that try at once, the first one writes. The file appears with its whole content.
    """
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(fresh, path)
    except FileExistsError:
        return False
    finally:
        fresh.unlink()
    return True
