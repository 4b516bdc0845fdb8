"""The Flask application: assembles the hub and registers the blueprints.

This module holds no logic of its own. Granian calls `create_app` in each worker, and so do the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flask import Flask

from patchbay.access.accounts import Accounts, has_authorization_server, has_sign_in
from patchbay.access.keys import PersonalKeys
from patchbay.access.tokens.challenges import make_challenge
from patchbay.access.tokens.issuer import Issuer, load_issuer
from patchbay.assembly import assemble
from patchbay.assets import ASSETS
from patchbay.kinds.python.discovery.syntax import SYNTAX_LOCK
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.inspection import InspectedServers
from patchbay.protocol.request_context import HubServices
from patchbay.serving.drain import Drain
from patchbay.settings import Settings, whole_environment
from patchbay.topics import ENDING
from patchbay.web.access.approvals import approvals_blueprint
from patchbay.web.access.audit import audit_blueprint
from patchbay.web.access.grants import grants_blueprint
from patchbay.web.access.keys import keys_blueprint
from patchbay.web.api.content import content_blueprint
from patchbay.web.api.health import health_blueprint
from patchbay.web.api.metrics import metrics_blueprint
from patchbay.web.api.openapi import add_json_addresses, openapi_blueprint
from patchbay.web.api.plain import plain_blueprint
from patchbay.web.compressed_files import add_compression
from patchbay.web.documents.editing import document_editing_blueprint
from patchbay.web.documents.reader import documents_blueprint
from patchbay.web.error_answers import register_error_handlers
from patchbay.web.oauth.endpoints import OAUTH_PATHS, consent_blueprint, oauth_blueprint
from patchbay.web.operator.editing import editing_blueprint
from patchbay.web.operator.exposure import check_exposure
from patchbay.web.operator.inspecting import inspecting_blueprint
from patchbay.web.operator.login import operator_blueprint
from patchbay.web.operator.packages import packages_blueprint
from patchbay.web.operator.pins import pins_blueprint
from patchbay.web.operator.revocations import revocation_blueprint
from patchbay.web.operator.switching import switching_blueprint
from patchbay.web.page_security import add_security
from patchbay.web.pages.activity import activity_blueprint
from patchbay.web.pages.history import history_blueprint
from patchbay.web.pages.home import pages_blueprint
from patchbay.web.pages.icons import icons_blueprint
from patchbay.web.pages.mcp import mcp_pages_blueprint
from patchbay.web.pages.rooms import rooms_blueprint
from patchbay.web.pages.search import search_blueprint
from patchbay.web.pages.server import server_pages_blueprint
from patchbay.web.pages.variables import variable_pages_blueprint
from patchbay.web.people.account import account_blueprint
from patchbay.web.people.browsers import Browsers
from patchbay.web.people.invitation import invitation_blueprint
from patchbay.web.people.people import people_blueprint
from patchbay.web.people.sign_in import SIGN_IN_PATHS, login_values, sign_in_blueprint
from patchbay.web.rendering.render_routes import rendering_blueprint
from patchbay.web.site import Site
from patchbay.web.upstreams.applicants import Applicants
from patchbay.web.upstreams.pages import OPEN_PREFIXES, upstreams_blueprint
from patchbay.wire.authentication import Authentication
from patchbay.wire.front.websocket_routes import WebSocketRoutes, WebSocketUpgrades
from patchbay.wire.held_refusals import HeldRefusals
from patchbay.wire.http import McpOverHttp
from patchbay.wire.http_2024 import HttpSse
from patchbay.wire.native_http import NativeOverHttp
from patchbay.wire.resource_metadata import ResourceMetadata
from patchbay.wire.responses import StartResponse
from patchbay.wire.rooms.admission import RoomAdmission
from patchbay.wire.rooms.http import RoomsOverHttp
from patchbay.wire.rooms.sockets import add_room_sockets

WsgiApp = Callable[[Any, StartResponse], Iterable[bytes]]


def create_app(settings: Settings | None = None, hosts: WorkerPool | None = None) -> Flask:
    """Return the hub as a WSGI application. Raises ConfigError or MissingBlob for wrong settings or boot images.

    `hosts` is a pool of processes for Python definitions that several hubs share; None makes a pool for this hub.
    """
    settings = settings or Settings.load()
    check_exposure(settings)
    issuer = load_issuer(settings, whole_environment())
    drain = Drain(settings.drain)
    dispatcher = assemble(settings, drain.seconds_left, hosts)
    catalogue = dispatcher.services.catalogue
    drain.on_begin(lambda: catalogue.store.bus.publish(ENDING))
    drain.on_begin(dispatcher.services.activity.hurry)
    access = dispatcher.services.access
    site = Site(catalogue, settings, dispatcher.services.activity, dispatcher.services.hosts, access)
    drain.on_begin(site.directory.end)

    app = Flask("patchbay", static_folder="static", template_folder="templates", root_path=str(ASSETS))
    # Werkzeug would redirect to an absolute URL with the scheme that the hub sees, which is http behind a proxy.
    app.url_map.merge_slashes = False
    inspected_servers = InspectedServers(settings, whole_environment())
    app.extensions |= {"catalogue": catalogue, "drain": drain, "dispatcher": dispatcher, "operators": site.operators}
    app.extensions |= {"site": site, "keys": PersonalKeys(catalogue.store)}
    app.extensions["inspected_servers"] = inspected_servers
    # Werkzeug builds a syntax tree for each route, while a thread of the catalogue may read definitions.
    with SYNTAX_LOCK:
        _add_sign_in(app, site, dispatcher.services)
        _add_pages(app, site, dispatcher, drain)
    authentication = _over_http(app, site, dispatcher, drain)
    app.wsgi_app = _with_sign_in(authentication, app.extensions["accounts"], site, issuer)  # type: ignore[assignment,method-assign]
    return app


def _add_pages(app: Flask, site: Site, dispatcher: Dispatcher, drain: Drain) -> None:
    """Register the blueprints: pages, changes by the operator, and interfaces for programs."""
    catalogue, inspected_servers = site.catalogue, app.extensions["inspected_servers"]
    add_security(app, site.settings)
    add_compression(app)
    register_error_handlers(app, site)
    app.register_blueprint(health_blueprint(catalogue, drain))
    app.register_blueprint(mcp_pages_blueprint(site))
    app.register_blueprint(pages_blueprint(site))
    app.register_blueprint(server_pages_blueprint(site))
    app.register_blueprint(icons_blueprint(site))
    app.register_blueprint(editing_blueprint(site))
    app.register_blueprint(switching_blueprint(site))
    app.register_blueprint(documents_blueprint(site))
    app.register_blueprint(document_editing_blueprint(site))
    app.register_blueprint(variable_pages_blueprint(site))
    app.register_blueprint(history_blueprint(site))
    app.register_blueprint(revocation_blueprint(site))
    app.register_blueprint(pins_blueprint(site))
    app.register_blueprint(packages_blueprint(site))
    app.register_blueprint(search_blueprint(site))
    app.register_blueprint(rendering_blueprint(site))
    app.register_blueprint(content_blueprint(site))
    app.register_blueprint(activity_blueprint(site, dispatcher))
    app.register_blueprint(rooms_blueprint(site, dispatcher))
    app.register_blueprint(inspecting_blueprint(site, dispatcher, inspected_servers))
    app.register_blueprint(metrics_blueprint(site, dispatcher))
    app.register_blueprint(plain_blueprint(site, dispatcher.services.activity))
    app.register_blueprint(openapi_blueprint())
    app.register_blueprint(keys_blueprint(site, app.extensions["keys"]))
    app.register_blueprint(grants_blueprint(site))
    app.register_blueprint(approvals_blueprint(site, dispatcher.services.approvals))
    app.register_blueprint(audit_blueprint(site))
    add_json_addresses(app)
    if site.settings.workers != 1:
        app.before_request(dispatcher.catch_up)  # no page is older than a change that another worker has acknowledged


def _add_sign_in(app: Flask, site: Site, services: HubServices) -> None:
    """Register the blueprints with which people sign in, let clients act for them, and connect their accounts."""
    accounts = Accounts(site.settings, site.catalogue.store.journal)
    browsers = Browsers(accounts, site.settings)
    app.extensions["accounts"] = accounts
    if has_sign_in(site.settings):
        site.find_person = browsers.find_name
    applicants = Applicants(site, browsers, app.extensions["keys"])
    tokens = services.upstream_tokens
    app.register_blueprint(upstreams_blueprint(site, applicants, tokens, services.upstream_sign_ins))
    app.register_blueprint(operator_blueprint(site, lambda: login_values(site, browsers)))
    app.register_blueprint(sign_in_blueprint(site, accounts, browsers))
    app.register_blueprint(invitation_blueprint(site, accounts, browsers))
    app.register_blueprint(account_blueprint(site, accounts, browsers, tokens))
    app.register_blueprint(people_blueprint(site, accounts))
    app.register_blueprint(consent_blueprint(site, accounts, browsers))
    app.register_blueprint(oauth_blueprint(site, accounts))


def _over_http(app: Flask, site: Site, dispatcher: Dispatcher, drain: Drain) -> Authentication:
    """Return the WSGI application: authentication, then MCP, the native interface, rooms, and the pages of `app`."""
    settings, access, operators = site.settings, dispatcher.services.access, site.operators
    websockets = WebSocketRoutes()
    app.extensions["websockets"] = websockets
    rooms = dispatcher.services.rooms
    rooms.start()
    admission = RoomAdmission(rooms, access, dispatcher.services.quotas)
    add_room_sockets(websockets, rooms, admission)
    places, is_operator = dispatcher.places, operators.is_operator
    with_rooms = RoomsOverHttp(rooms, settings, admission, is_operator, places, app.wsgi_app)
    drain.on_begin(with_rooms.drain)
    with_websockets = WebSocketUpgrades(websockets, settings, places, with_rooms)
    with_pair = HttpSse(dispatcher, settings, lambda: drain.is_draining, with_websockets)
    with_rpc = NativeOverHttp(dispatcher, settings, with_pair)
    with_mcp = McpOverHttp(dispatcher, settings, with_rpc, operators.is_operator)
    keys: PersonalKeys = app.extensions["keys"]
    access.checks.append(keys.is_current)
    authentication = Authentication(
        HeldRefusals(with_mcp),
        settings,
        [keys, operators],
        lambda: access.has_grants,
        operators.is_operator,
        operators.count_wrong_token,
        keys.find_principal,
    )
    authentication.open_prefixes += OPEN_PREFIXES
    app.extensions["authentication"] = authentication
    return authentication


def _with_sign_in(authentication: Authentication, accounts: Accounts, site: Site, issuer: Issuer | None) -> WsgiApp:
    """Accept people who sign in at this hub, and show clients where they get access tokens."""
    settings = site.settings
    if has_sign_in(settings):
        authentication.schemes += accounts.list_schemes(settings)
        authentication.open_paths |= {*SIGN_IN_PATHS, *OAUTH_PATHS}
    if issuer is not None:
        return _with_issuer(authentication, issuer, site)
    if not has_authorization_server(settings):
        return authentication
    authentication.challenge = make_challenge
    return ResourceMetadata(lambda origin: [origin], (), settings, authentication)


def _with_issuer(authentication: Authentication, issuer: Issuer, site: Site) -> ResourceMetadata:
    """Accept the access tokens of an outside issuer, and show clients where it is."""
    from patchbay.access.tokens.access_tokens import AccessTokens

    tokens = AccessTokens(issuer, site.catalogue.store.journal)
    authentication.schemes.append(tokens)  # the last scheme: it answers for every token that the others leave to it
    authentication.challenge = tokens.challenge
    return ResourceMetadata(
        lambda _: [issuer.url], issuer.required_scopes, site.settings, authentication, tokens.find_metadata
    )
