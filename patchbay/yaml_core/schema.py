"""The core schema of YAML 1.2: which unquoted texts are null, booleans and numbers. All others stay texts.

PyYAML implements YAML 1.1, where `no` is a boolean, `12:30:00` is a number and `2024-01-02` is a date.
Source: https://yaml.org/spec/1.2.2/#103-core-schema.
"""

from __future__ import annotations

import re

NULL = r"|~|null|Null|NULL"
TRUE = r"true|True|TRUE"
FALSE = r"false|False|FALSE"
INTEGER = r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
NOT_FINITE = r"[-+]?(?:\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN"

LEADING_ZERO = r"[-+]?0[0-9]"
"""The beginning of a number with a leading zero, such as the tag `0123`: a name more often than a number."""


def full_match(rule: str) -> re.Pattern[str]:
    """Compile a rule so that it matches whole texts only."""
    return re.compile(rf"(?:{rule})\Z")
