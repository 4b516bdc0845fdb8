"""Finds the frames of an author's code in an exception, with its causes and the members of its group.

Frames of the hub, of the standard library and of installed packages are left out.
Source: https://docs.python.org/3/library/traceback.html.
"""

from __future__ import annotations

import linecache
import site
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from traceback import walk_tb

RAISED_ATTRIBUTE = "_patchbay_raised"
"""The attribute of an exception that holds what the author's code raised."""

MAX_EXCEPTIONS = 8
"""Limit on the exceptions of one failure: causes, and members of groups."""

MAX_FRAMES = 20
"""Limit on the frames of one exception; the innermost ones are kept."""

MAX_CHARACTERS = 500
"""Limit on the characters of a message, of a file name, and of a line of code."""

CAUSE, CONTEXT, MEMBER = "caused by", "raised while handling", "in the group"
"""How an exception belongs to an earlier one of the same failure."""


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A frame of the author's code: the file, the line number from 1, the function ("" at the top level), the text."""

    file: str
    line: int
    function: str
    text: str


@dataclass(frozen=True, slots=True)
class RaisedException:
    """One exception: type and message, how it belongs to the one before ("" for the first), its frames, outermost
    first.
    """

    error: str
    relation: str
    frames: tuple[CodeLine, ...]


Raised = tuple[RaisedException, ...]
"""The exceptions of one failure: the one that ended the call, then its causes and the members of its group."""


def find_raised(problem: BaseException, source: str, file: str, hidden: type[Exception]) -> Raised:
    """Return an exception and its causes with the frames of the author's code; empty without such a frame.

    `source` is the text of the definition, and `file` the name under which it was compiled (`<notes.py>`). Exceptions
    of the type `hidden` are messages on purpose, and are left out when their own frames say nothing more.
    """
    lines = source.splitlines()
    found: list[RaisedException] = []
    for each, relation in _chain(problem, "", set()):
        frames = tuple(_frames(each, file, lines))
        if isinstance(each, hidden) and (not frames or _is_alone(each)):
            continue
        found.append(RaisedException(_described(each), relation if found else "", frames))
        if len(found) == MAX_EXCEPTIONS:
            break
    return tuple(found) if any(one.frames for one in found) else ()


def _is_alone(problem: BaseException) -> bool:
    """Whether an exception is neither caused by another nor a group."""
    return problem.__cause__ is None and not isinstance(problem, BaseExceptionGroup)


def _chain(problem: BaseException, relation: str, seen: set[int]) -> Iterator[tuple[BaseException, str]]:
    """Yield an exception, the members of its group, then its causes. Each one is yielded once."""
    if id(problem) in seen:
        return
    seen.add(id(problem))
    yield problem, relation
    if isinstance(problem, BaseExceptionGroup):
        for member in problem.exceptions:
            yield from _chain(member, MEMBER, seen)
    if problem.__cause__ is not None:
        yield from _chain(problem.__cause__, CAUSE, seen)
    elif problem.__context__ is not None and not problem.__suppress_context__:
        yield from _chain(problem.__context__, CONTEXT, seen)


def _frames(problem: BaseException, file: str, lines: Sequence[str]) -> Iterator[CodeLine]:
    places = [(frame.f_code, number) for frame, number in walk_tb(problem.__traceback__)]
    own = [(code, number) for code, number in places if code.co_filename == file or _is_of_author(code.co_filename)]
    for code, number in own[-MAX_FRAMES:]:
        if code.co_filename == file:
            text = lines[number - 1] if 0 < number <= len(lines) else ""
        else:
            text = linecache.getline(code.co_filename, number)
        yield _code_line(code.co_filename, number, "" if code.co_name == "<module>" else code.co_name, text)
    if isinstance(problem, SyntaxError) and problem.filename and problem.lineno:
        yield _code_line(problem.filename, problem.lineno, "", problem.text or "")


def _code_line(file: str, number: int, function: str, text: str) -> CodeLine:
    name = file[1:-1] if file.startswith("<") and file.endswith(">") else file
    return CodeLine(shorten(name), number, shorten(function), shorten(text.strip()))


@lru_cache(maxsize=1024)
def _is_of_author(file: str) -> bool:
    """Whether a file is neither of the hub, nor of Python, nor of an installed package."""
    if file.startswith("<"):
        return False
    return not file.startswith(_foreign_folders()) and not {"site-packages", "dist-packages"} & set(Path(file).parts)


@cache
def _foreign_folders() -> tuple[str, ...]:
    own = {str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    return tuple(f"{folder}/" for folder in {*own, *site.getsitepackages()})


def _described(problem: BaseException) -> str:
    try:
        text = str(problem)
    except Exception:  # the author's own `__str__`
        text = ""
    name = type(problem).__name__
    return shorten(f"{name}: {text}" if text else name)


def shorten(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Return a text that UTF-8 can encode, of at most `limit` characters; an ellipsis ends one that is cut."""
    clean = text.encode("utf-8", "replace").decode()
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def attach_raised(problem: BaseException, raised: Raised) -> None:
    """Attach exceptions to the exception that leaves the author's code, for `raised_of`."""
    if raised:
        with suppress(TypeError, AttributeError):  # an exception without a __dict__
            object.__setattr__(problem, RAISED_ATTRIBUTE, raised)


def raised_of(problem: BaseException) -> Raised:
    """Return what was attached to an exception; empty without anything."""
    found = getattr(problem, "__dict__", {}).get(RAISED_ATTRIBUTE, ())
    return found if isinstance(found, tuple) and all(isinstance(one, RaisedException) for one in found) else ()
