"""Reads, writes and changes the YAML or TOML front matter at the head of a document.

A change edits only the lines of its own keys. Comments, order, quotes, dates and anchors of other keys stay unchanged,
byte for byte. If an edit in place is impossible (keys in braces, an anchor that other keys use), the whole block is
written again with the same values. A block of invalid YAML is shown unchanged and never edited.
python-frontmatter parses the YAML by the rules of YAML 1.2; this module splits block and body itself, so that both keep
every character.
Sources: https://python-frontmatter.readthedocs.io; https://yaml.org/spec/1.2.2/.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any

import yaml
from frontmatter.default_handlers import YAMLHandler

from patchbay.documents import front_matter_toml
from patchbay.documents.errors import Unreadable
from patchbay.yaml_core.loading import CoreDumper, CoreLoader, FastCoreLoader, RepeatedKeys

MAX_BLOCK_CHARACTERS = 64 * 1024
"""Characters of the longest block that is parsed."""

MAX_SAFE_DEPTH = 32
"""Nesting that is safe for the fast parser, which has no limit of its own: a block with no more brackets."""

MAX_NESTED_CHARACTERS = 8 * 1024
"""Characters of a block with more brackets than that, which the other parser needs long for."""

MAX_OPEN_BRACKETS = 100
"""Brackets of such a block that are open at one place."""

MAX_VALUES = 2000
"""Limit on the values of a block that are converted to JSON; aliases can turn a few lines into millions of values."""

_STRUCTURE_TOKENS = (yaml.BlockEndToken, yaml.StreamStartToken, yaml.StreamEndToken)
MAX_INTEGER = 2**63
_HANDLER = YAMLHandler()
_BLOCK = re.compile(r"(\ufeff?-{3,}[ \t]*(\r?\n))(.*?)(^-{3,}[ \t]*(?:\r?\n|\Z))", re.DOTALL | re.MULTILINE)
_TOML_BLOCK = re.compile(r"(\ufeff?\+{3}[ \t]*(\r?\n))(.*?)(^\+{3}[ \t]*(?:\r?\n|\Z))", re.DOTALL | re.MULTILINE)
_NESTS = re.compile(r"[\[{]")
_BRACKETS = re.compile(r"[\[{}\]]")
_COMPACT = re.compile(r"(?:[-?:][ \t]+){4}|^[ \t]{64}", re.MULTILINE)
_BROKEN = (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError, AttributeError)


@dataclass(frozen=True)
class FrontMatter:
    """The parts of a document's text: `opening + block + closing + body` is the text.

    `metadata` holds the values of the block, empty without a block; `problem` is the reason why it cannot be parsed, or
    names its repeated keys.
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
        """The number of lines before the body."""
        return (self.opening + self.block + self.closing).count("\n")


def split(text: str) -> FrontMatter:
    """Split a text into front matter and body. Never raises: invalid front matter has a `problem`."""
    found = _BLOCK.match(text) or _TOML_BLOCK.match(text)
    if found is None:
        return FrontMatter(text, newline="\r\n" if "\r\n" in text else "\n")
    opening, newline, block, closing = found.groups()
    body = text[found.end() :]
    try:
        value, repeated = (load_toml(block), None) if "+++" in opening else load(block)
    except Unreadable as problem:
        return FrontMatter(body, {}, opening, block, closing, newline, problem.message)
    if value is not None and not isinstance(value, dict):
        return FrontMatter(text, newline=newline)
    return FrontMatter(body, value or {}, opening, block, closing, newline, repeated)


def load_toml(block: str) -> dict[str, Any]:
    """Return the values of a TOML block. Raises Unreadable."""
    if len(block) > MAX_BLOCK_CHARACTERS:
        raise Unreadable(f"the front matter has {len(block)} characters; expected at most {MAX_BLOCK_CHARACTERS}")
    return front_matter_toml.load(block)


def load(block: str) -> tuple[Any, str | None]:
    """Return the value of a YAML block, and a problem that names its repeated keys, or None. Raises Unreadable."""
    if len(block) > MAX_BLOCK_CHARACTERS:
        raise Unreadable(f"the front matter has {len(block)} characters; expected at most {MAX_BLOCK_CHARACTERS}")
    is_shallow = len(_NESTS.findall(block)) <= MAX_SAFE_DEPTH and _COMPACT.search(block) is None
    if is_shallow:
        # The fast parser refuses some valid YAML, such as an empty key; then the other parser decides.
        with suppress(*_BROKEN):
            return _load(block, FastCoreLoader)
    elif len(block) > MAX_NESTED_CHARACTERS:
        raise Unreadable(
            f"the front matter has {len(block)} characters and nests values: expected at most {MAX_NESTED_CHARACTERS}"
            f" characters, or at most {MAX_SAFE_DEPTH} brackets"
        )
    elif _count_open_brackets(block) > MAX_OPEN_BRACKETS:
        raise Unreadable("the front matter is not valid YAML: it nests too deeply")
    try:
        return _load(block, CoreLoader)
    except _BROKEN as problem:
        reason = "it nests too deeply" if isinstance(problem, RecursionError) else " ".join(str(problem).split())[:300]
        raise Unreadable(f"the front matter is not valid YAML: {reason}") from problem


def _count_open_brackets(block: str) -> int:
    """Return the largest number of brackets that are open at one place; those in texts count too."""
    deepest = depth = 0
    for bracket in _BRACKETS.findall(block):
        depth = depth + 1 if bracket in "[{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def _load(block: str, loader: Any) -> tuple[Any, str | None]:
    try:
        return _HANDLER.load(block, Loader=loader), None
    except RepeatedKeys as repeated:
        return repeated.value, f"the front matter repeats keys: {repeated}; the last value of each is used"


