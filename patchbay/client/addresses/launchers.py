"""Launchers: build a program or a URL from the part of a naked URI between `://` and `?`.

    mcp+uvx://PACKAGE[/EXECUTABLE]?command=WORD   uv run --with PACKAGE EXECUTABLE [WORD...]
                     launch.with=REQUIREMENT      uv run --with PACKAGE --with REQUIREMENT EXECUTABLE
    mcp+npx://PACKAGE[/EXECUTABLE]                npx -y PACKAGE            (npx -y --package PACKAGE EXECUTABLE)
    mcp+python://SCRIPT, mcp+node://SCRIPT        python SCRIPT, node SCRIPT
    mcp+stdio:COMMAND LINE                        any command line, split as a shell splits it; no shell runs
    mcp+http://HOST/PATH, mcp+https://HOST/PATH   a URL

The text is split by hand, because a URL parser takes `@upstash` and `.` for an authority. Nothing is started here and
no variable is looked up. Presets (`.jn/mcp-launchers.json`) name such launches: `{"biomcp": {"launcher": "uvx", ...}}`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args
from urllib.parse import quote, urlencode, urlsplit

from patchbay.client.addresses.query import Pair, decode_percent
from patchbay.client.addresses.sign_in import SIGN_IN_KEYS, WAY, SignInError, SignInFields, make_sign_in_fields
from patchbay.client.addresses.targets import ANY_ISSUER, AddressError, Http, Stdio, Target, Transport

DOCUMENT_ENDINGS = (".json", ".yaml", ".yml")
"""Endings of the files in which an API is described."""

API_DOCUMENT_PATH = re.compile(
    r"(?i)(^|[/.-])(openapi|swagger)(\.(json|ya?ml))$|[/.-](openapi|swagger)[^/]*\.(json|ya?ml)$"
)
"""The path of a document that describes an API."""

_PACKAGE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"latest|[0-9][A-Za-z0-9.!+_-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_FORBIDDEN_IN_URL = re.compile(r"[\s\x00-\x1f\x7f<>\"\\^`{|}]")


def build_target(launcher: str, rest: str, options: Sequence[Pair]) -> Target:
    """Build the target of a naked URI from the launcher's name, the text before the `?`, and the launch options.

    Raises AddressError naming the launcher, the place and what was expected.
    """
    if launcher in URLS:
        return _build_http(launcher, rest, options)
    build = PROGRAMS.get(launcher)
    if build is None:
        raise AddressError(
            f"the launcher {launcher!r} is not known; expected one of {', '.join((*PROGRAMS, *URLS))}"
            " (any other command line: mcp+stdio:COMMAND LINE)"
        )
    place = f"mcp+{launcher}"
    words = build(rest, [value for key, value in options if key == "command"], place)
    return _build_program(words, [pair for pair in options if pair[0] != "command"], place)


def _build_program(words: Sequence[str], options: Sequence[Pair], place: str) -> Stdio:
    extra: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    for key, value in options:
        name = key.removeprefix("env.")
        if key == "launch.arg":
            extra.append(value)
        elif key == "launch.with" and place == "mcp+uvx":
            at = words.index("--with") + 2
            words = [
                *words[:at],
                "--with",
                _check_word(value, "a requirement such as mcp<2", f"{place}: {key}="),
                *words[at:],
            ]
        elif key == "launch.cwd" and cwd is None and value:
            cwd = value
        elif name != key and _VARIABLE.fullmatch(name) and name not in env:
            env[name] = value
        else:
            raise AddressError(f"{place}: {key}= is not understood here; expected {_PROGRAM_OPTIONS}")
    return Stdio(words[0], (*words[1:], *extra), env, cwd)


_PROGRAM_OPTIONS = "env.NAME= (once a name), launch.arg=WORD, launch.with=REQUIREMENT (uvx) or one launch.cwd=DIRECTORY"
_URL_OPTIONS = (
    "header.NAME= (once a name), query.NAME=, launch.query=, and once each launch.transport=,"
    f" launch.issuer=, launch.sign_in=, {', '.join(f'launch.{key}=' for key in SIGN_IN_KEYS)}"
)
_URL_KEYS = frozenset(f"launch.{key}" for key in ("query", "transport", "issuer", "sign_in", *SIGN_IN_KEYS))


def _check_word(text: str, what: str, place: str) -> str:
    """Check a word of a command line, which must not be taken for an option of the launcher."""
    if not text or text.startswith("-"):
        raise AddressError(f"{place}: expected {what}, got {text!r}")
    return text


def _build_uvx_command(rest: str, words: Sequence[str], place: str) -> list[str]:
    package, slash, executable = (decode_percent(part, place) for part in rest.partition("/"))
    _check_word(package, "PACKAGE or PACKAGE/EXECUTABLE (a slash in one is written %2F)", place)
    if not slash:
        named = _PACKAGE_NAME.match(package)
        executable = named[0] if named else ""
    if rest.count("/") > 1:
        raise AddressError(f"{place}: expected PACKAGE or PACKAGE/EXECUTABLE (other slashes as %2F), got {rest!r}")
    name, sign, version = package.rpartition("@")
    newest = _PACKAGE_NAME.match(name) if sign and version == "latest" else None
    return [
        "uv",
        "run",
        *(("--refresh-package", newest[0]) if newest else ()),
        "--with",
        _format_requirement(package),
        _check_word(executable, "an executable after the package", place),
        *words,
    ]


def _format_requirement(package: str) -> str:
    """Convert `name@1.2` and `name@latest`, as `uvx` takes them, to the form that `--with` takes."""
    name, sign, version = package.rpartition("@")
    if not sign or not name or not _VERSION.fullmatch(version):
        return package
    return name if version == "latest" else f"{name}=={version}"


def _build_npx_command(rest: str, _words: Sequence[str], place: str) -> list[str]:
    parts = [decode_percent(part, place) for part in rest.split("/")]
    cut = 2 if rest.startswith("@") else 1
    package, more = "/".join(parts[:cut]), parts[cut:]
    if len(more) > 1 or not all(parts) or package == "@" or (cut == 2 and len(parts) < 2):
        raise AddressError(f"{place}: expected PACKAGE, @SCOPE/PACKAGE, or one of them and /EXECUTABLE, got {rest!r}")
    _check_word(package, "a package", place)
    return (
        ["npx", "-y", "--package", package, _check_word(more[0], "an executable", place)]
        if more
        else ["npx", "-y", package]
    )


def _make_script_builder(program: str) -> Callable[[str, Sequence[str], str], list[str]]:
    def words(rest: str, _words: Sequence[str], place: str) -> list[str]:
        return [program, _check_word(decode_percent(rest, place), "the path of a script", place)]

    return words


def _split_command_line(rest: str, _words: Sequence[str], place: str) -> list[str]:
    try:
        words = shlex.split(decode_percent(rest, place))
    except ValueError as problem:
        raise AddressError(f"{place}: expected a command line; {problem}") from problem
    if not words:
        raise AddressError(f"{place}: expected a command line, got an empty one")
    return [_check_word(words[0], "a program as the first word", place), *words[1:]]


PROGRAMS: Mapping[str, Callable[[str, Sequence[str], str], list[str]]] = {
    "uvx": _build_uvx_command,
    "npx": _build_npx_command,
    "python": _make_script_builder("python"),
    "node": _make_script_builder("node"),
    "stdio": _split_command_line,
}
URLS = ("http", "https")


def is_header_name(text: str) -> bool:
    """Whether a text can be the name of a header (RFC 9110 section 5.1)."""
    return _HEADER.fullmatch(text) is not None


def check_url(url: str, place: str) -> str:
    """Return a URL that has a host and no forbidden character. Raises AddressError."""
    bad = _FORBIDDEN_IN_URL.search(url)
    try:
        parts = urlsplit(url)
        fine = bool(parts.hostname) and parts.port != 0 and not parts.fragment and not bad and "#" not in url
    except ValueError:
        fine = False
    if not fine:
        raise AddressError(f"{place}: expected HOST[:PORT][/PATH] without spaces or a fragment, got {url[:200]!r}")
    return url


def _build_http(launcher: str, rest: str, options: Sequence[Pair]) -> Http:
    place = f"mcp+{launcher}"
    headers: dict[str, str] = {}
    query: list[Pair] = []
    once: dict[str, str] = {}
    for key, value in options:
        kind, _, name = key.partition(".")
        if kind == "header" and _HEADER.fullmatch(name) and name not in headers and _is_single_line(value):
            headers[name] = value
        elif kind == "query" and name:
            query.append((name, value))
        elif key in _URL_KEYS and key not in once:
            once[key] = value
        else:
            raise AddressError(f"{place}: {key}= is not understood here; expected {_URL_OPTIONS}")
    raw = once.get("launch.query", "")
    if raw and query:
        raise AddressError(f"{place}: expected query.NAME= or launch.query=, not both")
    raw = raw or urlencode(query, quote_via=quote)
    url = check_url(f"{launcher}://{rest}" + (f"?{raw}" if raw else ""), place)
    issuer = once.get("launch.issuer", "")
    if issuer:
        check_issuer(issuer, place)
    transport = _parse_transport(once.get("launch.transport", "auto"), place)
    found = Http(url, headers, transport, issuer=issuer)
    return replace(found, sign_in=_parse_sign_in(once, found, place))


def _parse_sign_in(once: Mapping[str, str], target: Http, place: str) -> SignInFields | None:
    given = {key: once[f"launch.{key}"] for key in SIGN_IN_KEYS if f"launch.{key}" in once}
    given |= {WAY: once["launch.sign_in"]} if "launch.sign_in" in once else {}
    try:
        return make_sign_in_fields(given, target.issuer, target.has_authorization) if given else None
    except SignInError as problem:
        key = f"launch.{'sign_in' if problem.key in ('', WAY) else problem.key}="
        raise AddressError(f"{place}: {key}: {problem.message}") from problem


def check_issuer(url: str, place: str) -> str:
    """Return the URL of an authorization server, or ANY_ISSUER. Raises AddressError."""
    if url == ANY_ISSUER:
        return url
    if not url.startswith(("http://", "https://")):
        raise AddressError(
            f"{place}: issuer: expected the http(s) URL of an authorization server, or {ANY_ISSUER}, got {url[:200]!r}"
        )
    return check_url(url, place)


def _is_single_line(value: str) -> bool:
    return not any(character in value for character in "\r\n")


def _parse_transport(value: str, place: str) -> Transport:
    for known in get_args(Transport):
        if value == known:
            return known  # type: ignore[no-any-return]
    raise AddressError(f"{place}: launch.transport={value}: expected one of {', '.join(get_args(Transport))}")


def parse_preset(name: str, row: Any, where: str) -> Stdio:
    """Parse one row of a presets file: `launcher`, `package`, and optionally `command`, `args`, `env`, `cwd`.

    `where` is the file. Raises AddressError naming it, the row and what was expected.
    """
    place = f"{where}: preset {name!r}"
    if not isinstance(row, dict) or set(row) - {"launcher", "package", "command", "args", "env", "cwd"}:
        raise AddressError(f"{place}: expected an object of launcher, package, command, args, env and cwd")
    launcher, package = row.get("launcher"), row.get("package")
    command, args, env, cwd = row.get("command", ""), row.get("args", []), row.get("env", {}), row.get("cwd")
    if not isinstance(launcher, str) or launcher not in PROGRAMS or not isinstance(package, str):
        raise AddressError(f"{place}: expected launcher (one of {', '.join(PROGRAMS)}) and package, both strings")
    if not isinstance(command, str) or not _is_string_list(args) or not isinstance(cwd, str | None):
        raise AddressError(f"{place}: expected command and cwd to be strings, and args a list of strings")
    if not isinstance(env, dict) or not _is_string_list([*env.values()]) or not all(map(_VARIABLE.fullmatch, env)):
        raise AddressError(f"{place}: env: expected an object of variable names and strings")
    rest = encode_package(launcher, package) + (f"/{quote(command, safe='')}" if command else "")
    words = PROGRAMS[launcher](rest, args if launcher == "uvx" else (), place)
    return Stdio(words[0], (*words[1:], *(() if launcher == "uvx" else args)), env, cwd)


def encode_package(launcher: str, package: str) -> str:
    """Encode a package or script as it stands before the `?`. For `uvx`, slashes in it are encoded."""
    return quote(package, safe="@" if launcher == "uvx" else "/@")


def _is_string_list(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) and "\x00" not in value for value in values)
