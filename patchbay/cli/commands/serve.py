"""The command `patchbay serve`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from patchbay import exit_codes
from patchbay.assets import HOME
from patchbay.cli.options import load_settings, with_settings
from patchbay.cli.terminal.messages import fail, quote_word
from patchbay.errors import ConfigError, FolderInUse
from patchbay.serving.supervisor import AddressTaken, serve
from patchbay.settings import Settings


class ServeCommand(click.Command):
    """A command that tells a user who gives it a file where the file belongs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words. Raises UsageError."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as problem:
            if "extra argument" not in problem.message:
                raise
            # The message ends with the words that belong to no option: `(good.py)`.
            extra = f" {problem.message.partition('(')[2].removesuffix(')')} "
            file = next((one for one in given if f" {one} " in extra and Path(one).is_file()), None)
            if file is None:
                raise
            servers = ctx.params.get("servers") or HOME / "servers"
            copy = f"cp {quote_word(file)} {quote_word(str(servers))}/"
            raise click.UsageError(
                f"{problem.message}. A hub serves the files of its servers folder: {copy}", ctx
            ) from problem


@click.command(
    "serve",
    cls=ServeCommand,
    epilog=exit_codes.with_examples("patchbay serve", "patchbay serve --port 9000 --servers ./servers"),
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
