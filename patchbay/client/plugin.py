"""The source for MCP servers as a program of its own: the plugin `mcp_` of JN.

    mcp_.py --mode read ADDRESS      write the records at an address to standard output, as NDJSON
    mcp_.py --mode write ADDRESS     call the tool once per record of standard input
    mcp_.py --mode inspect ADDRESS   write what the server offers, as one JSON object; also: explore, validate, version

A failure is a record with `_error`, and the exit code stays 0. The programs of servers run with all rights of the user,
and a line on standard error says so: what confines them is not in one file. `scripts/single_file.py` makes one
self-contained file of this module and everything it needs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from patchbay.client.addresses.programs import name_program
from patchbay.client.addresses.resolution import list_server_tools, load_hierarchical_profile, resolve_profile_reference
from patchbay.client.addresses.targets import Stdio, Target
from patchbay.client.addresses.variables import ProfileError, substitute_env_vars, substitute_env_vars_recursive
from patchbay.client.connection.connection import REQUEST_TIMEOUT_SECONDS, Connection
from patchbay.client.connection.pool import ConnectionPool
from patchbay.client.contracts.contract import calculate_schema_hash
from patchbay.client.errors import Unreachable
from patchbay.client.profiles.lookup import find_homes, find_profile_paths
from patchbay.client.source import Record, SourceContext, make_error_record
from patchbay.client.sources.mcp import McpSource
from patchbay.errors import ConfigError, ParseError, PatchbayError
from patchbay.jsonrpc import parse
from patchbay.processes.confinement.programs import OFF, REQUIRED
from patchbay.settings import whole_environment

RESOLVER_EXPORTS = (
    ProfileError,
    find_profile_paths,
    substitute_env_vars,
    substitute_env_vars_recursive,
    load_hierarchical_profile,
    list_server_tools,
    resolve_profile_reference,
    calculate_schema_hash,
)
"""Functions that other programs may import from the single file."""

MODES = ("read", "write", "inspect", "explore", "validate", "version")
MAX_QUOTED_CHARACTERS = 100
CONFINE = "PATCHBAY_CONFINE"
"""The variable of the setting `confine` of a hub and of `jn`."""


def reads(url: str, context: SourceContext, **arguments: Any) -> Iterator[Record]:
    """Read the records at an address."""
    return McpSource().reads(url, context, arguments)


def writes(url: str, context: SourceContext, **arguments: Any) -> Iterator[Record]:
    """Call the tool of an address once per record of standard input, and give the records of each result."""
    return McpSource().writes(url, _read_input_records(context.limit), context, arguments)


def run_mode(mode: str, url: str, context: SourceContext) -> Iterator[Record]:
    """Give the records of one mode."""
    source = McpSource()
    if mode == "read":
        yield from reads(url, context)
    elif mode == "write":
        yield from writes(url, context)
    elif mode == "validate":
        yield source.validates(context.get_profiles().load(url.removeprefix("@")), context).to_json()
    elif mode == "version":
        yield {"version": source.versions(url, context)}
    else:
        yield source.inspects(url, context) if mode == "inspect" else source.explores(url, context)


def _read_input_records(limit: int) -> Iterator[Record]:
    if sys.stdin is None:
        raise ConfigError("standard input", "", "expected records, but it is closed")
    while line := sys.stdin.buffer.readline(limit):
        if not line.strip():
            continue
        try:
            value = parse(line)
        except ParseError as problem:
            _write_record(
                make_error_record(
                    "json_decode_error", problem.message, line=line[:MAX_QUOTED_CHARACTERS].decode("utf-8", "replace")
                )
            )
            continue
        if isinstance(value, dict):
            yield value
        else:
            _write_record(
                make_error_record(
                    "json_decode_error",
                    "expected a JSON object",
                    line=line[:MAX_QUOTED_CHARACTERS].decode("utf-8", "replace"),
                )
            )


def _write_record(record: Record) -> None:
    sys.stdout.buffer.write(orjson.dumps(record) + b"\n")
    sys.stdout.buffer.flush()


def _announce_program(target: Stdio, environ: Mapping[str, str]) -> None:
    """Say on standard error that a program is not confined. Raises Unreachable where the user requires confinement."""
    confine, name = environ.get(CONFINE, ""), name_program(target)
    if confine == REQUIRED:
        raise Unreachable(f"{name} is not started: {CONFINE} is {REQUIRED}, and mcp_.py confines no program; `jn` does")
    if confine != OFF and sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.write(
                f"mcp_.py: {name} runs with all rights of your user. `jn` and `patchbay` confine programs;"
                f" {CONFINE}={OFF} hides this line\n"
            )
            sys.stderr.flush()


def main(words: Sequence[str] | None = None) -> int:
    """Run the plugin. Return the exit code: 0, or 1 when standard output is closed."""
    parser = argparse.ArgumentParser(prog="mcp_.py", description="MCP servers as records (NDJSON)")
    parser.add_argument("--mode", required=True, choices=MODES, help="what to do")
    parser.add_argument("--timeout", type=float, help="seconds per request [default 60]")
    parser.add_argument("--ignore-schema", action="store_true", help="do not check the contract of a profile")
    parser.add_argument("address", nargs="?", default="", help="mcp+uvx://..., https://..., @profile/tool?...")
    given = parser.parse_args(words)
    if sys.stdout is None:
        parser.exit(1, "mcp_.py: standard output: expected a program that reads records, but it is closed\n")
    if not given.address:
        _write_record(make_error_record("missing_url", "expected an address"))
        return 0
    environ = whole_environment()
    timeout = given.timeout or REQUEST_TIMEOUT_SECONDS

    def connect(target: Target) -> Connection:
        if isinstance(target, Stdio):
            _announce_program(target, environ)
        return Connection.open(target, environ=environ, timeout=timeout)

    with ConnectionPool(connect) as connections:
        context = SourceContext(connections, find_homes(Path.cwd(), environ), environ, timeout=given.timeout)
        try:
            for record in run_mode(
                given.mode, given.address, context.without_contract_checks() if given.ignore_schema else context
            ):
                _write_record(record)
        except BrokenPipeError:
            if sys.stderr is not None:
                sys.stderr.close()
            return 1
        except ProfileError as problem:
            _write_record(make_error_record("profile_error", problem.message))
        except PatchbayError as problem:
            _write_record(make_error_record("mcp_error", problem.message))
    return 0


if __name__ == "__main__":
    sys.exit(main())
