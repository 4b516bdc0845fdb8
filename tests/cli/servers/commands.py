"""Runs a `patchbay` command in this process on the folders of one hub, as a shell without a terminal does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from click.testing import CliRunner

from patchbay.cli import main
from tests.cli.workspace import Ended


def run_command(
    folder: Path, *words: str, names_servers: bool = True, variables: Mapping[str, str] | None = None
) -> Ended:
    """Run one command with the folder `data` of a folder and, with `names_servers`, its folder `servers`.

    `variables` are added to its environment.
    """
    environment = {"PATCHBAY_DATA": str(folder / "data"), "HOME": str(folder)}
    environment |= {"PATCHBAY_SERVERS": str(folder / "servers")} if names_servers else {}
    environment |= variables or {}
    ended = CliRunner().invoke(main, words, "", environment, prog_name="patchbay")
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return Ended(ended.exit_code, ended.stdout, ended.stderr)
