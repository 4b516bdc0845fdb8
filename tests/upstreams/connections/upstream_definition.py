"""A server for the tests of mounts: it reports, asks, waits and records the end of its calls."""

import time
from pathlib import Path


def greet(name: str = "you") -> str:
    """Greet someone."""
    return f"Hello, {name}!"


def steps(context) -> str:
    """Report progress and log lines."""
    for number in (1, 2, 3):
        context.progress(number, total=3, message=f"step {number}")
    context.log("a line for all callers")
    context.log("a line for the curious", level="debug")
    return "done"


def ask(context, what: str = "name", first: str = "") -> str:
    """Ask the user; a second question follows the first when `first` requires it."""
    schema = {"type": "object", "properties": {"value": {"type": "string"}}}
    known = [context.elicit(f"Your {one}?", schema) for one in (first, what) if one]
    return ", ".join(answer.get("content", {}).get("value", answer["action"]) for answer in known)


def wait(path: str, context, silent: bool = False) -> str:
    """Work until the caller cancels, with events all the time unless `silent`; the file records the end."""
    Path(path).write_text("begun")
    turns = 0
    try:
        # A function that emits is stopped there; one that only checks stops here.
        while not context.cancelled:
            if not silent:
                context.progress(turns := turns + 1)
            time.sleep(0.02)
    finally:
        Path(path).write_text("cancelled")
    return "gave up"


def later(context) -> str:
    """Continue in the background, or not at all."""
    context.background(required=True)
    return "it lasted"


def resumable(path: str, context) -> str:
    """Let the caller disconnect, and end once the file is there."""
    context.background()
    while not Path(path).exists():
        time.sleep(0.02)
    return "it went on"
