"""`/inspect`: inspect any MCP server by its address, call it, save it as a profile, mount it.

A link alone never makes the hub contact a server (CVE-2025-49596: a link that started programs). A link fills in the
form; the operator sends the form, which has a CSRF token; from then on the URL of the page carries a signature of this
hub. Programs other than browsers need no signature. `inspected_servers.py` decides which addresses are allowed. Calls
go to `/inspect/mcp`, an MCP endpoint for the operator. An address holds no secret: `${VAR}` is replaced at connection
time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import Any, cast, get_args
from urllib.parse import urlencode

from flask import Blueprint, Response, request
from itsdangerous import Signer

from patchbay.access.hub_key import load_key
from patchbay.catalogue.operating.pasted_servers import find_pasted_address
from patchbay.client.addresses.cards import address_of, is_domain
from patchbay.client.addresses.targets import Era
from patchbay.errors import PatchbayError, Refused
from patchbay.protocol.dispatch import Dispatcher
from patchbay.web.inspection.inspected import (
    MAX_FORM_BYTES,
    describe_inspected,
    find_profile_folder,
    keep_profile,
    mount_server,
)
from patchbay.web.inspection.inspected_servers import InspectedServers, InspectionDispatcher, InspectionTarget
from patchbay.web.operator.changes import explain_refusal
from patchbay.web.operator.login import read_form, redirect_to
from patchbay.web.site.answers import parse_number, render_answer
from patchbay.web.site.data import ITEMS_PER_PAGE
from patchbay.web.site.site import Site
from patchbay.wire.endpoints.mcp import McpOverHttp
from patchbay.wire.replies.accept import wants_html
from patchbay.wire.replies.reply import Reply
from patchbay.wire.requests.authentication import is_local_request
from patchbay.wire.requests.security import CSP_WITH_APPS
from patchbay.wire.requests.wsgi import request_of

PAGE = "/inspect"
ERAS: tuple[str, ...] = get_args(Era)


class _InspectingViews:
    def __init__(
        self, site: Site, inspected: InspectedServers, dispatcher: InspectionDispatcher, signer: Signer
    ) -> None:
        self._site = site
        self._inspected = inspected
        self._dispatcher = dispatcher
        self._mcp = McpOverHttp(dispatcher, site.settings)
        self._signer = signer

    # The page.

    def page(self) -> Response:
        """GET /inspect: the form; with `address` and `seal`, also the description of the server."""
        args = request.args
        proof = self._site.operators.lenient_proof()
        wanted = _requested_target(args.get("address", "").strip(), args.get("era", ""))
        is_sealed = bool(wanted.address) and self._is_sealed(wanted, args.get("seal", ""))
        is_intended = is_sealed or (bool(wanted.address) and _is_program())
        return self._show(wanted, proof.is_operator and is_intended)

    def begin(self) -> Response:
        """POST /inspect: inspect the server at `address`, which may also be a pasted configuration with one server."""
        fields = read_form(MAX_FORM_BYTES)
        self._site.operators.check_use(fields)
        typed = fields.get("address", "").strip()
        wanted = _requested_target(typed, fields.get("era", ""))
        try:
            wanted = replace(wanted, address=find_pasted_address(typed))
            self._inspected.reach(wanted)
            if is_domain(wanted.address):
                wanted = replace(wanted, address=address_of(wanted.address, wanted.public))
                self._inspected.reach(wanted)
        except PatchbayError as problem:
            return self._show(wanted, False, problem.message, problem.status)
        return redirect_to(self._address(wanted))

    def _show(
        self, wanted: InspectionTarget, reached: bool, problem: str = "", status: int = 200, **fields: str
    ) -> Response:
        found: dict[str, Any] | None = None
        described = ""
        if wanted.address and not problem:
            try:
                self._inspected.reach(wanted)
                described = self._inspected.described(wanted)
                if reached:
                    found = describe_inspected(self._inspected.server(wanted), self._site.settings)
            except PatchbayError as failure:
                problem = failure.message
        tools = found["tools"] if found else []
        number, pages = _requested_page(len(tools))
        seal = {"seal": self._seal(wanted)} if reached else {}
        response = render_answer(
            self._site,
            "inspect.html",
            "inspect",
            {
                "address": wanted.address,
                "era": wanted.era,
                "operator": self._site.operators.lenient_proof().is_operator,
                "described": described,
                "problem": problem or None,
                "server": found,
            },
            **self._view(reached, fields, urlencode(_target_query(wanted) | seal)),
            tools=tools[(number - 1) * ITEMS_PER_PAGE : number * ITEMS_PER_PAGE],
            number=number,
            pages=pages,
        )
        response.status_code = status
        response.headers["Content-Security-Policy"] = CSP_WITH_APPS
        return response

    def _view(self, reached: bool, fields: dict[str, str], query: str) -> dict[str, Any]:
        operators = self._site.operators
        saved = request.args.get("saved", "")
        return {
            "eras": ERAS,
            "reached": reached,
            "path": f"{PAGE}/mcp?{query}",
            "query": query,
            "csrf": operators.csrf(),
            "refusal": explain_refusal(self._site),
            "name": fields.get("name", ""),
            "failed": fields.get("failed", ""),
            "saved": (saved, find_profile_folder(saved)) if saved and reached else None,
            "programs": self._site.settings.inspect == "programs",
            "is_off": self._site.settings.inspect == "off",
        }

    # Saving.

    def save(self) -> Response:
        """POST /inspect/profile: save the server as the profile `name` in the user's directory."""

        def keep(wanted: InspectionTarget, name: str, replace: bool) -> str:
            keep_profile(name, self._inspected.server(wanted), wanted, replace, self._site.catalogue.store.blobs)
            return f"{self._address(wanted, saved=name)}#keep"

        return self._changed(keep)

    def mount(self) -> Response:
        """POST /inspect/mount: mount the server as /mcp/NAME."""

        def mount(wanted: InspectionTarget, name: str, replace: bool) -> str:
            self._inspected.server(wanted)  # an address that may not be inspected may not be mounted
            return mount_server(self._site.catalogue, name, wanted, replace)

        return self._changed(mount)

    def _changed(self, change: Callable[[InspectionTarget, str, bool], str]) -> Response:
        fields = read_form(MAX_FORM_BYTES)
        self._site.operators.check_change(fields)
        wanted = _requested_target(fields.get("address", "").strip(), fields.get("era", ""))
        name = fields.get("name", "").strip()
        try:
            return redirect_to(change(wanted, name, bool(fields.get("replace"))))
        except PatchbayError as problem:
            failed = request.path.rpartition("/")[2]
            return self._show(wanted, True, status=422, name=name, failed=f"{failed}: {problem.message}")

    # Calls.

    def mcp(self) -> Response:
        """POST, GET and DELETE /inspect/mcp: MCP with the server at `address`, for the operator."""
        self._site.operators.check_use()
        args = request.args
        wanted = _requested_target(args.get("address", ""), args.get("era", ""))
        if not wanted.address or not (self._is_sealed(wanted, args.get("seal", "")) or _is_program()):
            raise Refused("open the server's page at /inspect first")
        reply = self._mcp.reply(request_of(request.environ), self._dispatcher.endpoint(wanted))
        return _response(reply.settle_on_thread())

    # Signed URLs.

    def _address(self, wanted: InspectionTarget, **more: str) -> str:
        return f"{PAGE}?{urlencode(_target_query(wanted) | {'seal': self._seal(wanted)} | more)}"

    def _seal(self, wanted: InspectionTarget) -> str:
        return self._signer.get_signature(_signed_text(wanted)).decode()

    def _is_sealed(self, wanted: InspectionTarget, seal: str) -> bool:
        return self._signer.verify_signature(_signed_text(wanted), seal.encode("ascii", "replace"))


