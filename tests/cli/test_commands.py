"""The `patchbay` command as a user meets it: what it prints, where, and with which exit code."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

import patchbay
from patchbay import exit_codes
from patchbay.cli import main
from patchbay.cli.options import SETTING_FIELDS, SETTING_ORDER, flag_name
from patchbay.cli.terminal.failures import exit_on_error
from patchbay.client.errors import ServerTimeout, SignInNeeded, Unreachable
from patchbay.errors import InvalidParams, ToolFailed


def run(*arguments: str, environment: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, arguments, env=environment, prog_name="patchbay")


def settings_by_name(result: Result) -> dict[str, dict[str, str]]:
    assert result.exit_code == exit_codes.OK, result.stderr
    return {row["name"]: row for row in json.loads(result.stdout)}


def test_the_version_is_one_line() -> None:
    assert run("--version").stdout == f"patchbay {patchbay.__version__}\n"


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (ToolFailed("no"), exit_codes.FAILED),
        (InvalidParams("no"), exit_codes.USAGE),
        (Unreachable("no"), exit_codes.UNREACHABLE),
        (ServerTimeout("no"), exit_codes.OVERDUE),
        (SignInNeeded("no"), exit_codes.SIGN_IN),
        (KeyboardInterrupt(), exit_codes.INTERRUPTED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_an_error_ends_the_process_with_the_code_of_its_kind(problem: BaseException, code: int) -> None:
    with pytest.raises(SystemExit) as ended, exit_on_error():
        raise problem
    assert ended.value.code == code


def test_help_names_every_command_and_the_exit_codes() -> None:
    page = run("--help").stdout
    assert all(name in page for name in main.late)
    assert "Exit codes:" in page


def test_every_setting_is_an_option_of_serve_with_its_sentence_and_variable() -> None:
    page = " ".join(run("serve", "--help").stdout.split())
    for name, row in SETTING_FIELDS.items():
        assert flag_name(name) in page
        assert f"PATCHBAY_{name.upper()}" in page
        assert row.metadata["help"].split()[0] in page


def test_the_options_asked_for_most_come_first() -> None:
    page = run("serve", "--help").stdout
    places = [page.index(f"  {flag_name(name)} ") for name in SETTING_ORDER]
    assert places == sorted(places)
    assert SETTING_ORDER[:7] == ("port", "host", "data", "servers", "boot", "workers", "threads")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("add", {"servers", "registry", "pypi", "npm", "confine", "writes"}),
        ("approve", {"data"}),
        ("audit export", {"data"}),
        ("audit prune", {"data"}),
        ("gc", {"data", "blob_hours"}),
        ("import", {"data", "servers", "port"}),
        ("install", {"data", "servers", "host", "port"}),
        ("invite", {"data", "host", "port", "public_url", "sign_in"}),
        ("key new", {"data"}),
        ("list", {"data", "servers"}),
        ("login", {"data", "host", "port", "public_url"}),
        ("mount", {"servers", "confine", "writes", "data"}),
        ("outdated", {"servers", "data", "pypi", "npm"}),
        ("people list", {"data"}),
        ("pins list", {"data"}),
        ("replay", {"data"}),
        ("revoke", {"data"}),
        ("search", {"registry"}),
        ("token", {"data"}),
        ("unmount", {"servers"}),
    ],
)
def test_a_help_page_shows_only_the_settings_that_the_command_uses(command: str, shown: set[str]) -> None:
    page = run(*command.split(), "--help").stdout
    assert {name for name in SETTING_FIELDS if f"  {flag_name(name)} " in page} == shown


def test_settings_lists_every_setting_once() -> None:
    rows = run("settings").stdout.splitlines()[1:]
    assert sorted(row.split()[0] for row in rows) == sorted(SETTING_FIELDS)


def test_settings_says_where_each_value_came_from() -> None:
    rows = settings_by_name(
        run("settings", "--json", "--threads", "9", environment={"PATCHBAY_PORT": "9000", "PATCHBAY_THREADS": "8"})
    )
    assert (rows["threads"]["value"], rows["threads"]["source"]) == ("9", "flag")
    assert (rows["port"]["value"], rows["port"]["source"]) == ("9000", "environment")
    assert (rows["host"]["value"], rows["host"]["source"]) == ("127.0.0.1", "default")
    assert rows["threads"]["default"] == "256"


def test_a_list_is_shown_as_it_is_written() -> None:
    hosts = "a.example,b.example"
    assert settings_by_name(run("settings", "--json", "--allowed-hosts", hosts))["allowed_hosts"]["value"] == hosts


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--port", "eighty"), "--port"),
        (("--port", "65536"), "--port"),
        (("--port=-1",), "--port"),
        (("--workers", "0"), "--workers"),
        (("--threads", "0"), "--threads"),
        (("--drain", "nan"), "--drain"),
        (("--log-level", "loud"), "--log-level"),
        (("--log-format", "xml"), "--log-format"),
    ],
)
@pytest.mark.parametrize("command", [("serve",), ("settings",), ("stdio", "echo")], ids=lambda words: words[0])
def test_a_bad_value_is_one_sentence_on_stderr(
    command: tuple[str, ...], arguments: tuple[str, ...], named: str
) -> None:
    result = run(*command, *arguments)
    assert result.exit_code == exit_codes.USAGE
    assert result.stdout == ""
    assert result.stderr.startswith(f"patchbay: {named}: expected ")
    assert result.stderr.count("\n") == 1


def test_a_bad_variable_is_named_as_a_variable() -> None:
    result = run("settings", environment={"PATCHBAY_PORT": "eighty"})
    assert result.exit_code == exit_codes.USAGE
    assert result.stderr.startswith("patchbay: PATCHBAY_PORT: expected a whole number")


def test_an_unknown_option_is_refused() -> None:
    result = run("serve", "--prot", "1")
    assert result.exit_code == exit_codes.USAGE
    assert "--port" in result.stderr
