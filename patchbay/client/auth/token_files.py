"""Tokens, kept in a folder of the user: one file for each server, readable only by the user.

A file holds the client's registration and the tokens of one server, the time at which the access token expires, and the
key that it may be bound to. The folder has mode 0700, files have mode 0600, and one process at a time replaces a whole
file. A file that cannot be read is logged and treated as empty. An expired access token is returned as an empty one, so
that the client refreshes it.

Sources: RFC 6749 section 6; MCP specification, basic/authorization, token storage.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from pathlib import Path
from typing import Any, TypeVar

import orjson
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import BaseModel, ValidationError

from patchbay.client.auth.methods import get_token_path
from patchbay.client.profiles.files import lock_directory

log = logging.getLogger(__name__)

M = TypeVar("M", bound=BaseModel)

EXPIRY_MARGIN_SECONDS = 30
"""Seconds before its expiry from which an access token is not used any more."""


class TokenFile:
    """The tokens of one account at one server, as the SDK's `TokenStorage`."""

    def __init__(self, folder: Path, url: str, account: str = "") -> None:
        self.path = get_token_path(folder, url, account)
        self._url = url

    async def get_tokens(self) -> OAuthToken | None:
        """Get the tokens, with an empty access token when it has expired."""
        stored = self._read()
        tokens = _validate_model(OAuthToken, stored.get("tokens"))
        ends = stored.get("ends")
        if tokens is None or not isinstance(ends, (int, float)):
            return tokens
        left = int(ends - time.time()) - EXPIRY_MARGIN_SECONDS
        spent = {"access_token": ""} if left <= 0 else {}
        return tokens.model_copy(update={"expires_in": max(left, 0), **spent})

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store the tokens."""
        ends = None if tokens.expires_in is None else time.time() + tokens.expires_in
        self._write({"tokens": tokens.model_dump(mode="json", exclude_none=True), "ends": ends})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Get the client's registration at the authorization server."""
        return _validate_model(OAuthClientInformationFull, self._read().get("client"))

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store the registration."""
        self._write({"client": client_info.model_dump(mode="json", exclude_none=True)})

    def get_proof(self) -> tuple[str, str]:
        """Return the private key (PEM) and the access token that is bound to it; two empty strings without them."""
        stored = self._read().get("proof")
        key, token = (stored.get(name) for name in ("key", "token")) if isinstance(stored, dict) else (None, None)
        return (key, token) if isinstance(key, str) and isinstance(token, str) else ("", "")

    def set_proof(self, key: str, token: str) -> None:
        """Store the private key (PEM) and the access token that is bound to it."""
        self._write({"proof": {"key": key, "token": token}})

    def delete(self) -> None:
        """Delete everything that is stored for this server."""
        self.path.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any]:
        try:
            stored = orjson.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as problem:
            log.warning("the tokens in %s cannot be read (%s); sign in again", self.path, problem)
            return {}
        return stored if isinstance(stored, dict) and stored.get("url") == self._url else {}

    def _write(self, changes: dict[str, Any]) -> None:
        folder = self.path.parent
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with lock_directory(folder, alone=True):  # the stages of a pipeline may sign in together
            number, name = tempfile.mkstemp(dir=folder, prefix=".", suffix=".json")  # mode 0600 from the beginning
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(orjson.dumps(self._read() | {"url": self._url} | changes, option=orjson.OPT_INDENT_2))
                Path(name).replace(self.path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise


class MachineTokenFile(TokenFile):
    """The access tokens of a client without a person.

    A refresh token is not stored: the client has its credentials, and a refresh in a later process would begin before
    the authorization server is known again. Tokens that cannot be stored are requested again by the next process.
    """

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store the tokens without a refresh token."""
        try:
            await super().set_tokens(tokens.model_copy(update={"refresh_token": None}))
        except OSError as problem:
            log.warning("the tokens cannot be stored in %s: %s", self.path.parent, problem.strerror)


def _validate_model(kind: type[M], value: Any) -> M | None:
    if value is None:
        return None
    try:
        return kind.model_validate(value)
    except ValidationError as problem:
        log.warning("stored tokens have an unknown form (%s); sign in again", problem.title)
        return None
