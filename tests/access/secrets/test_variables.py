"""What `${NAME}` stands for, in which order, and which servers a change of it reaches. Issue 56, 1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from patchbay.access.secrets.folder import SecretsFolder
from patchbay.access.secrets.names import SecretRefused
from patchbay.access.secrets.records import Secrets
from patchbay.access.secrets.variables import HubVariables
from patchbay.client.addresses.variables import UnsetVariable, substitute_env_vars
from patchbay.stores.memory import MemoryStore

ENVIRON: Mapping[str, str] = {"A": "environment", "B": "environment", "C": "environment", "HOME": "/home/me/hub"}


@pytest.fixture
def secrets() -> Secrets:
    return Secrets(MemoryStore(), b"k" * 32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("A", "B", "HOME"):
        (tmp_path / name).write_text("file")
    return tmp_path


def test_a_stored_secret_comes_before_a_file_and_a_file_before_the_environment(secrets: Secrets, folder: Path) -> None:
    secrets.put("A", "stored", "local")
    found = HubVariables(ENVIRON, secrets, SecretsFolder(folder))("server")
    assert [found[name] for name in "ABC"] == ["stored", "file", "environment"]
    assert found["HOME"] == "/home/me/hub", "a variable that the hub itself reads comes from the environment"
    assert "D" not in found
    assert substitute_env_vars("${A} ${D:-none}", found) == "stored none"
    with pytest.raises(UnsetVariable):
        substitute_env_vars("${D}", found)


def test_a_secret_of_other_servers_is_refused_also_with_a_default_and_with_a_variable_of_its_name(
    secrets: Secrets,
) -> None:
    secrets.put("A", "stored", "local", ["github"])
    found = HubVariables(ENVIRON, secrets)("stranger")
    for text in ("${A}", "${A:-default}"):
        with pytest.raises(SecretRefused):
            substitute_env_vars(text, found)


def test_a_copy_of_the_variables_and_their_text_have_no_secret(secrets: Secrets) -> None:
    secrets.put("TOKEN", "a-secret-value", "local")
    found = HubVariables(ENVIRON, secrets)("server")
    assert found["TOKEN"] == "a-secret-value"
    assert "a-secret-value" not in repr(found)
    assert "a-secret-value" not in dict(found).values()


def test_a_change_reaches_the_servers_that_asked_for_the_name_once(secrets: Secrets) -> None:
    variables = HubVariables(ENVIRON, secrets)
    assert variables("first").get("TOKEN") is None
    assert variables("second")["A"] == "environment"
    assert not variables.list_changed()
    secrets.put("TOKEN", "value", "local")
    assert variables.list_changed() == {"first"}
    assert not variables.list_changed()
    secrets.put("A", "stored", "local", ["second"])
    assert variables.list_changed() == {"second"}
    secrets.put("A", "stored", "local")
    assert not variables.list_changed(), "the value for this server is the same"
    secrets.put("A", "stored", "local", ["first"])
    assert variables.list_changed() == {"second"}, "it may not use the secret now"
    secrets.remove("TOKEN")
    assert variables.list_changed() == {"first"}


def test_a_connection_that_has_the_new_value_already_does_not_hide_the_change_from_the_others(
    secrets: Secrets,
) -> None:
    variables = HubVariables(ENVIRON, secrets)
    secrets.put("TOKEN", "old", "local")
    assert variables("server")["TOKEN"] == "old"
    secrets.put("TOKEN", "new", "local")
    assert variables("server")["TOKEN"] == "new"
    assert variables.list_changed() == {"server"}


def test_a_changed_file_reaches_the_servers_that_asked_for_it(secrets: Secrets, folder: Path) -> None:
    variables = HubVariables(ENVIRON, secrets, SecretsFolder(folder))
    assert variables("server")["A"] == "file"
    assert not variables.list_changed()
    (folder / "A").write_text("another")
    assert variables.list_changed() == {"server"}
    (folder / "A").unlink()
    assert variables.list_changed() == {"server"}
    assert variables("server")["A"] == "environment"


def test_the_use_of_a_secret_is_noted_for_the_server_that_asked(secrets: Secrets) -> None:
    secrets.put("TOKEN", "value", "local")
    variables = HubVariables(ENVIRON, secrets)
    assert variables("server")["TOKEN"] == "value"
    assert set(secrets.all()[0].uses) == {"server"}
