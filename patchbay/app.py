"""The Flask application: assembles the hub, and registers the blueprints of its pages at the first request for one.

This module holds no logic of its own. `patchbay serve` calls `create_app` in each worker, and so do the tests.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from patchbay.access.providers.provider import load_providers
from patchbay.access.quotas import Quotas
from patchbay.access.sign_in_settings import has_authorization_server, has_sign_in, list_open_paths
from patchbay.access.tokens.challenges import make_challenge
from patchbay.access.tokens.issuer import Issuer, load_assertion_issuers, load_issuer
from patchbay.assembly import assemble
from patchbay.assets import ASSETS
from patchbay.caller_accounts.credentials import OPEN_PREFIXES
from patchbay.hosts.path_prefix import choose_path_prefix
from patchbay.hosts.trusted_proxies import TrustedProxies
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.serving.drain import Drain
from patchbay.serving.health import Health, HealthOverHttp
from patchbay.settings import Settings, whole_environment
from patchbay.store import Journal
from patchbay.topics import ENDING
from patchbay.web.application import Application, Parts
from patchbay.web.late_pages import LatePages
from patchbay.web.operator.exposure import check_exposure, check_prefix_is_free
from patchbay.web.operator.operators import Operators
from patchbay.wire.endpoints.mcp import McpOverHttp
from patchbay.wire.endpoints.mcp_2024 import HttpSse
from patchbay.wire.endpoints.metadata import ResourceMetadata
from patchbay.wire.endpoints.native import NativeOverHttp
from patchbay.wire.endpoints.pages import Pages
from patchbay.wire.endpoints.websocket_routes import WebSocketUpgrades
from patchbay.wire.pipeline import Pipeline
from patchbay.wire.requests.authentication import Authentication
from patchbay.wire.requests.public_paths import REGISTRY_PATH
from patchbay.wire.requests.wsgi import WsgiApplication
from patchbay.wire.rooms.admission import RoomAdmission
from patchbay.wire.rooms.http import RoomsOverHttp
from patchbay.wire.rooms.sockets import add_room_sockets


def create_app(settings: Settings | None = None, worker_pool: WorkerPool | None = None) -> Application:
    """Return the hub as a WSGI application. Raises ConfigError or MissingBlob for wrong settings or boot images.

    `worker_pool` is a pool of processes for Python definitions that several hubs share; None makes a pool for this hub.
    """
    settings = settings or Settings.load()
    settings = replace(settings, path_prefix=choose_path_prefix(settings.path_prefix, settings.public_url))
    check_exposure(settings)
    check_prefix_is_free(settings.path_prefix)
    issuer = load_issuer(settings, whole_environment())
    # Wrong values stop the start also where no page is loaded.
    load_assertion_issuers(settings)
    load_providers(settings)
    drain = Drain(settings.drain)
    dispatcher = assemble(settings, drain.seconds_left, worker_pool)
    catalogue = dispatcher.services.catalogue
    drain.on_begin(lambda: catalogue.store.bus.publish_here(ENDING))
    drain.on_begin(dispatcher.services.activity.hurry)
    drain.on_begin(dispatcher.services.scripts.begin_end)
    drain.on_begin(catalogue.upkeep.begin_release)
    access = dispatcher.services.access
    deciding = access.is_administrator, access.may_change_toolset
    operators = Operators(settings, catalogue.store, lambda: catalogue.readonly, *deciding)

    assert access.validity is not None, "a hub knows its credentials"
    access.validity.operator = operators.token
    health = Health(catalogue.store.check, drain, catalogue.store.bus.problem)
    parts = Parts(dispatcher, drain, operators, access.validity.keys, health)
    app = Application(parts, static_folder="static", template_folder="templates", root_path=str(ASSETS))
    # Werkzeug would redirect to an absolute URL with the scheme that the hub sees, which is http behind a proxy.
    app.url_map.merge_slashes = False
    parts.pages = pages = LatePages(app, partial(_register_pages, app))
    authentication = _make_authentication(parts)
    parts.pipeline = _make_pipeline(parts, authentication, HealthOverHttp(health), Pages(pages))
    if has_sign_in(settings):
        pages.load()  # the sign-in is one of the schemes, and a wrong setting of it stops the start
        authentication.schemes += parts.for_pages.accounts.list_schemes(settings)
    _add_issuer(authentication, parts, issuer)
    proxies = TrustedProxies(settings.trusted_proxies)
    app.replace_wsgi_app(WsgiApplication(parts.pipeline, proxies, settings.path_prefix))
    return app


def _register_pages(app: Application) -> None:
    from patchbay.web.blueprints import register_pages

    register_pages(app)


def _make_authentication(parts: Parts) -> Authentication:
    """Return what finds the senders of requests, with the schemes that every hub has."""
    operators, keys = parts.operators, parts.keys
    settings, access = parts.dispatcher.services.settings, parts.dispatcher.services.access
    authentication = Authentication(
        settings,
        [keys, operators],
        lambda: access.has_grants,
        operators.find_operator,
        operators.count_wrong_token,
        keys.find_principal,
    )
    paths, prefixes = list_open_paths(settings)
    authentication.open_paths |= paths
    authentication.open_prefixes += (*OPEN_PREFIXES, *prefixes)
    if settings.registry_readers == "all":
        authentication.open_paths.add(REGISTRY_PATH)
        authentication.open_prefixes += (f"{REGISTRY_PATH}/",)
    parts.authentication = authentication
    return authentication


def _make_pipeline(parts: Parts, authentication: Authentication, health: HealthOverHttp, pages: Pages) -> Pipeline:
    """Return the pipeline: MCP, the native interface, the pair of 2024-11-05, WebSockets, rooms, health, and pages."""
    dispatcher, operators, drain = parts.dispatcher, parts.operators, parts.drain
    settings, access = dispatcher.services.settings, dispatcher.services.access
    rooms = dispatcher.services.rooms
    rooms.start()
    dispatcher.services.scheduler.start()
    dispatcher.services.jobs.start(settings.jobs)
    dispatcher.services.scripts.start()
    admission = RoomAdmission(rooms, access, dispatcher.services.quotas)
    add_room_sockets(parts.websockets, rooms, admission)
    places, is_operator = dispatcher.places, operators.is_operator
    over_http = RoomsOverHttp(rooms, settings, admission, is_operator, places)
    drain.on_begin(over_http.drain)
    endpoints = (
        McpOverHttp(dispatcher, settings, is_operator).find,
        NativeOverHttp(dispatcher, settings).find,
        HttpSse(dispatcher, settings, lambda: drain.is_draining).find,
        WebSocketUpgrades(parts.websockets, places).find,
        over_http.find,
    )
    return Pipeline(settings, authentication, endpoints, health.find, pages)


def _add_issuer(authentication: Authentication, parts: Parts, issuer: Issuer | None) -> None:
    """Show clients where they get access tokens, and accept those of an outside issuer."""
    services = parts.dispatcher.services
    settings = services.settings
    if issuer is not None:
        journal = parts.catalogue.store.journal
        parts.pipeline.metadata = _add_outside_issuer(authentication, issuer, journal, services.quotas).find
    elif has_authorization_server(settings):
        authentication.challenge = make_challenge
        parts.pipeline.metadata = ResourceMetadata(lambda base: [base], ()).find


def _add_outside_issuer(
    authentication: Authentication, issuer: Issuer, journal: Journal, quotas: Quotas
) -> ResourceMetadata:
    """Accept the access tokens of an outside issuer; return what shows clients where it is."""
    from patchbay.access.tokens.access_tokens import AccessTokens

    tokens = AccessTokens(issuer, journal, remember=quotas.remember)
    authentication.schemes.append(tokens)  # the last scheme: it answers for every token that the others leave to it
    authentication.challenge = tokens.challenge
    return ResourceMetadata(lambda _: [issuer.url], issuer.required_scopes, tokens.find_metadata)
