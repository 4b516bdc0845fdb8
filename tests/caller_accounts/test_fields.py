"""What callers enter becomes headers, pairs of a query and variables, and nothing else."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.caller_accounts.fields import (
    BEARER,
    CredentialField,
    check_values,
    make_request_parts,
    make_variables,
)
from patchbay.client.addresses.targets import check_headers
from patchbay.errors import InvalidParams

LOGIN = CredentialField("login", "header", "Authorization", "basic")
QUERY = CredentialField("key", "query", "api_key")
VARIABLE = CredentialField("key", "variable", "API_KEY", "token={}")


def test_values_go_into_their_places() -> None:
    parts = make_request_parts([BEARER, QUERY], {"token": "t-1", "key": "k&2"})
    assert parts.headers == {"Authorization": "Bearer t-1"}
    assert parts.query == (("api_key", "k&2"),)
    assert make_variables([VARIABLE], {"key": "k"}) == {"API_KEY": "token=k"}


def test_a_user_name_and_a_password_are_basic_credentials() -> None:
    """RFC 7617, section 2."""
    parts = make_request_parts([LOGIN], {"login.user": "Aladdin", "login.password": "open sesame"})
    assert parts.headers == {"Authorization": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}


def test_no_form_of_a_value_is_shown() -> None:
    parts = make_request_parts([LOGIN], {"login.user": "Aladdin", "login.password": "open sesame"})
    assert {"open sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "open%20sesame"} <= parts.secrets
    assert "sesame" not in repr(parts)


@pytest.mark.parametrize("text", ["", " ", "a\nb", "a\r\nX-Admin: 1", "\x00", "a\u2028b", "\u00e9" * 3, "k" * 8193])
def test_a_value_that_no_header_has_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(InvalidParams) as refused:
        check_values([BEARER], {"token": text})
    assert text.strip() == "" or text not in refused.value.message


def test_a_user_name_has_no_colon() -> None:
    """RFC 7617, section 2: the first colon ends the user name."""
    with pytest.raises(InvalidParams, match="no colon"):
        check_values([LOGIN], {"login.user": "a:b", "login.password": "c"})


@given(st.text(max_size=50), st.text(max_size=50))
def test_what_is_accepted_can_be_sent_and_is_one_header(user: str, password: str) -> None:
    try:
        values = check_values([LOGIN, BEARER], {"login.user": user, "login.password": password, "token": password})
    except InvalidParams:
        return
    parts = make_request_parts([LOGIN], values)
    check_headers(parts.headers, "test")
    text = base64.b64decode(parts.headers["Authorization"].removeprefix("Basic ")).decode()
    assert text.split(":", 1) == [user.strip(), password.strip()]


@given(st.dictionaries(st.sampled_from(["token", "key", "other"]), st.text(max_size=20)))
def test_only_known_fields_are_kept(given_values: dict[str, Any]) -> None:
    try:
        found = check_values([BEARER], given_values)
    except InvalidParams:
        return
    assert set(found) == {"token"}
