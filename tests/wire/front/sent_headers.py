"""The head of a request as the web server gives them, for tests without one."""

from __future__ import annotations

from typing import Any

from patchbay.wire.requests.rsgi import Headers

Pairs = list[tuple[str, str]]


class SentHeaders:
    """Headers as the web server gives them: pairs, of which those with a value that is not ASCII are left out."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs

    def __len__(self) -> int:
        return len(self.keys())

    def get(self, key: str, default: Any = None) -> Any:
        return next((value for name, value in self.items() if name == key), default)

    def get_all(self, key: str) -> list[str]:
        return [value for name, value in self.items() if name == key]

    def keys(self) -> list[str]:
        return list(dict(self._pairs))

    def items(self) -> Pairs:
        return [(name, value) for name, value in self._pairs if value.isascii()]


class SentScope:
    """The head of a request over HTTP/1.1."""

    proto, http_version, scheme, query_string = "http", "1.1", "http", ""
    server = "127.0.0.1:8000"

    def __init__(
        self,
        pairs: Pairs,
        path: str,
        method: str = "POST",
        client: str = "127.0.0.1:4711",
        authority: str | None = None,
    ) -> None:
        self.headers: Headers = SentHeaders(pairs)
        self.path, self.method, self.client, self.authority = path, method, client, authority
