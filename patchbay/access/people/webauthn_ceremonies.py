"""The two ceremonies of WebAuthn with the library `webauthn`: make a credential, and prove one.

This module is loaded for the first passkey only, because the library takes time to load.
Source: https://www.w3.org/TR/webauthn-3/, sections 7.1 and 7.2.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson
from webauthn import (
    base64url_to_bytes,
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

_FAULTS = (WebAuthnException, ValueError, TypeError, KeyError)


class WrongAnswer(ValueError):
    """The answer of the browser proves nothing."""


@dataclass(frozen=True, slots=True)
class Question:
    """What the hub expects of an answer: its challenge, the host name of the credential, the origin of the page."""

    challenge: bytes
    host: str
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Credential:
    """A new credential; `id` and `key` are base64url."""

    id: str
    key: str
    count: int


def make_registration_options(question: Question, name: str, known: Iterable[str], seconds: float) -> dict[str, Any]:
    """Return the options with which a browser makes a credential; `known` are ids that the person has."""
    options = generate_registration_options(
        rp_id=question.host,
        rp_name="Patchbay",
        user_name=name,
        user_id=name.encode(),
        challenge=question.challenge,
        timeout=int(seconds * 1000),
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED, user_verification=UserVerificationRequirement.REQUIRED
        ),
        exclude_credentials=[PublicKeyCredentialDescriptor(id=base64url_to_bytes(id)) for id in known],
    )
    found: dict[str, Any] = orjson.loads(options_to_json(options))
    return found


def make_authentication_options(question: Question, seconds: float) -> dict[str, Any]:
    """Return the options with which a browser proves any credential of the host."""
    options = generate_authentication_options(
        rp_id=question.host,
        challenge=question.challenge,
        timeout=int(seconds * 1000),
        user_verification=UserVerificationRequirement.REQUIRED,
    )
    found: dict[str, Any] = orjson.loads(options_to_json(options))
    return found


def verify_registration(answer: dict[str, Any], question: Question) -> Credential:
    """Return the credential that a browser made. Raises WrongAnswer."""
    try:
        found = verify_registration_response(
            credential=answer,
            expected_challenge=question.challenge,
            expected_rp_id=question.host,
            expected_origin=question.origin,
            require_user_verification=True,
        )
    except _FAULTS as problem:
        raise WrongAnswer(str(problem)) from problem
    return Credential(_encode(found.credential_id), _encode(found.credential_public_key), found.sign_count)


def verify_authentication(answer: dict[str, Any], question: Question, key: str, count: int) -> int:
    """Return the new count of a credential that a browser proved. Raises WrongAnswer."""
    try:
        found = verify_authentication_response(
            credential=answer,
            expected_challenge=question.challenge,
            expected_rp_id=question.host,
            expected_origin=question.origin,
            credential_public_key=base64url_to_bytes(key),
            credential_current_sign_count=count,
            require_user_verification=True,
        )
    except _FAULTS as problem:
        raise WrongAnswer(str(problem)) from problem
    return found.new_sign_count


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
