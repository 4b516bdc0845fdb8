"""What a text that is not an address was probably meant to be, and how it is written as an address. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from urllib.parse import quote

EXAMPLES = "mcp+npx://PACKAGE, mcp+uvx://PACKAGE, mcp+stdio:COMMAND LINE, https://HOST/PATH, @PROFILE or /mcp/SERVER"
"""The usual forms of an address; docs/addresses.md has all of them."""

_PROGRAMS = frozenset(("bun", "bunx", "deno", "docker", "java", "node", "podman", "python", "python3", "uv", "yarn"))
"""Programs that begin the command line of an MCP server."""

_LAUNCHERS = {"npx": ("-y", "--yes"), "uvx": ()}
"""The launchers that have a form of their own, with the options that this form implies."""

_SCRIPTS = {".py": "python", ".js": "node", ".mjs": "node", ".cjs": "node"}
_HOST = re.compile(
    r"(?i)(localhost|\[[0-9a-f:]+\]|\d+(?:\.\d+){3}|[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,})(:\d+)?(/\S*)?"
)
_OWN_HOST = re.compile(r"(?i)localhost|\[::1\]|127\.")
_NAME = r"[A-Za-z0-9_.-]{1,128}"
_SERVER = re.compile(rf"/?(?:mcp/|servers/)?({_NAME})/?")
_SERVER_TOOL = re.compile(rf"(?:/?(mcp)/|(/))?({_NAME})/({_NAME})")


def describe_mistake(text: str, expected: str = EXAMPLES) -> str:
    """Return the sentence for a text that is not an address: what to write, or what was expected."""
    place = text.partition("?")[0]
    meant = _find_meant(place.strip())
    return f"not an address: {place[:200]!r}; " + (f"write {meant}" if meant else f"expected {expected}")


def write_command_line(words: Sequence[str]) -> str:
    """Return the address of the program of a command line: `mcp+npx://PACKAGE` for `npx -y PACKAGE`."""
    return _find_command_line(shlex.join(words).replace("%", "%25"), list(words))


def is_command_line(text: str) -> bool:
    """Whether a text is the command line of an MCP server: several words, the first of which is not an address."""
    first, space, _ = text.strip().partition(" ")
    return bool(space) and ":" not in first and not first.startswith("@")


def _find_meant(place: str) -> str:
    """Return what the text was probably meant to be; empty when that is not known."""
    if re.search(r"[\x00-\x1f\x7f]", place):
        return ""
    try:
        words = shlex.split(place)
    except ValueError:
        words = place.split()
    if len(words) > 1 or place in _PROGRAMS:
        return _find_command_line(place, words)
    ending = re.search(r"\.[a-z]+$", place)
    if ending is not None and ending[0] in _SCRIPTS:
        return f"mcp+{_SCRIPTS[ending[0]]}://{quote(place, safe='/@:.')}"
    if _HOST.fullmatch(place):
        return f"{'http' if _OWN_HOST.match(place) else 'https'}://{place}"
    return _find_server(place)


def _find_command_line(place: str, words: list[str]) -> str:
    options = _LAUNCHERS.get(words[0])
    if options is None:
        return f"mcp+stdio:{place}"
    rest = [word for word in words[1:] if word not in options]
    if not rest or rest[0].startswith("-"):
        return f"mcp+stdio:{place}"
    given = "&".join(f"launch.arg={quote(word, safe='/@:.')}" for word in rest[1:])
    return f"mcp+{words[0]}://{quote(rest[0], safe='/@:.')}" + (f"?{given}" if given else "")


def _find_server(place: str) -> str:
    """Return the address of a server of this hub, or of a package, for a name."""
    tool = _SERVER_TOOL.fullmatch(place)
    if place.startswith(("/", "mcp/", "servers/")) and (server := _SERVER.fullmatch(place)):
        return f"/mcp/{server[1]}, for a server of this hub"
    if tool is not None and (tool[1] or tool[2]):
        return f"/mcp/{tool[3]}/{tool[4]}, for a tool of a server of this hub"
    if tool is not None:
        return f"/mcp/{place} for a server of this hub, @{place} for a profile, or mcp+npx://{place} for a package"
    if re.fullmatch(_NAME, place):
        return f"mcp+npx://{place} for a package of npm, mcp+uvx://{place} for one of PyPI, or @{place} for a profile"
    return ""
