"""Which files of settings of the user a confined program gets: those without a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbay.client.addresses.secrets import is_evident_secret
from patchbay.processes.confinement.programs import ProgramConfinement, ProgramPermissions, ProgramPlaces
from patchbay.processes.confinement.user_settings import find_user_settings

PLAIN = {
    ".npmrc": "registry=https://registry.example/npm/\nsave-exact = true\n; a comment\nproxy=http://proxy.example:3128\n",
    ".gitconfig": "[user]\n\tname = Ada\n\temail = ada@example.org\n\tsigningKey = 3AA5C34371567BD2\n"
    '[url "ssh://git@code.example/"]\n\tinsteadOf = https://code.example/\n[alias]\n\tco = checkout\n',
}
SECRET_LINES = [
    (".npmrc", "registry=https://me:secret@host.example/"),
    (".npmrc", "proxy=http://u:pw@host.example"),
    (".npmrc", "https-proxy = 'https://u:pw@host.example:3128'"),
    (".npmrc", "//registry.example/:_authToken=abcdef"),
    (".npmrc", "; //registry.example/:_authToken=abcdef"),
    (".npmrc", "key = abcdef"),
    (".npmrc", "cafile-note = ghp_0123456789abcdefghij"),
    (".gitconfig", '[url "https://TOKEN@code.example/"]'),
    (".gitconfig", '[url "https://oauth2:pw@code.example/"]'),
    (".gitconfig", "\tproxy = http://u:pw@proxy.example"),
    (".gitconfig", "\textraHeader = Authorization: Basic dXNlcjpwYXNzd29yZA=="),
    (".gitconfig", "\tsmtppass = abcdef"),
    (".gitconfig", "\toauth-token = abcdef"),
]


@pytest.fixture(name="home")
def _home(tmp_path: Path) -> Path:
    for name, text in PLAIN.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def _hidden(home: Path, **environ: str) -> set[Path]:
    places = ProgramPlaces(home / "programs", is_secret=is_evident_secret)
    confinement = ProgramConfinement("notes", places, ProgramPermissions(), {"HOME": str(home), **environ})
    return set(confinement.hidden_places())


def test_settings_without_a_secret_are_shown(home: Path) -> None:
    found = find_user_settings({"HOME": str(home)}, is_evident_secret)
    assert found == {
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "npm_config_userconfig": str(home / ".npmrc"),
    }
    assert not _hidden(home)


@pytest.mark.parametrize(("name", "line"), SECRET_LINES)
def test_settings_with_a_secret_stay_hidden(home: Path, name: str, line: str) -> None:
    (home / name).write_text(f"{PLAIN[name]}{line}\n")
    assert str(home / name) not in find_user_settings({"HOME": str(home)}, is_evident_secret).values()
    assert _hidden(home) == {home / name}


def test_plain_settings_in_the_home_folder_open_no_other_file_of_the_same_name(home: Path) -> None:
    other = home / "work" / ".npmrc"
    other.parent.mkdir()
    other.write_text("//registry.example/:_authToken=abcdef\n")
    assert _hidden(home, npm_config_userconfig=str(other)) == {other}


def test_without_a_judgement_of_secrets_no_settings_are_shown(home: Path) -> None:
    assert find_user_settings({"HOME": str(home)}, ProgramPlaces(home).is_secret) == {}
