"""The spellings of a URI that a server may read as the same, and whether a pattern covers one of them or all.

A denial holds for a URI when its pattern fits one spelling, and a grant gives a URI when its pattern fits all of them,
because the hub does not know how far a server decodes what it reads. Pure.

Sources: RFC 3986, sections 2.1, 3.2, 5.2.4 and 6.2; RFC 3987, section 3.1; RFC 8089 (`file://localhost/`); Unicode
Standard Annex 15 (NFC); WHATWG URL Standard, section 4.4 (readers leave out control characters).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple
from unicodedata import normalize
from urllib.parse import quote, unquote

from patchbay.patterns.entries import EVERYTHING, covers, fits

MAX_DECODINGS = 3
"""How often a URI may be percent-encoded over itself. What is encoded more often is denied by each denial."""

MAX_SPELLED_CHARACTERS = 2048
"""Characters of a URI with several spellings. A longer one is denied by each denial, because comparing takes time."""

MAX_REMEMBERED = 64
"""URIs whose spellings are remembered, because many patterns are compared with one URI in turn."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_LEFT_OUT = re.compile(r"[\x00-\x1f\x7f]")
"""Characters that readers leave out of a URI, or that end it for them."""

_AUTHORITY = re.compile(r"([a-z][a-z0-9+.-]*)(:[/\\]{2,})([^/\\?#]+)")
_DEFAULT_PORTS = {"http": ":80", "ws": ":80", "https": ":443", "wss": ":443", "ftp": ":21"}
_HEAD = re.compile(r"([^:/?#\[\\]*:)([/\\]*)")
_ENCODED = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_ONE_ENCODED = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]")
_WILDCARD = re.compile(r"([*?[])")
_ASCII = "".join(map(chr, range(0x21, 0x7F)))
_QUERY = re.compile(r"[?#]")
_PLAIN = re.compile(r"(?:[^:/?#\[%\\\x00-\x20\x7f-\U0010ffff]*:(?://)?)?(?![/.])(?:(?![/%\\])[!-~]|(?<!:)/(?![/.]))*")


class _Style(NamedTuple):
    """How one reader resolves a path: whether it begins after the authority, has empty segments, ends at a query."""

    keeps_authority: bool
    keeps_empty: bool
    keeps_query: bool


_STYLES = [_Style(*each) for each in product((True, False), repeat=3)]


def is_uri(text: str) -> bool:
    """Whether an entry is a URI or a URI template: it begins with a scheme, where readers let it begin."""
    return _SCHEME.match(_LEFT_OUT.sub("", text).lstrip(" ")) is not None


def covers_every_spelling(pattern: str, server: str, entry: str) -> bool:
    """Whether a pattern covers an entry of a server; a URI in every spelling that the server may read as the same."""
    return covers(pattern, server, entry, _fits_every if is_uri(entry) else fits)


def covers_any_spelling(pattern: str, server: str, entry: str) -> bool:
    """Whether a pattern covers an entry of a server; a URI in any spelling that the server may read as the same.

    Upper and lower case of a URI are the same here, as in a file system that ignores case.
    """
    return covers(pattern, server, entry, _fits_any if is_uri(entry) else fits)


def is_decodable(uri: str) -> bool:
    """Whether the spellings of a URI are known.

    `MAX_DECODINGS` and `MAX_SPELLED_CHARACTERS` are not exceeded, and readers leave out none of its characters.
    """
    return 0 < len(_readings_of_uri(uri)) <= MAX_DECODINGS + 1


def decoded_spellings(uri: str) -> tuple[str, ...]:
    """Return the spellings of a URI with upper and lower case as they are, before and after each percent-decoding."""
    readings = (_resolutions(uri, False), *_readings_of_uri(uri))
    return tuple(dict.fromkeys(one for reading in readings for one in reading))


