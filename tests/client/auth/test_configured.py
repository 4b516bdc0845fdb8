"""The files and keys of a sign-in that an address configures."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from patchbay.client.addresses.address import parse_address, to_profile_fields
from patchbay.client.addresses.formatting import format_address
from patchbay.client.addresses.targets import AddressError, Http
from patchbay.client.addresses.variables import ProfileError
from patchbay.client.auth.configured import MAX_FILE_BYTES, choose_sign_in, read_token_file
from patchbay.client.auth.methods import BrowserSignIn, ClientCredentials, WorkloadIdentity, get_token_path
from patchbay.client.auth.oauth import _choose_algorithm
from patchbay.client.errors import Unreachable
from patchbay.client.profiles.layouts import get_target, parse_profile
from patchbay.errors import ConfigError
from patchbay.upstreams.configuration import mount_of

SERVER = "mcp+https://x.example/mcp?launch.issuer=https://login.example"
MACHINE = f"{SERVER}&launch.sign_in=client-credentials&launch.client_id=ci"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("launch.sign_in=magic", "launch.sign_in=: expected one of browser, client-credentials, workload, identity"),
        ("launch.sign_in=client-credentials", "launch.client_id=: expected client_id"),
        ("launch.sign_in=client-credentials&launch.client_id=a", "needs client_secret or client_key, one of the two"),
        (
            "launch.sign_in=workload&launch.client_id=a&launch.client_secret=b",
            "client_secret belongs to the sign-in browser and client-credentials and identity",
        ),
        ("launch.token_file=a", "token_file belongs to the sign-in workload; the sign-in browser takes client_id"),
        ("launch.client_secret=a", "expected client_id beside client_secret"),
        ("launch.client_id=a&header.Authorization=b", "expected a sign-in or a header Authorization, not both"),
        ("launch.client_id=a&launch.client_id=b", "launch.client_id= is not understood here"),
    ],
)
def test_a_wrong_key_is_an_error_that_says_where_it_belongs(query: str, message: str) -> None:
    with pytest.raises(AddressError) as problem:
        parse_address(f"{SERVER}&{query}")
    assert message in str(problem.value)


@pytest.mark.parametrize("issuer", ["", "launch.issuer=any&"])
def test_credentials_need_the_authorization_server_that_they_are_for(issuer: str) -> None:
    with pytest.raises(AddressError, match=r"launch\.issuer=: expected issuer, the URL of one authorization server"):
        parse_address(f"mcp+https://x.example/mcp?{issuer}launch.client_id=a")


def test_an_address_with_a_sign_in_is_shown_without_its_secret_and_written_again() -> None:
    target = parse_address(f"{MACHINE}&launch.client_secret=hidden").target
    assert isinstance(target, Http)
    assert target.label == "https://x.example/mcp (sign-in: client-credentials)"
    assert "hidden" not in repr(target)
    assert parse_address(format_address(target)).target == target
    assert len({target, parse_address(f"{MACHINE}&launch.client_secret=other").target}) == 2


def test_a_profile_takes_a_secret_only_as_a_variable() -> None:
    target = parse_address(f"{MACHINE}&launch.client_secret=hidden").target
    assert isinstance(target, Http)
    with pytest.raises(ProfileError, match=r"sign_in\.client_secret"):
        parse_profile("far", {"plugin": "mcp", **to_profile_fields(target)}, {}, "here")
    target = parse_address(f"{MACHINE}&launch.client_secret=${{CI}}").target
    assert isinstance(target, Http)
    profile = parse_profile("far", {"plugin": "mcp", **to_profile_fields(target)}, {}, "here")
    reached = get_target(profile, {"CI": "hidden"})
    assert isinstance(reached, Http)
    assert reached.sign_in is not None
    assert reached.sign_in.client_secret == "hidden"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"address": f"{MACHINE}&launch.client_secret=hidden"}, "expected a variable such as"),
        ({"address": f"{SERVER}&launch.client_id=a"}, "expected a sign-in without a browser"),
        ({"address": f"{MACHINE}&launch.client_key=k", "account": "caller"}, "expected no sign-in beside"),
        ({"address": f"{MACHINE}&launch.client_key=k", "public": True}, "only the operator of the hub"),
    ],
)
def test_a_mount_refuses_a_sign_in_that_a_hub_cannot_use(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as problem:
        mount_of("far", fields, "far.json")
    assert message in problem.value.message
    assert "hidden" not in problem.value.message


def test_a_token_is_read_anew_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    target = parse_address(f"{SERVER}&launch.sign_in=workload&launch.client_id=a&launch.token_file={file}").target
    assert isinstance(target, Http)
    way = choose_sign_in(target, BrowserSignIn(tmp_path))
    assert isinstance(way, WorkloadIdentity)
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        assert way.read_token() == token


def test_a_token_file_that_holds_no_token_is_a_clear_error(tmp_path: Path) -> None:
    contents = {
        "empty": (b"\n", "the file is empty"),
        "huge": (b"x" * (MAX_FILE_BYTES + 1), "expected at most"),
        "lines": (b"secret\nmore", "expected one token on one line"),
        "bytes": (b"\xff", "expected text in ASCII"),
    }
    for name, (data, message) in contents.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(Unreachable, match=message) as problem:
            read_token_file(str(tmp_path / name), "token_file")
        assert "secret" not in str(problem.value)
    with pytest.raises(Unreachable, match="not a directory"):
        read_token_file(str(tmp_path), "token_file")
    with pytest.raises(Unreachable, match="No such file"):
        read_token_file(str(tmp_path / "none"), "token_file")


def test_two_clients_of_one_server_do_not_share_tokens(tmp_path: Path) -> None:
    clients = [ClientCredentials(tmp_path, name, "https://login.example", "s") for name in ("one", "two")]
    accounts = [*(each.account for each in clients), BrowserSignIn(tmp_path).account]
    paths = {get_token_path(tmp_path, "https://x.example/mcp", account) for account in accounts}
    assert len(paths) == 3


def test_the_algorithm_of_a_signature_follows_from_the_key() -> None:
    keys: dict[str, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey] = {
        "ES256": ec.generate_private_key(ec.SECP256R1()),
        "ES384": ec.generate_private_key(ec.SECP384R1()),
        "EdDSA": ed25519.Ed25519PrivateKey.generate(),
        "RS256": rsa.generate_private_key(65537, 2048),
    }
    for algorithm, key in keys.items():
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        assert _choose_algorithm(pem.decode()) == algorithm
    with pytest.raises(Unreachable, match=r"launch\.client_key: expected a private key in PEM"):
        _choose_algorithm("no key")
