"""The hub's own key: made at first start, readable by its owner alone, never a default (THREATS 0.3)."""

from __future__ import annotations

import hmac
import os
import secrets
from hashlib import sha256
from pathlib import Path

from patchbay.errors import ConfigError

LENGTH = 32
FILE = "key"


def hub_id(key: bytes) -> str:
    """What tells this hub from every other, for all to see: nothing of its key can be learnt from it."""
    return hmac.new(key, b"the name of this hub", sha256).hexdigest()[:32]


def has_key(folder: Path) -> bool:
    """Whether a hub has kept its key in this folder before."""
    return (folder / FILE).exists()


def load_key(folder: Path | None) -> bytes:
    """The key kept in `<folder>/key` (32 random bytes as hexadecimal), made when absent; without a folder a new one.

    Several processes may start at once: the one that keeps its key first decides.
    Raises ConfigError when the file cannot be used.
    """
    if folder is None:
        return secrets.token_bytes(LENGTH)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / FILE
    if not path.exists():
        keep_once(path, secrets.token_hex(LENGTH))
    try:
        key = bytes.fromhex(path.read_text().strip())
    except (OSError, ValueError) as problem:
        raise ConfigError(str(path), "", f"expected {2 * LENGTH} hexadecimal digits ({problem})") from problem
    if len(key) < LENGTH:
        raise ConfigError(str(path), "", f"expected {2 * LENGTH} hexadecimal digits, found {2 * len(key)}")
    return key


def keep_once(path: Path, text: str) -> bool:
    """Keep a secret in a file that only its owner can read, unless the file is there; whether this call made it.

    Several processes may try at once: the file appears whole, and the first one wins.
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
