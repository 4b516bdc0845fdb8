"""The digest of a question of a tool, by which its answer is found when a call inside a script is made again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.cid import cid_of
from patchbay.jsonrpc import dump_json


def digest_of_question(key: str, method: str, params: Mapping[str, Any]) -> str:
    """Return the digest of a question of a tool, by which its answer is found.

    A tool may ask for several things under one key, and each answer is for the words and the form that a person saw.
    """
    seen = [params.get(name) for name in ("mode", "message", "requestedSchema")]
    return cid_of(dump_json([key, method, seen], is_sorted=True))
