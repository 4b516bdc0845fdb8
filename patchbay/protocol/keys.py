"""The hub's own key: made at first start, readable by its owner alone, never a default (THREATS 0.3)."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from patchbay.errors import ConfigError

LENGTH = 32


def load_key(folder: Path | None) -> bytes:
    """The key kept in `<folder>/key` (32 random bytes as hexadecimal), made when absent; without a folder a new one.

    Several processes may start at once: the one that links the file first decides.
    Raises ConfigError when the file cannot be used.
    """
    if folder is None:
        return secrets.token_bytes(LENGTH)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "key"
    if not path.exists():
        fresh = folder / f"key.{secrets.token_hex(8)}"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(LENGTH))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    try:
        key = bytes.fromhex(path.read_text().strip())
    except (OSError, ValueError) as problem:
        raise ConfigError(str(path), "", f"expected {2 * LENGTH} hexadecimal digits ({problem})") from problem
    if len(key) < LENGTH:
        raise ConfigError(str(path), "", f"expected {2 * LENGTH} hexadecimal digits, found {2 * len(key)}")
    return key
