"""Limits of the lists of a mounted server: number, size, depth, and the characters of names.

An entry beyond a limit is left out, with a sentence for the server's page. Other entries are passed on unchanged.

Source: MCP specification, server/tools, tool names (1 to 128 characters).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from patchbay.descriptors import Kind, Problem
from patchbay.views.hidden_characters import find_hidden_character

MAX_ENTRIES = 5_000
"""Maximum entries of one list (tools, resources, resource templates, prompts)."""

MAX_LIST_BYTES = 16 * 1024 * 1024
"""Maximum bytes of one list as JSON."""

MAX_ENTRY_BYTES = 512 * 1024
"""Maximum bytes of one entry as JSON: schemas, descriptions, icons."""

MAX_SCHEMA_BYTES = 256 * 1024
"""Maximum bytes of one input or output schema as JSON."""

MAX_DEPTH = 64
"""Maximum nesting of objects and arrays in one entry."""

MAX_NAME_CHARACTERS: dict[Kind, int] = {
    **{"tool": 128, "prompt": 128, "event": 128},
    **{"resource": 1024, "template": 1024},
}
"""Maximum characters of the name of a tool or a prompt, and of the URI of a resource or a resource template."""

MAX_TITLE_CHARACTERS = 1024
MAX_DESCRIPTION_CHARACTERS = 32 * 1024
MAX_INSTRUCTIONS_CHARACTERS = 64 * 1024
MAX_INFO_BYTES = 512 * 1024
MAX_CAPABILITIES_BYTES = 64 * 1024

MAX_PROBLEMS = 100
"""Maximum sentences about one server; one more sentence has the number of the others."""

Json = dict[str, Any]


class ListReader:
    """Reads one list of an upstream up to its limits. `left_out` has a sentence for each reason of omission.

    `taken` are the entries so far, also when the reading fails.
    """

    def __init__(self, key: str) -> None:
        self.left_out: list[str] = []
        self.taken: list[Json] = []
        self._key = key

    def read(self, entries: Iterable[Any]) -> list[Json]:
        """Return the entries that are objects and can be stored. Reading stops at the first exceeded limit."""
        taken = self.taken
        unwritable = total = 0
        for entry in entries:
            size = encoded_size(entry) if type(entry) is dict else None
            if size is None:
                unwritable += 1
                continue
            if size > MAX_ENTRY_BYTES:
                self.left_out.append(f"not served: an entry has {size} bytes; expected at most {MAX_ENTRY_BYTES}")
                continue
            total += size
            if total > MAX_LIST_BYTES or len(taken) == MAX_ENTRIES:
                self.left_out.append(self._rest(len(taken)))
                break
            taken.append(entry)
        if unwritable:
            words = "is not an object in JSON" if unwritable == 1 else "are not objects in JSON"
            self.left_out.append(f"not served: {unwritable} of its {self._key} {words}")
        self.left_out = [problem.reason for problem in limit_problems([Problem("", one) for one in self.left_out])]
        return taken

    def _rest(self, taken: int) -> str:
        bounds = f"{MAX_ENTRIES} entries and {MAX_LIST_BYTES} bytes"
        return f"not served: the {self._key} after the first {taken}; expected at most {bounds}"


def encoded_size(value: Any) -> int | None:
    """Return the bytes of a value as JSON; None for a value without JSON form (huge numbers, lone surrogates)."""
    try:
        return len(orjson.dumps(value))
    except (orjson.JSONEncodeError, RecursionError):
        return None


def check_name(kind: Kind, key: str, name: Any) -> str | None:
    """Return why a name (or a URI) cannot be served, or None. The sentence shows its beginning, escaped."""
    longest = MAX_NAME_CHARACTERS[kind]
    if not isinstance(name, str) or not name:
        return f"its {key} is not a string: {name!r:.100}"
    if len(name) > longest:
        return f"its {key} has {len(name)} characters; expected at most {longest}: {name!a:.100}"
    hidden = find_hidden_character(name)
    if hidden is not None or not name.isprintable():
        which = f"the hidden character {hidden}" if hidden else "characters that are not printable"
        return f"its {key} has {which}: {name!a:.100}"
    if name != name.strip():
        return f"its {key} begins or ends with a space: {name!a:.100}"
    return None


def check_entry(entry: Json) -> str | None:
    """Return which limit an entry exceeds, or None. The types of its texts are checked already."""
    for field, longest in (("title", MAX_TITLE_CHARACTERS), ("description", MAX_DESCRIPTION_CHARACTERS)):
        if len(entry.get(field) or "") > longest:
            return f"its {field} has {len(entry[field])} characters; expected at most {longest}"
    if _is_deeper_than(entry, MAX_DEPTH):
        return f"it nests more than {MAX_DEPTH} objects and arrays"
    for field in ("inputSchema", "outputSchema"):
        size = encoded_size(entry.get(field))
        if size is None or size > MAX_SCHEMA_BYTES:
            return f"its {field} is not JSON of at most {MAX_SCHEMA_BYTES} bytes"
    return None


def limit_problems(problems: Sequence[Problem]) -> list[Problem]:
    """Return the first MAX_PROBLEMS, and one with the number of the others."""
    shown, rest = list(problems[:MAX_PROBLEMS]), len(problems) - MAX_PROBLEMS
    if rest > 0:
        shown.append(Problem("more", f"{rest} more entries are not served, for similar reasons"))
    return shown


def _is_deeper_than(value: Any, limit: int) -> bool:
    """Whether objects and arrays nest deeper than `limit`, level by level, without recursion."""
    level = [value]
    for _ in range(limit + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True
