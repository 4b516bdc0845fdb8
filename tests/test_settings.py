"""The settings table: precedence, refused values, and the generated page."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from patchbay.errors import ConfigError
from patchbay.settings import Settings, environment, forget_request_variables


def test_the_command_line_wins_over_the_environment_over_the_default() -> None:
    environ = {"PATCHBAY_PORT": "9000", "PATCHBAY_HOST": "0.0.0.0"}
    settings = Settings.load({"port": "9001", "workers": None}, environ)
    assert (settings.port, settings.host, settings.workers) == (9001, "0.0.0.0", 1)


def test_values_have_the_type_of_their_default() -> None:
    environ = {"PATCHBAY_DATA": "x", "PATCHBAY_DRAIN": "2.5", "PATCHBAY_ALLOWED_HOSTS": " a , b,"}
    settings = Settings.load(environ=environ)
    assert (settings.data, settings.drain, settings.allowed_hosts) == (Path("x").absolute(), 2.5, ("a", "b"))


@pytest.mark.parametrize(("name", "text"), [("PORT", "x"), ("PORT", "-1"), ("PORT", ""), ("DRAIN", "-0.5")])
def test_a_wrong_value_names_the_variable_and_what_was_expected(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"PATCHBAY_{name}: expected a .*number, 0 or more, got '{text}'"):
        Settings.load(environ={f"PATCHBAY_{name}": text})


def test_every_setting_has_a_sentence() -> None:
    assert [row.name for row in Settings.rows() if not row.metadata["help"].endswith(".")] == []


def test_no_default_opens_the_hub_to_the_network() -> None:
    settings = Settings.load(environ={})
    assert settings.host == "127.0.0.1"
    assert settings.allowed_origins == ()
    assert set(settings.allowed_hosts) == {"localhost", "127.0.0.1", "[::1]"}


def test_settings_reach_a_worker_process_unchanged() -> None:
    settings = Settings(port=1, allowed_origins=("https://app.example",))
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_a_child_process_sees_only_what_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHBAY_TEST_SECRET", "x")
    monkeypatch.setenv("LANG", "C.UTF-8")
    assert environment(("LANG", "MISSING_ONE")) == {"LANG": "C.UTF-8"}


def test_variables_that_look_like_request_headers_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("http_proxy", raising=False)
    monkeypatch.setenv("HTTP_ORIGIN", "https://evil.example")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("CONTENT_LENGTH", "5")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    # Set and unset through the fixture, so that it removes the variables that the function adds.
    monkeypatch.setenv("http_proxy", "")
    monkeypatch.delenv("http_proxy")
    forget_request_variables()
    names = ("HTTP_ORIGIN", "HTTP_PROXY", "CONTENT_LENGTH", "http_proxy", "HTTPS_PROXY")
    assert environment(names) == {"http_proxy": "http://proxy.example:3128", "HTTPS_PROXY": "http://proxy.example:3128"}


def test_each_value_says_which_option_or_variable_set_it() -> None:
    environ = {"PATCHBAY_PORT": "9000", "PATCHBAY_HOST": "127.0.0.1", "JANE_DIR": "/notes"}
    settings = Settings.load({"host": "::1", "workers": None}, environ)
    assert dict(settings.set_by) == {"port": "PATCHBAY_PORT", "host": "--host", "jane_dir": "JANE_DIR"}
    assert Settings.load(environ={}).set_by == ()
    assert pickle.loads(pickle.dumps(settings)).set_by == settings.set_by
    assert Settings.load(environ={"PATCHBAY_PORT": "8000"}) == Settings()