def _fits_every(pattern: str, uri: str) -> bool:
    if pattern in (EVERYTHING, uri):
        return True
    wanted, given = _readings_of_pattern(pattern), _readings_of_uri(uri)
    if not is_decodable(uri):
        return False
    # A pattern that is decoded completely stays as it is.
    wanted = wanted + wanted[-1:] * (len(given) - len(wanted))
    return all(
        fits(one, other)
        for of_pattern, of_uri in zip(wanted, given, strict=False)
        for one, other in zip(of_pattern, of_uri, strict=True)
    )


def _fits_any(pattern: str, uri: str) -> bool:
    if pattern == EVERYTHING or fits(pattern, uri):
        return True
    if not is_decodable(uri):
        return True
    spellings = _folded_spellings(uri)
    return any(fits(one, other) or _fits_query(one, other) for one in _folded_patterns(pattern) for other in spellings)


def _fits_query(pattern: str, uri: str) -> bool:
    """Whether a URI has the path of a pattern and each parameter of its query, in any order and among others."""
    path, mark, query = pattern.partition("?")
    if not mark or "=" not in query or "?" not in uri:
        return False
    own_path, _, own_query = uri.partition("?")
    if not fits(path.rstrip("/"), own_path.rstrip("/")):
        return False
    given, wanted = _parameters(own_query.partition("#")[0]), [one.replace("+", " ") for one in query.split("&") if one]
    return all(any(fits(one, other) for other in given) for one in wanted)


@lru_cache(MAX_REMEMBERED)
def _parameters(query: str) -> tuple[str, ...]:
    """Return the spellings of the parameters of a query, each once."""
    return tuple(dict.fromkeys(spelling for one in query.split("&") for spelling in _parameter_spellings(one)))


def _parameter_spellings(parameter: str) -> Iterator[str]:
    """Yield a parameter of a query, and with a path that its value may be resolved."""
    name, mark, value = parameter.replace("+", " ").partition("=")
    yield f"{name}{mark}{value}"
    yield f"{name}{mark}{'/'.join(_resolved_segments(value, False))}"


def _folded_spellings(uri: str) -> tuple[str, ...]:
    """Return the spellings of a URI without differences of case: with and without its query and its last slash."""
    return _remembered_spellings(uri) if len(uri) <= MAX_SPELLED_CHARACTERS else _fold_spellings(uri)


def _fold_spellings(uri: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for one in dict.fromkeys(_fold(one) for one in decoded_spellings(uri)):
        for shorter in {one, one.partition("#")[0], _QUERY.split(one, maxsplit=1)[0]}:
            bare = shorter.rstrip("/")
            found |= dict.fromkeys((shorter, bare, f"{bare}/"))
    return tuple(found)


@lru_cache(maxsize=1024)
def _readings_of_pattern(pattern: str) -> tuple[tuple[str, ...], ...]:
    return _readings(pattern, True)


@lru_cache(maxsize=1024)
def _folded_patterns(pattern: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_fold(one) for reading in _readings_of_pattern(pattern) for one in reading))


def _fold(text: str) -> str:
    return normalize("NFC", normalize("NFC", text).casefold())


def _readings_of_uri(uri: str) -> tuple[tuple[str, ...], ...]:
    return _remembered_readings(uri) if len(uri) <= MAX_SPELLED_CHARACTERS else _readings(uri, False)


def _readings(text: str, is_pattern: bool) -> tuple[tuple[str, ...], ...]:
    """Return the spellings of a URI or of a pattern after each percent-decoding, until nothing is left to decode.

    The first are those of RFC 3986, section 6.2.2. One more than `MAX_DECODINGS` + 1 means that there are others; none
    that the URI is too long, or that readers leave out a part of it.
    """
    scheme = _SCHEME.match(text)
    text = text if scheme is None else scheme[0].lower() + text[scheme.end() :]
    if _PLAIN.fullmatch(text) and _bare(text) == text:
        return ((text,) * (2 + 2 * len(_STYLES)),) * 2  # all spellings are the same
    if not is_pattern and (len(text) > MAX_SPELLED_CHARACTERS or text != _trimmed(text)):
        return ()
    readings = [_resolutions(_normal(text), is_pattern)]
    decode: Callable[[str], str] = _decode_pattern if is_pattern else unquote
    decoded = decode(text)
    while len(readings) < MAX_DECODINGS + 2:
        if not is_pattern and _LEFT_OUT.search(decoded):
            return ()
        readings.append(_resolutions(normalize("NFC", decoded), is_pattern))
        before, decoded = decoded, decode(decoded)
        if decoded == before:
            break
    return tuple(readings)


