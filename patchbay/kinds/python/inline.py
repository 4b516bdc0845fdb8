"""Python definitions inside the hub (`isolation: inline`): for code that ships with it or that an operator trusts.

`target["function"]` names the function, arguments come by keyword. It runs on a runner thread of its definition, so
that a call that hangs keeps no other call waiting; a quick function that cannot hang runs on the thread that asks
(`direct_calls.py`). A crash takes the hub with it.
Sources: DESIGN section 6; REQUIREMENTS T12.5, V-F5.
"""

from __future__ import annotations

from patchbay.activation import Handler
from patchbay.kinds.python.definitions import definition_of
from patchbay.kinds.python.direct_calls import DirectCalls


def python_handler(source: bytes, cid: str, name: str) -> Handler:
    """What runs the functions of a definition. Nothing is compiled before the first call.

    The handler raises what the function raises, and ToolFailed when the definition cannot be
    loaded, the arguments do not fit, or all threads are taken.
    """
    return DirectCalls(definition_of(source, cid, name)).run