def _requested_target(address: str, era: str) -> InspectionTarget:
    # A reader on this machine may inspect private addresses; other readers only public ones.
    return InspectionTarget(
        address, cast(Era, era) if era in ERAS else "auto", public=not is_local_request(request_of(request.environ))
    )


def _target_query(wanted: InspectionTarget) -> dict[str, str]:
    return {"address": wanted.address} | ({} if wanted.era == "auto" else {"era": wanted.era})


def _signed_text(wanted: InspectionTarget) -> bytes:
    return f"{wanted.era} {wanted.address}".encode("utf-8", "replace")


def _is_program() -> bool:
    """Whether the current request comes from a program: no browser headers, no HTML in `Accept`."""
    names = {name for name, _ in request.headers}
    browser = request.headers.get("User-Agent", "").startswith("Mozilla/") or {"Sec-Fetch-Site", "Origin"} & names
    return not browser and not wants_html(request.headers.get("Accept", ""))


def _requested_page(count: int) -> tuple[int, int]:
    """The requested page of tools and the number of pages; page 1 when the request names no valid page."""
    pages = max(1, -(-count // ITEMS_PER_PAGE))
    return parse_number(request.args.get("page", "1"), pages) or 1, pages


def _response(reply: Reply) -> Response:
    """Convert a response of the MCP endpoint to a response of Flask; streams stay streams."""
    response = Response(reply.body, status=reply.status, headers=reply.headers, content_type=reply.kind)
    response.headers.setdefault("Cache-Control", "no-store")
    if reply.at_close is not None:
        response.call_on_close(reply.at_close)
    return response


def inspecting_blueprint(site: Site, dispatcher: Dispatcher, inspected: InspectedServers) -> Blueprint:
    """The routes of `/inspect` and below."""
    key = load_key(None if site.settings.store == "memory" else site.settings.data)
    signer = Signer(key, salt="inspect", key_derivation="hmac", digest_method=sha256)
    views = _InspectingViews(site, inspected, InspectionDispatcher(dispatcher, inspected), signer)
    pages = Blueprint("inspecting", __name__)
    pages.add_url_rule(PAGE, "page", views.page)
    pages.add_url_rule(PAGE, "begin", views.begin, methods=["POST"])
    pages.add_url_rule(f"{PAGE}/profile", "save", views.save, methods=["POST"])
    pages.add_url_rule(f"{PAGE}/mount", "mount", views.mount, methods=["POST"])
    pages.add_url_rule(f"{PAGE}/mcp", "mcp", views.mcp, methods=["GET", "POST", "DELETE"])
    return pages
