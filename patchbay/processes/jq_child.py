"""The program of a process that runs jq expressions for the hub (`jq_processes.py`).

jq has no limits of its own: an expression may run without an end, take all memory, and end its process by deeply nested
values. So it runs here, where each run has limits of processor time and memory that the kernel keeps. The environment
is empty, and the process can open no file and no connection: `env`, `$ENV`, `import` and `include` give nothing.

Source: the jq manual, version 1.8 (https://jqlang.org/manual/v1.8/).
"""

from __future__ import annotations

import re
import resource
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

import jq

from patchbay.processes.limits import forbid_new_privileges, limit_memory, name_process

HEAD = struct.Struct(">II")
"""The head of a request: the bytes of the expression, and those of the value, which follow; without a value, the
expression is only compiled."""

ANSWER = struct.Struct(">cI")
"""The head of an answer: what it is (one of the next five), and its bytes, which follow."""

VALUE, INVALID, FAILED, SEVERAL, LARGE = b"v", b"i", b"f", b"s", b"l"
"""A value as JSON; the reason why the expression is not valid, or failed; how many values, if not one; too large."""

MEMORY_MIB = 256
"""Memory that the process may have beyond that of its start, in MiB."""

MAX_VALUE_BYTES = 8 * 1024 * 1024
"""Limit on the JSON that an expression gets, and on what it gives, in bytes."""

MAX_PROGRAMS = 32
"""Compiled expressions that a process keeps."""

_CLOSED = "def env: {}; def modulemeta: {}; def get_search_list: []; {} as $ENV | (\n%s\n) | tojson"
"""The expression with nothing of the process in sight; as JSON, so that jq writes numbers as it has read them."""

_ERROR = re.compile(r"jq: error: (.*?) at <top-level>, line (\d+), column (\d+)", re.DOTALL)


def main(descriptor: int, cpu_seconds: int) -> None:
    """Answer requests on an inherited socket until its other end is closed.

    One run may take `cpu_seconds` of processor time, rounded up to whole ones of the process.
    """
    name_process("patchbay-jq")
    forbid_new_privileges()
    limit_memory(MEMORY_MIB)
    for which in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
        resource.setrlimit(which, (0, 0))
    link = socket.socket(fileno=descriptor)
    requests = link.makefile("rb")  # a small request comes whole with one read
    programs: dict[str, Any] = {}
    while head := _read(requests, HEAD.size):
        sizes = HEAD.unpack(head)
        expression, value = (_read(requests, size).decode() for size in sizes)
        _limit_cpu(cpu_seconds)
        kind, answer = _run(expression, value, programs)
        link.sendall(ANSWER.pack(kind, len(answer)) + answer)


def _run(expression: str, value: str, programs: dict[str, Any]) -> tuple[bytes, bytes]:
    """Return the kind and the bytes of an answer."""
    try:
        program = programs.get(expression) or _compile(expression)
    except ValueError as problem:
        return INVALID, _sentence(str(problem)).encode()
    if len(programs) >= MAX_PROGRAMS:
        programs.clear()
    programs[expression] = program
    if not value:
        return VALUE, b""
    try:
        found = _first_two(iter(program.input_text(value)))
    except ValueError as problem:
        return FAILED, str(problem).encode("utf-8", "replace")
    if len(found) != 1:
        return SEVERAL, str(len(found)).encode()
    answer = found[0].encode("utf-8", "replace")
    return (LARGE, b"") if len(answer) > MAX_VALUE_BYTES else (VALUE, answer)


def _compile(expression: str) -> Any:
    """Return the compiled expression. Raises ValueError.

    It is compiled alone first: its errors then have their own places, and one that is valid only inside is refused.
    """
    jq.compile(expression)
    return jq.compile(_CLOSED % expression)


def _first_two(values: Iterator[str]) -> list[str]:
    return [value for value, _ in zip(values, range(2), strict=False)]


def _sentence(reason: str) -> str:
    """Return the reason of a compiler in one line."""
    found = _ERROR.search(reason)
    if found is not None:
        return f"{found[1]} (line {found[2]}, column {found[3]})"
    return reason.removeprefix("jq: error: ").partition("\n")[0]


def _limit_cpu(seconds: int) -> None:
    used = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _read(requests: BinaryIO, size: int) -> bytes:
    """Return the next bytes; empty at the end of the socket, which ends the process in the middle of a request."""
    found = requests.read(size)
    if 0 < len(found) < size:
        raise SystemExit(1)
    return found
