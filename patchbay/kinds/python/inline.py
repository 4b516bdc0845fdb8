"""Python definitions inside the hub process (`isolation: inline`), for shipped code and code that an operator trusts.

`target["function"]` names the function, arguments are passed by keyword. It runs on a runner thread of its definition,
so a call that hangs blocks no other call; a quick function that cannot hang runs on the calling thread
(`direct_calls.py`). A crash ends the hub process.
"""

from __future__ import annotations

from patchbay.activation import Handler
from patchbay.kinds.python.definitions import definition_of
from patchbay.kinds.python.direct_calls import DirectCalls


def python_handler(source: bytes, cid: str, name: str) -> Handler:
    """Return the handler of a definition's functions. The first call compiles the definition.

    The handler raises the function's errors, and ToolFailed when the definition cannot be loaded, the arguments do not
    fit, or all threads are busy.
    """
    return DirectCalls(definition_of(source, cid, name)).run
