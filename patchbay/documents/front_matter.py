"""The YAML (or TOML) at the head of a document: read, made, and changed key by key.

A change touches the lines of its own keys. Everything else, known or not, stays as it was, byte for byte: comments,
order, quotes, dates, anchors. Where that cannot be done (keys in braces, an anchor that is used elsewhere) the block
is written anew with the same values. A block that is no valid YAML is shown as it is and never changed.
What is YAML here is python-frontmatter's affair; only the cut between block and body is made so that both keep
every character.
Sources: REQUIREMENTS A-F2, JANE-C4; https://python-frontmatter.readthedocs.io; https://yaml.org/spec/1.1/.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, time
from typing import Any

import yaml
from frontmatter.default_handlers import YAMLHandler

from patchbay.documents import front_matter_toml
from patchbay.documents.errors import Unreadable

MAX_BLOCK_CHARACTERS = 64 * 1024
"""Characters of the longest block that is read as YAML."""

SHALLOW = 32
"""Brackets up to which a block cannot nest too deeply for the fast reader, which does not check."""

MAX_VALUES = 2000
"""How many values of a block are shown as JSON; aliases can make millions of a few lines."""

_UNSAID = (yaml.BlockEndToken, yaml.StreamStartToken, yaml.StreamEndToken)
MAX_INTEGER = 2**63
_HANDLER = YAMLHandler()
_BLOCK = re.compile(r"(\ufeff?-{3,}[ \t]*(\r?\n))(.*?)(^-{3,}[ \t]*(?:\r?\n|\Z))", re.DOTALL | re.MULTILINE)
_TOML_BLOCK = re.compile(r"(\ufeff?\+{3}[ \t]*(\r?\n))(.*?)(^\+{3}[ \t]*(?:\r?\n|\Z))", re.DOTALL | re.MULTILINE)
_NESTS = re.compile(r"[\[{]")
_COMPACT = re.compile(r"(?:[-?:][ \t]+){4}|^[ \t]{64}", re.MULTILINE)
_BROKEN = (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError, AttributeError)

FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The reader in C, which overflows the stack on deep nesting: only for blocks that cannot have any."""


@dataclass(frozen=True)
class FrontMatter:
    """A document's text taken apart. `opening + block + closing + body` is the text again.

    `metadata` is what the block says, empty where there is none; `problem` says why it cannot be read.
    """

    body: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    opening: str = ""
    block: str = ""
    closing: str = ""
    newline: str = "\n"
    problem: str | None = None

    @property
    def lines(self) -> int:
        """How many lines stand before the body."""
        return (self.opening + self.block + self.closing).count("\n")


def split(text: str) -> FrontMatter:
    """A text taken apart. Never raises: what is no front matter is body, what is broken has a `problem`."""
    found = _BLOCK.match(text) or _TOML_BLOCK.match(text)
    if found is None:
        return FrontMatter(text, newline="\r\n" if "\r\n" in text else "\n")
    opening, newline, block, closing = found.groups()
    body = text[found.end() :]
    try:
        value = load_toml(block) if "+++" in opening else load(block)
    except Unreadable as problem:
        return FrontMatter(body, {}, opening, block, closing, newline, problem.message)
    if value is not None and not isinstance(value, dict):
        return FrontMatter(text, newline=newline)
    return FrontMatter(body, value or {}, opening, block, closing, newline)


def load_toml(block: str) -> dict[str, Any]:
    """The values of some TOML. Raises Unreadable."""
    if len(block) > MAX_BLOCK_CHARACTERS:
        raise Unreadable(f"the front matter has {len(block)} characters; at most {MAX_BLOCK_CHARACTERS} are read")
    return front_matter_toml.load(block)


def load(block: str) -> Any:
    """The value of some YAML. Raises Unreadable."""
    if len(block) > MAX_BLOCK_CHARACTERS:
        raise Unreadable(f"the front matter has {len(block)} characters; at most {MAX_BLOCK_CHARACTERS} are read")
    shallow = len(_NESTS.findall(block)) <= SHALLOW and _COMPACT.search(block) is None
    if shallow:
        # The quick loader refuses a few texts that YAML allows, such as an empty key; the other one decides then.
        with suppress(*_BROKEN):
            return _HANDLER.load(block, Loader=FAST)
    try:
        return _HANDLER.load(block, Loader=yaml.SafeLoader)
    except _BROKEN as problem:
        reason = "it nests too deeply" if isinstance(problem, RecursionError) else " ".join(str(problem).split())[:300]
        raise Unreadable(f"the front matter is no valid YAML: {reason}") from problem


def new_document_text(metadata: Mapping[str, Any], body: str) -> str:
    """The text of a new document. Raises Unreadable for what YAML cannot say."""
    return f"---\n{_dumped(metadata)}---\n{body}"


