"""Canonical JSON (RFC 8785), the bytes that contracts are hashed over.

Integers beyond 2^53 - 1 are written as the number they are for JavaScript, whose rules RFC 8785 takes over: a schema
with `"maximum": 9223372036854775807` has the digest it has for everybody else.
"""

from __future__ import annotations

import math
from typing import Any

import rfc8785

from patchbay.errors import ContentError

_SAFE = 2**53 - 1


class ContractError(ContentError):
    """Descriptors that cannot be compared or hashed: says which, and what was expected."""


def canonical_json(value: Any) -> bytes:
    """A JSON value as RFC 8785 writes it. Raises ContractError for what JSON cannot say (NaN, half a surrogate)."""
    try:
        return rfc8785.dumps(_doubles(value))
    except (ValueError, OverflowError, TypeError) as problem:
        raise ContractError(f"not a JSON value: {problem}") from problem
    except RecursionError as problem:
        raise ContractError("not a JSON value: it nests too deep") from problem


def _doubles(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _doubles(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_doubles(inner) for inner in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _SAFE:
        return _double(value)
    return value


def _double(value: int) -> int | float:
    number = float(value)
    if not math.isfinite(number):
        raise OverflowError(f"{str(value)[:40]} is too large")
    return number
