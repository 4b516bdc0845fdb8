"""Canonical JSON (RFC 8785), the bytes that contracts are hashed over.

Integers beyond 2^53 - 1 are written as JavaScript numbers, whose rules RFC 8785 uses: a schema with `"maximum":
9223372036854775807` has the same digest here as in other implementations.
"""

from __future__ import annotations

import math
from typing import Any

import rfc8785

from patchbay.errors import ContentError
from patchbay.exit_codes import CHANGED

_MAX_SAFE_INTEGER = 2**53 - 1


class ContractError(ContentError):
    """Descriptors that cannot be compared or hashed, or a contract that does not hold.

    The message names the descriptor.
    """

    exit_code = CHANGED


def encode_canonical_json(value: Any) -> bytes:
    """Encode a JSON value as RFC 8785 requires. Raises ContractError for other values (NaN, half a surrogate pair)."""
    try:
        return rfc8785.dumps(_convert_large_integers(value))
    except (ValueError, OverflowError, TypeError) as problem:
        raise ContractError(f"not a JSON value: {problem}") from problem
    except RecursionError as problem:
        raise ContractError("not a JSON value: it is nested too deep") from problem


def _convert_large_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _convert_large_integers(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_convert_large_integers(inner) for inner in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _MAX_SAFE_INTEGER:
        return _convert_integer(value)
    return value


def _convert_integer(value: int) -> int | float:
    number = float(value)
    if not math.isfinite(number):
        raise OverflowError(f"{str(value)[:40]} is too large")
    return number
