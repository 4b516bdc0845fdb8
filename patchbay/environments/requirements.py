"""What a Python definition requires: the block `# /// script` in its text, and `requirements` in its configuration.

Sources: PyPA, inline script metadata (PEP 723); dependency specifiers (PEP 508); version specifiers (PEP 440).
"""

from __future__ import annotations

import re
import sys
import sysconfig
import tokenize
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from shlex import quote
from typing import Any

import orjson
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from patchbay.cid import cid_of
from patchbay.errors import ConfigError

BLOCK = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
"""A block of metadata: the reference regular expression of the specification."""

SCRIPT = "script"
"""The type of the block that names requirements."""

EXPECTED = 'expected "# /// script", then lines that begin with "# " and hold TOML, then "# ///"'

MAX_REQUIREMENTS = 200
"""Maximum number of packages that one definition requires."""

MAX_REQUIREMENT_CHARACTERS = 500

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
"""The Python version of the hub, and therefore of its worker processes and of all environments."""

_OPENING = re.compile(rb"(?m)^#\s*///[ \t]*script\b")
"""Lines that begin a block, and lines that nearly do."""


@dataclass(frozen=True, slots=True)
class Requirements:
    """The packages that a definition requires, each as a dependency specifier, sorted; for a Python and a platform."""

    packages: tuple[str, ...]
    python: str = PYTHON
    platform: str = sysconfig.get_platform()

    @property
    def document(self) -> bytes:
        """The requirements as canonical JSON."""
        fields = {"packages": self.packages, "python": self.python, "platform": self.platform}
        return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)

    @property
    def key(self) -> str:
        """The CID of the document: equal requirements have one environment."""
        return cid_of(self.document)

    @property
    def names(self) -> str:
        """The names of the packages, for sentences."""
        return ", ".join(Requirement(one).name for one in self.packages)


@dataclass(frozen=True, slots=True)
class ScriptBlock:
    """A block `# /// script`: its requirements as they are written, the versions of Python, and its first line."""

    dependencies: tuple[str, ...]
    requires_python: str
    line: int


def read_script_block(source: bytes, name: str) -> ScriptBlock | None:
    """Return the block of a definition; None without one. `name` is the server's, for messages.

    Raises ConfigError that names the line: two blocks, a block without an end, invalid TOML, a wrong field.
    """
    if not _OPENING.search(source):
        return None
    text = source.decode("utf-8", "replace").replace("\r\n", "\n")
    found = [match for match in BLOCK.finditer(text) if match["type"] == SCRIPT]
    if len(found) > 1:
        raise ConfigError(name, f"line {_line(text, found[1].start())}", "expected one block # /// script; it has two")
    if not found:
        line = _unfinished_line(source)
        if line is None:
            return None
        raise ConfigError(name, f"line {line}", f"a block of requirements that cannot be read: {EXPECTED}")
    first = _line(text, found[0].start())
    return _parse_block(found[0]["content"], name, first)


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _unfinished_line(source: bytes) -> int | None:
    """Return the line of a comment that begins a block; None where the words are inside a text."""
    try:
        for token in tokenize.tokenize(BytesIO(source).readline):
            if token.type == tokenize.COMMENT and token.start[1] == 0 and _OPENING.match(token.string.encode()):
                return token.start[0]
    except (tokenize.TokenError, SyntaxError):
        pass  # the definition is not valid Python, which another check reports
    return None


def _parse_block(content: str, name: str, first: int) -> ScriptBlock:
    """Return the fields of a block whose lines begin with `#`. `first` is the line of its opening."""
    toml = "".join(line[2:] if line.startswith("# ") else line[1:] for line in content.splitlines(keepends=True))
    try:
        fields = tomllib.loads(toml)
    except tomllib.TOMLDecodeError as problem:
        place = re.search(r"at line (\d+)", str(problem))
        line = first + (int(place[1]) if place else len(toml.splitlines()))
        sentence = re.sub(r" \(at .*\)$", "", str(problem))
        raise ConfigError(name, f"line {line}", f"the block # /// script is not valid TOML: {sentence}") from problem
    listed, python = fields.get("dependencies", []), fields.get("requires-python", "")
    where = f"line {first}"
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise ConfigError(name, where, 'expected dependencies = ["requests>=2", ...] in the block # /// script')
    if not isinstance(python, str):
        raise ConfigError(name, where, 'expected requires-python = ">=3.11" in the block # /// script')
    lines = content.splitlines()
    for one in listed:
        line = next((first + number for number, text in enumerate(lines, 1) if one in text), first)
        _normal_form(one, name, f"line {line}")
    return ScriptBlock(tuple(listed), python, first)


def _normal_form(text: str, name: str, where: str) -> str:
    """Return a dependency specifier in its normal form. Raises ConfigError."""
    try:
        if len(text) > MAX_REQUIREMENT_CHARACTERS:
            raise InvalidRequirement(f"it has more than {MAX_REQUIREMENT_CHARACTERS} characters")
        found = Requirement(text)
    except InvalidRequirement as problem:
        reason = str(problem).partition("\n")[0]
        raise ConfigError(
            name, where, f'expected a package such as "requests>=2"; {text[:80]!r} is not a requirement: {reason}'
        ) from problem
    found.name = canonicalize_name(found.name)
    return str(found)


def requirements_of(source: bytes, name: str, config: Mapping[str, Any]) -> Requirements | None:
    """Return what a definition requires together with its configuration; None when it requires nothing.

    Raises ConfigError: a block that cannot be read, an invalid specifier, a Python version that the hub does not have.
    """
    block = read_script_block(source, name)
    configured: Sequence[str] = config.get("requirements", ())
    if block is not None:
        _check_python(block.requires_python, name, f"line {block.line}")
    packages = {*_configured(configured, name), *_declared(block, name)}
    if len(packages) > MAX_REQUIREMENTS:
        raise ConfigError(name, "requirements", f"expected at most {MAX_REQUIREMENTS} packages; it has {len(packages)}")
    return Requirements(tuple(sorted(packages))) if packages else None


def _configured(listed: Sequence[str], name: str) -> Iterator[str]:
    for place, text in enumerate(listed):
        yield _normal_form(text, f"the configuration of {name}", f"requirements[{place}]")


def _declared(block: ScriptBlock | None, name: str) -> Iterator[str]:
    for text in block.dependencies if block is not None else ():
        yield _normal_form(text, name, "dependencies")


def _check_python(wanted: str, name: str, where: str) -> None:
    """Raise ConfigError when the hub's Python is not one of the wanted versions."""
    try:
        versions = SpecifierSet(wanted)
    except InvalidSpecifier as problem:
        raise ConfigError(name, where, f'expected requires-python = ">=3.11"; got {wanted!r}') from problem
    running = ".".join(map(str, sys.version_info[:3]))
    if not versions.contains(running, prereleases=True):
        raise ConfigError(
            name,
            where,
            f'requires-python = "{wanted}" excludes the Python {running} of this hub, which runs all definitions: widen'
            f" it, or start the hub with such a Python: uvx --python {quote(wanted)} --from patchbay-hub patchbay",
        )