def new_document_text(metadata: Mapping[str, Any], body: str) -> str:
    """Return the text of a new document. Raises Unreadable for values that YAML cannot hold."""
    return f"---\n{_dump_yaml(metadata)}---\n{body}"


def changed(text: str, changes: Mapping[str, Any], body: str | None = None) -> str:
    """Return the text with new values of some keys, and a new body if one is given. Raises Unreadable."""
    front = split(text)
    body = front.body if body is None else body
    if not changes:
        return front.opening + front.block + front.closing + body
    if front.problem:
        raise Unreadable(f"{front.problem}; nothing was changed")
    if not front.opening:
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        lines = _dump_yaml(changes).replace("\n", front.newline)
        return f"{mark}---{front.newline}{lines}---{front.newline}{body.removeprefix(mark)}"
    if "+++" in front.opening:
        return front.opening + front_matter_toml.changed(front.block, changes, front.newline) + front.closing + body
    wanted = {**front.metadata, **changes}
    block = _edit_in_place(front, changes)
    if block is None or not _has_values(block, wanted):
        block = _dump_yaml(wanted).replace("\n", front.newline)
    if not _has_values(block, wanted):
        raise Unreadable("the front matter cannot be changed without losing values; nothing was changed")
    return front.opening + block + front.closing + body


def to_json_value(value: Any) -> Any:
    """Return the JSON form of a YAML value, without the values beyond MAX_VALUES and MAX_SAFE_DEPTH."""
    return _to_json_value(value, [MAX_VALUES], 0)


def _to_json_value(value: Any, left: list[int], depth: int) -> Any:
    left[0] -= 1
    if left[0] < 0 or depth > MAX_SAFE_DEPTH:
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
        return {
            str(key): _to_json_value(inner, left, depth + 1) for key, inner in _take_while_left(value.items(), left)
        }
    if isinstance(value, (list, tuple, set)):
        return [_to_json_value(inner, left, depth + 1) for inner in _take_while_left(value, left)]
    return str(value)


def _take_while_left(values: Iterable[Any], left: list[int]) -> Iterable[Any]:
    for one in values:
        if left[0] <= 0:
            return
        yield one


def _dump_yaml(metadata: Mapping[str, Any]) -> str:
    """Return metadata as lines of YAML, in their order. Raises Unreadable."""
    if not metadata:
        return ""
    try:
        # The dumper in C escapes emoji. python-frontmatter's own export strips Unicode spaces from the first key.
        return str(
            yaml.dump(
                dict(metadata),
                Dumper=CoreDumper,
                allow_unicode=True,
                default_flow_style=False,
                sort_keys=False,
                width=100,
            )
        )
    except _BROKEN as problem:
        raise Unreadable(f"these values have no YAML form: {' '.join(str(problem).split())[:300]}") from problem


def _edit_in_place(front: FrontMatter, changes: Mapping[str, Any]) -> str | None:
    """Return the block with the lines of some keys replaced; None if the keys do not have separate lines."""
    try:
        root = yaml.compose(front.block, Loader=yaml.SafeLoader)
    except _BROKEN:
        return None
    if root is not None and (not isinstance(root, yaml.MappingNode) or root.flow_style):
        return None
    tokens = [
        token for token in yaml.scan(front.block, Loader=yaml.SafeLoader) if not isinstance(token, _STRUCTURE_TOKENS)
    ]
    spans: dict[str, tuple[int, int]] = {}
    for key, value in root.value if root is not None else ():
        if not isinstance(key, yaml.ScalarNode) or key.value in spans or key.start_mark.column:
            return None
        begin, end = key.start_mark.index, max(value.end_mark.index, key.end_mark.index)
        # The parser ends a list at the next key; comments and blank lines before that key do not belong to the list.
        ends = (token.end_mark.index for token in tokens if begin <= token.start_mark.index < end)
        spans[key.value] = (begin, max(ends, default=end))
    # The parser does not count a byte order mark; a block never begins with one.
    edits = []
    for name, new in changes.items():
        line = _dump_yaml({name: new}).rstrip("\n").replace("\n", front.newline)
        begin, end = spans.get(name, (len(front.block), len(front.block)))
        edits.append((begin, end, line))
    block = front.block
    for begin, end, line in sorted(edits, key=lambda edit: -edit[0]):
        before, rest = block[:begin], block[end:]
        if begin == end:
            before += front.newline if before and not before.endswith("\n") else ""
            block = before + line + front.newline + rest
        else:
            # A value over several lines includes its last newline; add it again.
            missing = block[begin:end].endswith("\n") or not rest.startswith(("\r", "\n", " ", "\t"))
            block = before + line + (front.newline if missing else "") + rest
    return block


def _has_values(block: str, wanted: Mapping[str, Any]) -> bool:
    """Whether a YAML block has exactly these values. Compares their YAML text, because NaN differs from itself."""
    try:
        value, repeated = load(block)
        return repeated is None and _as_text(value or {}) == _as_text(dict(wanted))
    except (*_BROKEN, Unreadable):
        return False


def _as_text(value: Any) -> str:
    return str(yaml.dump(value, Dumper=CoreDumper))


def list_text(value: Any) -> str:
    """Return a value as a text for lists; `true` and `false` as YAML writes them, a date of TOML in ISO 8601."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime | date):
        return value.isoformat()
    return "" if value is None or isinstance(value, (dict, list, set, bytes)) else " ".join(str(value).split())


def list_tags(value: Any) -> tuple[str, ...]:
    """Return the tags of a list, or of one value, as texts."""
    values = value if isinstance(value, (list, set)) else [value]
    return tuple(found for one in values if (found := list_text(one)))
