"""The names and the values that a secret may have, and the errors of one that cannot be used."""

from __future__ import annotations

import re

from patchbay.errors import ConfigError, InvalidParams

MAX_NAME_CHARACTERS = 128
MAX_VALUE_BYTES = 32 * 1024
"""Bytes of one secret, as UTF-8: certificates and private keys are smaller."""

_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_NAME_CHARACTERS - 1}}}")
_READ_BY_THE_HUB = re.compile(
    r"PATCHBAY_.*|XDG_.*|LD_.*|(HTTPS?|ALL|NO|FTP)_PROXY|PATH|HOME|USER|LOGNAME|SHELL|TMPDIR|APPDATA|LANG|REDISCLI_AUTH",
    re.IGNORECASE,
)
"""Variables that the hub itself, or a library of it, reads: they always come from the environment."""

_FORBIDDEN_CHARACTERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class SecretRefused(ConfigError):
    """A configuration names a secret that is for other servers, or that cannot be read."""


def is_secret_like(name: str) -> bool:
    """Whether a secret can have this name."""
    return bool(_NAME.fullmatch(name)) and not _READ_BY_THE_HUB.fullmatch(name)


def check_name(name: str) -> None:
    """Check the name of a secret. Raises InvalidParams."""
    if not _NAME.fullmatch(name):
        raise InvalidParams(
            f"the name of a secret: expected letters, digits and _, at most {MAX_NAME_CHARACTERS}, such as"
            " GITHUB_TOKEN; its value is never a part of it"
        )
    if _READ_BY_THE_HUB.fullmatch(name):
        raise InvalidParams(f"{name} is a variable that the hub itself reads: choose another name for the secret")


def check_value(value: str) -> None:
    """Check the value of a secret. Raises InvalidParams, which never shows the value."""
    if not value:
        raise InvalidParams("the value of a secret is empty: to delete the secret, remove it")
    if len(value.encode("utf-8", "surrogatepass")) > MAX_VALUE_BYTES:
        raise InvalidParams(f"the value of a secret is too large: expected at most {MAX_VALUE_BYTES} bytes")
    if _FORBIDDEN_CHARACTERS.search(value) or any(0xD800 <= ord(character) <= 0xDFFF for character in value):
        raise InvalidParams("the value of a secret: expected text, without control characters such as NUL")
