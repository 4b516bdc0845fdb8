"""What the shell offers when an address is being typed: profiles, their tools, presets and launchers.

Reads the directories of profiles; starts nothing. `jn completion bash` prints what a shell has to load.
"""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from patchbay.cli.messages import program
from patchbay.client.addresses.launchers import PROGRAMS
from patchbay.client.addresses.variables import ProfileError
from patchbay.client.profiles.lookup import Profiles, find_homes
from patchbay.exit_codes import with_examples
from patchbay.settings import whole_environment

SHELLS = ("bash", "zsh", "fish")


def _profiles() -> Profiles:
    return Profiles(find_homes(Path.cwd(), whole_environment()))


def addresses(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Addresses that begin with what was typed; a file name where none does."""
    name, slash, _ = incomplete.partition("/")
    if incomplete.startswith("@") and slash:
        try:
            found = [f"{name}/{tool}" for tool in _profiles().list_server_tools(name[1:])]
        except ProfileError:
            found = []
    else:
        found = [f"@{one}" for one in _profiles().find_directories()]
        found += [f"mcp+{launcher}:{'' if launcher == 'stdio' else '//'}" for launcher in PROGRAMS]
    items = [CompletionItem(one) for one in found if incomplete and one.startswith(incomplete)]
    return items or [CompletionItem(incomplete, type="file")]


def profiles(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Profile references that begin with what was typed."""
    at = "@" if incomplete.startswith("@") else ""
    return [
        CompletionItem(f"{at}{one}") for one in _profiles().find_directories() if f"{at}{one}".startswith(incomplete)
    ]


@click.command(
    "completion",
    epilog=with_examples('eval "$(jn completion bash)"', "jn completion fish > ~/.config/fish/completions/jn.fish"),
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, /, shell: str) -> None:
    """Print what SHELL has to load in order to complete commands, options, profiles and tools."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"expected one of {', '.join(SHELLS)}")
    name = program()
    click.echo(kind(context.find_root().command, {}, name, f"_{name.upper()}_COMPLETE").source())
