"""Patchbay: a hub that makes an MCP endpoint out of anything plugged in."""

import time

__version__ = "0.1.0"

STARTED = time.monotonic()
"""When this process, or the one it was forked from, loaded the program: a `time.monotonic()` moment."""
