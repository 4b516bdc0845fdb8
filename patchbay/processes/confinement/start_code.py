"""The program that confines a program, `confined_start.py` with the modules that it needs, as this process has read it.

Each start passes this code to a new Python in a file in memory, with its plan. So a program starts also after an update
has changed or removed the files of the hub that runs: the plan and the code that reads it are of one version.

Source: https://docs.python.org/3/library/marshal.html (code of the same Python only).
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.abc import InspectLoader
from importlib.util import find_spec
from types import CodeType
from typing import Any

_PACKAGES = ("patchbay", "patchbay.processes", "patchbay.processes.confinement")
_CODE = (
    "patchbay.processes.confinement.kernel",
    "patchbay.processes.confinement.landlock",
    "patchbay.processes.confinement.tracing",
    "patchbay.processes.process_trees",
    "patchbay.processes.confined_start",
)
"""The modules of the program, each after those that it imports. The packages are made without running them."""

_SIZE_BYTES = 4
_LOAD = f"""# confined_start.py
import marshal, sys
with open(int(sys.argv[1].split(",")[0]), "rb") as file:
    content = file.read()
end = {_SIZE_BYTES} + int.from_bytes(content[:{_SIZE_BYTES}], "big")
for name, code in marshal.loads(content[{_SIZE_BYTES}:end]):
    module = sys.modules[name] = type(sys)(name)
    if code is None:
        module.__path__ = []
    else:
        exec(code, module.__dict__)
module.main(sys.argv[1:], marshal.loads(content[end:]))
"""


def confining_words(descriptors: Sequence[int]) -> tuple[str, ...]:
    """Return the beginning of the command line that starts a program confined; CONTROL FOLDER PROGRAM... follow.

    The first of the descriptors is that of a file of `make_start_file`; the process inherits all of them.
    """
    return (sys.executable, "-I", "-S", "-c", _LOAD, ",".join(map(str, descriptors)))


def make_start_file(plan: dict[str, Any] | None) -> int:
    """Return the descriptor of a file in memory with the program and a plan; None tries what this machine has.

    Linux only. The caller closes it.
    """
    descriptor = os.memfd_create("patchbay-plan", 0)
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(_read_code())
        file.write(marshal.dumps(plan))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


@lru_cache(maxsize=1)
def _read_code() -> bytes:
    """Return the program in marshal's format behind its size. The files are read at the first use alone."""
    found = marshal.dumps([*((name, None) for name in _PACKAGES), *((name, _find_code(name)) for name in _CODE)])
    return len(found).to_bytes(_SIZE_BYTES, "big") + found


def _find_code(name: str) -> CodeType:
    spec = find_spec(name)
    loader = spec.loader if spec is not None else None
    assert isinstance(loader, InspectLoader), f"{name} has no code"
    code = loader.get_code(name)
    assert code is not None, f"{name} has no code"
    return code
