"""Rows of text as a table with aligned columns."""

from __future__ import annotations

from collections.abc import Sequence


def format_rows(rows: Sequence[Sequence[str]]) -> str:
    """Format rows, titles included, with two spaces between the columns. All rows have the same number of cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
