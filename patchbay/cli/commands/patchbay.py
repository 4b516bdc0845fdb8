"""The program `patchbay`: the commands of the hub, and those of the client."""

from __future__ import annotations

import click

import patchbay
from patchbay import exit_codes
from patchbay.cli.commands.client import CLIENT, CONTEXT
from patchbay.cli.messages import LateCommand, LateCommandGroup

HUB = {
    "serve": LateCommand("patchbay.cli.commands.serve:serve_command", "Serve the hub until Ctrl-C or SIGTERM."),
    "stdio": LateCommand(
        "patchbay.cli.commands.stdio:stdio_command",
        "Serve one SERVER, or all servers as one, over standard input and output for a client that starts it.",
    ),
    "mount": LateCommand(
        "patchbay.cli.commands.mount:mount_command",
        "Serve the MCP server at ADDRESS as /mcp/NAME, in every protocol revision.",
    ),
    "unmount": LateCommand(
        "patchbay.cli.commands.mount:unmount_command",
        "Remove the mounted server NAME, and end its process.",
    ),
    "install": LateCommand(
        "patchbay.cli.commands.clients.installing:install_command",
        "Write this hub into the settings file of CLIENT: all servers, or one SERVER.",
    ),
    "uninstall": LateCommand(
        "patchbay.cli.commands.clients.installing:uninstall_command",
        "Take this hub out of the settings file of CLIENT.",
    ),
    "import": LateCommand(
        "patchbay.cli.commands.clients.importing:import_command",
        "List the servers that MCP clients have configured, and mount those that you choose.",
    ),
    "approve": LateCommand(
        "patchbay.cli.commands.pins:approve_command",
        "Approve what the mounted SERVER changed: one ENTRY, or everything that waits.",
    ),
    "pins": LateCommand(
        "patchbay.cli.commands.pins:pins_group",
        "List what mounted servers changed; export and import approvals.",
    ),
    "room": LateCommand(
        "patchbay.cli.commands.rooms.group:room",
        "Rooms: share MCP servers with people and agents of a hub.",
    ),
    "settings": LateCommand(
        "patchbay.cli.commands.settings:settings_command",
        "List all settings with value, source and default.",
    ),
    "token": LateCommand(
        "patchbay.cli.commands.token:token_command",
        "Make a new token for the operator of the hub, and print it.",
    ),
    "login": LateCommand(
        "patchbay.cli.commands.token:login_command",
        "Print a link that logs a browser in as the operator of the hub.",
    ),
    "invite": LateCommand(
        "patchbay.cli.commands.people:invite_command",
        "Print a link with which the person NAME makes an account.",
    ),
    "people": LateCommand(
        "patchbay.cli.commands.people:people",
        "List or remove the accounts of people.",
    ),
    "key": LateCommand(
        "patchbay.cli.commands.key:key_command",
        "Personal keys: a request with `Authorization: Bearer KEY` is of the principal `key:NAME`.",
    ),
    "audit": LateCommand(
        "patchbay.cli.commands.audit:audit_command",
        "The audit chain: one row for each call, linked by hashes and signed. docs/audit.md describes it.",
    ),
    "replay": LateCommand(
        "patchbay.cli.commands.replay:replay_command",
        "Make the call of each RECORD again and compare the CIDs of both results.",
    ),
    "gc": LateCommand(
        "patchbay.cli.commands.gc:gc_command",
        "Delete the contents of the data folder that nothing refers to, and give their space back.",
    ),
    "revoke": LateCommand(
        "patchbay.cli.commands.revoke:revoke_command",
        "Revoke TARGET, the CID of a content or the name of a server: the hub no longer serves it.",
    ),
}
"""The commands of the hub itself."""


@click.group(
    cls=LateCommandGroup,
    late=HUB | CLIENT,
    context_settings=CONTEXT,
    epilog=exit_codes.with_examples("patchbay serve", 'patchbay inspect "mcp+uvx://mcp-server-time/mcp-server-time"'),
)
@click.version_option(patchbay.__version__, message="patchbay %(version)s")
def main() -> None:
    """Patchbay: serve files, commands and folders as MCP endpoints, and use any MCP server as a client."""
