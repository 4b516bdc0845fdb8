"""`/inspect`: any MCP server by its address. What it offers, calls of it, a profile of it, a mount of it.

Rules: nothing is reached because somebody followed a link. A link fills the form in; the operator presses the button,
which needs the page's own proof, and from then on the page's address carries a seal of this hub. Programs that are no
browser need no seal. What may be reached is in `protocol/inspection.py`. Calls go to `/inspect/mcp`, an endpoint like
any other, for the operator only. An address holds no secret: those are `${VAR}`, put in when the server is reached.
Sources: issue 7 part 5; THREATS 1.4 (CSRF), 1.7 (SSRF); CVE-2025-49596 (a link that started programs).
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, cast, get_args
from urllib.parse import urlencode

from flask import Blueprint, Response, request
from itsdangerous import Signer

from patchbay.access.hub_key import load_key
from patchbay.client.addresses.targets import Era
from patchbay.errors import PatchbayError, Refused
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.inspection import InspectedServers, InspectionDispatcher, InspectionTarget
from patchbay.web.operator.changes import why_not
from patchbay.web.operator.exposure import from_this_machine
from patchbay.web.operator.inspected import TOO_MUCH, keep_profile, mount_guest, offered, profile_place
from patchbay.web.operator.login import form_fields, seen_elsewhere
from patchbay.web.pages.answers import number_in, render_answer
from patchbay.web.pages.data import SHOWN
from patchbay.web.site import Site, wants_html
from patchbay.wire.http import McpOverHttp
from patchbay.wire.responses import Reply

PAGE = "/inspect"
ERAS: tuple[str, ...] = get_args(Era)


class _Views:
    def __init__(self, site: Site, guests: InspectedServers, dispatcher: InspectionDispatcher, signer: Signer) -> None:
        self._site = site
        self._guests = guests
        self._dispatcher = dispatcher
        self._mcp = McpOverHttp(dispatcher, site.settings, _nothing)
        self._signer = signer

    # the page

    def page(self) -> Response:
        """GET /inspect: the form; with `address` and `seal`, what the server there offers."""
        args = request.args
        standing = self._site.operators.shown()
        wanted = _wanted(args.get("address", "").strip(), args.get("era", ""))
        sealed = bool(wanted.address) and self._sealed(wanted, args.get("seal", ""))
        meant = sealed or (bool(wanted.address) and _is_program())
        return self._shown(wanted, standing.operator and meant)

    def begin(self) -> Response:
        """POST /inspect: the operator wants to see the server at `address`."""
        fields = form_fields(TOO_MUCH)
        self._site.operators.check_use(fields)
        wanted = _wanted(fields.get("address", "").strip(), fields.get("era", ""))
        try:
            self._guests.reach(wanted)
        except PatchbayError as problem:
            return self._shown(wanted, False, problem.message, problem.status)
        return seen_elsewhere(self._address(wanted))

    def _shown(
        self, wanted: InspectionTarget, reached: bool, problem: str = "", status: int = 200, **fields: str
    ) -> Response:
        found: dict[str, Any] | None = None
        described = ""
        if wanted.address and not problem:
            try:
                self._guests.reach(wanted)
                described = self._guests.described(wanted)
                if reached:
                    found = offered(self._guests.server(wanted), self._site.settings)
            except PatchbayError as failure:
                problem = failure.message
        tools = found["tools"] if found else []
        number, pages = _page_of(len(tools))
        seal = {"seal": self._seal(wanted)} if reached else {}
        response = render_answer(
            self._site,
            "inspect.html",
            "inspect",
            {
                "address": wanted.address,
                "era": wanted.era,
                "operator": self._site.operators.shown().operator,
                "described": described,
                "problem": problem or None,
                "server": found,
            },
            **self._view(wanted, reached, fields, urlencode(_query(wanted) | seal)),
            tools=tools[(number - 1) * SHOWN : number * SHOWN],
            number=number,
            pages=pages,
        )
        response.status_code = status
        return response

    def _view(self, wanted: InspectionTarget, reached: bool, fields: dict[str, str], query: str) -> dict[str, Any]:
        operators = self._site.operators
        saved = request.args.get("saved", "")
        return {
            "eras": ERAS,
            "reached": reached,
            "path": f"{PAGE}/mcp?{query}",
            "query": query,
            "csrf": operators.csrf(),
            "sealed": why_not(self._site),
            "name": fields.get("name", ""),
            "failed": fields.get("failed", ""),
            "saved": (saved, profile_place(saved)) if saved and reached else None,
            "programs": self._site.settings.inspect == "programs",
            "off": self._site.settings.inspect == "off",
        }

    # what is done with it

    def save(self) -> Response:
        """POST /inspect/profile: keep the server as a profile `name` in the user's directory."""

        def keep(wanted: InspectionTarget, name: str, replace: bool) -> str:
            keep_profile(name, self._guests.server(wanted), wanted, replace, self._site.catalogue.store.blobs)
            return f"{self._address(wanted, saved=name)}#keep"

        return self._changed(keep)

    def mount(self) -> Response:
        """POST /inspect/mount: serve it as /mcp/NAME."""

        def mount(wanted: InspectionTarget, name: str, replace: bool) -> str:
            self._guests.server(wanted)  # what this operator may not look at cannot be served either
            return mount_guest(self._site.catalogue, name, wanted, replace)

        return self._changed(mount)

    def _changed(self, change: Callable[[InspectionTarget, str, bool], str]) -> Response:
        fields = form_fields(TOO_MUCH)
        self._site.operators.check_change(fields)
        wanted = _wanted(fields.get("address", "").strip(), fields.get("era", ""))
        name = fields.get("name", "").strip()
        try:
            return seen_elsewhere(change(wanted, name, bool(fields.get("replace"))))
        except PatchbayError as problem:
            failed = request.path.rpartition("/")[2]
            return self._shown(wanted, True, status=422, name=name, failed=f"{failed}: {problem.message}")

    # calls

    def mcp(self) -> Response:
        """POST, GET and DELETE /inspect/mcp: MCP with the server of `address`, for the page and the operator."""
        self._site.operators.check_use()
        args = request.args
        wanted = _wanted(args.get("address", ""), args.get("era", ""))
        if not wanted.address or not (self._sealed(wanted, args.get("seal", "")) or _is_program()):
            raise Refused("open the server's page at /inspect first")
        reply = self._mcp.reply(request.environ, self._dispatcher.endpoint(wanted))
        return _response(reply)

    # addresses and seals

    def _address(self, wanted: InspectionTarget, **more: str) -> str:
        return f"{PAGE}?{urlencode(_query(wanted) | {'seal': self._seal(wanted)} | more)}"

    def _seal(self, wanted: InspectionTarget) -> str:
        return self._signer.get_signature(_text(wanted)).decode()

    def _sealed(self, wanted: InspectionTarget, seal: str) -> bool:
        return self._signer.verify_signature(_text(wanted), seal.encode("ascii", "replace"))


