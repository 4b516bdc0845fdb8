"""The client commands of both programs: all commands of `jn`, and some commands of `patchbay`.

Each command is imported when it is used, so that a stage of a pipeline starts fast.
"""

from __future__ import annotations

import click

import patchbay
from patchbay.cli.terminal.messages import LateCommand, LateCommandGroup
from patchbay.exit_codes import with_examples_and_codes

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

CLIENT = {
    "inspect": LateCommand(
        "patchbay.cli.commands.calling:inspect",
        "Show what the server at ADDRESS offers.",
    ),
    "cat": LateCommand(
        "patchbay.cli.commands.pipelines:cat",
        "Write the records at ADDRESS: results, a resource, a list.",
    ),
    "head": LateCommand(
        "patchbay.cli.commands.pipelines:head",
        "Write the first records at ADDRESS, or of a pipe.",
    ),
    "tail": LateCommand("patchbay.cli.commands.pipelines:tail", "Write the last records at ADDRESS, or of a pipe."),
    "filter": LateCommand(
        "patchbay.cli.commands.filter:filter_",
        "Apply a jq EXPRESSION to each JSON value of a pipe.",
    ),
    "put": LateCommand(
        "patchbay.cli.commands.pipelines:put",
        "Send the records of a pipe to a tool or a file.",
    ),
    "call": LateCommand("patchbay.cli.commands.calling:call", "Call a tool."),
    "run": LateCommand(
        "patchbay.cli.commands.scripts:run",
        "Run the Python file SCRIPT, which calls tools.",
    ),
    "read": LateCommand("patchbay.cli.commands.calling:read", "Read a resource."),
    "prompt": LateCommand("patchbay.cli.commands.calling:prompt", "Get a prompt: one record for each message."),
    "mcp": LateCommand("patchbay.cli.commands.mcp:mcp", "Explore an MCP server before you make a profile of it."),
    "profile": LateCommand(
        "patchbay.cli.commands.profile_writing:PROFILES",
        "Manage profiles: addresses of servers, with contracts.",
    ),
    "completion": LateCommand(
        "patchbay.cli.completion.values:completion",
        "Print the script for completion in SHELL.",
    ),
}
"""The commands of the client."""


@click.group(
    cls=LateCommandGroup,
    late=CLIENT,
    context_settings=CONTEXT,
    epilog=with_examples_and_codes(
        'jn inspect "mcp+uvx://mcp-server-time/mcp-server-time"',
        'jn profile new mcp time "mcp+uvx://mcp-server-time/mcp-server-time"',
        'jn cat "@time/get_current_time?timezone=UTC"',
        'jn cat "@time/get_current_time?timezone=UTC" | jn filter .text | jn put results.json',
        "jn profile update time",
    ),
)
@click.version_option(patchbay.__version__, message="jn %(version)s")
def jn() -> None:
    """Use any MCP server by its address: inspect it, call its tools, read and write data, save a profile of it."""
