"""Exit codes of the `patchbay` command, each with its reason. Part of the interface: documented, never renumbered."""

OK = 0
"""It did what was asked; for `serve` and `stdio`: it was told to end and everything had ended in time."""

FAILED = 1
"""The hub failed; the log says why."""

USAGE = 2
"""An option, a setting, the boot image or the name of a server is not what it has to be."""

ADDRESS = 3
"""The address to listen on is in use or cannot be had."""

HELP = """\b
Exit codes:
  0  done; for `serve` and `stdio`: ended as asked
  1  the hub failed; the log says why
  2  an option, a setting, the boot image or a name is wrong
  3  the address is in use or cannot be had
"""
