"""`patchbay worker`: a process that runs the jobs of all hubs on one PostgreSQL, and serves no client."""

from __future__ import annotations

from typing import Any

import click

from patchbay import exit_codes
from patchbay.assembly import assemble
from patchbay.cli.options import load_settings, with_settings
from patchbay.cli.stdio.streams import EndSignal
from patchbay.cli.terminal.failures import describe_failure
from patchbay.cli.terminal.messages import fail
from patchbay.errors import ConfigError, PatchbayError
from patchbay.processes.confinement.protections import protect_hub
from patchbay.serving import logs
from patchbay.serving.drain import Drain
from patchbay.settings import Settings
from patchbay.store import is_database_address
from patchbay.topics import ENDING

EXAMPLE = "patchbay worker --store postgresql://hub@db.example/hub --key-file ~/.patchbay/data/key --jobs 8"


@click.command("worker", epilog=exit_codes.with_examples(EXAMPLE))
@with_settings
@click.pass_context
def worker_command(context: click.Context, /, **_: Any) -> None:
    """Run the jobs of all hubs on one PostgreSQL; serve no client.

    A job is a call of a tool with `"job": true`. Any number of workers may run, on every machine that has the key of
    the hubs. --jobs is the number of jobs at a time.
    """
    try:
        _work(load_settings(context))
    except PatchbayError as problem:
        fail(describe_failure(problem), exit_codes.USAGE)


def _work(settings: Settings) -> None:
    """Run jobs until a signal; then let the running ones end within the time of `drain`."""
    if not is_database_address(settings.store):
        raise ConfigError(
            "--store", "", "expected postgresql://USER@HOST/DB: a hub on one machine runs its jobs itself"
        )
    protect_hub(settings.protections)
    end_signal = EndSignal()
    logs.begin(settings)
    drain = Drain(settings.drain)
    services = assemble(settings, drain.seconds_left).services
    catalogue = services.catalogue
    drain.on_begin(lambda: catalogue.store.bus.publish_here(ENDING))
    try:
        services.jobs.start(max(settings.jobs, 1), is_always=True)
        end_signal.wait()
        drain.begin()
        services.jobs.close()
    finally:
        services.activity.close()
        catalogue.close()
        catalogue.store.close()
