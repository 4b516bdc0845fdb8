"""The settings of identity providers: names, clients, secrets, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.access.providers.provider import load_providers
from patchbay.errors import ConfigError
from patchbay.settings import Settings

URL = "https://id.example.org/realms/acme"


def test_one_provider_needs_no_name() -> None:
    (found,) = load_providers(Settings(sign_in=(URL,), sign_in_client=("hub",), sign_in_secret=("${ACME}",)))
    assert (found.name, found.key, found.client_id, found.secret) == ("id.example.org", "id-example-org", "hub", "ACME")
    assert found.issuer.url == URL and found.callback == "/sign-in/id-example-org/callback"


def test_several_providers_have_names_clients_and_secrets() -> None:
    settings = Settings(
        sign_in=("Acme Group=https://a.example.org", "Beta=https://b.example.org/?"[:-2]),
        sign_in_client=("Beta=b", "Acme Group=a=1"),
        sign_in_secret=("Beta=${BETA}",),
    )
    acme, beta = load_providers(settings)
    assert (acme.name, acme.key, acme.client_id, acme.secret) == ("Acme Group", "acme-group", "a=1", "")
    assert (beta.name, beta.key, beta.client_id, beta.secret) == ("Beta", "beta", "b", "BETA")


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("--sign-in", {"sign_in": ("http://id.example.org",)}),
        ("--sign-in", {"sign_in": ("Acme=",)}),
        ("--sign-in", {"sign_in": ("no URL",)}),
        ("--sign-in", {"sign_in": ("!=https://id.example.org",)}),
        ("--sign-in", {"sign_in": (URL, f"Other={URL}"), "sign_in_client": ("id.example.org=a", "Other=b")}),
        (
            "--sign-in",
            {"sign_in": ("A B=https://a.example", "a-b=https://b.example"), "sign_in_client": ("A B=a", "a-b=b")},
        ),
        ("--sign-in", {"sign_in": tuple(f"p{n}=https://p{n}.example" for n in range(11))}),
        ("--sign-in", {"access": "personal"}),
        ("--sign-in", {"access": "open"}),
        ("--sign-in-client", {"sign_in_client": ()}),
        ("--sign-in-client", {"sign_in_client": ("hub", "hub")}),
        ("--sign-in-client", {"sign_in_client": ("Other=hub",)}),
        ("--sign-in-client", {"sign_in": (), "sign_in_client": ("hub",)}),
        ("--sign-in-secret", {"sign_in_secret": ("the secret itself",)}),
        ("--sign-in-secret", {"sign_in_secret": ("${ACME:-the secret itself}",)}),
        ("--sign-in-scopes", {"sign_in_scopes": ("two scopes",)}),
    ],
)
def test_a_wrong_setting_is_named_and_a_secret_is_not_shown(setting: str, values: dict[str, Any]) -> None:
    known: dict[str, Any] = {"sign_in": (URL,), "sign_in_client": ("hub",)}
    with pytest.raises(ConfigError) as found:
        load_providers(Settings(**known | values))
    assert setting in str(found.value) and "the secret itself" not in str(found.value)


def test_a_hub_with_a_provider_is_shared() -> None:
    assert Settings(sign_in=(URL,)).mode == "shared"