def _normal(text: str) -> str:
    """Return a URI with the percent-encoding of RFC 3986, section 6.2.2.2, and without other letters than ASCII."""
    encoded = quote(normalize("NFC", text), _ASCII, errors="surrogatepass")
    return _ONE_ENCODED.sub(_normal_octet, encoded)


def _normal_octet(found: re.Match[str]) -> str:
    letter = chr(int(found[1], 16))
    return letter if _UNRESERVED.fullmatch(letter) else found[0].upper()


def _decode_pattern(pattern: str) -> str:
    """Return a pattern percent-decoded; a wildcard that was encoded stands for itself."""
    return _ENCODED.sub(lambda found: _WILDCARD.sub(r"[\1]", unquote(found[0])), pattern)


def _trimmed(text: str) -> str:
    return text.strip("".join(map(chr, range(0x21))))


def _bare(text: str) -> str:
    """Return a URI or pattern without what names the same place in its authority: a user, a usual port, `localhost`."""
    found = _AUTHORITY.match(text)
    if found is None:
        return text
    scheme, slashes, authority = found.groups()
    host = authority.rpartition("@")[2].removesuffix(_DEFAULT_PORTS.get(scheme, "@"))
    host = "" if scheme == "file" and host.lower() == "localhost" else host
    return f"{scheme}{slashes}{host}{text[found.end() :]}"


def _resolutions(text: str, is_pattern: bool) -> tuple[str, ...]:
    """Return a URI or pattern as it is, and as each style of readers resolves its path; all of them also `_bare`."""
    both = (text, _bare(text))
    return (*both, *(_resolve(one, style, is_pattern) for one in both for style in _STYLES))


def _resolve(text: str, style: _Style, is_pattern: bool) -> str:
    """Return a URI with its dot segments removed and with slashes for backslashes.

    A pattern has no query, because `?` is a wildcard in it.
    """
    found = _HEAD.match(text)
    head, rest = (found[1] + "//" * bool(found[2]), text[found.end() :]) if found is not None else ("", text)
    if found is not None and style.keeps_empty:
        rest = "/" * max(len(found[2]) - 2, 0) + rest
    query = _QUERY.search(rest) if style.keeps_query and not is_pattern else None
    path, tail = (rest[: query.start()], rest[query.start() :]) if query is not None else (rest, "")
    path = path.replace("\\", "/")
    authority, slash, path = path.partition("/") if style.keeps_authority and head.endswith("//") else ("", "", path)
    return f"{head}{authority}{slash}{'/'.join(_resolved_segments(path, style.keeps_empty))}{tail}"


def _resolved_segments(path: str, keeps_empty: bool) -> list[str]:
    """Return the segments of a path without `.` and `..`; the last one is empty when it ends with a slash."""
    segments: list[str] = []
    parts = path.split("/")
    for part in parts:
        if part == "..":
            segments = segments[:-1]
        elif part != "." and (part or keeps_empty):
            segments.append(part)
    is_folder = parts[-1] in ("", ".", "..") and path != ""
    return segments + [""] * (is_folder and segments[-1:] != [""])


@lru_cache(MAX_REMEMBERED)
def _remembered_readings(uri: str) -> tuple[tuple[str, ...], ...]:
    return _readings(uri, False)


@lru_cache(MAX_REMEMBERED)
def _remembered_spellings(uri: str) -> tuple[str, ...]:
    return _fold_spellings(uri)
