"""The command `patchbay serve`."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import click

from patchbay import exit_codes
from patchbay.assets import HOME
from patchbay.cli.messages import fail
from patchbay.cli.options import load_settings, with_settings
from patchbay.errors import ConfigError, FolderInUse
from patchbay.serving.supervisor import AddressTaken, serve
from patchbay.settings import Settings


@click.command(
    "serve", epilog=exit_codes.with_examples("patchbay serve", "patchbay serve --port 9000 --servers ./servers")
)
@with_settings
@click.option("--no-jobs", is_flag=True, help="Run no jobs here: `patchbay worker` runs them.")
@click.pass_context
def serve_command(context: click.Context, /, no_jobs: bool, **_: Any) -> None:
    """Serve the hub until Ctrl-C or SIGTERM."""
    try:
        settings = load_settings(context)
        if no_jobs:
            settings = replace(settings, jobs=0)
        if settings.servers == HOME / "servers":
            settings.servers.mkdir(parents=True, exist_ok=True)
        code = serve(settings, make_application)
    except AddressTaken as problem:
        from patchbay.cli.running_hub import find_running_hub

        hub = find_running_hub(settings)
        more = f". A hub runs at {hub.url} already: `patchbay open` shows it" if hub is not None else ""
        fail(problem.message + more, exit_codes.ADDRESS)
    except (ConfigError, FolderInUse) as problem:
        fail(problem.message, exit_codes.USAGE)
    sys.exit(code)


def make_application(settings: Settings) -> Any:
    """Make the Flask application in a worker process. The supervisor never loads it."""
    from patchbay.app import create_app

    return create_app(settings)
