"""Values of settings as pages show them: without secrets, and without what proves something in an address."""

from __future__ import annotations

import re
from dataclasses import Field
from typing import Any

HIDDEN = "set, not shown"
"""Stands for a secret."""

_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")

_USER = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<user>\S*)@")
"""What stands before the host of a URL. A password may have a slash or an at sign, so it ends at the last at sign."""

_PROOF = re.compile(r"([?&#][^=&#\s]*(?:pass|secret|token|key|signature|credential)[^=&#\s]*=)[^&#\s]*", re.IGNORECASE)


def display_value(row: Field[Any], value: Any) -> str:
    """Return the value of a setting as text, a list with commas. A secret is shown only as a reference (`${NAME}`).

    In URLs the part before an at sign and the values of parameters that name a secret are left out: only a database
    keeps the name of its user, where no password follows.
    """
    if isinstance(value, tuple):
        return ",".join(display_value(row, each) for each in value)
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if row.metadata["is_secret"]:
        return text if not text or _REFERENCE.fullmatch(text) else HIDDEN
    return _PROOF.sub(r"\1…", _USER.sub(_hide_user, text))


def _hide_user(found: re.Match[str]) -> str:
    is_name = found["scheme"] == "postgresql" and re.fullmatch(r"[A-Za-z0-9_.-]*", found["user"])
    return found[0] if is_name else f"{found['scheme']}://…@"
