"""Match URIs against URI templates and return the variables, or expand templates (RFC 6570, levels 1 to 3).

`{name}` does not match a `/`, `{+name}` does; query variables are optional; values are percent-decoded. Matching never
backtracks over more than one variable, so the time is linear in the length of an untrusted URI.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, unquote

from patchbay.errors import ConfigError, InvalidParams

MAX_URI_CHARACTERS = 8192
"""Maximum characters of a URI that is matched."""

_RESERVED = ":/?#[]@!$&'()*+,;="
"""Characters that stay as they are in a value of `{+name}` and `{#name}` (RFC 6570, section 3.2.3)."""

_EXPRESSION = re.compile(r"\{([+#./;?&]?)([A-Za-z0-9_.%,]+)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class UriTemplate:
    """A compiled template: its pattern, and the variable of each group (of a query: all its variables)."""

    pattern: re.Pattern[str]
    variables: tuple[tuple[str, ...], ...]

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded variables of a URI, or None when it does not match. Raises InvalidParams."""
        found = self.pattern.fullmatch(uri) if len(uri) <= MAX_URI_CHARACTERS else None
        if found is None:
            return None
        values: dict[str, str] = {}
        for names, text in zip(self.variables, found.groups(), strict=True):
            if text is None:
                continue
            if len(names) == 1 or not names[0].startswith("?"):
                values[names[0]] = percent_decode(text, uri)
            elif not _query(names[1:], text, uri, values):
                return None
        return values


def expand_template(template: str, values: Mapping[str, str]) -> str:
    """Return the URI of a template; a variable without a value is empty. Raises ConfigError for an invalid template."""
    return "".join(piece if isinstance(piece, str) else _expand(*piece, values) for piece in _pieces(template))


def _expand(operator: str, names: tuple[str, ...], values: Mapping[str, str]) -> str:
    """Return the text of one expression (RFC 6570, sections 3.2.2 to 3.2.9)."""
    known = [
        (name, quote(values[name], _RESERVED if operator in ("+", "#") else "")) for name in names if name in values
    ]
    if operator in (";", "?", "&"):
        texts = [name if operator == ";" and not text else f"{name}={text}" for name, text in known]
    else:
        texts = [text for _, text in known]
    between = {"": ",", "+": ",", "#": ",", "?": "&"}.get(operator, operator)
    first = operator if texts and operator != "+" else ""
    return first + between.join(texts)


def percent_decode(text: str, uri: str) -> str:
    """Return percent-decoded text. Raises InvalidParams when it is not percent-encoded UTF-8."""
    if _BROKEN.search(text):
        raise InvalidParams(f"the URI is not percent-encoded correctly: {uri[:200]!r}")
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as problem:
        raise InvalidParams(f"the URI is not percent-encoded UTF-8: {uri[:200]!r}") from problem


def _query(names: tuple[str, ...], text: str, uri: str, values: dict[str, str]) -> bool:
    for pair in filter(None, text.split("&")):
        name, _, value = pair.partition("=")
        if percent_decode(name, uri) not in names:
            return False
        values[percent_decode(name, uri)] = percent_decode(value, uri)
    return True


@lru_cache(maxsize=1024)
def compile_template(template: str) -> UriTemplate:
    """Compile a template. Raises ConfigError when it is ambiguous or not of levels 1 to 3."""
    pieces = _pieces(template)
    pattern, variables = "", []
    for number, piece in enumerate(pieces):
        if isinstance(piece, str):
            pattern += re.escape(piece)
            continue
        operator, names = piece
        last = not any(isinstance(later, tuple) for later in pieces[number + 1 :])
        part, groups = _part(operator, names, _stop(pieces[number + 1 :]), last)
        pattern += part
        variables += groups
    return UriTemplate(re.compile(pattern, re.DOTALL), tuple(variables))


def _pieces(template: str) -> list[str | tuple[str, tuple[str, ...]]]:
    """Return literal text and expressions, in order."""
    pieces: list[str | tuple[str, tuple[str, ...]]] = []
    seen: set[str] = set()
    end = 0
    for found in _EXPRESSION.finditer(template):
        pieces += [template[end : found.start()]] if found.start() > end else []
        names = tuple(found[2].split(","))
        for name in names:
            if not _NAME.fullmatch(name) or name in seen:
                raise ConfigError(template, "", f"expected each variable once, under a plain name; this is {name!r}")
            seen.add(name)
        if pieces and isinstance(pieces[-1], tuple) and found[1] in ("", "+"):
            raise ConfigError(template, "", "expected text between two variables, which separates them")
        pieces.append((found[1], names))
        end = found.end()
    pieces += [template[end:]] if end < len(template) else []
    if not seen or any("{" in piece or "}" in piece for piece in pieces if isinstance(piece, str)):
        raise ConfigError(template, "", "expected a URI template such as notes://{id} (RFC 6570, levels 1 to 3)")
    return pieces


def _stop(following: list[str | tuple[str, tuple[str, ...]]]) -> str:
    """Return the text that ends a variable: the next literal or operator; empty at the end."""
    if not following:
        return ""
    head = following[0]
    return head if isinstance(head, str) else head[0]


def _part(operator: str, names: tuple[str, ...], stop: str, last: bool) -> tuple[str, list[tuple[str, ...]]]:
    """Return the pattern of one expression, and the variables of its groups."""
    until = f"(?!{re.escape(stop)})" if stop and not last else ""
    if operator in ("?", "&"):
        query = "([^#]*)" if last else f"((?>(?:{until}[^#])*))"
        return f"(?:{re.escape(operator)}{query})?", [("?", *names)]
    closed = {"": "/?#", "+": "", "#": "", ".": "./?#", "/": "/?#", ";": ";/?#"}[operator]
    closed += "," if len(names) > 1 and operator in ("", "+", "#") else ""
    one = rf"[^{re.escape(closed)}]" if closed else "."
    value = f"(?:{until}{one})" + ("+" if operator in ("", "+") and len(names) == 1 else "*")
    value = f"({value})" if last and len(names) == 1 else f"((?>{value}))"
    if operator in ("", "+"):
        return value + "".join(f"(?:,{value})?" for _ in names[1:]), [(name,) for name in names]
    if operator == "#":
        return f"(?:#{value}" + "".join(f"(?:,{value})?" for _ in names[1:]) + ")?", [(name,) for name in names]
    if operator == ";":
        return "".join(f"(?:;{re.escape(name)}(?:={value})?)?" for name in names), [(name,) for name in names]
    return "".join(f"(?:{re.escape(operator)}{value})?" for _ in names), [(name,) for name in names]
