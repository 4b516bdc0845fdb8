"""Secrets as files: one file a name, as systemd credentials, Docker secrets and Kubernetes secrets are.

Kubernetes replaces all files at once by moving a symbolic link inside the folder, so that links are followed, but only
to files of the same folder. A file that is not a regular one, or is too large, is an error, which names the file and
never shows its content.
Sources: systemd.exec(5), LoadCredential; Kubernetes, "Using Secrets as files"; Docker, "Manage sensitive data".
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from patchbay.access.secrets.names import MAX_VALUE_BYTES, SecretRefused, check_value, is_secret_like
from patchbay.errors import InvalidParams

TRIES = 100
"""Attempts to read a file while its folder is being replaced."""


class SecretsFolder:
    """The secrets of one folder, each read when it is needed. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, name: str, server: str) -> str | None:
        """Return the content of the file of this name without its last line break; None without such a file.

        `server` is who needs it, for the message. Raises SecretRefused for a file that cannot be used.
        """
        if not is_secret_like(name):
            return None
        for _ in range(TRIES):
            path = self._folder / name
            try:
                return self._read(path, server)
            except FileNotFoundError:
                if not path.is_symlink():
                    return None
            except OSError as problem:
                raise self._refuse(path, server, problem.strerror or type(problem).__name__) from problem
            except RuntimeError as problem:  # `resolve` has no other error for a loop
                raise self._refuse(path, server, "it is a link that leads back to itself") from problem
        raise self._refuse(path, server, "it is a link to a file that does not exist")

    def has(self, name: str) -> bool:
        """Whether a file of this name gives a value; without one that can be used, a stored secret is needed."""
        try:
            return self.find(name, "") is not None
        except SecretRefused:
            return False

    def _read(self, path: Path, server: str) -> str:
        target = path.resolve(strict=True)
        if not target.is_relative_to(self._folder.resolve()):
            raise self._refuse(path, server, "it is a link to a file outside of the folder")
        # Without O_NONBLOCK, opening a FIFO waits for its writer. The target has no link in it, unless one was put
        # there since.
        descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise self._refuse(path, server, "it is not a file")
            data = file.read(MAX_VALUE_BYTES + 3)
        for ending in (b"\r\n", b"\n"):
            if data.endswith(ending):
                data = data.removesuffix(ending)
                break
        try:
            value = data.decode()
            check_value(value)
        except (UnicodeDecodeError, InvalidParams) as problem:
            reason = problem.message if isinstance(problem, InvalidParams) else "it is not text in UTF-8"
            raise self._refuse(path, server, reason) from None
        return value

    def _refuse(self, path: Path, server: str, reason: str) -> SecretRefused:
        return SecretRefused(server, "", f"the secret {path.name} in {self._folder} cannot be used: {reason}")


def open_secrets_folder(path: str) -> SecretsFolder | None:
    """Return the secrets of the folder in the setting `secrets_dir`; None for an empty one."""
    return SecretsFolder(Path(path).expanduser()) if path else None
