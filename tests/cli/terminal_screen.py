"""What a person sees on a terminal after a program has written to it."""

from __future__ import annotations

import re

_PIECE = re.compile(r"\x1b\[(?P<given>[0-9;?]*)(?P<command>[A-Za-z])|(?P<char>[\r\n])|(?P<text>[^\x1b\r\n]+)")


class Screen:
    """The lines on a terminal that is wider than all lines, and the colours that were used (SGR codes, ECMA-48).

    A line break also returns to the first column, as the driver of a terminal does.
    """

    def __init__(self, written: str) -> None:
        """Show everything that was written. Raises ValueError for a sequence that this screen does not know."""
        self._lines: list[list[str]] = [[]]
        self._row = self._column = 0
        self.colors: set[str] = set()
        place = 0
        while place < len(written):
            found = _PIECE.match(written, place)
            if found is None:
                raise ValueError(f"unknown sequence {written[place : place + 20]!r}")
            place = found.end()
            if found["text"] is not None:
                self._write(found["text"])
            elif found["char"] == "\n":
                self._row, self._column = self._row + 1, 0
                self._lines += [[]] * (self._row >= len(self._lines))
            elif found["char"] == "\r":
                self._column = 0
            else:
                self._obey(found["command"], found["given"])

    @property
    def lines(self) -> list[str]:
        """The lines without spaces at their ends; empty lines at the bottom are left out."""
        return "\n".join("".join(line).rstrip() for line in self._lines).rstrip("\n").split("\n")

    def _write(self, text: str) -> None:
        line = self._lines[self._row]
        line += [" "] * (self._column - len(line))
        line[self._column : self._column + len(text)] = text
        self._column += len(text)

    def _obey(self, command: str, given: str) -> None:
        if command == "m":
            self.colors.add(given)
        elif command == "A":
            self._row = max(0, self._row - int(given or 1))
        elif command == "K":
            line = self._lines[self._row]
            del line[0 if given == "2" else self._column :]
        elif command not in "hl":  # show and hide the cursor
            raise ValueError(f"unknown command {command}")
