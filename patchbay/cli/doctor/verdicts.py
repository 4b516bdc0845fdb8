"""The result of one check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Grade = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one check: what was checked, the grade, a sentence, and a command or a step that fixes it."""

    check: str
    grade: Grade
    sentence: str
    mend: str = ""


def ok(check: str, sentence: str) -> Verdict:
    """Return a check without a problem."""
    return Verdict(check, "ok", sentence)


def warning(check: str, sentence: str, mend: str) -> Verdict:
    """Return a check whose result limits something; the hub works."""
    return Verdict(check, "warning", sentence, mend)


def problem(check: str, sentence: str, mend: str) -> Verdict:
    """Return a check whose result prevents something."""
    return Verdict(check, "problem", sentence, mend)
