"""Shell completion of addresses: profiles, their tools, and launchers.

Completion reads the profile directories and starts no server. `jn completion bash` prints the script for the shell.
"""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from patchbay.cli.messages import program_name
from patchbay.client.addresses.launchers import PROGRAMS
from patchbay.client.addresses.variables import ProfileError
from patchbay.client.profiles.lookup import Profiles, find_homes
from patchbay.exit_codes import with_examples
from patchbay.settings import whole_environment

SHELLS = ("bash", "zsh", "fish")


def _profiles() -> Profiles:
    return Profiles(find_homes(Path.cwd(), whole_environment()))


def complete_address(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete an address; without a match complete a file name."""
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


def complete_profile(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a profile reference."""
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
    """Print the script for completion in SHELL. It completes commands, options, profiles and tools."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"expected one of {', '.join(SHELLS)}")
    name = program_name()
    click.echo(kind(context.find_root().command, {}, name, f"_{name.upper()}_COMPLETE").source())
