"""The frame of an app: `GET /render/app`, a page on an opaque origin that shows the HTML of an app in an inner frame.

The frame and the app share one content security policy. It allows what the app needs inside itself, and the sources
that the app's resource declares; it names no source of the hub, also where an app declares one. The header `sandbox`
gives both an origin of their own, which has no cookies and no storage and is that of no page.
Source: SEP-1865 (MCP Apps), sandbox proxy, content security policy enforcement; CSP Level 3, section 2.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from flask import Blueprint, Response, request

from patchbay.errors import InvalidParams
from patchbay.hosts.names import authority
from patchbay.web.site.site import Site, html_response

MAX_POLICY_CHARACTERS = 16_000
"""Characters of the sources that a frame is asked for, at most."""

MAX_SOURCES = 50
"""Sources of one kind, at most; further ones are left out."""

KINDS = {
    "connectDomains": ("connect-src",),
    "resourceDomains": ("script-src", "style-src", "img-src", "font-src", "media-src"),
    "frameDomains": ("frame-src",),
    "baseUriDomains": ("base-uri",),
}
"""Members of `_meta.ui.csp`, with the directives to which each adds sources."""

OWN = {
    "script-src": ("'unsafe-inline'",),
    "style-src": ("'unsafe-inline'",),
    "img-src": ("data:", "blob:"),
    "font-src": ("data:",),
    "media-src": ("data:", "blob:"),
}
"""What an app may use of itself. All code of an app is inline: its page has no address."""

_NONE = "'none'"

_SOURCE = re.compile(
    r"(?:https?|wss?)://(\*\.)?([a-z0-9-]+(?:\.[a-z0-9-]+)*|\[[0-9a-f:.]+\])(:(?:[0-9]{1,5}|\*))?(?:/[\w.~/%-]*)?",
    re.ASCII | re.IGNORECASE,
)


def accept_sources(declared: Mapping[str, Any], hosts: Iterable[str]) -> dict[str, list[str]]:
    """Return the sources of `_meta.ui.csp` that a policy may name, by kind.

    A source is a scheme, a host (also `*.example.org`), and maybe a port and a path. Sources of `hosts`, which are
    those of the hub, and everything else are left out.
    """
    names = {found[0] for found in map(authority, hosts) if found is not None}
    found: dict[str, list[str]] = {}
    for kind in KINDS:
        given = declared.get(kind)
        sources = given if isinstance(given, list) else []
        kept = [one for one in sources if isinstance(one, str) and _is_foreign(one, names)]
        if kept:
            found[kind] = list(dict.fromkeys(kept))[:MAX_SOURCES]
    return found


def _is_foreign(source: str, hosts: set[str]) -> bool:
    """Whether this is a source of another host. A wildcard above a host of the hub covers the hub."""
    found = _SOURCE.fullmatch(source)
    if found is None:
        return False
    name = found[2].lower()
    return not any(host == name or (found[1] and host.endswith(f".{name}")) for host in hosts)


def app_policy(accepted: Mapping[str, list[str]]) -> str:
    """Return the content security policy of the frame and its app; `accepted` comes from `accept_sources`."""
    added = {name: accepted.get(kind, []) for kind, names in KINDS.items() for name in names}
    sources = [f"{name} {' '.join([*OWN.get(name, ()), *more]) or _NONE}" for name, more in added.items()]
    return "; ".join(
        [
            "sandbox allow-scripts allow-forms",
            f"default-src {_NONE}",
            *sources,
            f"form-action {_NONE}",
            "frame-ancestors 'self'",
        ]
    )


def app_frames_blueprint(site: Site) -> Blueprint:
    """The route `/render/app`."""

    def show() -> Response:
        """GET /render/app?csp=JSON: the frame of an app with these `_meta.ui.csp`. Raises InvalidParams."""
        text = request.args.get("csp", "{}")
        if len(text) > MAX_POLICY_CHARACTERS:
            raise InvalidParams(f"csp has {len(text)} characters; at most {MAX_POLICY_CHARACTERS} are read")
        try:
            declared = orjson.loads(text)
        except orjson.JSONDecodeError as problem:
            raise InvalidParams(f"csp has to be the JSON of _meta.ui.csp; {problem}") from problem
        if not isinstance(declared, dict):
            raise InvalidParams("csp has to be a JSON object, the _meta.ui.csp of an app")
        accepted = accept_sources(declared, (request.host, *site.settings.allowed_hosts))
        response = html_response(site.pages.page("app_frame.html", accepted=orjson.dumps(accepted).decode()))
        response.headers["Content-Security-Policy"] = app_policy(accepted)
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["X-DNS-Prefetch-Control"] = "off"
        return response

    frames = Blueprint("app_frames", __name__)
    frames.add_url_rule("/render/app", "show", show)
    return frames
