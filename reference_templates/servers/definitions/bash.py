"""Bash: run a command on the hub's machine, with the rights of the user that runs the hub. Off unless enabled."""

import codecs
import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from pydantic import Field

from patchbay import Command, Data, ToolFailed, run

_BYTES = 4 * 1024 * 1024
_LINES = 100_000
_LONGEST = 64 * 1024


def execute(
    command: Annotated[str, Field(min_length=1, max_length=100_000, examples=["ls -l", "grep -c '' *.txt | sort"])],
) -> Iterator[Data]:
    """Run a command with `bash -c` and give its output line by line, as it comes.

    It has an empty folder, no input, a few variables such as PATH, and 10 minutes. When its time is over, or the
    caller gives up, it is stopped with everything it started; so is what it leaves running in the background. Of
    output it has 100,000 lines or 4 MiB.

    Args:
        command: The command, as one would type it.
    """
    lines = {"stdout": _Lines(), "stderr": _Lines()}
    said = 0
    yield Data({"type": "start"}, "bash.event", "")
    with _pieces(command) as pieces:
        while True:
            try:
                piece = next(pieces)
            except StopIteration as end:
                code: int = end.value
                break
            for line in lines[piece[0]].take(piece[1]) if piece else ():
                said += 1
                if said > _LINES:
                    raise ToolFailed(f"the command was stopped: it wrote more than {_LINES} lines")
                yield _line(piece[0], line)
    for channel, rest in lines.items():
        yield from (_line(channel, line) for line in rest.rest())
    # As a shell counts it: a command that a signal ended has 128 and the signal's number.
    yield Data({"type": "complete", "exit_code": code if code >= 0 else 128 - code}, "bash.event", "")
    if code < 0:
        raise ToolFailed(f"the command was ended by signal {-code} ({signal.strsignal(-code)}), exit code {128 - code}")
    if code > 0:
        raise ToolFailed(f"the command ended with exit code {code}")


@contextmanager
def _pieces(command: str):
    """What a command says, while it runs in an empty folder inside that of this process, with which it goes."""
    with TemporaryDirectory(dir=Path.cwd(), ignore_cleanup_errors=True) as folder:
        child = Command(["bash", "-c", command], dict(os.environ), Path(folder))
        with closing(run(child, _BYTES)) as pieces:
            yield pieces


def _line(channel: str, line: str) -> Data:
    return Data({"type": channel, "data": line}, "bash.event", line)


class _Lines:
    """Bytes as they come, cut into lines; what is no UTF-8 becomes U+FFFD, and a line without end is cut."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._open = ""

    def take(self, data: bytes) -> list[str]:
        """The lines that are complete now."""
        *lines, self._open = (self._open + self._decoder.decode(data)).split("\n")
        if len(self._open) > _LONGEST:
            return [*(f"{line}\n" for line in lines), *self.rest()]
        return [f"{line}\n" for line in lines]

    def rest(self) -> list[str]:
        """What has not become a line."""
        rest, self._open = self._open, ""
        return [rest] if rest else []
