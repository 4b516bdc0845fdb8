"""`patchbay connections`: the programs that commands with `--keep` have left running, and how to stop them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from patchbay import exit_codes
from patchbay.cli.terminal.messages import fail, format_rows, make_printable
from patchbay.client.kept.connection import ask
from patchbay.client.kept.places import NotKept
from patchbay.client.kept.starting import list_places
from patchbay.settings import whole_environment


@click.group("connections", epilog=exit_codes.with_examples("patchbay connections list", "patchbay connections stop"))
def connections_group() -> None:
    """List or stop the programs that `--keep` left running."""


@connections_group.command("list", epilog=exit_codes.with_examples("patchbay connections list"))
def list_command() -> None:
    """List the kept connections: name, process, requests, idle time, folder, program."""
    found = [status for _, status in _find()]
    if not found:
        click.echo("No connection is kept. `patchbay call --keep ADDRESS TOOL` keeps one.")
        return
    rows: list[tuple[str, ...]] = [("NAME", "PROCESS", "SINCE", "REQUESTS", "IDLE", "FOLDER", "PROGRAM")]
    rows += [_make_row(status) for status in found]
    click.echo(format_rows(rows))


@connections_group.command(
    "stop",
    epilog=exit_codes.with_examples(
        "patchbay connections stop", "patchbay connections stop ID", after="`patchbay connections list` for the ID"
    ),
)
@click.argument("names", metavar="[NAME]...", nargs=-1)
def stop_command(names: tuple[str, ...]) -> None:
    """Stop the kept connections with these names or beginnings of names; without names, all of them."""
    found = _find()
    for name in names:
        if not any(status["name"].startswith(name) for _, status in found):
            fail(f"no connection {name} is kept; `patchbay connections list` shows the names", exit_codes.USAGE)
    chosen = [(place, status) for place, status in found if not names or status["name"].startswith(names)]
    for place, status in chosen:
        with suppress(OSError):
            ask(place, "stop")
        click.echo(f"stopped {status['name']}: {make_printable(status['program'])}")
    if not chosen:
        click.echo("No connection is kept.")


def _find() -> list[tuple[Path, dict[str, Any]]]:
    """Return the sockets of processes that answer, each with its status; remove those of processes that are gone."""
    try:
        places = list_places(whole_environment())
    except NotKept as problem:
        fail(problem.message, exit_codes.USAGE)
    found = []
    for place in places:
        try:
            found.append((place, ask(place, "status")))
        except ConnectionRefusedError:
            place.unlink(missing_ok=True)
        except (OSError, NotKept):
            continue
    return found


def _make_row(status: dict[str, Any]) -> tuple[str, ...]:
    began = datetime.fromtimestamp(status["began"], UTC).astimezone()
    idle = f"{status['idle']:.0f} of {status['ends_after']:.0f} s"
    cells = (status["name"], status["process"], f"{began:%H:%M}", status["calls"], idle)
    return (*map(str, cells), make_printable(status["folder"]), make_printable(status["program"]))
