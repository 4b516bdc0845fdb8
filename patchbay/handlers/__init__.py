"""What runs tools: one file per kind of definition, each a filler of the seam in `activation.py`.

`python.py` and `shell.py` are the fillers and do not know each other; the other files are what
they are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from patchbay.activation import Handler
from patchbay.handlers.python import python_handler
from patchbay.handlers.shell import shell_handler

KINDS: Mapping[str, Callable[[bytes, str, str], Handler]] = {"python": python_handler, "shell": shell_handler}


def handler_for(kind: str, source: bytes, cid: str, name: str) -> Handler | None:
    """The handler of a definition (its bytes, their CID, the server's name), or None for a kind that runs nothing."""
    make = KINDS.get(kind)
    return make(source, cid, name) if make is not None else None
