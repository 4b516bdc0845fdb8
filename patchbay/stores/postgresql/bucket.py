"""A bucket of an S3 server that holds large contents: `s3://bucket/prefix`. The key of an object is the CID.

Endpoint, region and credentials are read from the environment, as other programs for S3 do: `AWS_ENDPOINT_URL`,
`AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`. No error shows them.
Source: https://developmentseed.org/obstore/latest/api/store/aws/.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from patchbay.errors import ConfigError, StoreAway

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

REQUEST_SECONDS = 20.0
"""Seconds that one request may take, with its body."""

CONNECT_SECONDS = 3.0
"""Seconds that opening a connection may take."""

RETRY_SECONDS = 5.0
"""Seconds after the beginning of a request in which it is tried again."""

MAX_SHOWN = 200
"""Characters of an error of the server that are shown."""


class Bucket:
    """The objects below a prefix. Opens no connection before the first use.

    Raises ConfigError for a wrong address, StoreAway for a server that does not answer, is full or refuses.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._prefix = _prefix_of(address)
        self._objects: S3Store | None = None

    def put(self, key: str, data: bytes) -> None:
        """Write an object; an object with this key is replaced."""
        with self._own_errors("does not take"):
            obstore.put(self._open(), key, data, use_multipart=False)

    def get(self, key: str) -> bytes | None:
        """Return the bytes of an object; None for an unknown key."""
        with self._own_errors("does not return"):
            try:
                return bytes(obstore.get(self._open(), key).bytes())
            except FileNotFoundError:
                return None

    def has(self, key: str) -> bool:
        """Whether there is an object with this key."""
        with self._own_errors("does not name"):
            try:
                obstore.head(self._open(), key)
            except FileNotFoundError:
                return False
            return True

    def delete(self, key: str) -> None:
        """Delete an object, if there is one."""
        with self._own_errors("does not delete"), suppress(FileNotFoundError):
            obstore.delete(self._open(), key)

    def try_out(self) -> None:
        """Write, read and delete an object."""
        key, data = f"doctor-{secrets.token_hex(8)}", secrets.token_bytes(32)
        self.put(key, data)
        found = self.get(key)
        self.delete(key)
        if found != data:
            raise StoreAway(f"the bucket {self.address} does not return what was written")

    def _open(self) -> S3Store:
        if self._objects is None:
            # The endpoint decides about TLS; the one of AWS has it.
            client: ClientConfig = {
                "timeout": timedelta(seconds=REQUEST_SECONDS),
                "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                "allow_http": True,
            }
            retry: RetryConfig = {"max_retries": 2, "retry_timeout": timedelta(seconds=RETRY_SECONDS)}
            self._objects = S3Store.from_url(self._prefix, client_options=client, retry_config=retry)
        return self._objects

    @contextmanager
    def _own_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (PermissionDeniedError, UnauthenticatedError) as problem:
            raise StoreAway(
                f"the bucket {self.address} refuses this hub: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the"
                f" rights of that user ({_describe(problem)})"
            ) from None
        except FileNotFoundError as problem:
            raise StoreAway(f"there is no bucket {self.address}: make it ({_describe(problem)})") from None
        except (BaseError, OSError) as problem:
            raise StoreAway(f"the bucket {self.address} {what} contents: {_describe(problem)}") from None


def _prefix_of(address: str) -> str:
    """Return the address in its only spelling. Raises ConfigError for another one."""
    parts = urlsplit(address)
    host, prefix = parts.netloc, parts.path.strip("/")
    if parts.scheme != "s3" or not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", host) or parts.query:
        raise ConfigError(
            "the setting blobs",
            "",
            "expected s3://BUCKET/PREFIX; endpoint and credentials come from AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and"
            " AWS_SECRET_ACCESS_KEY",
        )
    return f"s3://{host}/{prefix}" if prefix else f"s3://{host}"


def _describe(problem: Exception) -> str:
    """Return the first line of an error without the body that the server sent."""
    line = str(problem).partition("\n")[0].partition(": <?xml")[0]
    return line[:MAX_SHOWN]