def _wanted(address: str, era: str) -> InspectionTarget:
    # Whoever sits at the machine may reach what the machine reaches; others are not let into what is behind it.
    return InspectionTarget(
        address, cast(Era, era) if era in ERAS else "auto", public=not from_this_machine(request.environ)
    )


def _query(wanted: InspectionTarget) -> dict[str, str]:
    return {"address": wanted.address} | ({} if wanted.era == "auto" else {"era": wanted.era})


def _text(wanted: InspectionTarget) -> bytes:
    return f"{wanted.era} {wanted.address}".encode("utf-8", "replace")


def _is_program() -> bool:
    """Whether the present request was sent by no browser: those say what they are, and where it comes from."""
    said = {name for name, _ in request.headers}
    browser = request.headers.get("User-Agent", "").startswith("Mozilla/") or {"Sec-Fetch-Site", "Origin"} & said
    return not browser and not wants_html(request.headers.get("Accept", ""))


def _page_of(count: int) -> tuple[int, int]:
    """Which page of tools is wanted, and how many there are; the first one for what is no page."""
    pages = max(1, -(-count // SHOWN))
    return number_in(request.args.get("page", "1"), pages) or 1, pages


def _response(reply: Reply) -> Response:
    """An answer of the MCP endpoint as one of Flask's; a stream goes on as it comes."""
    response = Response(reply.body, status=reply.status, headers=reply.headers, content_type=reply.kind)
    response.headers.setdefault("Cache-Control", "no-store")
    if reply.at_close is not None:
        response.call_on_close(reply.at_close)
    return response


def _nothing(environ: Any, start_response: Any) -> list[bytes]:
    raise AssertionError("only messages of MCP come here")


def inspecting_blueprint(site: Site, dispatcher: Dispatcher, guests: InspectedServers) -> Blueprint:
    """`/inspect` and what is below it."""
    key = load_key(None if site.settings.store == "memory" else site.settings.data)
    signer = Signer(key, salt="inspect", key_derivation="hmac", digest_method=sha256)
    views = _Views(site, guests, InspectionDispatcher(dispatcher, guests), signer)
    pages = Blueprint("inspecting", __name__)
    pages.add_url_rule(PAGE, "page", views.page)
    pages.add_url_rule(PAGE, "begin", views.begin, methods=["POST"])
    pages.add_url_rule(f"{PAGE}/profile", "save", views.save, methods=["POST"])
    pages.add_url_rule(f"{PAGE}/mount", "mount", views.mount, methods=["POST"])
    pages.add_url_rule(f"{PAGE}/mcp", "mcp", views.mcp, methods=["GET", "POST", "DELETE"])
    return pages
