"""Adds to a failed result of a confined program what it was refused, and the line that allows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.processes.confinement.program_denials import explain_denial, explain_refused_hosts
from patchbay.processes.confinement.programs import ProgramConfinement

Json = dict[str, Any]


def explain_failed_result(confinement: ProgramConfinement | None, result: Json, since: float) -> Json:
    """Return a failed result with a text on what the program was refused: a file, or hosts `since` the call began.

    `confinement` is that of the process that ran the call, None for a server that is no program; `since` is Unix time
    in seconds.
    """
    content = result.get("content")
    if confinement is None or not result.get("isError") or not isinstance(content, list):
        return result
    texts = [block.get("text") for block in content if isinstance(block, Mapping)]
    said = "\n".join(text for text in texts if isinstance(text, str))
    hint = explain_denial(confinement, said) or explain_refused_hosts(confinement, since)
    return {**result, "content": [*content, {"type": "text", "text": hint}]} if hint else result
