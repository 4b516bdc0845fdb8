"""Exit codes of the `patchbay` and `jn` commands: one table, shown by --help. Documented, never renumbered."""

from __future__ import annotations

OK = 0
"""The command succeeded; `serve` and `stdio` stopped on request, and every call ended in time."""

FAILED = 1
"""The hub failed (the log says why), a server answered with an error, or a record could not be used."""

USAGE = 2
"""An option, a setting, the boot image, an address, a profile or the name of a server is wrong."""

ADDRESS = 3
"""The address to listen on is in use or not available."""

UNREACHABLE = 4
"""A server cannot be reached, or ended before it answered."""

OVERDUE = 5
"""A server did not answer in time."""

CHANGED = 6
"""A contract does not hold: a profile or a pin refuses the server, or `validate` and `diff` found changes."""

SIGN_IN = 7
"""A server requires a person to sign in, and the command runs without a terminal."""

INTERRUPTED = 130
"""Ctrl-C."""

UNREAD = 141
"""The reader of the output closed it, as `head` does; shells report this code for SIGPIPE."""

ROWS: dict[int, str] = {
    OK: "done; for `serve` and `stdio`: ended as asked",
    FAILED: "the hub or a server failed, a tool reported an error, or a record could not be used",
    USAGE: "an option, a setting, the boot image, an address, a profile or a name is wrong",
    ADDRESS: "the address to listen on is in use or not available",
    UNREACHABLE: "a server cannot be reached, or ended before it answered",
    OVERDUE: "a server did not answer in time",
    CHANGED: "a contract does not hold: refused, or changes were found",
    SIGN_IN: "a server requires a person to sign in, and there is no terminal",
    INTERRUPTED: "interrupted (Ctrl-C)",
    UNREAD: "the reader of the output closed it (as `head` does)",
}
"""Code to meaning; docs/exit-codes.md has the same table."""

HELP = "\b\nExit codes:\n" + "".join(f"  {code:<3}  {meaning}\n" for code, meaning in ROWS.items())
"""The table at the end of the help page of a program."""

SHORT_HELP = "\b\nExit codes: 0 success, 1 failure, 2 wrong usage; others: docs/exit-codes.md"
"""The last line of the help page of a command."""


GREETER = "`patchbay new greeter`"
"""What makes the server `greeter` of the examples; the hub ships the others."""

RELEASE = f"{GREETER} and `patchbay toolset new release greeter.greet`"
"""What makes the toolset `release` of the examples."""

TIME_MOUNT = "`patchbay mount time mcp+uvx://mcp-server-time/mcp-server-time`"
"""What makes the mounted server `time` of the examples."""

TIME_PROFILE = "`patchbay profile new mcp time mcp+uvx://mcp-server-time/mcp-server-time`"
"""What makes the profile `time` of the examples."""

DEMO = "`patchbay room create demo`"
"""What makes the room of the examples, at a hub that runs."""


def with_examples(*lines: str, after: str = "") -> str:
    """Return the examples and the last line of the help page of a command; `after` says what to make before them."""
    return f"{_format_examples(lines, after)}\n{SHORT_HELP}"


def with_examples_and_codes(*lines: str) -> str:
    """Return the examples of a program and the table of its exit codes."""
    return f"{_format_examples(lines)}\n{HELP}"


def _format_examples(lines: tuple[str, ...], after: str = "") -> str:
    return f"\b\nExamples{', after ' if after else ''}{after}:\n" + "".join(f"  {line}\n" for line in lines)