def changed(text: str, changes: Mapping[str, Any], body: str | None = None) -> str:
    """A text with other values of some keys, and another body if one is given. Raises Unreadable."""
    front = split(text)
    body = front.body if body is None else body
    if not changes:
        return front.opening + front.block + front.closing + body
    if front.problem:
        raise Unreadable(f"{front.problem}; nothing was changed")
    if not front.opening:
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        lines = _dumped(changes).replace("\n", front.newline)
        return f"{mark}---{front.newline}{lines}---{front.newline}{body.removeprefix(mark)}"
    if "+++" in front.opening:
        return front.opening + front_matter_toml.changed(front.block, changes, front.newline) + front.closing + body
    wanted = {**front.metadata, **changes}
    block = _in_place(front, changes)
    if block is None or not _same(block, wanted):
        block = _dumped(wanted).replace("\n", front.newline)
    if not _same(block, wanted):
        raise Unreadable("the front matter cannot be changed without losing something; nothing was changed")
    return front.opening + block + front.closing + body


def plain(value: Any) -> Any:
    """A value of YAML as JSON can say it; what is too much is left out."""
    return _plain(value, [MAX_VALUES], 0)


def _plain(value: Any, left: list[int], depth: int) -> Any:
    left[0] -= 1
    if left[0] < 0 or depth > SHALLOW:
        return None
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if -MAX_INTEGER <= value < MAX_INTEGER else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, left, depth + 1) for key, inner in _some(value.items(), left)}
    if isinstance(value, (list, tuple, set)):
        return [_plain(inner, left, depth + 1) for inner in _some(value, left)]
    return str(value)


def _some(values: Iterable[Any], left: list[int]) -> Iterable[Any]:
    for one in values:
        if left[0] <= 0:
            return
        yield one


def _dumped(metadata: Mapping[str, Any]) -> str:
    """Metadata as lines of YAML, in their order. Raises Unreadable."""
    if not metadata:
        return ""
    try:
        # The writer in C escapes emoji. python-frontmatter's own export strips Unicode spaces from the first key.
        return str(
            yaml.dump(
                dict(metadata),
                Dumper=yaml.SafeDumper,
                allow_unicode=True,
                default_flow_style=False,
                sort_keys=False,
                width=100,
            )
        )
    except _BROKEN as problem:
        raise Unreadable(f"this cannot be said in YAML: {' '.join(str(problem).split())[:300]}") from problem


def _in_place(front: FrontMatter, changes: Mapping[str, Any]) -> str | None:
    """The block with the lines of some keys exchanged; None where keys have no lines of their own."""
    try:
        root = yaml.compose(front.block, Loader=yaml.SafeLoader)
    except _BROKEN:
        return None
    if root is not None and (not isinstance(root, yaml.MappingNode) or root.flow_style):
        return None
    said = [token for token in yaml.scan(front.block, Loader=yaml.SafeLoader) if not isinstance(token, _UNSAID)]
    spans: dict[str, tuple[int, int]] = {}
    for key, value in root.value if root is not None else ():
        if not isinstance(key, yaml.ScalarNode) or key.value in spans or key.start_mark.column:
            return None
        begin, end = key.start_mark.index, max(value.end_mark.index, key.end_mark.index)
        # A list ends where the next key begins for the reader; comments and blank lines before that are not its own.
        ends = (token.end_mark.index for token in said if begin <= token.start_mark.index < end)
        spans[key.value] = (begin, max(ends, default=end))
    # The reader counts characters without a mark at the very beginning, which no block has.
    edits = []
    for name, new in changes.items():
        line = _dumped({name: new}).rstrip("\n").replace("\n", front.newline)
        begin, end = spans.get(name, (len(front.block), len(front.block)))
        edits.append((begin, end, line))
    block = front.block
    for begin, end, line in sorted(edits, key=lambda edit: -edit[0]):
        before, rest = block[:begin], block[end:]
        if begin == end:
            before += front.newline if before and not before.endswith("\n") else ""
            block = before + line + front.newline + rest
        else:
            # A value over several lines ends where the next line begins; the newline is put back.
            missing = block[begin:end].endswith("\n") or not rest.startswith(("\r", "\n", " ", "\t"))
            block = before + line + (front.newline if missing else "") + rest
    return block


def _same(block: str, wanted: Mapping[str, Any]) -> bool:
    """Whether some YAML says exactly this, which may hold what is not equal to itself."""
    try:
        return bool(yaml.safe_dump(load(block) or {}) == yaml.safe_dump(dict(wanted)))
    except (*_BROKEN, Unreadable):
        return False
