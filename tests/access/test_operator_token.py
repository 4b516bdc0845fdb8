"""The operator's token: made once, kept for the user who runs the hub, shown and renewed by commands (THREATS 0.3)."""

from __future__ import annotations

import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from patchbay.access.operator_token import HASH_FILE, TOKEN_FILE, OperatorToken
from patchbay.cli.commands.patchbay import main
from patchbay.errors import ConfigError
from tests.hubs import Hub
from tests.web.operator.test_operators import put


def test_the_token_is_made_at_the_first_start_and_kept_for_its_owner_alone(tmp_path: Path) -> None:
    first = Hub(tmp_path, store="sqlite")
    token = first.token
    first.close()
    again = Hub(tmp_path, store="sqlite")
    assert again.token == token
    assert put(again, Authorization=f"bearer {token}").status_code == 201
    again.close()
    data = tmp_path / "data"
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    for name in (HASH_FILE, TOKEN_FILE):
        assert stat.S_IMODE((data / name).stat().st_mode) == 0o600
    holding = {path.name for path in data.iterdir() if path.is_file() and token.encode() in path.read_bytes()}
    assert holding == {TOKEN_FILE}


def test_the_token_counts_where_only_its_hash_is_kept(tmp_path: Path) -> None:
    """Data folders of earlier releases hold the hash alone."""
    token = OperatorToken(tmp_path).renew()
    (tmp_path / TOKEN_FILE).unlink()
    again = OperatorToken(tmp_path)
    again.ensure()
    assert again.fits(token) and again.read_stored() is None
    (tmp_path / TOKEN_FILE).write_text("patchbay_of_another_hub")
    assert again.read_stored() is None


def test_of_several_first_starts_one_makes_the_token(tmp_path: Path) -> None:
    def start(_: int) -> None:
        OperatorToken(tmp_path).ensure()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(start, range(16)))
    token = OperatorToken(tmp_path).read_stored()
    assert token and OperatorToken(tmp_path).fits(token)
    assert {path.name for path in tmp_path.iterdir()} == {HASH_FILE, TOKEN_FILE}


def test_a_file_that_holds_no_hash_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / HASH_FILE).write_text("open sesame")
    with pytest.raises(ConfigError, match="64 hexadecimal digits") as caught:
        OperatorToken(tmp_path).hash()
    assert str(tmp_path) in caught.value.message


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def test_the_command_line_makes_a_new_token_and_shows_the_present_one(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    assert "no token yet" in run("token", "--show", *data).stderr
    made = run("token", *data)
    assert made.exit_code == 0, made.output
    assert re.fullmatch(r"patchbay_[\w-]{43}\n", made.stdout)
    assert OperatorToken(tmp_path).fits(made.stdout.strip())
    assert run("token", "--show", *data).stdout == made.stdout
    (tmp_path / TOKEN_FILE).unlink()
    assert "the present token works, but it cannot be shown" in run("token", "--show", *data).stderr, "34.22"
    assert OperatorToken(tmp_path).fits(made.stdout.strip())
    (tmp_path / HASH_FILE).write_text("damaged")
    assert run("token", "--show", *data).exit_code == 2
    assert run("token", *data).exit_code == 0
    for command in ("token", "login"):
        assert run(command, *data, "--store", "memory").exit_code == 2


def test_the_command_line_prints_a_link_that_logs_a_browser_in(tmp_path: Path) -> None:
    hub = Hub(tmp_path, store="sqlite")
    made = run("login", "--data", str(tmp_path / "data"), "--port", "8123")
    assert made.exit_code == 0, made.output
    assert made.stdout.startswith("http://127.0.0.1:8123/login?once=")
    assert hub.client.get(made.stdout.strip().removeprefix("http://127.0.0.1:8123")).status_code == 303
    hub.close()
