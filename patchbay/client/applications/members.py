"""The members of a server's entry in a file of an MCP client: which the hub takes over, and what becomes of the others.

A member is used, named with a reason, or the whole entry is refused; none disappears in silence. Import, `patchbay
mount NAME FILE` and files in servers/ use these tables.
Sources: the documentation of the clients (`Application.source`) and the READMEs of MCP servers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

URLS = ("url", "serverUrl", "httpUrl")
"""The names of the URL, by client."""

TYPES = ("type", "transport", "transportType")
"""The names of the transport."""

INCLUDED = ("includeTools", "enabledTools", "enabled_tools")
EXCLUDED = ("excludeTools", "disabledTools", "disabled_tools")
"""The names of the lists with the tools that a client has, and that it does not have."""

TRANSPORTS = {
    **dict.fromkeys(("http", "streamable-http", "streamableHttp", "streamable_http", "remote"), "auto"),
    "sse": "sse",
}
"""The transports of a URL in all spellings, with the transport of the hub."""

PROGRAM_TYPES = ("stdio", "local")

_APPROVAL = "calls are approved in the MCP client that makes them, or with the access rules of the hub"
_DESIGN = "it concerns the display of another program"
_START = "the hub starts a server in the background and waits for it"
_MODEL = "it concerns the model of the client"

UNUSED: Mapping[str, str] = {
    **dict.fromkeys(("alwaysAllow", "autoApprove", "always_allow", "trust", "autoStart", "approval_mode"), _APPROVAL),
    **dict.fromkeys(("default_tools_approval_mode", "readonly"), _APPROVAL),
    **dict.fromkeys(("icon", "iconUrl", "faviconUrl", "gallery", "version", "registryType", "source", "id"), _DESIGN),
    **dict.fromkeys(("provider", "bundled", "settings", "metadata", "display_name"), _DESIGN),
    **dict.fromkeys(("note", "notes", "comment", "_comment", "//", "$schema"), "it is a comment"),
    **dict.fromkeys(("startup_timeout_sec", "startup_timeout_ms", "connect_timeout", "connectionTimeout"), _START),
    **dict.fromkeys(("required", "lazy"), _START),
    **dict.fromkeys(("alwaysLoad", "codemode", "filterMapping", "supports_parallel_tool_calls"), _MODEL),
    "dev": "it restarts the program for its developer",
    "sandboxEnabled": "the client runs the program without a sandbox too",
    "sandbox": "the rules count in a sandbox only, and it is switched off",
}
"""Members without a use in the hub, with the reason."""

REFUSED: Mapping[str, str] = {
    "envFile": "it names a file with variables: write them as env, or set them in the environment of the hub",
    "env_file": "it names a file with variables: write them as env, or set them in the environment of the hub",
    "headersHelper": "a program makes the headers there: write them as headers",
    "http_headers_helper": "a program makes the headers there: write them as http_headers",
    "oidc": "GitHub makes the token there, only for its own client: write a header Authorization",
    "socket": "the server is at a socket of this machine: give it a URL",
    "tcp": "it speaks over a WebSocket, which is not a transport of MCP: give it an http URL",
}
"""Members without which the server would be another one, with what to do."""

SANDBOXED = (
    "the client runs this server in a sandbox, and the hub starts mounted programs with all rights of its user: run it"
    " in a container, or mount it by `patchbay mount` if it may have these rights"
)
"""Why a server that is sandboxed is not imported."""

_SIGN_IN_OF_THE_SERVER = "dynamic_discovery"
"""The value of Gemini CLI's `authProviderType` for the sign-in of MCP, which is the default."""


def find_refusal(value: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the first member that the hub cannot follow, with what to do; None for an entry without one."""
    for name, content in value.items():
        if not content:
            continue
        if name in REFUSED:
            return name, REFUSED[name]
        if _is_sandbox(name, value):
            return name, SANDBOXED
        if name == "authProviderType" and content != _SIGN_IN_OF_THE_SERVER:
            return name, f"{content} are credentials that only the client has: write a header Authorization"
        if name == "oauthGrantType" and content != "authorization_code":
            return name, (
                "the client signs in with a secret of its key ring: mount it by `patchbay mount` with"
                " launch.sign_in=client-credentials in the address"
            )
    return None


def list_unused(
    value: Mapping[str, Any], taken: Collection[str], reasons: Mapping[str, str] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the members that are not in `taken`, each with the reason. `reasons` are those of this entry."""
    known = {**UNUSED, **(reasons or {})}
    for name, content in value.items():
        is_nothing = content in (None, "", [], {}) or (content is False and name in known)
        if name not in taken and name not in REFUSED and not is_nothing:
            yield name, known.get(name, "the hub does not know this member")


def _is_sandbox(name: str, value: Mapping[str, Any]) -> bool:
    """Whether a member that has a content puts the program into a sandbox. Rules without a sandbox do not count."""
    return "sandbox" in name.lower() and not (name == "sandbox" and value.get("sandboxEnabled") is False)
