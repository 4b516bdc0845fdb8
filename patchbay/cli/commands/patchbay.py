"""The program `patchbay`: the commands of the hub, and those of the client."""

from __future__ import annotations

import click

import patchbay
from patchbay import exit_codes
from patchbay.cli.commands.client import CLIENT, CONTEXT
from patchbay.cli.terminal.messages import LateCommand, LateCommandGroup

HUB = {
    "serve": LateCommand("patchbay.cli.commands.serve:serve_command", "Serve the hub until Ctrl-C or SIGTERM."),
    "stdio": LateCommand(
        "patchbay.cli.commands.stdio:stdio_command",
        "Serve one SERVER, or all, over standard input and output.",
    ),
    "new": LateCommand(
        "patchbay.cli.commands.servers.new:new_command",
        "Make the server NAME, and print how to call it.",
    ),
    "list": LateCommand(
        "patchbay.cli.commands.servers.listing:list_command",
        "List the servers, with their states and problems.",
    ),
    "show": LateCommand(
        "patchbay.cli.commands.servers.listing:show_command",
        "Show the server NAME: tools, problems, configuration.",
    ),
    "toolset": LateCommand(
        "patchbay.cli.commands.servers.toolsets:toolset_group",
        "Choose the tools that a model sees.",
    ),
    "account": LateCommand(
        "patchbay.cli.commands.account:account_group",
        "Store your own keys at mounted servers.",
    ),
    "enable": LateCommand(
        "patchbay.cli.commands.servers.switching:enable_command",
        "Switch the server NAME on. `patchbay disable NAME` undoes this.",
    ),
    "disable": LateCommand(
        "patchbay.cli.commands.servers.switching:disable_command",
        "Switch the server NAME off: clients no longer see it. `patchbay enable NAME` undoes this.",
    ),
    "remove": LateCommand(
        "patchbay.cli.commands.servers.removing:remove_command",
        "Remove the server NAME. `patchbay restore NAME` undoes this.",
    ),
    "restore": LateCommand(
        "patchbay.cli.commands.servers.removing:restore_command",
        "Bring back the removed server NAME.",
    ),
    "versions": LateCommand(
        "patchbay.cli.commands.servers.versions:versions_command",
        "List the versions of the server NAME, the newest first.",
    ),
    "diff": LateCommand(
        "patchbay.cli.commands.servers.versions:diff_command",
        "Compare the versions A and B of the server NAME.",
    ),
    "rollback": LateCommand(
        "patchbay.cli.commands.servers.versions:rollback_command",
        "Put an earlier version of the server NAME back.",
    ),
    "restart": LateCommand(
        "patchbay.cli.commands.servers.switching:restart_command",
        "End the processes of the server NAME; the hub starts new ones.",
    ),
    "open": LateCommand(
        "patchbay.cli.commands.servers.opening:open_command",
        "Open a page of the hub in the browser, as the operator.",
    ),
    "logs": LateCommand(
        "patchbay.cli.commands.servers.logs:logs_command",
        "Show the recorded calls, and what their tools logged.",
    ),
    "usage": LateCommand(
        "patchbay.cli.commands.usage:usage_command",
        "Show who used what: calls, failures, bytes and time.",
    ),
    "approvals": LateCommand(
        "patchbay.cli.commands.servers.approvals:approvals_group",
        "List the calls that wait for an approval; decide about one.",
    ),
    "runs": LateCommand(
        "patchbay.cli.commands.script_runs:runs_group",
        "List the runs of scripts that waited, and show or cancel one.",
    ),
    "worker": LateCommand(
        "patchbay.cli.commands.stores.worker:worker_command",
        "Run the jobs of all hubs on one PostgreSQL; serve no client.",
    ),
    "schedule": LateCommand(
        "patchbay.cli.commands.servers.schedules:schedule_group",
        "List the schedules of tools, or run one now.",
    ),
    "nodes": LateCommand(
        "patchbay.cli.commands.stores.nodes:nodes_command",
        "List the living processes of all hubs on one PostgreSQL.",
    ),
    "doctor": LateCommand(
        "patchbay.cli.commands.servers.doctor:doctor_command",
        "Check the hub, and name the command that fixes each problem.",
    ),
    "mount": LateCommand(
        "patchbay.cli.commands.mount:mount_command",
        "Serve the MCP server or HTTP API at ADDRESS as /mcp/NAME.",
    ),
    "try": LateCommand(
        "patchbay.cli.commands.trying:try_command",
        "Run a program once, confined, and say what it tried.",
    ),
    "search": LateCommand(
        "patchbay.cli.commands.registries.commands:search_command",
        "List the servers of the registry whose names contain a WORD.",
    ),
    "add": LateCommand(
        "patchbay.cli.commands.registries.commands:add_command",
        "Mount a server of the registry, of PyPI or of npm.",
    ),
    "outdated": LateCommand(
        "patchbay.cli.commands.registries.commands:outdated_command",
        "List the mounted packages with a newer version.",
    ),
    "unmount": LateCommand(
        "patchbay.cli.commands.mount:unmount_command",
        "Remove the mounted server NAME, and end its process.",
    ),
    "install": LateCommand(
        "patchbay.cli.commands.clients.installing:install_command",
        "Write this hub into the settings of an MCP client.",
    ),
    "uninstall": LateCommand(
        "patchbay.cli.commands.clients.installing:uninstall_command",
        "Remove this hub from the settings file of CLIENT.",
    ),
    "import": LateCommand(
        "patchbay.cli.commands.clients.importing:import_command",
        "Mount servers that MCP clients have configured.",
    ),
    "approve": LateCommand(
        "patchbay.cli.commands.pins:approve_command",
        "Approve what the mounted SERVER changed.",
    ),
    "pins": LateCommand(
        "patchbay.cli.commands.pins:pins_group",
        "List what mounted servers changed; export approvals.",
    ),
    "room": LateCommand(
        "patchbay.cli.commands.rooms.group:room",
        "Rooms: share MCP servers with people and agents of a hub.",
    ),
    "connections": LateCommand(
        "patchbay.cli.commands.servers.connections:connections_group",
        "List or stop the programs that `--keep` left running.",
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
        "Print a link that logs a browser in as the operator.",
    ),
    "invite": LateCommand(
        "patchbay.cli.commands.people:invite_command",
        "Print a link with which the person NAME makes an account.",
    ),
    "people": LateCommand(
        "patchbay.cli.commands.people:people",
        "List or remove the accounts of people; withdraw invitations.",
    ),
    "client": LateCommand(
        "patchbay.cli.commands.program_clients:client_command",
        "Make, list and revoke clients, which get tokens by OAuth.",
    ),
    "key": LateCommand(
        "patchbay.cli.commands.key:key_command",
        "Make, list and revoke personal keys, and show what callers use.",
    ),
    "secret": LateCommand(
        "patchbay.cli.commands.secret:secret_command",
        "Store, rotate and remove what configurations name as secrets.",
    ),
    "audit": LateCommand(
        "patchbay.cli.commands.audit:audit_command",
        "Export, verify and prune the audit chain.",
    ),
    "replay": LateCommand(
        "patchbay.cli.commands.replay:replay_command",
        "Repeat the call of each RECORD, and compare the results.",
    ),
    "store": LateCommand(
        "patchbay.cli.commands.stores.group:store_command",
        "Move a hub to another store, or bring its schema up to date.",
    ),
    "gc": LateCommand(
        "patchbay.cli.commands.gc:gc_command",
        "Delete unused contents, and give their space back.",
    ),
    "revoke": LateCommand(
        "patchbay.cli.commands.revoke:revoke_command",
        "Revoke a content or a server: the hub no longer serves it.",
    ),
}
"""The commands of the hub itself."""

