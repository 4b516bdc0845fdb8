"""The commands of the client, in both programs: all of `jn`, and a part of `patchbay`.

Each is loaded when it is used, so that a stage of a pipeline starts in the time that it needs itself.
"""

from __future__ import annotations

import click

import patchbay
from patchbay.cli.messages import Commands, LateCommand
from patchbay.exit_codes import with_examples

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

CLIENT = {
    "inspect": LateCommand(
        "patchbay.cli.commands.calling:inspect",
        "Show what ADDRESS offers: tools, resources, templates, prompts, capabilities, the revision that is spoken.",
    ),
    "cat": LateCommand(
        "patchbay.cli.commands.pipelines:cat", "Write the records at ADDRESS: a tool's results, a resource, a list."
    ),
    "head": LateCommand(
        "patchbay.cli.commands.pipelines:head",
        "Write the first records at ADDRESS, or of standard input; then end what makes them.",
    ),
    "tail": LateCommand(
        "patchbay.cli.commands.pipelines:tail", "Write the last records at ADDRESS, or of standard input."
    ),
    "filter": LateCommand(
        "patchbay.cli.commands.filter:filter_",
        "Put every JSON value of standard input through a jq EXPRESSION; what it gives is written line by line.",
    ),
    "put": LateCommand(
        "patchbay.cli.commands.pipelines:put",
        "Write the records of standard input to TARGET: a tool, called once per record, or a file.",
    ),
    "call": LateCommand("patchbay.cli.commands.calling:call", "Call a tool."),
    "read": LateCommand("patchbay.cli.commands.calling:read", "Read a resource."),
    "prompt": LateCommand("patchbay.cli.commands.calling:prompt", "Get a prompt: its messages, one record each."),
    "mcp": LateCommand("patchbay.cli.commands.mcp:mcp", "Look at an MCP server before there is a profile of it."),
    "profile": LateCommand(
        "patchbay.cli.commands.profile_writing:PROFILES",
        "Profiles: how servers are reached, and what is expected of them.",
    ),
    "completion": LateCommand(
        "patchbay.cli.completion:completion",
        "Print what SHELL has to load in order to complete commands, options, profiles and tools.",
    ),
}
"""The commands of the client."""


@click.group(
    cls=Commands,
    late=CLIENT,
    context_settings=CONTEXT,
    epilog=with_examples(
        'jn inspect "mcp+uvx://biomcp-python/biomcp?command=run"',
        'jn cat "@biomcp/search?gene=BRAF"',
        'jn cat "mcp+uvx://..." | jn filter \'select(.text | contains("Phase 3"))\' | jn put results.json',
        "jn profile update biomcp",
    ),
)
@click.version_option(patchbay.__version__, message="jn %(version)s")
def jn() -> None:
    """Reach any MCP server by an address: look at it, call it, read from it, write to it, keep a profile of it."""
