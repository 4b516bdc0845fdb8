"""Show the lines that a program needs, and ask once whether they are written into its mount."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import click

from patchbay.catalogue.operating.proposed_lines import describe_proposal, propose_lines
from patchbay.cli.terminal.messages import make_printable, write_note
from patchbay.kinds.program_proposals import with_proposal
from patchbay.settings import Settings
from patchbay.terminal import is_terminal


def add_proposed_lines(
    fields: Mapping[str, Any],
    settings: Settings,
    name: str,
    asks: bool = True,
    variables: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return the definition of a mount with the lines that its program needs, which are printed.

    On a terminal the user is asked once; elsewhere the lines are written, because the user named what they open.
    Without `asks` the caller asks. With `variables`, only the values of these variables are the user's. Raises
    ConfigError for a definition that no mount can have.
    """
    proposal = propose_lines(fields, settings, Path.cwd(), variables)
    title = f"{name} runs confined. What its command line and its variables name:"
    lines = list(describe_proposal(proposal, title))
    if not lines:
        return dict(fields)
    write_note(make_printable("\n".join(lines)))
    is_asked = asks and proposal.fields and is_terminal(sys.stdin) and is_terminal(sys.stderr)
    if is_asked and not click.confirm("Write these lines into its mount?", default=True, err=True):
        return dict(fields)
    return with_proposal(fields, proposal)
