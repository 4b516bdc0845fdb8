"""What `${NAME}` stands for in the configuration of a server: a secret, a file of `--secrets-dir`, or a variable.

The first of these that has the name counts. What the lookups of each server found is remembered as a keyed hash, so
that a change of a value is noticed and the server connects anew.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping
from hashlib import blake2b

from patchbay.access.secrets.folder import SecretsFolder
from patchbay.access.secrets.names import SecretRefused, is_secret_like
from patchbay.access.secrets.records import Secrets

MAX_LOOKUPS = 10_000
"""Pairs of a server and a name whose value is remembered as a hash, in each process."""

_ABSENT = b""


class HubVariables:
    """The variables of one hub: call it with the name of a server. Thread-safe."""

    def __init__(self, environ: Mapping[str, str], stored: Secrets, folder: SecretsFolder | None = None) -> None:
        self.environ = environ
        self.stored = stored
        self._folder = folder
        self._salt = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._given: dict[tuple[str, str], bytes] = {}
        self._version = stored.version

    def __call__(self, server: str) -> Mapping[str, str]:
        """Return what the configuration of this server may name. Each name is looked up once, when it is asked for."""
        return _ServerVariables(self, server)

    def find(self, server: str, name: str) -> str | None:
        """Return a value for the configuration of a server, None without one. Raises SecretRefused."""
        if not is_secret_like(name):
            return self.environ.get(name)
        try:
            value = self._look(server, name)
        except SecretRefused as problem:
            self._remember(server, name, problem.message)
            raise
        self._remember(server, name, value)
        return value

    def list_changed(self) -> frozenset[str]:
        """Return the servers for which a name has another value than at the last time; one short read if none can."""
        version = self.stored.version
        if version == self._version and self._folder is None:
            return frozenset()
        with self._lock:
            given = list(self._given)
        changed = frozenset(server for server, name in given if self._has_changed(server, name))
        self._version = version
        return changed

    def _has_changed(self, server: str, name: str) -> bool:
        try:
            found: str | None = self._look(server, name, is_use=False)
        except SecretRefused as problem:
            found = problem.message
        digest = self._digest(found)
        with self._lock:
            before, self._given[server, name] = self._given.get((server, name)), digest
        return before is not None and before != digest

    def _look(self, server: str, name: str, is_use: bool = True) -> str | None:
        value = self.stored.find(name, server)
        if value is not None:
            if is_use:
                self.stored.note_use(name, server)
            return value
        value = self._folder.find(name, server) if self._folder is not None else None
        return self.environ.get(name) if value is None else value

    def _remember(self, server: str, name: str, value: str | None) -> None:
        """Remember the first value that a server was given: only `list_changed` replaces it, which tells the server."""
        with self._lock:
            if (server, name) in self._given:
                return
            if len(self._given) >= MAX_LOOKUPS:
                del self._given[next(iter(self._given))]
            self._given[server, name] = self._digest(value)

    def _digest(self, value: str | None) -> bytes:
        return _ABSENT if value is None else blake2b(value.encode("utf-8", "surrogatepass"), key=self._salt).digest()


class _ServerVariables(Mapping[str, str]):
    """The variables of one server, as they were at the first question for each. A copy has no stored secret."""

    def __init__(self, hub: HubVariables, server: str) -> None:
        self._hub = hub
        self._server = server
        self._found: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        found = self._found.get(name)
        if found is None:
            found = self._hub.find(self._server, name)
            if found is None:
                raise KeyError(name)
            self._found[name] = found
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._hub.environ)

    def __len__(self) -> int:
        return len(self._hub.environ)

    def __repr__(self) -> str:
        return f"<the variables of {self._server}>"