SECTIONS = {
    "Start": ("serve", "stdio", "worker", "open", "doctor", "install", "uninstall", "import"),
    "Servers": (
        *("new", "list", "show", "enable", "disable", "restart", "remove", "restore"),
        *("versions", "diff", "rollback", "logs", "usage", "approvals"),
        *("search", "try", "add", "mount", "outdated", "unmount", "approve", "pins"),
        *("toolset", "secret", "account"),
    ),
    "Call": (
        *("inspect", "call", "run", "runs", "read", "prompt", "cat", "head", "tail", "filter", "put"),
        "mcp",
        "profile",
        "connections",
    ),
    "Share": ("room", "invite", "people", "key", "client", "login", "token"),
    "Maintain": ("settings", "schedule", "audit", "replay", "store", "nodes", "gc", "revoke", "completion"),
}
"""The commands by purpose, for the help page."""


@click.group(
    cls=LateCommandGroup,
    late=HUB | CLIENT,
    sections=SECTIONS,
    invoke_without_command=True,
    context_settings=CONTEXT,
    epilog=exit_codes.with_examples_and_codes(
        "patchbay",
        "patchbay new greeter",
        "patchbay call /mcp/greeter greet name=Ann",
        'patchbay inspect "mcp+uvx://mcp-server-time/mcp-server-time"',
    ),
)
@click.version_option(patchbay.__version__, message="patchbay %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Patchbay: serve files, commands and folders as MCP endpoints, and use any MCP server as a client.

    `patchbay` without a command starts the hub, like `patchbay serve`.
    """
    if context.invoked_subcommand is None:
        serve = main.get_command(context, "serve")
        assert serve is not None
        with serve.make_context("serve", [], parent=context) as serving:
            serve.invoke(serving)
