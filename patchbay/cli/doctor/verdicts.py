"""The result of one check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Grade = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check: what was checked, the grade, a sentence, and a command or a step that fixes it."""

    check: str
    grade: Grade
    sentence: str
    mend: str = ""


def ok(check: str, sentence: str) -> CheckResult:
    """Return a check without a problem."""
    return CheckResult(check, "ok", sentence)


def warning(check: str, sentence: str, mend: str) -> CheckResult:
    """Return the result of a check that found a limitation; the hub works nevertheless."""
    return CheckResult(check, "warning", sentence, mend)


def problem(check: str, sentence: str, mend: str) -> CheckResult:
    """Return a check whose result prevents something."""
    return CheckResult(check, "problem", sentence, mend)
