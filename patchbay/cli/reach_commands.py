"""The commands of the client, in both programs: all of `jn`, and a part of `patchbay`.

Each is loaded when it is used, so that a stage of a pipeline starts in the time that it needs itself.
"""

from __future__ import annotations

import click

import patchbay
from patchbay.cli.exits import with_examples
from patchbay.cli.telling import Commands

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

CLIENT = {
    "inspect": "patchbay.cli.calling:inspect",
    "cat": "patchbay.cli.pipelines:cat",
    "head": "patchbay.cli.pipelines:head",
    "tail": "patchbay.cli.pipelines:tail",
    "filter": "patchbay.cli.filtering:filter_",
    "put": "patchbay.cli.pipelines:put",
    "call": "patchbay.cli.calling:call",
    "read": "patchbay.cli.calling:read",
    "prompt": "patchbay.cli.calling:prompt",
    "mcp": "patchbay.cli.discovering:mcp",
    "profile": "patchbay.cli.profile_writing:PROFILES",
    "completion": "patchbay.cli.completing:completion",
}
"""Command to where it is."""


@click.group(
    cls=Commands,
    elsewhere=CLIENT,
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
