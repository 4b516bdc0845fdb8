"""Names of tools for the operations of an API: short, safe for every MCP client, and stable.

An `operationId` is the name, without characters that clients refuse and without the path that generators append to it
(FastAPI). Without one, the method and the path make a name such as `list_users`, `get_user` or `create_user_post`. When
two operations have one name, the first in the document has it; the next ones have the words of their path too.

Source: MCP specification, server/tools, tool names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256

from patchbay.client.openapi.operations import Operation

MAX_NAME_CHARACTERS = 48
"""Maximum characters of a name: desktop clients refuse more than 64 with the name of the server in front."""

_VERSION = re.compile(r"v\d+([._-]?\w+)?|api|rest", re.IGNORECASE)
_PARAMETER = re.compile(r"\{[^}]*\}")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_UNCOUNTABLE = ("ss", "us", "is", "news", "series")
_VERBS = {"put": "replace", "patch": "update", "delete": "delete"}


def choose_names(operations: Iterable[Operation]) -> list[str]:
    """Return a unique name for each operation, in their order."""
    taken: set[str] = set()
    return [_claim(operation, taken) for operation in operations]


def _claim(operation: Operation, taken: set[str]) -> str:
    for name in _list_candidates(operation):
        short = shorten(name)
        if short and short.lower() not in taken:
            taken.add(short.lower())
            return short
    raise AssertionError("the last candidate is unique")


def _list_candidates(operation: Operation) -> Iterator[str]:
    given = operation.raw.get("operationId")
    whole = f"{operation.method} {operation.path}"
    if isinstance(given, str):
        clean = clean_words(given)
        yield remove_generated_suffix(clean, operation)
        yield clean
    yield name_by_path(operation.method, operation.path)
    yield clean_words(whole)
    yield f"{clean_words(whole)[:30]}_{sha256(whole.encode()).hexdigest()[:12]}"


def clean_words(text: str) -> str:
    """Replace the characters that MCP clients refuse in the name of a tool."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_-")


def remove_generated_suffix(name: str, operation: Operation) -> str:
    """Remove the path and the method that FastAPI appends: `list_users_api_users_get` is `list_users`."""
    suffix = f"{re.sub(r'[^A-Za-z0-9]+', '_', operation.path).strip('_')}_{operation.method}"
    squeezed = re.sub(r"_+", "_", name)
    ending = f"_{re.sub(r'_+', '_', suffix)}"
    return (
        squeezed[: -len(ending)] if squeezed.lower().endswith(ending.lower()) and len(squeezed) > len(ending) else name
    )


def name_by_path(method: str, path: str) -> str:
    """Return a name for an operation without an operationId: a verb, and the words of its path."""
    pieces = [piece for piece in path.strip("/").split("/") if piece]
    while len(pieces) > 1 and _VERSION.fullmatch(pieces[0]):
        del pieces[0]
    words: list[str] = []
    for number, piece in enumerate(pieces):
        if _PARAMETER.fullmatch(piece):
            continue
        word = clean_words(_PARAMETER.sub("", _CAMEL.sub("_", piece))).lower()
        is_one = number + 1 < len(pieces) and bool(_PARAMETER.fullmatch(pieces[number + 1]))
        words += [get_singular(word) if is_one else word] if word else []
    if not words:
        return f"{method}_root"
    is_collection = bool(pieces) and not _PARAMETER.search(pieces[-1]) and get_singular(words[-1]) != words[-1]
    if method == "get":
        return "_".join(["list" if is_collection else "get", *words])
    if method == "post" and is_collection:
        return "_".join(["create", *words[:-1], get_singular(words[-1])])
    if method == "post" and not _PARAMETER.search(pieces[-1]) and len(words) > 1:
        return "_".join([words[-1], *words[:-1]])
    return "_".join([_VERBS.get(method, method), *words])


def get_singular(word: str) -> str:
    """Return the singular of a plural English noun; any other word as it is."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(_UNCOUNTABLE):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word[:-1]


def shorten(name: str) -> str:
    """Shorten a name at the end of a word; a long name without such an end keeps its beginning."""
    if len(name) <= MAX_NAME_CHARACTERS:
        return name
    head = name[: MAX_NAME_CHARACTERS + 1]
    cut = max(head.rfind("_"), head.rfind("-"), *(found.start() for found in _CAMEL.finditer(head)), 0)
    return head[: cut if cut >= MAX_NAME_CHARACTERS // 2 else MAX_NAME_CHARACTERS].strip("_-")
