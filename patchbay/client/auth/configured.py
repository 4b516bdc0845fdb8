"""The sign-in that an address or a profile configures, made ready: its files are read, its way is one of `methods.py`.

A private key is read when a connection opens. The tokens of a workload and of an identity provider are read anew for
each request of an access token, because a platform such as Kubernetes replaces these files while the program runs.
No error shows the content of a file.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from stat import S_ISREG

from patchbay.client.addresses.targets import Http, Target
from patchbay.client.auth.methods import (
    BrowserSignIn,
    ClientCredentials,
    IdentityAssertion,
    SignIn,
    WorkloadIdentity,
)
from patchbay.client.errors import Unreachable

MAX_FILE_BYTES = 64 * 1024
"""Bytes of a file with a key or a token; those of platforms have less than 16 KiB."""


def choose_sign_in(target: Target, browser: BrowserSignIn) -> SignIn | None:
    """Choose the way to sign in at a target: the configured one, else `browser`; None for a target that needs none.

    A header Authorization takes the place of a sign-in. Raises Unreachable for a private key that cannot be read.
    """
    if not isinstance(target, Http) or target.has_authorization:
        return None
    return make_machine_sign_in(target, browser.folder) or _add_registration(target, browser)


def make_machine_sign_in(target: Http, folder: Path) -> ClientCredentials | WorkloadIdentity | IdentityAssertion | None:
    """Return the configured way without a person; None when the target configures no such way.

    `folder` is where access tokens are stored. Raises Unreachable for a private key that cannot be read.
    """
    fields = target.sign_in
    if fields is None or fields.way == "browser":
        return None
    scope, issuer = fields.scope or None, target.issuer
    if fields.way == "workload":
        read = partial(read_token_file, fields.token_file, "token_file")
        return WorkloadIdentity(folder, fields.client_id, issuer, read, scope)
    if fields.way == "identity":
        read = partial(read_token_file, fields.id_token_file, "id_token_file")
        provider = (fields.identity_token_url, fields.identity_client_id)
        return IdentityAssertion(folder, fields.client_id, fields.client_secret, issuer, *provider, read, scope)
    if not fields.client_key:
        return ClientCredentials(folder, fields.client_id, issuer, client_secret=fields.client_secret, scope=scope)
    key = read_text_file(fields.client_key, "client_key")
    return ClientCredentials(folder, fields.client_id, issuer, private_key=key, scope=scope)


def read_text_file(path: str, key: str) -> str:
    """Read a small file with a key or a token. `key` is the member of the sign-in that names it. Raises Unreachable."""
    file, what = Path(path).expanduser(), f"launch.{key}: {path}"
    try:
        if not S_ISREG(file.stat().st_mode):
            raise Unreachable(f"{what}: expected a file, not a directory or a device")
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
    except OSError as problem:
        raise Unreachable(f"{what}: cannot be read: {problem.strerror}") from problem
    if len(data) > MAX_FILE_BYTES:
        raise Unreachable(f"{what}: expected at most {MAX_FILE_BYTES} bytes")
    try:
        text = data.decode("ascii").strip()
    except UnicodeDecodeError as problem:
        raise Unreachable(f"{what}: expected text in ASCII") from problem
    if not text:
        raise Unreachable(f"{what}: expected a key or a token, the file is empty")
    return text


def read_token_file(path: str, key: str) -> str:
    """Read a token, which is one word; a line break at the end is removed. Raises Unreachable."""
    text = read_text_file(path, key)
    if len(text.split()) != 1 or not text.isprintable():
        raise Unreachable(f"launch.{key}: {path}: expected one token on one line, without blanks")
    return text


def _add_registration(target: Http, browser: BrowserSignIn) -> BrowserSignIn:
    """Return `browser` with the registration that the target configures, if it configures one."""
    fields = target.sign_in
    if fields is None or not (fields.client_id or fields.scope):
        return browser
    return replace(
        browser,
        client_id=fields.client_id or None,
        client_secret=fields.client_secret or None,
        scope=fields.scope or None,
        issuer=target.issuer if fields.client_id else browser.issuer,
    )
